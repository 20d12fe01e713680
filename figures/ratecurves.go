package figures

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// RatePanel is a rule on a data set over learning rates: our curve of Recall@1 in percent, and the paper's behind it,
// empty without one.
type RatePanel struct {
	Title        Markup
	Ours, Theirs scores.Curve
}

// RateSet holds the panels of a data set, in lines.
type RateSet struct {
	Title Markup
	Lines [][]RatePanel
}

// panels returns all panels of the set.
func (s RateSet) panels() []RatePanel { return slices.Concat(s.Lines...) }

// RateCurves draws Recall@1 over the learning rate on a logarithmic axis, the paper's curve behind ours. Our rates are
// on the axis below, the paper's on the axis above. A factor of two is equally long on both, and the centers of the two
// grids coincide. The panels of a data set have the same scale of recall.
func RateCurves(alt string, sets []RateSet, provenance string) *Figure {
	half := 0.5 // How many factors of two a panel shows on each side of the center of a grid.
	for _, s := range sets {
		for _, r := range s.panels() {
			for _, p := range []scores.Curve{r.Ours, r.Theirs} {
				if len(p) > 0 {
					half = max(half, math.Log2(p[len(p)-1].LR/p[0].LR)/2)
				}
			}
		}
	}
	const height, gap, titles = vg.Length(118), vg.Length(10), vg.Length(18)
	total, most := titles*vg.Length(len(sets))+38, 0
	drawn := make([][][]*plot.Plot, len(sets))
	for i, s := range sets {
		recalls := s.recalls()
		for _, panels := range s.Lines {
			var line []*plot.Plot
			for k, r := range panels {
				line = append(line, r.plot(half+0.35, recalls, k == 0))
			}
			drawn[i], most, total = append(drawn[i], line), max(most, len(line)), total+height+gap
		}
	}
	inner := total - 18 - 2*margin - noteRoom(provenance) // The height below the legend, in the figure's own shape.
	return &Figure{
		Width: vg.Points(max(600, 52+94*float64(most))), Height: total, Alt: alt, Provenance: provenance,
		panels: func(c draw.Canvas) {
			key(&c, rateKeys(sets), 18)
			height := height + (c.Max.Y-c.Min.Y-inner)/vg.Length(len(slices.Concat(drawn...)))
			for i, lines := range drawn {
				title := aligned(bold(style(titleSize, ink)), text.XLeft, text.YTop)
				write(c, title, c.Min.X, c.Max.Y, fitted(title, sets[i].Title, c.Max.X-c.Min.X))
				c.Max.Y -= titles
				drawLines(&c, lines, most, gap, height)
			}
		},
	}
}

// drawLines draws lines of plots of a height as drawLine does, with gaps between and below them, and takes their room
// from the canvas.
func drawLines(c *draw.Canvas, lines [][]*plot.Plot, n int, gap, height vg.Length) {
	for _, line := range lines {
		strip := *c
		strip.Min.Y = c.Max.Y - height
		drawLine(strip, line, n, gap)
		c.Max.Y -= height + gap
	}
}

// rateKeys returns the legend. It names diverged runs and means below the scale only if there are some.
func rateKeys(sets []RateSet) []keyed {
	entries := []keyed{{"ours, learning rates below", look{Blue, draw.CircleGlyph{}, nil}},
		{"the paper's, learning rates above", look{quiet, diamond{}, nil}},
		{"best on test", look{Blue, circled{}, nil}}, {"best on held-out classes", look{Vermilion, boxed{}, nil}}}
	diverged, below := false, false
	for _, s := range sets {
		low := s.recalls().low
		for _, r := range s.panels() {
			for _, v := range slices.Concat(r.Ours, r.Theirs) {
				diverged = diverged || math.IsNaN(v.Test.Mean) && v.Test.Diverged > 0
				below = below || v.Test.Mean < low
			}
		}
	}
	if diverged {
		entries = append(entries, keyed{"diverged, no value", look{Blue, crossed{}, nil}})
	}
	if below {
		entries = append(entries, keyed{"below the scale", look{Blue, under{}, nil}})
	}
	return entries
}

