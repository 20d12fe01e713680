package figures

import (
	"math"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Placed is a rule in three orders: the paper's, ours by the rate chosen on test, and by that chosen on held-out
// classes. In each it has a recall in percent, which may be NaN in the paper, and a place from 0.
type Placed struct {
	Label  Markup
	Recall [3]float64
	Place  [3]int
}

// RankSet holds the rules of a data set; of the paper's order there is one if Paper is set.
type RankSet struct {
	Title Markup
	Paper bool
	Rules []Placed
}

// RankChanges draws how the order of rules changes from column to column, a panel for each data set. It has room for a
// number of rules.
func RankChanges(alt string, rules int, sets []RankSet, provenance string) *Figure {
	return &Figure{
		Width: besideWidth / 2 * vg.Length(len(sets)), Height: vg.Points(92 + 17*float64(rules)), Alt: alt,
		Provenance: provenance,
		panels: func(c draw.Canvas) {
			key(&c, []keyed{{"same rank by either choice", look{Blue, dash{}, nil}},
				{"another rank", look{Vermilion, dash{}, nil}}}, 18)
			for i, part := range columns(c, 16, equal(len(sets))...) {
				sets[i].draw(part, rules)
			}
		},
	}
}

// box is half the room of a number.
const box = vg.Length(15)

func (s RankSet) draw(c draw.Canvas, rules int) {
	title := aligned(bold(style(titleSize, ink)), text.XCenter, text.YTop)
	write(c, title, c.Center().X, c.Max.Y, fitted(title, s.Title, c.Max.X-c.Min.X))
	if len(s.Rules) == 0 {
		c.FillText(aligned(style(labelSize, quiet), text.XCenter, text.YCenter), c.Center(),
			"no rate has been chosen on held-out classes yet")
		return
	}
	number := aligned(style(tickSize, ink), text.XCenter, text.YCenter)
	labels := widest(number, 0, s.Rules, func(r Placed) Markup { return r.Label })
	side := min(labels+box, (c.Max.X-c.Min.X)/2-37) // For the labels.
	xs := []vg.Length{c.Min.X + side, c.Center().X, c.Max.X - side}
	heads := aligned(style(noteSize, quiet), text.XCenter, text.YTop)
	for i, head := range []Markup{"the\npaper's", "chosen on\ntest", "on held-out\nclasses"} {
		if i > 0 || s.Paper {
			write(c, heads, xs[i], c.Max.Y-18, head)
		}
	}
	top := c.Max.Y - 40
	step := (top - c.Min.Y - 6) / vg.Length(max(rules-1, 1))
	line := func(r Placed, from int, l draw.LineStyle) {
		c.StrokeLine2(l, xs[from]+box, top-step*vg.Length(r.Place[from]), xs[from+1]-box, top-step*vg.Length(r.Place[from+1]))
	}
	for _, r := range s.Rules {
		if !math.IsNaN(r.Recall[0]) {
			line(r, 0, stroke(faint, 1.2))
		}
	}
	for _, r := range s.Rules {
		if r.Place[1] != r.Place[2] {
			line(r, 1, stroke(Vermilion, 1.6))
		} else {
			line(r, 1, stroke(Blue, 1.2))
		}
	}
	for _, r := range s.Rules {
		label := r.Label
		if number.Width(label) > side-box+margin {
			label = fitted(number, label, side-box)
		}
		for i, recall := range r.Recall {
			if math.IsNaN(recall) {
				continue
			}
			y := top - step*vg.Length(r.Place[i])
			write(c, number, xs[i], y, stats.Point(recall).String())
			switch i {
			case 0:
				write(c, aligned(number, text.XRight, text.YCenter), xs[i]-box, y, label)
			case 2:
				write(c, aligned(number, text.XLeft, text.YCenter), xs[i]+box, y, label)
			}
		}
	}
}

// dash draws a short line.
type dash struct{}

func (dash) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.StrokeLine2(stroke(s.Color, 1.6), at.X-2*s.Radius, at.Y, at.X+s.Radius, at.Y)
}
