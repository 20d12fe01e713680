package paper

import (
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

// SweepHeldOut is which part of the training classes, one in so many, chooses the learning rates of the sweeps.
const SweepHeldOut = 4

// rateSweep makes a row of each rule on each data set, and a column of each learning rate. A run serves two ways to
// choose a rate: by the recall on the test classes, as the paper does, and on training classes that are held out. At
// the paper preset none are, so that its numbers are those of the paper's own protocol.
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

// sweep is one of Tables 6 to 8, the sweeps of the learning rate: the table, its curves, the two ways to choose a rate
// with the order under each, what another rate loses, and what the paper says of it.
func sweepTable(ctx context.Context, q Request, of Study) (*Report, error) {
	r, err := study(ctx, of, q)
	if err != nil {
		return nil, err
	}
	s, err := figures.CompareSweep(of.Name, sweepPoints(r.Table), r.Provenance)
	if err != nil {
		return nil, err
	}
	r.Parts = []Part{{"", s.Table()}, {"curves", s.Curves()}, {"protocols", s.Protocols()}, {"order", s.Orders()},
		{"robustness", s.Robustness()},
		{"statements", s.Statements()}}
	return r, nil
}

// sweepPoints are a sweep's cells as figures takes them.
func sweepPoints(t *Table) []figures.SweepPoint {
	out := make([]figures.SweepPoint, len(t.Cells))
	for i, c := range t.Cells {
		out[i] = figures.SweepPoint{Rule: c.Rule, Data: c.Data, Paper: c.PaperData, LR: c.LR, Test: c.Recall(1).Times(100),
			HeldOut: c.HeldOutRecall(1).Times(100)}
	}
	return out
}
