package paper

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/paper/sweeps"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// AtRates returns a cell at each of some learning rates. Its runs hold training classes out, one in
// [presets.SweepHeldOut], so that a rate can be chosen by these or, as in the paper, by the recall on the test classes.
// The runs of the paper preset hold none out, so that they follow the paper's own protocol.
func AtRates(p presets.Preset, c Cell, rates ...float64) []Cell {
	if !p.Like(paperPreset) {
		c.Adjust = func(s *runs.Spec) { s.HeldOut = presets.SweepHeldOut }
	}
	c.Row = cmp.Or(c.Row, c.String())
	return slice.Map(rates, func(rate float64) Cell {
		c.LR, c.Column = rate, fmt.Sprintf("%g", rate)
		return c
	})
}

// SweepRates returns the learning rates at which one of Tables 6 to 8 has a cell: those of [presets.Preset.SweepRates]
// for a rule, and half, once, twice and four times its rate for a loss, a rule with functions of the user's own, and an
// objective with a rate. It returns an error for a rule or loss that cannot be trained.
func SweepRates(p presets.Preset, table int, c Cell) ([]float64, error) {
	var err error
	if c.Objective, err = c.Parsed(); err != nil {
		return nil, err
	}
	if c.IsRule() && c.LR == 0 && p.Rate(c.Data, c.Rule) != 0 || p.Rates != nil || p.LR != 0 {
		return p.SweepRates(table, c.Data, c.Rule), nil
	}
	spec, err := p.ObjectiveSpec(c.Data, c.Objective, 1)
	if err != nil {
		return nil, err
	}
	rates := []float64{spec.LR / 2, spec.LR, 2 * spec.LR, 4 * spec.LR}
	if p.Like("smoke") {
		rates = rates[1:3]
	}
	return rates, nil
}

// atSweepRates is the [Study.Expand] of one of Tables 6 to 8: a column for each of the [SweepRates].
func atSweepRates(table int) func(presets.Preset, Cell) ([]Cell, error) {
	return expanded(func(p presets.Preset, c Cell) ([]Cell, error) {
		rates, err := SweepRates(p, table, c)
		return AtRates(p, c, rates...), err
	})
}

// sweepTable reproduces one of Tables 6 to 8: the table, its curves, the two protocols that choose a rate, and
// the loss at other rates.
func sweepTable(of Study) maker {
	return func(ctx context.Context, q report.Request) (*Report, error) {
		return study(ctx, of, q, func(t *Table, provenance string) ([]report.Part, error) {
			s, err := sweeps.Read(of.Name, t.Scores(), provenance)
			if err != nil {
				return nil, err
			}
			return []report.Part{{Of: s.Table()}, {Name: "curves", Of: s.Curves()}, {Name: "protocols", Of: s.Protocols()},
				{Name: "robustness", Of: s.Robustness()}}, nil
		})
	}
}
