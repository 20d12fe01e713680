package paper

import (
	"context"

	"github.com/gradient-surgery/dml/figures"
)

// comparison is one of Tables 2 to 4 beside the paper's: the table, the gains by its parts, and both as a picture.
func comparison(name string) func(context.Context, Request) (*Report, error) {
	return func(ctx context.Context, q Request) (*Report, error) {
		r, err := study(ctx, name, q)
		if err != nil {
			return nil, err
		}
		c, err := figures.Compare(name, entries(r.Table), r.Provenance)
		if err != nil {
			return nil, err
		}
		r.Parts = []Part{{"", c.Table()}, {"gains", c.Gains()}, {"picture", c.Plot()}}
		return r, nil
	}
}

// entries are a table's cells as figures takes them: Recall@1 in percent, mean and sample standard deviation over seeds.
func entries(t *Table) []figures.Entry {
	out := make([]figures.Entry, len(t.Cells))
	for i, c := range t.Cells {
		out[i] = figures.Entry{Rule: c.Rule, Data: c.Data, Paper: c.PaperData, Score: c.Recall(1).Times(100)}
	}
	return out
}
