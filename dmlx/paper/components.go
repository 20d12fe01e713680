package paper

import (
	"context"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/figures"
)

// componentTable reproduces one of Tables 2 to 4 beside the paper's numbers: the table, the gains over its first row,
// and both as a picture.
func componentTable(ctx context.Context, q Request, s Study) (*Report, error) {
	r, err := study(ctx, s, q)
	if err != nil {
		return nil, err
	}
	c, err := figures.Compare(s.Name, entries(r.Table), r.Provenance)
	if err != nil {
		return nil, err
	}
	r.Parts = []Part{{"", c.Table()}, {"gains", c.Gains()}, {"picture", c.Plot()}}
	return r, nil
}

// entries returns a table's cells for package figures: Recall@1 in percent, as the mean over seeds.
func entries(t *Table) []figures.Entry {
	out := make([]figures.Entry, len(t.Cells))
	for i, c := range t.Cells {
		out[i] = figures.Entry{Rule: c.Rule, Data: c.Data, Paper: c.PaperData, Score: c.Recall(1).Times(100)}
	}
	return out
}

// setsAcross returns a row of cells for each rule, with the preset's data sets as columns, as in Table 2.
func setsAcross(p presets.Preset, rows []string, rule func(row string) string) []Cell {
	var out []Cell
	for _, row := range rows {
		for _, c := range onBoth(p, Cell{Row: row, Rule: rule(row)}) {
			c.Column = c.Data
			out = append(out, c)
		}
	}
	return out
}

// setsDown returns a block of rows and columns for each of the preset's data sets, one under the other, as in Tables 3
// and 4.
func setsDown(p presets.Preset, rows, columns []string, rule func(row, column string) string) []Cell {
	var out []Cell
	for _, set := range onBoth(p, Cell{}) {
		for _, row := range rows {
			for _, column := range columns {
				c := set
				c.Row, c.Column, c.Rule = row, column, rule(row, column)
				out = append(out, c)
			}
		}
	}
	return out
}
