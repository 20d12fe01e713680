package paper

import (
	"cmp"
	"context"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// component is one of Tables 2 to 4, which vary one or two parts of a rule and keep the others.
type component struct {
	table int
	// rows and columns are the parts that are varied. Without one for the columns, each data set is a column.
	rows, columns          scores.Column
	title                  figures.Markup
	compared, alternatives string         // The things that the rows and the columns stand for.
	held                   figures.Markup // The parts that are kept.
	tint                   color.NRGBA
	shade                  func(cells ...*figures.Cell)
}

var components = []component{
	{2, scores.Direction, "", "Direction", "gradient directions", "", "$P^{con}$ and $T^{con}$", figures.Red,
		figures.Shade},
	{3, scores.Pair, scores.Direction, "PairWeight", "pair weights with the Euclidean and the cosine direction",
		"directions", "$T^{con}$", figures.LeafGreen, figures.ShadeAroundMedian},
	{4, scores.Triplet, scores.Pair, "TripletWeight", "triplet weights with constant and linear pair weights",
		"pair weights", `$\mathbf{e^{cos}}$`, figures.BrightSky, figures.Shade},
}

// componentOf returns one of Tables 2 to 4, and an error for another.
func componentOf(table int) (component, error) {
	at := slices.IndexFunc(components, func(k component) bool { return k.table == table })
	if at < 0 {
		return component{}, fmt.Errorf("no comparison with table %d: want 2, 3 or 4", table)
	}
	return components[at], nil
}

// ruleOf returns a score with the parts of a rule by its name.
func ruleOf(name string) (r scores.Row) {
	r.SetRule(name)
	return r
}

// componentTable reproduces one of Tables 2 to 4 beside the paper's numbers: the table, the gains over its first row,
// and both as a picture.
func componentTable(s Study, table int) maker {
	return func(ctx context.Context, q report.Request) (*Report, error) {
		return study(ctx, s, q, func(t *Table, provenance string) ([]report.Part, error) {
			untrained, err := Frozen(q.Preset)
			if err != nil {
				return nil, err
			}
			c, err := Compare(table, append(t.Scores(), untrained...), provenance)
			if err != nil {
				return nil, err
			}
			return []report.Part{{Of: c.Table()}, {Name: "gains", Of: c.Gains()}, {Name: "picture", Of: c.Plot()}}, nil
		})
	}
}

// Compare lays Recall@1 out as in one of the paper's Tables 2 to 4, ours beside the paper's. Rows, columns and data
// sets have the order of the scores. Rules that the table cannot tell by a row and a column alone, and losses, stand
// below the others: in the column of their part, or in each column if they have none of these. Compare returns an error
// for another table, without scores, for two scores of one cell, and for a data set that the paper's table lacks.
func Compare(table int, ours scores.Table, provenance string) (*figures.Comparison, error) {
	k, err := componentOf(table)
	if err != nil {
		return nil, err
	}
	ours = ours.Select(scores.Row{Measure: report.Recall(1)})
	theirs := scores.Printed().Select(scores.Row{Table: table})
	c := &figures.Comparison{
		Caption:     fmt.Sprintf("Table %d. Recall@1 in percent of different %s, %s.", table, k.compared, k.held),
		Differences: fmt.Sprintf("Table %d as differences of Recall@1 to the first row of each column, in points.", table),
		Alt: fmt.Sprintf("Table %d as a picture: Recall@1 of different %s, ours and the paper's, with standard deviations.",
			table, k.compared),
		RowTitle: k.title, Tint: k.tint, Shade: k.shade, Provenance: provenance}
	papers := ours.Where(func(r scores.Row) bool { return !k.own(r) })
	if len(papers) == 0 {
		return nil, fmt.Errorf("table %d: want at least one score of a rule that the paper's table has", table)
	}
	columns := papers.Values(k.columns.Of)
	for _, name := range columns {
		c.Columns = append(c.Columns, figures.Line{Name: name, Label: figures.PartLabel(k.columns, name)})
	}
	for _, group := range slices.Concat(papers, ours.Where(k.own)).Group(k.row(columns)) {
		c.Rows = append(c.Rows, k.line(group, columns))
	}
	for _, set := range ours.Group(scores.Data.Of) {
		compared, err := k.compare(set, theirs, columns)
		if err != nil {
			return nil, fmt.Errorf("table %d: %w", table, err)
		}
		notes, err := agreements(c, compared)
		if err != nil {
			return nil, fmt.Errorf("table %d: %w", table, err)
		}
		c.Sets, c.Notes = append(c.Sets, compared), append(c.Notes, notes...)
	}
	if c.Notes != nil {
		c.Notes = append(c.Notes, figures.RankNote)
	}
	for _, of := range ours.Where(func(r scores.Row) bool { return r.Protocol != "" }).Group(scores.Protocol.Of) {
		c.Notes = append(c.Notes, strings.Join(of.Rows.Values(scores.Label.Of), "; ")+": "+of.Key+".")
	}
	return c, nil
}

// own reports whether a score is no row of the paper's table: it has other parts than those that the table varies.
func (k component) own(r scores.Row) bool {
	return r.Own || r.Direction == "" || figures.RowLabel(r, k.rows, k.columns) != figures.PartLabel(k.rows, k.rows.Of(r))
}

// row returns the names of rows. Rules of the user's own that differ in the column's part alone share one.
func (k component) row(columns []string) func(scores.Row) string {
	return func(r scores.Row) string {
		switch {
		case !k.own(r):
			return k.rows.Of(r)
		case r.Label != "":
			return "own " + r.Label
		case k.columns == "" || k.column(columns)(r) == "":
			return "own " + r.Rule
		}
		others := map[scores.Column]string{scores.Direction: r.Direction, scores.Pair: r.Pair, scores.Triplet: r.Triplet}
		others[k.columns] = ""
		return "own " + strings.Join([]string{others[scores.Direction], others[scores.Pair], others[scores.Triplet] +
			strings.TrimPrefix(r.Rule, strings.Split(r.Rule, "?")[0])}, "/")
	}
}

// column returns the names of columns, "" for a rule or loss that stands in each.
func (k component) column(columns []string) func(scores.Row) string {
	return func(r scores.Row) string {
		if c := k.columns.Of(r); slices.Contains(columns, c) {
			return c
		}
		return ""
	}
}

// line returns the row of a group of scores.
func (k component) line(group scores.Group, columns []string) figures.Line {
	r := group.Rows[0]
	line := figures.Line{Name: group.Key, Label: r.Label, Own: k.own(r)}
	placed := k.columns
	if k.columns != "" && k.column(columns)(r) == "" {
		placed, line.Note = "", "The same runs in each column: it has none of these "+k.alternatives+"."
	}
	if line.Label == "" {
		line.Label = figures.RowLabel(r, k.rows, placed)
	}
	return line
}

// compare returns a data set's scores beside those of the paper's data set in the same role, for the same rows.
func (k component) compare(set scores.Group, printed scores.Table, columns []string) (figures.ComparedSet, error) {
	beside, err := set.Beside()
	out := figures.ComparedSet{Data: set.Key, Beside: beside}
	if err != nil {
		return out, err
	}
	if out.Ours, err = set.Rows.Pivot(k.row(columns), k.column(columns)); err != nil || out.Beside == "" {
		return out, err
	}
	theirs := printed.Select(scores.Row{Data: out.Beside})
	if theirs == nil {
		return out, fmt.Errorf("the paper prints no numbers on %s", out.Beside)
	}
	out.Theirs, err = theirs.Where(func(r scores.Row) bool {
		return out.Ours.At(k.rows.Of(r), k.columns.Of(r)) != nil
	}).Pivot(k.rows.Of, k.columns.Of)
	return out, err
}

// agreements returns the rank correlations of a data set with the paper, a line for each column.
func agreements(c *figures.Comparison, set figures.ComparedSet) (out []figures.Markup, err error) {
	if set.Theirs == nil {
		return nil, nil
	}
	for _, column := range c.Columns {
		var ours, theirs []stats.Mean
		for _, row := range c.Rows {
			ours = append(ours, figures.CellOf(set.Ours, row, column).Mean())
			theirs = append(theirs, figures.CellOf(set.Theirs, row, column).Mean())
		}
		a, err := stats.CompareRanks(ours, theirs)
		if err != nil {
			return nil, err
		}
		with := ""
		if column.Name != "" {
			with = " with " + column.Label
		}
		out = append(out, fmt.Sprintf("Order on %s%s against the paper's on %s (Spearman): %s.", set.Data, with, set.Beside,
			a))
	}
	return out, nil
}

// Measured returns a table with a row for each cell: its learning rate, and the mean ± sample standard deviation over
// seeds of measures, as "MAP@R".
func (t *Table) Measured(measures ...string) *figures.Table {
	out := &figures.Table{Caption: "Measures of the runs, in percent.", Provenance: t.Provenance(),
		Columns: []figures.Column{{Title: "Data", Left: true, Merged: true}, {Title: "Rule", Left: true}, {Title: "lr"}}}
	for _, m := range measures {
		out.Columns = append(out.Columns, figures.Column{Title: m})
	}
	for i, c := range t.Cells {
		all := c.Scores()
		row := figures.Row(c.Data, cmp.Or(all[0].Label, all[0].Rule), fmt.Sprintf("%g", c.LR))
		for _, m := range measures {
			row = append(row, figures.Scored(all.Select(scores.Row{Measure: m}).Mean()))
		}
		if i > 0 && c.Data != t.Cells[i-1].Data {
			out.Rules = append(out.Rules, i)
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
