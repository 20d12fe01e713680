package sweeps

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

const edgeNote = "The best rate is the lowest or the highest of its grid: a better one may lie outside."

// rateCell returns the text of a selected rate, with a mark at the edge of its grid.
func rateCell(lr float64, atEdge bool) string {
	if atEdge {
		return fmt.Sprintf("%g†", lr)
	}
	return fmt.Sprintf("%g", lr)
}

// title returns a data set of ours with the paper's data set beside it.
func (s set) title() string { return figures.ComparedSet{Data: s.data, Beside: s.paper}.Label() }

// title returns the label of the row, with the label of its block.
func (r *row) title() figures.Markup {
	if r.blockLabel == "" {
		return r.label
	}
	return r.label + ", " + r.blockLabel
}

// hasPaper reports whether a data set of the paper stands beside one of ours.
func (s *Sweep) hasPaper() bool {
	return slices.ContainsFunc(s.sets, func(set set) bool { return set.paper != "" })
}

// table returns a table whose columns name a row, and labels returns their cells.
func (s *Sweep) table(caption string) *figures.Table {
	t := &figures.Table{Caption: fmt.Sprintf("Table %d", s.number) + caption, Provenance: s.provenance,
		Columns: []figures.Column{{Title: "Data", Left: true, Merged: true}}}
	titles := map[scores.Column]string{scores.Direction: "Direction", scores.Pair: "PairWeight",
		scores.Triplet: "TripletWeight"}
	for _, c := range s.parts() {
		t.Columns = append(t.Columns, figures.Column{Title: titles[c], Left: true})
	}
	return t
}

// parts are the parts of a rule that the rows and the blocks vary.
func (s *Sweep) parts() []scores.Column {
	return slices.DeleteFunc([]scores.Column{s.varied, s.blocks}, func(c scores.Column) bool { return c == "" })
}

func (s *Sweep) labels(r *row) []figures.Cell {
	return figures.Row(r.label, r.blockLabel)[:len(s.parts())]
}

