package paper

import (
	"context"
	"fmt"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

// componentTable reproduces one of Tables 2 to 4 beside the paper's numbers: the table, the gains over its first row,
// and both as a picture.
func componentTable(ctx context.Context, q Request, s Study) (*Report, error) {
	return study(ctx, s, q, func(t *Table, provenance string) ([]Part, error) {
		c, err := figures.Compare(s.Name, t.Entries(), provenance)
		if err != nil {
			return nil, err
		}
		return []Part{{"", c.Table()}, {"gains", c.Gains()}, {"picture", c.Plot()}}, nil
	})
}

// Entries returns a table's cells for [figures.Compare]: Recall@1 in percent, as the mean over seeds.
func (t *Table) Entries() []figures.Entry {
	out := make([]figures.Entry, len(t.Cells))
	for i, c := range t.Cells {
		out[i] = figures.Entry{Rule: c.Rule, Data: c.Data, Paper: c.PaperData, Score: c.Recall(1).Times(100)}
		if c.Objective != nil {
			out[i].Own, out[i].Rule, out[i].Label = true, c.Objective.String(), c.Objective.Label
		}
	}
	return out
}

// Measure is a number of a run, as percent: a column of [Table.Measured].
type Measure struct {
	Title figures.Markup
	Of    func(*runs.Result) float64
}

// Measured returns a table with a row for each cell: its learning rate, and each measure's mean ± sample standard
// deviation over seeds.
func (t *Table) Measured(measures ...Measure) *figures.Table {
	out := &figures.Table{Caption: "Measures of the runs, in percent.", Provenance: t.Provenance(),
		Columns: []figures.Column{{Title: "Data", Left: true, Merged: true}, {Title: "Rule", Left: true}, {Title: "lr"}}}
	for _, m := range measures {
		out.Columns = append(out.Columns, figures.Column{Title: m.Title})
	}
	for i, c := range t.Cells {
		rule := c.Rule
		if c.Objective != nil {
			rule = c.Row
		}
		row := []figures.Cell{figures.Text(c.Data), figures.Text(rule), figures.Text(fmt.Sprintf("%g", c.LR))}
		for _, m := range measures {
			row = append(row, figures.Scored(c.MeanOf(m.Of)))
		}
		if i > 0 && c.Data != t.Cells[i-1].Data {
			out.Rules = append(out.Rules, i)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// ownOnBoth returns a cell of the user's own on each of the preset's data sets.
func ownOnBoth(column func(c Cell) string) func(presets.Preset, presets.Objective) ([]Cell, error) {
	return func(p presets.Preset, o presets.Objective) ([]Cell, error) {
		cells := onBoth(p, Cell{})
		for i := range cells {
			cells[i].Column, cells[i].LR = column(cells[i]), o.LR
		}
		return cells, nil
	}
}

// across names the column of a table whose columns are the data sets.
func across(c Cell) string { return c.Data }

// alone names the column of a row of the user's own in a table whose columns are parts of rules.
func alone(Cell) string { return "" }

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

// Where the parts of a rule stand in its name.
const (
	directionPart = iota
	pairPart
	tripletPart
)

// named returns cells of rules whose rows and columns are named after a part of the rule each.
func named(cells []Cell, row, column int) []Cell {
	for i, c := range cells {
		parts := strings.Split(c.Rule, "/")
		cells[i].Row, cells[i].Column = parts[row], parts[column]
	}
	return cells
}
