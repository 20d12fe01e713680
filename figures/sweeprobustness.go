package figures

import (
	"fmt"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Robustness returns the table of the test recall, in points, that rules lose at half and at twice their best rate and
// at the worst rate of the grid.
func (s *Sweep) Robustness() *Table {
	t := &Table{Provenance: s.Provenance, Tint: s.Tint,
		Columns: append([]Column{{Title: "Data", Left: true, Merged: true}}, s.heads()...),
		Caption: fmt.Sprintf("Table %d: points of Recall@1 that different %s lose by another rate than the best.",
			s.Number, s.Compared)}
	group := func(name string) {
		for _, title := range []Markup{"best lr", "at half", "at twice", "at the worst"} {
			t.Columns = append(t.Columns, Column{Group: name, Title: title})
		}
	}
	group("ours")
	if s.hasPaper() {
		group("the paper's")
	}
	for i, set := range s.Sets {
		var ours, theirs []*Cell
		for _, r := range s.Rows {
			row := slices.Concat([]Cell{Text(set.label())}, s.labels(r), lossCells(curve(r, i)))
			last := len(row) - 1
			if s.hasPaper() {
				row = append(row, lossCells(paperCurve(r, i))...)
				theirs = append(theirs, &row[len(row)-1])
			}
			ours = append(ours, &row[last])
			t.Rows = append(t.Rows, row)
		}
		Shade(ours...)
		Shade(theirs...)
		t.Rules = append(t.Rules, len(t.Rows))
	}
	t.Notes = []Markup{
		"†: the lowest or the highest rate of its grid. beyond: outside it; between two of its rates interpolated over " +
			"the logarithm.",
		"The worst of a grid depends on where the grid lies: compare it within a data set, among grids that are " +
			"equally wide.",
	}
	return t
}

// lossCells returns the best rate of a curve and the points lost at half of it, at twice it and at the worst rate.
func lossCells(c scores.Curve) []Cell {
	best := c.Best()
	if best < 0 {
		return slices.Repeat([]Cell{Text("–")}, 4)
	}
	lost := func(d float64) Cell {
		switch {
		case math.IsNaN(d):
			return Text("beyond")
		case math.IsInf(d, 0):
			return Text("diverged")
		}
		return Text(fmt.Sprintf("%.1f", d))
	}
	worst := stats.Mean{Mean: c.Spread(), N: 1}
	if math.IsInf(worst.Mean, 0) {
		worst = stats.Mean{Mean: math.NaN(), Diverged: 1}
	}
	return []Cell{rateCell(c[best].LR, c.AtEdge(best)), lost(c.Drop(0.5)), lost(c.Drop(2)), score(worst)}
}

// Statements returns the table of the paper's statements on the sweep, with the decisions by the paper's own numbers
// and by ours. The decisions compare means alone; the deviations in [Sweep.Curves] show the noise.
func (s *Sweep) Statements() *Table {
	t := &Table{Provenance: s.Provenance,
		Caption: fmt.Sprintf("What the paper says of Table %d's rates, by its numbers and by ours.", s.Number),
		Columns: []Column{{Title: "The paper says", Left: true}, {Title: "taken as", Left: true}}}
	if s.BlockTitle != "" {
		t.Columns = append(t.Columns, Column{Title: "with", Left: true})
	}
	for _, set := range s.Sets {
		if set.Paper != "" {
			t.Columns = append(t.Columns, Column{Group: set.Paper, Title: "the paper's"})
		}
		t.Columns = append(t.Columns, Column{Group: set.Data, Title: "ours"})
	}
	for _, st := range s.SweepData.Statements {
		for _, d := range st.Decisions {
			row := []Cell{Text(st.Says), Text(st.Means)}
			if s.BlockTitle != "" {
				row = append(row, Text(d.Block))
			}
			for i, set := range s.Sets {
				if set.Paper != "" {
					row = append(row, Text(d.Theirs[i]))
				}
				row = append(row, Text(d.Ours[i]))
			}
			t.Rows = append(t.Rows, row)
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	t.Notes = []Markup{
		"In brackets: the two numbers, or at how many of the rates that both were run at. A best rate at its grid's edge " +
			"has only one side that it can lose on.",
		"By the means alone: a difference of a point may be noise.",
	}
	return t
}
