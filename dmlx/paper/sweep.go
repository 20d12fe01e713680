package paper

import (
	"context"

	"github.com/gradient-surgery/dml/figures"
)

// sweep is one of Tables 6 to 8, the sweeps of the learning rate: the table, its curves, the two ways to choose a rate with
// the order under each, what another rate loses, and what the paper says of it.
func sweep(name string) func(context.Context, Request) (*Report, error) {
	return func(ctx context.Context, q Request) (*Report, error) {
		r, err := study(ctx, name, q)
		if err != nil {
			return nil, err
		}
		s, err := figures.CompareSweep(name, sweepPoints(r.Table), r.Provenance)
		if err != nil {
			return nil, err
		}
		r.Parts = []Part{{"", s.Table()}, {"curves", s.Curves()}, {"protocols", s.Protocols()}, {"order", s.Orders()}, {"robustness", s.Robustness()},
			{"statements", s.Statements()}}
		return r, nil
	}
}

// sweepPoints are a sweep's cells as figures takes them.
func sweepPoints(t *Table) []figures.SweepPoint {
	out := make([]figures.SweepPoint, len(t.Cells))
	for i, c := range t.Cells {
		out[i] = figures.SweepPoint{Rule: c.Rule, Data: c.Data, Paper: c.PaperData, LR: c.LR, Test: c.Recall(1).Times(100), HeldOut: c.HeldOutRecall(1).Times(100)}
	}
	return out
}
