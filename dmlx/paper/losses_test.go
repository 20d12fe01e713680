package paper

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func TestExchangesOfAStudy(t *testing.T) {
	t.Parallel()
	run := func(recall float64) *runs.Result {
		return &runs.Result{Measures: train.Measures{Recall: map[int]float64{1: recall}}}
	}
	cell := func(data, exchange string, results ...*runs.Result) Cell {
		c := Cell{Data: data, Row: "InfoNCE", Objective: presets.Named("loss info-nce"), Column: exchange, Runs: results,
			Specs: []runs.Spec{{Config: train.Config{ProxyLR: 0.5}}}}
		if c.Exchange, c.LR = exchange, 0.25; exchange == "" {
			c.Column = Published
		}
		return c
	}
	table := &Table{Cells: []Cell{
		cell("minicar", "", run(0.5), run(0.6)), cell("minicar", "pair=lin-ms", run(0.7), run(0.8)),
		cell("minicar", "triplet=cir"),
		cell("minishop", "", run(0.5)), cell("minishop", "pair=lin-ms", run(0.25)), cell("minishop", "triplet=cir"),
	}}
	sets := ExchangesOf(table)
	if len(sets) != 2 || len(sets[0].Losses) != 1 || len(sets[0].Losses[0].Exchanged) != 2 {
		t.Fatalf("%+v", sets)
	}
	// Both variances are 0.005 and Welch's t has two degrees of freedom, so the difference's 95 % are
	// 4.302653·√0.005 to either side.
	l := sets[0].Losses[0]
	if g := l.Exchanged[0].Gain; math.Abs(l.Published.Mean-55) > 1e-9 || math.Abs(g.Difference.Value-20) > 1e-9 ||
		math.Abs(g.Difference.High-g.Difference.Value-430.2653*math.Sqrt(0.005)) > 1e-3 {
		t.Errorf("%+v", l)
	}
	if g := l.Exchanged[1].Gain; !math.IsNaN(g.Difference.Value) {
		t.Errorf("without runs %+v", g)
	}
	if g := sets[1].Losses[0].Exchanged[0].Gain; g.Difference.Value != -25 || !math.IsNaN(g.Difference.Low) {
		t.Errorf("of one seed %+v", g)
	}
	if notes := RateNotes(table); len(notes) != 3 || !strings.Contains(notes[1], "minishop: InfoNCE 0.25 (proxies 0.5)") {
		t.Errorf("%q", notes)
	}
}
