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
	var out []Cell
	for _, rule := range rules {
		for _, c := range onBoth(p, Cell{Row: rule, Rule: rule, Adjust: sweepHoldsOut(p)}) {
			for _, c.LR = range p.SweepRates(table, c.Data, rule) {
				c.Column = fmt.Sprintf("%g", c.LR)
				out = append(out, c)
			}
		}
	}
	return out
}

// sweepHoldsOut returns how the runs of a sweep differ from the preset's.
func sweepHoldsOut(p presets.Preset) func(*runs.Spec) {
	if p.Like(paperPreset) {
		return nil
	}
	return func(s *runs.Spec) { s.HeldOut = SweepHeldOut }
}

// ownSweep returns the cells of a row of the user's own: at the rates of the table for a rule, and at half, once, twice
// and four times its rate for a loss, a rule with functions of the user's own, and an objective with a rate.
func ownSweep(table int) func(presets.Preset, presets.Objective) ([]Cell, error) {
	return func(p presets.Preset, o presets.Objective) ([]Cell, error) {
		var out []Cell
		for _, c := range onBoth(p, Cell{Adjust: sweepHoldsOut(p)}) {
			rates := p.SweepRates(table, c.Data, o.Rule.Name())
			if (!o.IsRule() || o.LR != 0 || o.Scale > 0) && p.Rates == nil && p.LR == 0 {
				spec, err := p.ObjectiveSpec(c.Data, o, 1)
				if err != nil {
					return nil, err
				}
				rates = []float64{spec.LR / 2, spec.LR, 2 * spec.LR, 4 * spec.LR}
				if p.Like("smoke") {
					rates = rates[1:3]
				}
			}
			for _, c.LR = range rates {
				c.Column = fmt.Sprintf("%g", c.LR)
				out = append(out, c)
			}
		}
		return out, nil
	}
}

// sweepTable reproduces one of Tables 6 to 8: the table, its curves, the two protocols that choose a rate with the
// order under each, the loss at other rates, and the paper's statements on it.
func sweepTable(ctx context.Context, q Request, of Study) (*Report, error) {
	return study(ctx, of, q, func(t *Table, provenance string) ([]Part, error) {
		sweep, err := sweeps.Read(of.Name, sweepPoints(t))
		if err != nil {
			return nil, err
		}
		s, err := sweep.Figures(provenance)
		if err != nil {
			return nil, err
		}
		return []Part{{"", s.Table()}, {"curves", s.Curves()}, {"protocols", s.Protocols()}, {"order", s.Orders()},
			{"robustness", s.Robustness()},
			{"statements", s.Statements()}}, nil
	})
}

// sweepPoints returns the cells of a sweep for package sweeps.
func sweepPoints(t *Table) []sweeps.Point {
	out := make([]sweeps.Point, len(t.Cells))
	for i, c := range t.Cells {
		out[i] = sweeps.Point{Rule: c.Rule, Data: c.Data, Paper: c.PaperData, LR: c.LR, Test: c.Recall(1).Times(100),
			HeldOut: c.HeldOutRecall(1).Times(100)}
		if c.Objective != nil {
			out[i].Own, out[i].Rule, out[i].Label = true, c.Objective.String(), c.Objective.Label
		}
	}
	return out
}
