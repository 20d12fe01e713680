package retrieval

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

var (
	fine   = []int64{0, 1, 0, 2, 1, 2, 3, 0, 3, 1, 3, 2}
	groups = []int64{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}
)

func dozen() *Embeddings { return circle(fine, 0, 7, 19, 33, 52, 74, 101, 131, 163, 211.5, 256, 304) }

// hierarchy has of each item its class and its superclass, which are numbered apart.
func hierarchy() (out [][]int64) {
	for _, label := range fine {
		out = append(out, []int64{label, 10 + label/2})
	}
	return out
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6) {
		t.Errorf("%s is %.9g, want %.9g", what, got, want)
	}
}

// The values are those of scikit-learn 1.9's average_precision_score and ndcg_score in float64, and of plain Recall@K.
func TestRelevance(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := dozen()
		var grades [][]Relevant // (3i + 5j) mod 7 over 2, from 4 on.
		for i := range fine {
			var of []Relevant
			for j := range fine {
				if v := (3*i + 5*j) % 7; v >= 4 {
					of = append(of, Relevant{j, float64(v) / 2})
				}
			}
			grades = append(grades, of)
		}
		for _, c := range []struct {
			name      string
			relevance Relevance
			ap, ndcg  float64
			at, found map[int]float64
		}{
			{"classes and superclasses", ByLabels(hierarchy(), nil), 0.5371314334, 0.6302199947,
				map[int]float64{1: 0.2083333333, 3: 0.2914039529, 5: 0.3740716898}, map[int]float64{1: 5. / 12, 3: 10. / 12, 5: 1}},
			{"without groups", ByLabels(single(fine), nil).LeaveOut(groups, groups), 0.1841134560, 0.3841652198,
				map[int]float64{1: 0, 3: 0.0255477997, 5: 0.1252153427}, map[int]float64{1: 0, 3: 1. / 12, 5: 5. / 12}},
			{"grades", func(i int) []Relevant { return grades[i] }, 0.5644727032, 0.7200017025,
				map[int]float64{1: 0.4305555556, 3: 0.4307139717, 5: 0.4624191474}, map[int]float64{1: 0.5, 3: 11. / 12, 5: 1}},
		} {
			for name, gallery := range map[string]*Embeddings{"alone": nil, "in a gallery": {Values: e.Values, Dim: 2,
				Labels: make([]int64, len(fine))}} {
				of := c.relevance
				if gallery != nil { // A query is ranked against itself there unless it is left out.
					of = func(i int) []Relevant {
						out := slices.DeleteFunc(slices.Clone(c.relevance(i)), func(v Relevant) bool { return v.Item == i })
						at, _ := slices.BinarySearchFunc(out, i, func(v Relevant, i int) int { return v.Item - i })
						return slices.Insert(out, at, Relevant{Item: i})
					}
				}
				r, err := EvaluateRelevance(t.Context(), b, 1, e, gallery, of, []int{3, 1, 5}, nil)
				if err != nil {
					t.Fatal(err)
				}
				near(t, c.name+" "+name+": MAP", r.MAP, c.ap)
				near(t, c.name+" "+name+": nDCG", r.NDCG, c.ndcg)
				for k, want := range c.at {
					near(t, fmt.Sprintf("%s %s: nDCG@%d", c.name, name, k), r.NDCGAt[k], want)
					near(t, fmt.Sprintf("%s %s: Recall@%d", c.name, name, k), r.Recall[k], c.found[k])
				}
				if r.Queries != 12 || r.LoneQueries != 0 {
					t.Errorf("%s: %d queries, %d alone", c.name, r.Queries, r.LoneQueries)
				}
			}
		}
		// One label an item, whose measures there are without a relevance, too.
		plain, err := Evaluate(t.Context(), b, e, nil, []int{1, 3})
		if err != nil {
			t.Fatal(err)
		}
		r, err := EvaluateRelevance(t.Context(), b, 1, e, nil, ByLabels(single(fine), nil), []int{1, 3}, nil)
		if err != nil || r.MAPAtR != plain.MAPAtR || r.RPrecision != plain.RPrecision || r.Recall[3] != plain.Recall[3] {
			t.Errorf("%+v, %v; want %+v", r, err, plain)
		}
	})
}

// single has one label an item.
func single(labels []int64) (out [][]int64) {
	for _, label := range labels {
		out = append(out, []int64{label})
	}
	return out
}

