package runs

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func TestLook(t *testing.T) {
	for _, data := range []string{"minicar", "minishop"} {
		s, _ := testStore(t)
		spec := tiny()
		spec.Data = data
		r := mustRun(t, goBackend(), s, spec)
		l, err := s.Inspect(r.Hash)
		if err != nil {
			t.Fatal(err)
		}
		found, err := l.Neighbors(t.Context(), goBackend().Backend, 1000)
		if err != nil {
			t.Fatal(err)
		}
		retrievable := l.Items().N
		if data == "minicar" {
			retrievable--
		}
		// What the run has measured is what is seen.
		queries, right := 0, 0
		for i, f := range found {
			if len(f.Nearest) != retrievable {
				t.Fatalf("%s: %d neighbors of %d", data, len(f.Nearest), retrievable)
			}
			if f.Positive.Index >= 0 {
				queries++
			}
			if Found(f) {
				right++
			}
			if first := l.Items().Labels[f.Nearest[0].Index] == l.Queries.Labels[i]; first != Found(f) {
				t.Errorf("%s: query %d is found: %v, its nearest is right: %v", data, i, Found(f), first)
			}
		}
		if queries != r.Queries || math.Abs(float64(right)/float64(queries)-r.Recall[1]) > 1e-12 {
			t.Errorf("%s: %d of %d found, the run has %d queries and R@1 %g", data, right, queries, r.Queries, r.Recall[1])
		}
	}
}

func TestPicks(t *testing.T) {
	near := func(index int, s float32) retrieval.Neighbor {
		return retrieval.Neighbor{Index: index, Similarity: s}
	}
	none := near(-1, float32(math.NaN()))
	// S_an − S_ap: −0.5, 0.25, lone, 0.25, 0 (the negative first), 0 (the positive first), no negative
	found := []retrieval.Neighbors{
		{Positive: near(3, 0.9), Negative: near(2, 0.4)}, {Positive: near(3, 0.25), Negative: near(2, 0.5)}, {Positive: none,
			Negative: near(0, 1)},
		{Positive: near(3, 0.5), Negative: near(2, 0.75)}, {Positive: near(3, 0.5),
			Negative: near(2, 0.5)}, {Positive: near(1, 0.5), Negative: near(2, 0.5)},
		{Positive: near(3, 0.5), Negative: none},
	}
	var right []int
	for i, f := range found {
		if Found(f) {
			right = append(right, i)
		}
	}
	for name, v := range map[string][2][]int{
		"found":  {right, {0, 5, 6}},
		"missed": {Spread(found, 2, true), {1, 4}}, "all missed": {Spread(found, 9, true),
			{1, 3, 4}}, "spread": {Spread(found, 2, false), {1, 5}},
		"none": {Spread(nil, 3, false), {}},
	} {
		if !slices.Equal(v[0], v[1]) {
			t.Errorf("%s: %v, want %v", name, v[0], v[1])
		}
	}
}

