package playground

import (
	"context"
	"errors"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

func hinge(scale float64) dmlx.Rule {
	return dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "hinge", Of: func(b *dmlx.Batch) *Node {
		violation := AddScalar(Sub(b.San, b.Sap), 0.5)
		return MulScalar(Max(violation, ZerosLike(violation)), scale)
	}}}
}

func training(t *testing.T, rules ...dmlx.Rule) Training {
	t.Helper()
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Training{Rules: rules, Preset: "smoke", Store: store, Open: backend.Open}
}

func text(t *testing.T, table *figures.Table) string {
	t.Helper()
	out, err := figures.Bytes(table, "csv")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTraining(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	tr := training(t, hinge(1), parse(t, "cos/con/con"))
	runs, err := tr.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		if r.Result == nil || r.Result.Recall[1] == 0 || r.Spec.Data != "minicar" {
			t.Errorf("run %d: %+v of %+v", i, r.Result, r.Spec)
		}
		if _, found, err := tr.Store.Lookup(r.Spec); err != nil || !found {
			t.Errorf("run %d is in the store: %v, %v", i, found, err)
		}
	}
	if presetName(runs[0].Spec) != "preset smoke" || !strings.HasPrefix(runs[0].Spec.Rule, "cos/con/hinge#") ||
		runs[0].Spec.LR == runs[1].Spec.LR {
		t.Errorf("%+v", runs)
	}
	// An edited rule is a new run; the old one keeps its hash and is not trained again.
	tr.Rules[0] = hinge(2)
	again, err := tr.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again[0].Spec.Hash() == runs[0].Spec.Hash() || again[1].Spec.Hash() != runs[1].Spec.Hash() ||
		!again[1].Result.Date.Equal(runs[1].Result.Date) {
		t.Errorf("edited: %+v, then %+v", runs, again)
	}
	tr.Epochs = 1
	if short, err := tr.specs(); err != nil || presetName(short[0]) != "no preset, 1 × 4 steps" {
		t.Errorf("%v, %v", short, err)
	}
}

func TestTrainingBadInput(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	nan := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "root",
		Of: func(b *dmlx.Batch) *Node { return Sqrt(Sub(b.San, b.Sap)) }}}
	for _, c := range []struct {
		what   string
		change func(*Training)
		want   string
	}{
		{"no rules", func(tr *Training) { tr.Rules = nil }, "no rules"},
		{"no store", func(tr *Training) { tr.Store = nil }, "want a Store"},
		{"NaN", func(tr *Training) { tr.Rules[0] = nan }, "triplet weight root: on a random batch, T is "},
		{"preset", func(tr *Training) { tr.Preset = "huge" }, `no preset "huge"`},
		{"epochs", func(tr *Training) { tr.Epochs = 99 }, "want at most the 2 of preset smoke"},
		{"rate", func(tr *Training) { tr.Own, tr.Rows = rated(t, -1), []string{"loss pairs"} }, "learning rate is -1"},
		{"data", func(tr *Training) { tr.Data = "nowhere" }, "nowhere"},
	} {
		tr := training(t, hinge(1))
		c.change(&tr)
		if _, err := tr.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", c.what, err, c.want)
		}
	}
	// A run that diverges says so in its result, and the training continues.
	tr := training(t, parse(t, "cos/con/con"))
	tr.Own, tr.Rows = rated(t, 1e30), []string{"loss pairs", "cos/con/con"}
	runs, err := tr.Run(t.Context())
	if err != nil || !strings.Contains(runs[1].Result.Diverged, "not finite from step") || runs[2].Result.Diverged != "" {
		t.Fatalf("%+v, %v", runs, err)
	}
	// A stopped training keeps its finished epochs.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	tr = training(t, hinge(1))
	if runs, err := tr.Run(ctx); !errors.Is(err, context.Canceled) || len(runs) != 1 || runs[0].Result != nil {
		t.Errorf("stopped: %+v, %v", runs, err)
	}
	if runs, err := tr.Run(t.Context()); err != nil || runs[0].Result == nil {
		t.Errorf("continued: %+v, %v", runs, err)
	}
}

func TestCheckTable(t *testing.T) {
	table, err := Check(hinge(1))
	if err != nil || len(table.Rows) < 7 {
		t.Errorf("%v, %v", table, err)
	}
	table, err = Check(dmlx.Rule{Pair: dmlx.PairWeight{Name: "wide",
		Of: func(b *dmlx.Batch) (*Node, *Node) { return b.S, b.San }}})
	if err == nil || !strings.Contains(err.Error(), "train_test.go, line ") ||
		!strings.Contains(text(t, table), `train_test.go`) || !strings.Contains(text(t, table), "return b.S, b.San") {
		t.Errorf("%v, %v", text(t, table), err)
	}
}