// The rates are those of scikit-learn's roc_curve at its last point with no more false matches than asked for.
func TestVerify(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e, rates := dozen(), []float64{0.3, 0.1, 0.02, 0}
		v, err := Verify(t.Context(), b, 1, e, nil, nil, rates, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []Threshold{{0.6156614753, 0.2962962963, 0.75}, {0.9271838546, 0.0925925926, 0.9166666667},
			{0.9925461516, 0.0185185185, 1}, {math.NaN(), 0, 1}} {
			got := v.AtFMR[i]
			near(t, "FMR", got.FMR, want.FMR)
			near(t, "FNMR", got.FNMR, want.FNMR)
			// The lowest threshold lies above the nearest pair that does not match, and no higher than scikit-learn's.
			if got.Asked != rates[i] || got.Similarity > want.Similarity {
				t.Errorf("%+v, want no more than %v", got, want.Similarity)
			}
		}
		at := v.AtFMR[0]
		near(t, "the deviation of FMR", at.FMRDeviation, 0.0453609212)
		near(t, "the deviation of FNMR", at.FNMRDeviation, 0.1443375673)
		near(t, "the highest FNMR", at.HighestFNMR, 1)
		if at.HighestClass != 3 || v.Matches != 24 || v.Others != 108 || v.Classes != 4 {
			t.Errorf("%+v of %+v", at, v)
		}
		for k, c := range v.Curve {
			if k > 0 && (c.FMR < v.Curve[k-1].FMR || c.FNMR > v.Curve[k-1].FNMR || c.Similarity > v.Curve[k-1].Similarity) {
				t.Errorf("the curve at %d: %+v after %+v", k, c, v.Curve[k-1])
			}
		}
		if last := v.Curve[len(v.Curve)-1]; last.FMR != 1 || last.FNMR != 0 {
			t.Errorf("the curve ends at %+v", last)
		}
		out, err := Verify(t.Context(), b, 1, e, nil, ByLabels(single(fine), nil).LeaveOut(groups, groups), rates, nil)
		if err != nil || out.Matches != 18 || out.Others != 108 {
			t.Errorf("without groups: %+v, %v", out, err)
		}
	})
}

func TestRelevanceRefuses(t *testing.T) {
	choice, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	evaluate := func(of ...Relevant) error {
		_, err := EvaluateRelevance(t.Context(), choice, 1, dozen(), nil, func(int) []Relevant { return of }, []int{1}, nil)
		return err
	}
	verify := func(e *Embeddings, rate float64) error {
		_, err := Verify(t.Context(), choice, 1, e, nil, nil, []float64{rate}, nil)
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{evaluate(Relevant{12, 1}), "item 12 with grade 1; want items of 0…11"},
		{evaluate(Relevant{3, 1}, Relevant{3, 1}), "in ascending order"},
		{evaluate(Relevant{3, -1}), "grade -1"},
		{evaluate(Relevant{3, math.NaN()}), "grade NaN"},
		{evaluate(Relevant{3, math.Inf(1)}), "grade +Inf"},
		{evaluate(), "none of the 12 queries has a match"},
		{verify(dozen(), 1.5), "false match rate 1.5: want 0 to 1"},
		{verify(dozen(), math.NaN()), "false match rate NaN"},
		{verify(circle([]int64{1, 1}, 0, 9), 0.1), "2 pairs match and 0 do not: want pairs of both kinds"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want …%s…", c.err, c.want)
		}
	}
}

// The query is in class 0 and superclass 10. Its nearest item is of the superclass alone.
func ExampleEvaluateRelevance() {
	choice, err := backend.Go()
	if err != nil {
		panic(err)
	}
	query, gallery := circle([]int64{0}, 0), circle(make([]int64, 3), 10, 20, 90)
	relevance := ByLabels([][]int64{{0, 10}}, [][]int64{{1, 10}, {0, 10}, {2, 11}})
	r, err := EvaluateRelevance(context.Background(), choice, 1, query, gallery, relevance, []int{1}, nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("mAP %.3f, nDCG %.3f, nDCG@1 %.3f\n", r.MAP, r.NDCG, r.NDCGAt[1])
	// Output: mAP 1.000, nDCG 0.860, nDCG@1 0.500
}

// Of two classes, on either side of a border, one pair is nearer across it.
func ExampleVerify() {
	choice, err := backend.Go()
	if err != nil {
		panic(err)
	}
	e := circle([]int64{0, 0, 1, 1}, 0, 40, 60, 100)
	v, err := Verify(context.Background(), choice, 1, e, nil, nil, []float64{0, 0.25}, nil)
	if err != nil {
		panic(err)
	}
	for _, at := range v.AtFMR {
		fmt.Printf("FMR %.2f: a threshold of %.3f has an FNMR of %.2f\n", at.Asked, at.Similarity, at.FNMR)
	}
	// Output:
	// FMR 0.00: a threshold of 0.940 has an FNMR of 1.00
	// FMR 0.25: a threshold of 0.500 has an FNMR of 0.00
}
