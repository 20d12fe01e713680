package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Protocols returns the table of the two protocols that select a rate: by test recall, as in the paper, and by the
// recall on training classes that were held out. It shows the test recall under each and the optimism of the first.
func (s *Sweep) Protocols() *Table {
	t := &Table{Provenance: s.Provenance, Columns: append([]Column{{Title: "Data", Left: true, Merged: true}},
		s.heads()...),
		Caption: fmt.Sprintf("Table %d under two protocols: Recall@1 in percent of different %s at the rate chosen for "+
			"each.", s.Number, s.Compared)}
	const onTest, onHeldOut, papers = "chosen on test", "chosen on held-out classes", "the paper's, chosen on test"
	t.Columns = append(t.Columns, Column{Group: onTest, Title: "lr"}, Column{Group: onTest, Title: "test R@1"},
		Column{Group: onHeldOut, Title: "lr"}, Column{Group: onHeldOut, Title: "held-out R@1"},
		Column{Group: onHeldOut, Title: "test R@1"},
		Column{Title: "optimism"}, Column{Group: papers, Title: "lr"}, Column{Group: papers, Title: "test R@1"})
	edges := false
	for i, set := range s.Sets {
		for _, r := range s.Rows {
			c := r.Cells[i].Choice
			row := append([]Cell{Text(set.label())}, s.labels(r)...)
			if c.Chosen() {
				row = append(row, rateCell(c.ByTest.LR, c.ByTest.AtEdge), score(c.ByTest.Test),
					rateCell(c.ByHeldOut.LR, c.ByHeldOut.AtEdge), score(c.ByHeldOut.HeldOut), score(c.ByHeldOut.Test),
					Text(fmt.Sprintf("%.1f", c.Optimism)))
			} else {
				row = append(row, slices.Repeat([]Cell{Text("–")}, 6)...)
				row[len(row)-6].Note = c.Lack
			}
			rate := Text("–")
			if c.Paper.LR > 0 {
				rate = rateCell(c.Paper.LR, c.Paper.AtEdge)
			}
			edges = edges || c.ByTest.AtEdge || c.ByHeldOut.AtEdge || c.Paper.AtEdge
			t.Rows = append(t.Rows, append(row, rate, score(c.Paper.Test)))
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	if edges {
		t.Notes = append(t.Notes, "†: the lowest or the highest rate of its grid; a better one may lie outside.")
	}
	t.Notes = append(t.Notes, "Optimism: test R@1 at the rate chosen on test less that at the rate chosen on held-out "+
		"classes. It is never negative.")
	t.Notes = append(t.Notes, s.Notes...)
	return t
}

// Orders draws the order of the rules under both protocols and in the paper. It has a panel for each data set, with a
// line from rank to rank for each rule for which both protocols select a rate.
func (s *Sweep) Orders() *Figure {
	return &Figure{
		Width: vg.Points(330 * float64(len(s.Sets))), Height: vg.Points(92 + 17*float64(len(s.Rows))),
		Alt: fmt.Sprintf("Table %d: the order of different %s in the paper, at the rates chosen on test and at those "+
			"chosen on held-out classes.%s",
			s.Number, s.Compared, s.orderWords()),
		Provenance: s.Provenance,
		panels: func(c draw.Canvas) {
			key(c, []keyed{{"same rank by either choice", Blue, dash{}}, {"another rank", Vermilion, dash{}}})
			c.Max.Y -= 18
			for i, part := range columns(c, 16, slices.Repeat([]float64{1}, len(s.Sets))...) {
				s.bumps(part, i)
			}
		},
	}
}

// chosen returns the rows with a choice on a data set.
func (s *Sweep) chosen(set int) []SweepRow {
	return slices.DeleteFunc(slices.Clone(s.Rows), func(r SweepRow) bool { return !r.Cells[set].Choice.Chosen() })
}

func (s *Sweep) bumps(c draw.Canvas, set int) {
	rows := s.chosen(set)
	c.FillText(aligned(bold(style(titleSize, ink)), text.XCenter, text.YTop), vg.Point{X: c.Center().X, Y: c.Max.Y},
		s.Sets[set].label())
	if len(rows) == 0 {
		c.FillText(aligned(style(labelSize, quiet), text.XCenter, text.YCenter), c.Center(),
			"no rate has been chosen on held-out classes yet")
		return
	}
	const side = vg.Length(84) // For the labels.
	xs := []vg.Length{c.Min.X + side, c.Center().X, c.Max.X - side}
	heads := aligned(style(noteSize, quiet), text.XCenter, text.YTop)
	for i, head := range []Markup{"the paper's", "chosen on test", "on held-out classes"} {
		if i > 0 || s.Sets[set].Paper != "" {
			c.FillText(heads, vg.Point{X: xs[i], Y: c.Max.Y - 18}, head)
		}
	}
	top := c.Max.Y - 40
	step := (top - c.Min.Y - 6) / vg.Length(max(len(s.Rows)-1, 1))
	y := func(rank int) vg.Length { return top - step*vg.Length(rank) }
	const box = vg.Length(15) // Half the room of a number.
	for _, r := range rows {
		if ch := r.Cells[set].Choice; !math.IsNaN(ch.Paper.Test.Mean) {
			c.StrokeLine2(stroke(faint, 1.2), xs[0]+box, y(ch.Paper.Rank), xs[1]-box, y(ch.ByTest.Rank))
		}
	}
	for _, r := range rows {
		ch := r.Cells[set].Choice
		line := stroke(Blue, 1.2)
		if ch.ByTest.Rank != ch.ByHeldOut.Rank {
			line = stroke(Vermilion, 1.6)
		}
		c.StrokeLine2(line, xs[1]+box, y(ch.ByTest.Rank), xs[2]-box, y(ch.ByHeldOut.Rank))
	}
	number := aligned(style(tickSize, ink), text.XCenter, text.YCenter)
	for _, r := range rows {
		ch, label := r.Cells[set].Choice, r.title()
		if !math.IsNaN(ch.Paper.Test.Mean) {
			at := y(ch.Paper.Rank)
			c.FillText(number, vg.Point{X: xs[0], Y: at}, fmt.Sprintf("%.1f", ch.Paper.Test.Mean))
			c.FillText(aligned(style(tickSize, ink), text.XRight, text.YCenter), vg.Point{X: xs[0] - box, Y: at}, label)
		}
		at := y(ch.ByHeldOut.Rank)
		c.FillText(number, vg.Point{X: xs[1], Y: y(ch.ByTest.Rank)}, fmt.Sprintf("%.1f", ch.ByTest.Test.Mean))
		c.FillText(number, vg.Point{X: xs[2], Y: at}, fmt.Sprintf("%.1f", ch.ByHeldOut.Test.Mean))
		c.FillText(aligned(style(tickSize, ink), text.XLeft, text.YCenter), vg.Point{X: xs[2] + box, Y: at}, label)
	}
}

// dash draws a short line.
type dash struct{}

func (dash) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.StrokeLine2(stroke(s.Color, 1.6), at.X-2*s.Radius, at.Y, at.X+s.Radius, at.Y)
}

// orderWords returns the recalls under both protocols as a text.
func (s *Sweep) orderWords() string {
	var b strings.Builder
	for i, set := range s.Sets {
		fmt.Fprintf(&b, " %s:", set.Data)
		rows := s.chosen(i)
		if len(rows) == 0 {
			b.WriteString(" no runs yet.")
		}
		for k, r := range rows {
			c := r.Cells[i].Choice
			fmt.Fprintf(&b, " %s %.1f and %.1f", r.Rule, c.ByTest.Test.Mean, c.ByHeldOut.Test.Mean)
			if !math.IsNaN(c.Paper.Test.Mean) {
				fmt.Fprintf(&b, " (paper: %.1f)", c.Paper.Test.Mean)
			}
			b.WriteString(map[bool]string{true: ".", false: ","}[k == len(rows)-1])
		}
	}
	return b.String()
}
