package presets

import (
	"path/filepath"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// One call trains a rule or a loss of the user's own; the next one reads the run.
func TestTrainInOneCall(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	t.Setenv("DMLX_STORE", filepath.Join(t.TempDir(), "runs"))
	p, err := Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	if p, err = p.With(Settings{Size: 16, Weights: train.Random, Epochs: 1, StepsPerEpoch: 2}); err != nil {
		t.Fatal(err)
	}
	hinge := func(b *dmlx.Batch) *Node { return MaxScalar(AddScalar(Sub(b.San, b.Sap), 0.5), 0) }
	own := Objective{Objective: must(objectives.ByRule(dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "hinge", Of: hinge}}))}
	pull := func(b *dmlx.LossBatch) *Node {
		return ReduceAllMean(Square(Sub(b.S, ConvertDType(b.Positive, b.S.DType()))))
	}
	loss := Objective{Objective: must(objectives.ByLoss(objectives.LossFunction{Name: "pull", Of: pull}))}
	for want, o := range map[string]Objective{"cos/con/hinge#": own, "loss pull#": loss} {
		first, err := p.Train(t.Context(), "minicar", o, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.Train(t.Context(), "minicar", o, 1)
		if err != nil || again.Date != first.Date || !strings.HasPrefix(first.Spec.Objective.String(), want) ||
			first.Recall[1] == 0 {
			t.Errorf("%s, again %v: %v", first.Spec.Objective.String(), again, err)
		}
	}
	shape := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "hinge", Of: func(b *dmlx.Batch) *Node { return b.S }}}
	if _, err := Train(t.Context(), "minicar", shape); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a rule of the wrong shape: %v", err)
	}
	if _, err := p.Train(t.Context(), "no-such", Objective{}, 1); err == nil ||
		!strings.Contains(err.Error(), "minicar, minishop") {
		t.Errorf("no such data: %v", err)
	}
}