func TestNothingToLookAt(t *testing.T) {
	s, _ := testStore(t)
	r := mustRun(t, goBackend(), s, tiny())
	wild := tiny()
	wild.LR = 1e30
	diverged := mustRun(t, goBackend(), s, wild)
	unfinished := tiny()
	unfinished.Seed = 77
	if err := os.MkdirAll(s.Path(unfinished.Hash()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteJSON(filepath.Join(s.Path(unfinished.Hash()), specFile), unfinished); err != nil {
		t.Fatal(err)
	}
	shipped, err := Bundled()
	if err != nil {
		t.Fatal(err)
	}
	var came *Result
	for _, x := range shipped {
		if x.Spec.Data == "minicar" && x.Spec.HeldOut == 0 && x.Spec.Epochs == 24 && (came == nil || x.Hash < came.Hash) {
			came = x
		}
	}
	// A run of images that have changed: its result says so.
	changed := *r
	changed.Spec.Seed = 78
	changed.Hash = changed.Spec.Hash()
	changed.DataDigest = strings.Repeat("0", 64)
	if err := errors.Join(changed.seal(), os.CopyFS(s.Path(changed.Hash), os.DirFS(s.Path(r.Hash))),
		durable.WriteJSON(filepath.Join(s.Path(changed.Hash), resultFile), changed)); err != nil {
		t.Fatal(err)
	}
	for hash, want := range map[string]string{
		unfinished.Hash(): "is not finished: 0 of 3 epochs",
		diverged.Hash:     "diverged (not finite",
		changed.Hash:      "have changed since run",
		came.Hash:         "is only a result bundled with the program: its embeddings",
		"0123456789ab":    "no run 0123456789ab",
	} {
		if _, err := s.Inspect(hash); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want …%s…", err, want)
		}
	}
}

func TestSeeds(t *testing.T) {
	runs := func(rule string, values ...float64) []*Result {
		var out []*Result
		for i, v := range values {
			spec := tiny()
			spec.Rule, spec.Seed = rule, uint64(i+1)
			r := &Result{Hash: spec.Hash(), Spec: spec, Measures: train.Measures{Recall: map[int]float64{1: v}}}
			if math.IsInf(v, 0) {
				r.Diverged = "not finite"
			}
			out = append(out, r)
		}
		return out
	}
	a, b := runs("euc/con/con", 0.70, 0.72, 0.75), runs("cos/con/con", 0.76, 0.78, 0.775, 0.79)
	groups := SameButSeed(slices.Concat(a[:2], b, a))
	if len(groups) != 2 || len(groups[0]) != 3 || len(groups[1]) != 4 || groups[0][2] != a[2] {
		t.Errorf("%d groups: %v", len(groups), groups)
	}
	recall := func(r *Result) float64 { return r.Recall[1] }
	larger := runs("cos/con/con", 0.76, 0.78, 0.775)
	for _, r := range larger {
		r.Spec.ImagesPerClass++
	}
	paired := stats.Test{
		Difference: stats.Interval{Value: 2.17/3 - 2.315/3, Low: -0.0985309485137438, High: 0.0018642818470770567},
		T:          -4.142857142857143, Freedom: 2, P: 0.053620766910985496}
	// By scipy 1.17.1: ttest_rel(a, b[:3]) and ttest_ind(a, b, equal_var=False), with their confidence intervals.
	for name, v := range map[string]struct {
		b    []*Result
		want SeedTest
	}{
		"paired": {b[:3], SeedTest{Paired: true, A: 3, B: 3, Test: paired}},
		"Welch": {b, SeedTest{A: 3, B: 4, Test: stats.Test{
			Difference: stats.Interval{Value: 2.17/3 - 3.105/4, Low: -0.10599320236175257, High: 0.0001598690284191212},
			T:          -3.3455823980638355, Freedom: 2.7459306561862356, P: 0.050350264091291244}}},
		"diverged seed": {append(slices.Clone(b[:3]), runs("x", 0, 0, 0, math.Inf(1))[3]),
			SeedTest{Paired: true, A: 3, B: 3, Diverged: 1, Test: paired}},
		// By scipy: ttest_ind(a, b[:3], equal_var=False). Other batches make seeds independent.
		"other batches": {larger, SeedTest{A: 3, B: 3, Test: stats.Test{
			Difference: stats.Interval{Value: 2.17/3 - 2.315/3, Low: -0.10212872732460318, High: 0.005462060657936495},
			T:          -3.0739938520184413, Freedom: 2.6647603027754423, P: 0.06351735876450021}}},
	} {
		got, err := CompareSeeds(a, v.b, recall)
		if err != nil {
			t.Fatal(err)
		}
		w := v.want
		if got.Paired != w.Paired || got.A != w.A || got.B != w.B || got.Diverged != w.Diverged {
			t.Errorf("%s: %+v", name, got)
		}
		for _, pair := range [][2]float64{{got.Difference.Value, w.Difference.Value}, {got.Difference.Low, w.Difference.Low},
			{got.Difference.High, w.Difference.High}, {got.T, w.T},
			{got.Freedom, w.Freedom}, {got.P, w.P}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("%s: %+v, want %+v", name, got, w)
			}
		}
	}
	for name, of := range map[string][2][]*Result{"with itself": {a, a}, // No two differences of seeds differ.
		"without spread": {runs("x", 0.5, 0.5), runs("y", 0.25, 0.25)}} {
		got, err := CompareSeeds(of[0], of[1], recall)
		if err != nil || !math.IsNaN(got.P) || !math.IsNaN(got.Difference.Low) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, few := range [][]*Result{nil, b[:1], runs("z", 0.5, math.Inf(-1))} {
		if _, err := CompareSeeds(a, few, recall); err == nil || !strings.Contains(err.Error(), "at least two") {
			t.Errorf("%d runs: %v", len(few), err)
		}
	}
}
