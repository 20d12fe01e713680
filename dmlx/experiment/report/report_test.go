package report

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/experiment"
	"github.com/gradient-surgery/dml/figures"
)

func TestCompare(t *testing.T) {
	run := func(recall float64) *experiment.Result {
		return &experiment.Result{Recall: map[int]float64{1: recall}}
	}
	table := &experiment.Table{Study: "table2", Cells: []experiment.Cell{
		{Rule: "euc/con/con", Data: "minicar", PaperData: "CAR", Runs: []*experiment.Result{run(0.6), run(0.7), run(0.8)}},
		{Rule: "cos/con/con", Data: "minicar", PaperData: "CAR", Runs: []*experiment.Result{run(0.7), {Diverged: "NaN in epoch 1"}}},
	}}
	got := entries(table)
	want := figures.Score{Mean: 70, Std: 10, N: 3}
	if len(got) != 2 || math.Abs(got[0].Score.Mean-want.Mean) > 1e-9 || math.Abs(got[0].Score.Std-want.Std) > 1e-9 || got[0].Score.N != 3 ||
		got[0].Rule != "euc/con/con" || got[0].Data != "minicar" || got[0].Paper != "CAR" {
		t.Errorf("%+v", got)
	}
	if s := got[1].Score; s.Mean != 70 || s.N != 1 || s.Diverged != 1 {
		t.Errorf("with a diverged run: %+v", s)
	}
	c, err := Compare(table)
	if err != nil || !strings.Contains(c.Table().String(), "70.0 ± 10.0") {
		t.Errorf("%v, %v", c, err)
	}
	for _, name := range experiment.Studies() { // Each can be shown.
		study, err := experiment.ParseStudy(name)
		if err != nil {
			t.Fatal(err)
		}
		preset, err := experiment.ParsePreset("quick")
		if err != nil {
			t.Fatal(err)
		}
		cells := study.Cells(preset)
		for i := range cells {
			cells[i].Runs = []*experiment.Result{run(0.5)}
		}
		if _, err := Compare(&experiment.Table{Study: name, Cells: cells}); err != nil {
			t.Error(err)
		}
	}
}

func TestOverall(t *testing.T) {
	var fraction float64
	var text string
	show := Overall(func(f float64, s string) { fraction, text = f, s })
	for _, p := range []experiment.Progress{
		{Run: 1, Runs: 4, Step: 5, Steps: 10}, {Run: 2, Runs: 4, Step: 1, Steps: 10}, {Run: 1, Runs: 4, Step: 10, Steps: 10},
	} {
		show(p)
	}
	if math.Abs(fraction-1.1/4) > 1e-12 || !strings.HasPrefix(text, "run 1/4") || !strings.HasSuffix(text, " left") {
		t.Errorf("%v %q", fraction, text)
	}
	show(experiment.Progress{Step: 1}) // A run of its own that does not know its length.
}