// drawLine draws plots in a row that has room for n of them. Their data areas have the same size.
func drawLine(c draw.Canvas, plots []*plot.Plot, n int, gap vg.Length) {
	left, inner := make([]vg.Length, len(plots)), c.Rectangle // inner is as high as the data area of each.
	outer := make([]vg.Rectangle, len(plots))
	room := c.Max.X - c.Min.X - gap*vg.Length(n-1)
	for i, p := range plots {
		data := p.DataCanvas(c)
		left[i], outer[i] = data.Min.X-c.Min.X, data.Rectangle
		inner.Min.Y, inner.Max.Y = max(inner.Min.Y, data.Min.Y), min(inner.Max.Y, data.Max.Y)
		room -= left[i]
	}
	room -= left[len(plots)-1] * vg.Length(n-len(plots)) // Absent plots count with the margin of the last one.
	x := c.Min.X
	for i, p := range plots {
		part := c
		part.Min.X, part.Max.X = x, x+left[i]+room/vg.Length(n)
		part.Min.Y += inner.Min.Y - outer[i].Min.Y
		part.Max.Y -= outer[i].Max.Y - inner.Max.Y
		drawPlot(p, part)
		x = part.Max.X + gap
	}
}

// rateDepth is the number of points that a panel shows below the highest recall of its data set. Some curves fall so
// far that the others would look flat. If our best recall and the paper's are far apart, the panel shows half as many
// points below the lower one.
const rateDepth = 40

// recalls returns the range of all means of a data set with their deviations, cut below as [rateDepth] says.
func (s RateSet) recalls() span {
	all := spanOf()
	var tops []float64 // Our best and the paper's.
	for _, of := range []func(RatePanel) scores.Curve{func(r RatePanel) scores.Curve { return r.Ours },
		func(r RatePanel) scores.Curve { return r.Theirs }} {
		some := spanOf()
		for _, r := range s.panels() {
			for _, v := range of(r) {
				some.addMean(v.Test)
			}
		}
		if some.low <= some.high {
			all.add(some.low, some.high)
			tops = append(tops, some.high)
		}
	}
	if all.high-all.low > 1.25*rateDepth {
		all.low = max(all.low, min(all.high-rateDepth, slices.Min(tops)-rateDepth/2))
	}
	if tops == nil {
		return span{0, 100}
	}
	return all.padded(0.08, 0.5)
}

// ratePlace returns the position of point i on the axis of rates: in factors of two from the center of the grid.
func ratePlace(c scores.Curve, i int) float64 {
	first, last := c[0].LR, c[len(c)-1].LR
	return math.Log2(c[i].LR) - (math.Log2(first)+math.Log2(last))/2
}

func (r RatePanel) plot(octaves float64, recalls span, first bool) *plot.Plot {
	p := newPlot(r.Title, "", "")
	p.Title.TextStyle.Font.Size = tickSize
	p.Title.Padding = vg.Points(14) // Room for the paper's rates.
	p.X.Min, p.X.Max = -octaves, octaves
	recalls.scaled(&p.Y, 4)
	if first {
		p.Y.Label.Text = "Recall@1, %"
		p.Y.Label.TextStyle.Font.Size = tickSize
	} else {
		ticks := p.Y.Tick.Marker.Ticks(recalls.low, recalls.high)
		for i := range ticks {
			ticks[i].Label = ""
		}
	}
	p.X.Tick.Marker = plot.ConstantTicks(rateTicks(r.Ours))
	p.X.Tick.Label.Color, p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = Blue, noteSize, noteSize
	p.Add(painter(rungs), ratesAbove(r.Theirs), rateLine{r.Theirs, quiet, diamond{}, false},
		rateLine{r.Ours, Blue, draw.CircleGlyph{}, true})
	return p
}

// rateTicks returns a tick for each rate. A tick whose label would touch its neighbor's has no label.
func rateTicks(c scores.Curve) []plot.Tick {
	var out []plot.Tick
	last := math.Inf(-1)
	for i, v := range c {
		t := plot.Tick{Value: ratePlace(c, i), Label: strings.TrimPrefix(fmt.Sprintf("%.3g", v.LR), "0")}
		if t.Value-last > 0.17*float64(len(t.Label)) {
			last = t.Value
		} else {
			t.Label = ""
		}
		out = append(out, t)
	}
	return out
}

