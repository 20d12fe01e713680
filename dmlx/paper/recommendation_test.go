package paper

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// trainedRun is a run of the quick preset on minicar that found a recall.
func trainedRun(t *testing.T, rule string, seed uint64, recall float64) *runs.Result {
	t.Helper()
	p, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	o, err := objectives.Parse(rule)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := p.ObjectiveSpec("minicar", presets.Objective{Objective: o}, seed)
	if err != nil {
		t.Fatal(err)
	}
	return &runs.Result{Hash: spec.Hash(), Spec: spec, Measures: train.Measures{Recall: map[int]float64{1: recall}}}
}

func TestRecommend(t *testing.T) {
	t.Parallel()
	var results []*runs.Result
	add := func(rule string, recall ...float64) {
		for i, r := range recall {
			results = append(results, trainedRun(t, rule, uint64(i+1), r))
		}
	}
	add("cos-orth/lin-ms/cir", 0.70, 0.71, 0.72)
	add("cos/con/con", 0.80, 0.60, 0.61)       // Lucky with its first seed.
	add("loss norm-softmax", 0.74, 0.75, 0.76) // Better on average.
	add("cos/lin/con", 0.9)                    // Of one seed, which no other judges.
	add("euc/con/con", 0.95)
	results[len(results)-1].Diverged = "collapsed"
	longer := trainedRun(t, "euc/lin/con", 1, 0.99)
	longer.Spec.Epochs *= 2
	longer.Hash = longer.Spec.Hash()
	held := func(rule string, lr, heldOut float64) *runs.Result {
		r := trainedRun(t, rule, 1, 0.2)
		r.Spec.HeldOut, r.Spec.LR = 4, lr
		r.Hash, r.HeldOutRecall = r.Spec.Hash(), map[int]float64{1: heldOut}
		return r
	}
	results = append(results, longer, held("cos/con/con", 0.3, 0.85), held("cos/con/con", 0.6, 0.86),
		held("euc/con/con", 0.3, 0.5))
	p, _ := presets.Parse("quick")
	got, err := Recommend(results, p, "minicar", "cos-orth/lin-ms/cir", 1)
	if err != nil {
		t.Fatal(err)
	}
	if got.Candidates != 4 || got.Replicated != 3 || got.ReferenceLR != 0.75 ||
		len(got.Selections) != 3 {
		t.Errorf("%+v", got)
	}
	if c := got.Selections[ByTestRecall]; c.Objective != "loss norm-softmax" || c.Candidates != 3 ||
		math.Abs(c.Difference.Difference.Value-0.04) > 1e-9 || c.Judged.N != 3 {
		t.Errorf("by test recall %+v", c)
	}
	if c := got.Selections[ByOneSeed]; c.Objective != "cos/lin/con" || c.Candidates != 4 || c.Judged.N != 0 ||
		!math.IsNaN(c.Difference.Difference.Value) || c.Against.N != 2 {
		t.Errorf("by one seed %+v", c)
	}
	if c := got.Selections[ByHeldOutClasses]; c.Objective != "cos/con/con" || c.ChosenLR != 0.6 || c.LR != 0.3 ||
		c.Judged.N != 3 || c.Candidates != 3 {
		t.Errorf("by held-out classes %+v", c)
	}
	// With itself as the reference there is no difference, and nothing to judge it by.
	if got, err = Recommend(results, p, "minicar", "cos/con/con", 1); err != nil {
		t.Fatal(err)
	}
	if d := got.Selections[ByHeldOutClasses].Difference.Difference; d.Value != 0 || !math.IsNaN(d.Low) ||
		!math.IsNaN(d.High) {
		t.Errorf("with itself %+v", d)
	}
	if d := got.Selections[ByTestRecall].Difference.Difference; !(d.Low < d.Value && d.Value < d.High) {
		t.Errorf("with another %+v", d)
	}
	if _, err := Recommend(results, p, "minishop", "cos-orth/lin-ms/cir", 1); err == nil ||
		!strings.Contains(err.Error(), "no runs of preset quick on minishop") {
		t.Error(err)
	}
}
