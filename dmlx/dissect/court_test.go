package dissect_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

func judged(t *testing.T, name string) dissect.Judged {
	t.Helper()
	l, err := losses.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return dissect.Judged{Name: name, Loss: l.Of, PerClass: losses.PerClass(l)}
}

func TestCourt(t *testing.T) {
	t.Parallel()
	ms, soft := judged(t, "ms"), judged(t, "norm-softmax")
	thrice := dissect.Judged{Name: "thrice", Loss: func(b *dmlx.LossBatch) *Node { return MulScalar(ms.Loss(b), 3) }}
	rest := dissect.Judged{Name: "rest", Loss: func(b *dmlx.LossBatch) *Node { return MulScalar(ReduceAllSum(b.S), 0) }}
	push := dissect.Judged{Name: "push", Loss: func(b *dmlx.LossBatch) *Node {
		return ReduceAllSum(Where(b.Positive, b.S, ZerosLike(b.S)))
	}}
	// The soft triplet loss of the triplets that rules mine is a rule, with D² for S.
	rule := judged(t, "triplet-soft?power=2")
	mined := miners.With(miners.Extreme{Positive: miners.Easy, Negative: miners.Hard}, rule.Loss)
	rule.Loss = mined
	of, err := dmlx.ParseRule("cos/con/cos?tau=2")
	if err != nil {
		t.Fatal(err)
	}
	batches := []dissect.CourtBatch{{Name: "wide", Embeddings: dissect.Sample(6, 4, 24, 1.5, 1)},
		{Name: "tight", Embeddings: dissect.Sample(6, 4, 24, 0.6, 2)}}
	c, err := dissect.NewCourt(batches, []dissect.Judged{ms, thrice, soft, rest, push, rule}, []dmlx.Rule{{}, of})
	if err != nil {
		t.Fatal(err)
	}
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-4 }
	for k, rows := range c.Rows {
		ms, thrice, soft, rest, push, rule := rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
		if !near(thrice.Norm, 3*ms.Norm) || !near(ms.Pairs, 1) || ms.Mined >= ms.Own+1e-4 || ms.Active == 0 ||
			ms.Against != 0 {
			t.Errorf("%s: %+v and %+v", c.Batches[k], ms, thrice)
		}
		if soft.Pairs > 0.99 || soft.Pairs < soft.Own {
			t.Errorf("%s: a loss with proxies: %+v", c.Batches[k], soft)
		}
		if rest.Norm != 0 || rest.Nearest.Name != "" || rest.Active != 0 || rest.Pull != 0 {
			t.Errorf("%s: at rest: %+v", c.Batches[k], rest)
		}
		// It pushes all positives alike: all of its weight has the wrong sign.
		if !near(push.Against, 1) || push.Active != 1 {
			t.Errorf("%s: push: %+v", c.Batches[k], push)
		}
		if rule.Nearest.Name != of.Name() || !near(rule.Nearest.Cosine, 1) || !near(rule.Mined, 1) || !near(rule.Own, 1) ||
			!near(rule.Pull, 0.5) {
			t.Errorf("%s: a rule: %+v", c.Batches[k], rule)
		}
	}
	if !near(c.Cosines[0][1], 1) || c.Cosines[0][3] != 0 || c.Cosines[0][2] > 0.99 || c.Cosines[0][2] != c.Cosines[2][0] {
		t.Errorf("cosines %v", c.Cosines)
	}
	if g := c.Groups(0.999); len(g) != 5 || !slices.Equal(g[0], []string{"ms", "thrice"}) {
		t.Errorf("groups %v", g)
	}
	all := strings.Join(c.Findings(), "\n")
	for _, want := range []string{"thrice has the gradient of ms under another name", "3 to 3 times as long",
		"On tight, rest is at rest", "On wide, push pushes positives or pulls negatives with 100.0 %",
		"has the gradient of the rule cos/con/cos?tau=2, 2 times",
		"Alike, each at a cosine of 0.95 or more with another: ms, thrice"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "NaN") || strings.Contains(all, "Inf") {
		t.Error(all)
	}
}