// ratesAbove draws the axis of the paper's rates above a panel, if it has some.
type ratesAbove scores.Curve

func (r ratesAbove) Plot(c draw.Canvas, p *plot.Plot) {
	if len(r) == 0 {
		return
	}
	x, _ := p.Transforms(&c)
	c.StrokeLine2(stroke(quiet, 0.5), c.Min.X, c.Max.Y, c.Max.X, c.Max.Y)
	for _, t := range rateTicks(scores.Curve(r)) {
		c.StrokeLine2(stroke(quiet, 0.5), x(t.Value), c.Max.Y, x(t.Value), c.Max.Y+3)
		write(c, aligned(style(noteSize, quiet), text.XCenter, text.YBottom), x(t.Value), c.Max.Y+6, t.Label)
	}
}

// rateLine draws a curve with its points and their standard deviations. It leaves out rates that were not run.
type rateLine struct {
	curve  scores.Curve
	color  color.NRGBA
	shape  draw.GlyphDrawer
	chosen bool // Mark the best rates.
}

func (l rateLine) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	width, radius := 1.0, vg.Points(2)
	if l.chosen {
		width, radius = 1.5, vg.Points(2.5)
	}
	below := func(i int) bool { return l.curve[i].Test.Mean < p.Y.Min }
	at := func(i int) vg.Point { return pt(x(ratePlace(l.curve, i)), y(l.curve[i].Test.Mean)) }
	mark := func(i int) vg.Point { // A point below the scale stands at its lower end.
		if below(i) {
			return pt(at(i).X, c.Min.Y+4)
		}
		return at(i)
	}
	for i := 1; i < len(l.curve); i++ {
		if !math.IsNaN(l.curve[i-1].Test.Mean + l.curve[i].Test.Mean) {
			c.StrokeLines(stroke(l.color, width), c.ClipLinesY([]vg.Point{at(i - 1), at(i)})...)
		}
	}
	found := false
	for i, v := range l.curve {
		switch lost := math.IsNaN(v.Test.Mean); {
		case lost && v.Test.Diverged == 0:
			continue
		case lost:
			dot(c, l.color, vg.Points(3), crossed{}, x(ratePlace(l.curve, i)), c.Min.Y+6)
		case below(i):
			dot(c, l.color, radius, under{}, mark(i).X, mark(i).Y)
		default:
			if v.Test.Std > 0 {
				c.StrokeLines(stroke(l.color, 0.8), c.ClipLinesY([]vg.Point{{X: at(i).X, Y: y(v.Test.Mean - v.Test.Std)},
					{X: at(i).X, Y: y(v.Test.Mean + v.Test.Std)}})...)
			}
			dot(c, l.color, radius, ringed{l.shape}, at(i).X, at(i).Y)
		}
		found = true
	}
	if !l.chosen {
		return
	}
	if !found {
		write(c, aligned(style(noteSize, l.color), text.XCenter, text.YBottom), c.Center().X, c.Min.Y+3, "not run yet")
	}
	if i := l.curve.Best(); i >= 0 {
		dot(c, l.color, vg.Points(5), circled{}, mark(i).X, mark(i).Y)
	}
	if i := l.curve.BestHeldOut(); i >= 0 {
		dot(c, Vermilion, vg.Points(6), boxed{}, mark(i).X, mark(i).Y)
	}
}

// circled, boxed, crossed and under draw a ring, the outline of a square, a cross and a triangle that points down.
type (
	circled struct{}
	boxed   struct{}
	crossed struct{}
	under   struct{}
)

func (under) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	r := 1.25 * s.Radius
	c.FillPolygon(s.Color, []vg.Point{pt(at.X-r, at.Y+r), pt(at.X+r, at.Y+r), pt(at.X, at.Y-r)})
}

func (circled) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	ring(*c, at, s.Radius, 0, 2*math.Pi, stroke(s.Color, 1.1))
}

func (boxed) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	outline(*c, inset(vg.Rectangle{Min: at, Max: at}, -s.Radius), stroke(s.Color, 1.1))
}

func (crossed) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	cross(*c, at, s.Radius, stroke(s.Color, 1.4))
}
