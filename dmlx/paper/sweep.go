package paper

import (
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/paper/sweeps"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// SweepHeldOut is the share of training classes, one in so many, that is held out to choose the learning rates of the
// sweeps.
const SweepHeldOut = 4

// rateSweep returns a row for each rule on each data set, with a column for each learning rate. Its runs hold training
// classes out, so that a rate can be chosen by these or, as in the paper, by the recall on the test classes. The runs
// of the paper preset hold none out, so that they follow the paper's own protocol.
func rateSweep(p presets.Preset, table int, rules []string) []Cell {
	holdOut := func(s *runs.Spec) { s.HeldOut = SweepHeldOut }
	if p.Name == "paper" {
		holdOut = nil
	}
	var out []Cell
	for _, rule := range rules {
		for _, c := range onBoth(p, Cell{Row: rule, Rule: rule, Adjust: holdOut}) {
			for _, c.LR = range p.SweepRates(table, c.Data, rule) {
				c.Column = fmt.Sprintf("%g", c.LR)
				out = append(out, c)
			}
		}
	}
	return out
}

// sweepTable reproduces one of Tables 6 to 8: the table, its curves, the two protocols that choose a rate with the
// order under each, the loss at other rates, and the paper's statements on it.
func sweepTable(ctx context.Context, q Request, of Study) (*Report, error) {
	r, err := study(ctx, of, q)
	if err != nil {
		return nil, err
	}
	sweep, err := sweeps.Read(of.Name, sweepPoints(r.Table))
	if err != nil {
		return nil, err
	}
	s, err := sweep.Figures(r.Provenance)
	if err != nil {
		return nil, err
	}
	r.Parts = []Part{{"", s.Table()}, {"curves", s.Curves()}, {"protocols", s.Protocols()}, {"order", s.Orders()},
		{"robustness", s.Robustness()},
		{"statements", s.Statements()}}
	return r, nil
}

// sweepPoints returns the cells of a sweep for package sweeps.
func sweepPoints(t *Table) []sweeps.Point {
	out := make([]sweeps.Point, len(t.Cells))
	for i, c := range t.Cells {
		out[i] = sweeps.Point{Rule: c.Rule, Data: c.Data, Paper: c.PaperData, LR: c.LR, Test: c.Recall(1).Times(100),
			HeldOut: c.HeldOutRecall(1).Times(100)}
	}
	return out
}
