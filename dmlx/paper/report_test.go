package paper

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

func TestScores(t *testing.T) {
	run := func(seed uint64, m train.Measures) *runs.Result {
		config := train.Config{Objective: objectives.Objective{Rule: "cos/con/con"}, Seed: seed}
		return &runs.Result{Hash: "abc", Spec: runs.Spec{Data: "minicar", Config: config}, Measures: m}
	}
	recall := func(v float64) train.Measures { return train.Measures{Recall: map[int]float64{1: v}} }
	table := &Table{Cells: []Cell{
		{Objective: presets.Named("euc/con/con"), Data: "minicar", PaperData: "CAR", Preset: "quick",
			Runs: []*runs.Result{run(1, recall(0.6)), run(2, recall(0.7)), run(3, recall(0.8))}},
		{Objective: presets.Named("cos/con/con"), Data: "minicar", PaperData: "CAR",
			Runs: []*runs.Result{run(1, recall(0.7)), run(2, train.Measures{Diverged: "NaN in epoch 1"})}},
		{Objective: presets.Named("cos/lin/con"), Data: "minicar", PaperData: "CAR"},
	}}
	all := table.Scores().Select(scores.Row{Measure: "R@1"})
	euc := all.Select(scores.Row{Direction: "euc"})
	if m := euc.Mean(); len(euc) != 3 || math.Abs(m.Mean-70) > 1e-9 || math.Abs(m.Std-10) > 1e-9 || m.N != 3 {
		t.Errorf("%+v", euc)
	}
	if r := euc[1]; r.Whose != scores.Ours || r.Setting != scores.Drawn || r.Role != "CAR" || r.Preset != "quick" ||
		r.Seed != 2 || r.Run != "abc" || r.Pair != "con" {
		t.Errorf("%+v", r)
	}
	if m := all.Select(scores.Row{Rule: "cos/con/con"}).Mean(); m != (stats.Mean{Mean: 70, N: 1, Diverged: 1}) {
		t.Errorf("with a diverged run: %+v", m)
	}
	if m := all.Select(scores.Row{Pair: "lin"}); len(m) != 1 || !math.IsNaN(m.Mean().Mean) || m.Mean().N != 0 {
		t.Errorf("without runs: %+v", m)
	}
}

// What the program has of each table and figure is shown without a backend, and every part of it can be written.
func TestMake(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	q := request(t, "quick")
	q.Open = train.Open
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			r, err := Make(t.Context(), name, q)
			if err != nil {
				t.Fatal(err)
			}
			if r.Name != name || r.Title == "" || r.Preset != "quick" || r.Provenance == "" || r.Ran != 0 || len(r.Parts) == 0 {
				t.Errorf("%+v", r)
			}
			seen := make(map[string]bool)
			for _, p := range r.Parts {
				if seen[p.Name] {
					t.Errorf("two parts %q", p.Name)
				}
				seen[p.Name] = true
				if _, err := figures.Bytes(p.Of, p.Of.Formats()[0]); err != nil {
					t.Errorf("part %q: %v", p.Name, err)
				}
			}
		})
	}
	if _, err := Make(t.Context(), "table9", q); err == nil || !strings.Contains(err.Error(), "table2") {
		t.Errorf("table 9: %v", err)
	}
	if _, err := figures.Bytes((&Report{Report: report.Report{Name: "x"}}).Part("y"), "html"); err == nil ||
		!strings.Contains(err.Error(), `x has no part "y"`) {
		t.Errorf("a part that is not there: %v", err)
	}
}
