package paper

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

func TestSweepPoints(t *testing.T) {
	run := func(test, heldOut float64) *runs.Result {
		return &runs.Result{Measures: train.Measures{Recall: map[int]float64{1: test},
			HeldOutRecall: map[int]float64{1: heldOut}}}
	}
	table := &Table{Cells: []Cell{
		{Rule: "euc/con/con", Data: "minicar", PaperData: "CAR", LR: 0.3, Runs: []*runs.Result{run(0.6, 0.8), run(0.7, 0.7)}},
		{Rule: "euc/con/con", Data: "minicar", PaperData: "CAR", LR: 0.6,
			Runs: []*runs.Result{{Measures: train.Measures{Diverged: "NaN"}}}},
		{Rule: "euc/con/con", Data: "minicar", PaperData: "CAR", LR: 1.2},
	}}
	points := table.SweepPoints()
	p := points[0]
	if p.Rule != "euc/con/con" || p.Data != "minicar" || p.Paper != "CAR" || p.LR != 0.3 ||
		math.Abs(p.Test.Mean-65) > 1e-9 || math.Abs(p.HeldOut.Mean-75) > 1e-9 ||
		p.Test.N != 2 {
		t.Errorf("%+v", p)
	}
	if p = points[1]; !math.IsNaN(p.Test.Mean) || p.Test.Diverged != 1 || p.HeldOut.Diverged != 1 {
		t.Errorf("diverged: %+v", p)
	}
	if p = points[2]; !math.IsNaN(p.Test.Mean) || p.Test.Diverged != 0 {
		t.Errorf("not run: %+v", p)
	}
}

// Without a run a sweep shows the paper's numbers, says how many runs it lacks, and asks for no backend.
func TestSweepWithoutRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range presets.Names() {
		p, err := presets.Parse(preset)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"table6", "table7", "table8"} {
			q := report.Request{Open: func() (*train.Trainer, error) { return nil, errors.New("asked for a backend") },
				Store:  store,
				Preset: p}
			q.CachedOnly, q.IgnoreBundled = true, true
			r, err := Make(context.Background(), name, q)
			if err != nil {
				t.Fatal(err)
			}
			if r.Runs == 0 || !strings.Contains(r.Provenance, "not trained yet") {
				t.Errorf("%s: %d runs, %q", name, r.Runs, r.Provenance)
			}
			for _, part := range r.Parts {
				for _, format := range part.Of.Formats() {
					if data, err := figures.Bytes(part.Of, format); err != nil || len(data) == 0 {
						t.Errorf("%s at %s, part %q as %s: %d bytes, error %v", name, preset, part.Name, format, len(data), err)
					}
				}
			}
		}
	}
}