// byBlock returns the rows block by block.
func (s *Sweep) byBlock() (out [][]*row) {
	for i, r := range s.rows {
		if i == 0 || r.blockLabel != s.rows[i-1].blockLabel {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	return out
}

// Table returns the sweep in the paper's own layout, our rows above the paper's. It has a row for each rule, a line of
// rates where the grid changes, and the cells of each data set and block shaded around their median. The best rate of a
// row is bold.
func (s *Sweep) Table() *figures.Table {
	t := s.table(fmt.Sprintf(". Recall@1 in percent of different %s with various learning rates (lr).", s.compared))
	t.Tint = s.tint
	widest := make([]int, len(s.sets))
	for _, r := range s.rows {
		for i, c := range r.cells {
			widest[i] = max(widest[i], len(c.ours), len(c.theirs))
		}
	}
	for i, n := range widest {
		for k := range n {
			t.Columns = append(t.Columns, figures.Column{Group: s.sets[i].title(), Title: fmt.Sprintf("rate %d", k+1)})
		}
	}
	s.addRows(t, "ours", widest, func(c cell) scores.Curve { return c.ours })
	if s.hasPaper() {
		s.addRows(t, "the paper's", widest, func(c cell) scores.Curve { return c.theirs })
	}
	t.Notes = []figures.Markup{"Bold: the best rate of a row whose rates were all run. The lowest one of equals; none " +
		"at which a run diverged."}
	return t
}

// addRows adds our rows or the paper's to the table. It leaves out rules without a curve.
func (s *Sweep) addRows(t *figures.Table, whose string, widest []int, curve func(cell) scores.Curve) {
	before := ""
	for _, block := range s.byBlock() {
		shaded := make([][]*figures.Cell, len(s.sets))
		for _, r := range block {
			row := append(figures.Row(whose), s.labels(r)...)
			first := len(row)
			rates := append([]figures.Cell{row[0]}, make([]figures.Cell, first-1)...)
			grid, known := "", false
			for i, of := range r.cells {
				c := curve(of)
				known = known || len(c) > 0
				for k := range widest[i] {
					var rate, recall figures.Cell
					if k < len(c) {
						rate.Text = fmt.Sprintf("lr\u00a0%g", c[k].LR)
						if recall = score(c[k].Test); c[k].Test.N > 0 { // Else the cell itself says that all diverged.
							recall = figures.Scored(c[k].Test)
						}
						if recall.Bold = k == c.Best(); recall.Bold && c.AtEdge(k) {
							recall.Note = edgeNote
						}
					}
					grid += rate.Text + "|"
					rates, row = append(rates, rate), append(row, recall)
				}
			}
			if !known {
				continue
			}
			for i, n := range widest {
				for range n {
					shaded[i] = append(shaded[i], &row[first])
					first++
				}
			}
			if grid != before {
				t.Rows, before = append(t.Rows, rates), grid
			}
			t.Rows = append(t.Rows, row)
		}
		for _, cells := range shaded {
			figures.ShadeAroundMedian(cells...)
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
}

// score returns the cell of a mean without a note.
func score(s stats.Mean) figures.Cell { return figures.Cell{Score: &s} }

// Curves draws a panel for each rule and data set: Recall@1 over the rate, the paper's curve behind ours.
func (s *Sweep) Curves() *figures.Figure {
	var alt strings.Builder
	fmt.Fprintf(&alt, "Table %d as curves: Recall@1 over the learning rate of different %s, ours with the paper's behind.",
		s.number, s.compared)
	words := func(c scores.Curve) string {
		out := slice.Map(c, func(v scores.AtRate) string { return fmt.Sprintf(" %s at %g", v.Test, v.LR) })
		return strings.Join(out, ",")
	}
	var sets []figures.RateSet
	for i, set := range s.sets {
		drawn := figures.RateSet{Title: set.title()}
		for _, block := range s.byBlock() {
			var line []figures.RatePanel
			for _, r := range block {
				c := r.cells[i]
				line = append(line, figures.RatePanel{Title: r.title(), Ours: c.ours, Theirs: c.theirs})
				fmt.Fprintf(&alt, " %s on %s:%s", r.id, set.data, words(c.ours))
				if len(c.theirs) > 0 {
					fmt.Fprintf(&alt, " (paper, %s:%s)", set.paper, words(c.theirs))
				}
				alt.WriteString(".")
			}
			drawn.Lines = append(drawn.Lines, line)
		}
		sets = append(sets, drawn)
	}
	return figures.RateCurves(alt.String(), sets, s.provenance)
}

// Protocols returns the table of the two protocols that select a rate: by test recall, as in the paper, and by the
// recall on training classes that were held out. It shows the test recall under each and the optimism of the first.
func (s *Sweep) Protocols() *figures.Table {
	t := s.table(fmt.Sprintf(" under two protocols: Recall@1 in percent of different %s at the rate chosen for each.",
		s.compared))
	const onTest, onHeldOut, papers = "chosen on test", "chosen on held-out classes", "the paper's, chosen on test"
	t.Columns = append(t.Columns, figures.Column{Group: onTest, Title: "lr"},
		figures.Column{Group: onTest, Title: "test R@1"}, figures.Column{Group: onHeldOut, Title: "lr"},
		figures.Column{Group: onHeldOut, Title: "held-out R@1"}, figures.Column{Group: onHeldOut, Title: "test R@1"},
		figures.Column{Title: "optimism"}, figures.Column{Group: papers, Title: "lr"},
		figures.Column{Group: papers, Title: "test R@1"})
	edges := false
	for i, set := range s.sets {
		for _, r := range s.rows {
			c := r.cells[i]
			row := append(figures.Row(set.title()), s.labels(r)...)
			if c.chosen() {
				row = append(row, figures.Row(rateCell(c.byTest.LR, c.byTest.atEdge), score(c.byTest.Test),
					rateCell(c.byHeldOut.LR, c.byHeldOut.atEdge), score(c.byHeldOut.HeldOut), score(c.byHeldOut.Test),
					fmt.Sprintf("%.1f", c.optimism()))...)
			} else {
				row = append(row, slices.Repeat(figures.Row("–"), 6)...)
				row[len(row)-6].Note = c.lack
			}
			rate := "–"
			if c.paper.LR > 0 {
				rate = rateCell(c.paper.LR, c.paper.atEdge)
			}
			edges = edges || c.byTest.atEdge || c.byHeldOut.atEdge || c.paper.atEdge
			t.Rows = append(t.Rows, append(row, figures.Text(rate), score(c.paper.Test)))
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	if edges {
		t.Notes = append(t.Notes, "†: the lowest or the highest rate of its grid; a better one may lie outside.")
	}
	t.Notes = append(t.Notes, "Optimism: test R@1 at the rate chosen on test less that at the rate chosen on held-out "+
		"classes. It is never negative.")
	for i := range s.sets {
		t.Notes = append(t.Notes, s.notes(i)...)
	}
	return t
}

// Robustness returns the table of the test recall, in points, that rules lose at half and at twice their best rate and
// at the worst rate of the grid.
func (s *Sweep) Robustness() *figures.Table {
	t := s.table(fmt.Sprintf(": points of Recall@1 that different %s lose by another rate than the best.", s.compared))
	t.Tint = s.tint
	for _, group := range []string{"ours", "the paper's"} {
		for _, title := range []figures.Markup{"best lr", "at half", "at twice", "at the worst"} {
			t.Columns = append(t.Columns, figures.Column{Group: group, Title: title})
		}
		if !s.hasPaper() {
			break
		}
	}
	for i, set := range s.sets {
		var ours, theirs []*figures.Cell
		for _, r := range s.rows {
			row := slices.Concat(figures.Row(set.title()), s.labels(r), lossCells(r.cells[i].ours),
				lossCells(r.cells[i].theirs))[:len(t.Columns)]
			ours, theirs = append(ours, &row[len(s.parts())+4]), append(theirs, &row[len(row)-1])
			t.Rows = append(t.Rows, row)
		}
		figures.Shade(ours...)
		if s.hasPaper() {
			figures.Shade(theirs...)
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	t.Notes = []figures.Markup{
		"†: the lowest or the highest rate of its grid. beyond: outside it; between two of its rates interpolated over " +
			"the logarithm.",
		"The worst of a grid depends on where the grid lies: compare it within a data set, among grids that are equally " +
			"wide."}
	return t
}

// lossCells returns the best rate of a curve and the points lost at half of it, at twice it and at the worst rate.
func lossCells(c scores.Curve) []figures.Cell {
	best := c.Best()
	if best < 0 {
		return figures.Row("–", "–", "–", "–")
	}
	lost := func(d float64) string {
		switch {
		case math.IsNaN(d):
			return "beyond"
		case math.IsInf(d, 0):
			return "diverged"
		}
		return fmt.Sprintf("%.1f", d)
	}
	worst := stats.Mean{Mean: c.Spread(), N: 1}
	if math.IsInf(worst.Mean, 0) {
		worst = stats.Mean{Mean: math.NaN(), Diverged: 1}
	}
	return figures.Row(rateCell(c[best].LR, c.AtEdge(best)), lost(c.Drop(0.5)), lost(c.Drop(2)), score(worst))
}