// Of one pair and a lone image at right angles, a loss that pulls takes the variance within from 1/3·(½+½) to 0, and
// one at rest leaves all as it is. The variance between is that of (½, ½, 0) and (0, 0, 1) about their mean: 3/8.
func TestDescend(t *testing.T) {
	t.Parallel()
	e := dissect.Embeddings{N: 3, Dim: 3, Values: []float32{2, 0, 0, 0, 0, 5, 0, 3, 0}, Labels: []int64{1, 2, 1}}
	pull := dissect.Judged{Name: "pull", Loss: func(b *dmlx.LossBatch) *Node {
		return Neg(ReduceAllSum(Where(b.Positive, b.S, ZerosLike(b.S))))
	}}
	rest := dissect.Judged{Name: "rest", Loss: func(b *dmlx.LossBatch) *Node { return MulScalar(ReduceAllSum(b.S), 0) }}
	var courses []dissect.Course
	for _, l := range []dissect.Judged{pull, rest} {
		c, err := dissect.Descend(e, l, 40)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Within) != 41 || math.Abs(c.Within[0]-1./3) > 1e-6 || math.Abs(c.Between[0]-0.375) > 1e-6 {
			t.Errorf("%+v", c)
		}
		courses = append(courses, *c)
	}
	end, still := courses[0], courses[1]
	if end.Within[40] > 2e-3 || math.Abs(end.Between[40]-0.5) > 2e-3 || end.Norm[0] != 1 || end.Active[0] != 2./3 {
		t.Errorf("pull: %+v", end)
	}
	if still.Within[40] != still.Within[0] || still.Norm[40] != 0 || still.Active[40] != 0 {
		t.Errorf("at rest: %+v", still)
	}
	all := strings.Join(dissect.CourseFindings("here", courses), "\n")
	if !strings.Contains(all, "After 40 steps of equal length from here, the variance within classes is ") ||
		!strings.Contains(all, "with pull at least and 0.333 with rest at most") || strings.Contains(all, "NaN") {
		t.Error(all)
	}
	if _, err := dissect.Descend(dissect.Embeddings{}, pull, 1); err == nil {
		t.Error("no images")
	}
}

func TestCourtRefuses(t *testing.T) {
	t.Parallel()
	ms, rules := []dissect.Judged{judged(t, "ms")}, []dmlx.Rule{{}}
	good := dissect.Sample(3, 2, 4, 1, 1)
	alone := dissect.Sample(3, 1, 4, 1, 1)
	needs := judged(t, "arcface")
	needs.PerClass = 0
	for want, c := range map[string]struct {
		e      dissect.Embeddings
		losses []dissect.Judged
	}{
		"want a batch, a loss and a rule":   {good, nil},
		"batch b: the batch has no triplet": {alone, ms},
		"at most 256":                       {dissect.Sample(65, 4, 2, 1, 1), ms},
		"arcface: loss arcface needs":       {good, []dissect.Judged{needs}},
		"want at least one row":             {dissect.Embeddings{}, ms},
	} {
		_, err := dissect.NewCourt([]dissect.CourtBatch{{Name: "b", Embeddings: c.e}}, c.losses, rules)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func TestByClass(t *testing.T) {
	t.Parallel()
	e := dissect.ByClass(dissect.Embeddings{N: 4, Dim: 1, Values: []float32{1, 2, 3, 4},
		Labels: []int64{7, -2, 7, math.MinInt64}})
	if !slices.Equal(e.Labels, []int64{math.MinInt64, -2, 7, 7}) || !slices.Equal(e.Values, []float32{4, 2, 1, 3}) ||
		e.N != 4 {
		t.Errorf("%+v", e)
	}
}
