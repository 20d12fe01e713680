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

// Curves draws a panel for each rule and data set: Recall@1 over the rate on a logarithmic axis, the paper's curve
// behind ours. Our rates are on the axis below, the paper's on the axis above. A factor of two is equally long on both,
// and the centers of the two grids coincide. The panels of a data set have the same scale of recall.
func (s *Sweep) Curves() *Figure {
	octaves := s.reach()
	var lines [][]*plot.Plot
	for set := range s.Sets {
		low, high := s.recalls(set)
		for _, block := range s.blocks() {
			var line []*plot.Plot
			for i, r := range block {
				line = append(line, s.panel(r, set, octaves, low, high, i == 0))
			}
			lines = append(lines, line)
		}
	}
	most := 0
	for _, line := range lines {
		most = max(most, len(line))
	}
	const height, gap, titles = vg.Length(118), vg.Length(10), vg.Length(18)
	perSet := len(lines) / len(s.Sets)
	return &Figure{
		Width: vg.Points(max(600, 52+104*float64(most))), Height: (height+gap)*vg.Length(len(lines)) +
			titles*vg.Length(len(s.Sets)) + 38,
		Alt: fmt.Sprintf("Table %d as curves: Recall@1 over the learning rate of different %s, ours with the paper's "+
			"behind.%s", s.Number, s.Compared, s.words()),
		Provenance: s.Provenance,
		panels: func(c draw.Canvas) {
			key(c, s.keys())
			c.Max.Y -= 18
			for i, line := range lines {
				if i%perSet == 0 {
					c.FillText(aligned(bold(style(titleSize, ink)), text.XLeft, text.YTop), vg.Point{X: c.Min.X, Y: c.Max.Y},
						s.Sets[i/perSet].label())
					c.Max.Y -= titles
				}
				strip := c
				strip.Min.Y = c.Max.Y - height
				drawLine(strip, line, most, gap)
				c.Max.Y -= height + gap
			}
		},
	}
}

// keys returns the legend. It names diverged runs and means below the scale only if there are some.
func (s *Sweep) keys() []keyed {
	entries := []keyed{{"ours, learning rates below", Blue, draw.CircleGlyph{}},
		{"the paper's, learning rates above", quiet, diamond{}},
		{"best on test", Blue, circled{}}, {"best on held-out classes", Vermilion, boxed{}}}
	diverged, below := false, false
	for set := range s.Sets {
		low, _ := s.recalls(set)
		for _, r := range s.Rows {
			for _, v := range slices.Concat(curve(r, set), paperCurve(r, set)) {
				diverged = diverged || math.IsNaN(v.Test.Mean) && v.Test.Diverged > 0
				below = below || v.Test.Mean < low
			}
		}
	}
	if diverged {
		entries = append(entries, keyed{"diverged, no value", Blue, crossed{}})
	}
	if below {
		entries = append(entries, keyed{"below the scale", Blue, under{}})
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

// reach returns how many factors of two a panel shows on each side of the center of a grid.
func (s *Sweep) reach() float64 {
	half := 0.5
	for _, r := range s.Rows {
		for _, cell := range r.Cells {
			for _, p := range []scores.Curve{cell.Ours, cell.Theirs} {
				if len(p) > 0 {
					half = max(half, math.Log2(p[len(p)-1].LR/p[0].LR)/2)
				}
			}
		}
	}
	return half + 0.35
}

// sweepDepth is the number of points that a panel shows below the highest recall of its data set. Some curves fall so
// far that the others would look flat. If our best recall and the paper's are far apart, the panel shows half as many
// points below the lower one.
const sweepDepth = 40

// recalls returns the range of all means of a data set with their deviations, cut below as [sweepDepth] says.
func (s *Sweep) recalls(set int) (low, high float64) {
	low = math.Inf(1)
	var tops []float64 // Our best and the paper's.
	for _, of := range []func(r SweepRow, set int) scores.Curve{curve, paperCurve} {
		top := math.Inf(-1)
		for _, r := range s.Rows {
			for _, v := range of(r, set) {
				if !math.IsNaN(v.Test.Mean) {
					low, top = min(low, v.Test.Mean-v.Test.Std), max(top, v.Test.Mean+v.Test.Std)
				}
			}
		}
		if top >= low {
			tops = append(tops, top)
		}
	}
	if len(tops) == 0 {
		return 0, 100
	}
	high = slices.Max(tops)
	if high-low > 1.25*sweepDepth {
		low = max(low, min(high-sweepDepth, slices.Min(tops)-sweepDepth/2))
	}
	room := max(0.08*(high-low), 0.5)
	return low - room, high + room
}

// ratePlace returns the position of point i on the axis of rates: in factors of two from the center of the grid.
func ratePlace(c scores.Curve, i int) float64 {
	first, last := c[0].LR, c[len(c)-1].LR
	return math.Log2(c[i].LR) - (math.Log2(first)+math.Log2(last))/2
}

// title returns the label of the row, with the label of its block.
func (r SweepRow) title() Markup {
	if r.Block == "" {
		return r.Label
	}
	return r.Label + ", " + r.Block
}

func (s *Sweep) panel(r SweepRow, set int, octaves, low, high float64, first bool) *plot.Plot {
	ours, theirs := curve(r, set), paperCurve(r, set)
	p := newPlot(r.title(), "", "")
	p.Title.TextStyle.Font.Size = tickSize
	p.Title.Padding = vg.Points(14) // Room for the paper's rates.
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -octaves, octaves, low, high
	step := roundStep((high - low) / 4)
	ticks := every(step, low, high)
	if first {
		p.Y.Label.Text = "Recall@1, %"
		p.Y.Label.TextStyle.Font.Size = tickSize
	} else {
		for i := range ticks {
			ticks[i].Label = ""
		}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.X.Tick.Marker = plot.ConstantTicks(rateTicks(ours))
	p.X.Tick.Label.Color, p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = Blue, noteSize, noteSize
	p.Add(sweepGround{ticks, theirs}, sweepLine{theirs, quiet, diamond{}, false},
		sweepLine{ours, Blue, draw.CircleGlyph{}, true})
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

// sweepGround draws the background of a panel: a light line at each recall, and the paper's rates above.
type sweepGround struct {
	recalls []plot.Tick
	paper   scores.Curve
}

func (g sweepGround) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range g.recalls {
		c.StrokeLine2(stroke(faint, 0.5), c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	if len(g.paper) == 0 {
		return
	}
	c.StrokeLine2(stroke(quiet, 0.5), c.Min.X, c.Max.Y, c.Max.X, c.Max.Y)
	for _, t := range rateTicks(g.paper) {
		c.StrokeLine2(stroke(quiet, 0.5), x(t.Value), c.Max.Y, x(t.Value), c.Max.Y+3)
		c.FillText(aligned(style(noteSize, quiet), text.XCenter, text.YBottom), vg.Point{X: x(t.Value), Y: c.Max.Y + 6},
			t.Label)
	}
}

// sweepLine draws a curve with its points and their standard deviations. It leaves out rates that were not run.
type sweepLine struct {
	curve  scores.Curve
	color  color.NRGBA
	shape  draw.GlyphDrawer
	chosen bool // Mark the best rates.
}

func (l sweepLine) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	width, radius := 1.0, vg.Points(2)
	if l.chosen {
		width, radius = 1.5, vg.Points(2.5)
	}
	below := func(i int) bool { return l.curve[i].Test.Mean < p.Y.Min }
	at := func(i int) vg.Point { return vg.Point{X: x(ratePlace(l.curve, i)), Y: y(l.curve[i].Test.Mean)} }
	mark := func(i int) vg.Point { // A point below the scale stands at its lower end.
		if below(i) {
			return vg.Point{X: at(i).X, Y: c.Min.Y + 4}
		}
		return at(i)
	}
	found := false
	for i, v := range l.curve {
		found = found || !math.IsNaN(v.Test.Mean) || v.Test.Diverged > 0
		if math.IsNaN(v.Test.Mean) {
			if v.Test.Diverged > 0 {
				c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.color, Radius: vg.Points(3), Shape: crossed{}},
					vg.Point{X: x(ratePlace(l.curve, i)), Y: c.Min.Y + 6})
			}
			continue
		}
		if i > 0 && !math.IsNaN(l.curve[i-1].Test.Mean) {
			c.StrokeLines(stroke(l.color, width), c.ClipLinesY([]vg.Point{at(i - 1), at(i)})...)
		}
	}
	for i, v := range l.curve {
		switch {
		case math.IsNaN(v.Test.Mean):
			continue
		case below(i):
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.color, Radius: radius, Shape: under{}}, mark(i))
			continue
		case v.Test.Std > 0:
			c.StrokeLines(stroke(l.color, 0.8), c.ClipLinesY([]vg.Point{{X: at(i).X, Y: y(v.Test.Mean - v.Test.Std)},
				{X: at(i).X, Y: y(v.Test.Mean + v.Test.Std)}})...)
		}
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.color, Radius: radius, Shape: ringed{l.shape}}, at(i))
	}
	if !l.chosen {
		return
	}
	if !found {
		c.FillText(aligned(style(noteSize, l.color), text.XCenter, text.YBottom), vg.Point{X: c.Center().X, Y: c.Min.Y + 3},
			"not run yet")
	}
	if i := l.curve.Best(); i >= 0 {
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.color, Radius: vg.Points(5), Shape: circled{}}, mark(i))
	}
	if i := l.curve.BestHeldOut(); i >= 0 {
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: Vermilion, Radius: vg.Points(6), Shape: boxed{}}, mark(i))
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
	c.SetColor(s.Color)
	r := 1.25 * s.Radius
	var p vg.Path
	p.Move(vg.Point{X: at.X - r, Y: at.Y + r})
	p.Line(vg.Point{X: at.X + r, Y: at.Y + r})
	p.Line(vg.Point{X: at.X, Y: at.Y - r})
	p.Close()
	c.Fill(p)
}

func (circled) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(stroke(s.Color, 1.1))
	var p vg.Path
	p.Move(vg.Point{X: at.X + s.Radius, Y: at.Y})
	p.Arc(at, s.Radius, 0, 2*math.Pi)
	p.Close()
	c.Stroke(p)
}

func (boxed) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.SetLineStyle(stroke(s.Color, 1.1))
	c.Stroke(vg.Rectangle{Min: at.Sub(vg.Point{X: s.Radius, Y: s.Radius}),
		Max: at.Add(vg.Point{X: s.Radius, Y: s.Radius})}.Path())
}

func (crossed) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.StrokeLine2(stroke(s.Color, 1.4), at.X-s.Radius, at.Y-s.Radius, at.X+s.Radius, at.Y+s.Radius)
	c.StrokeLine2(stroke(s.Color, 1.4), at.X-s.Radius, at.Y+s.Radius, at.X+s.Radius, at.Y-s.Radius)
}

// words returns the curves as a text.
func (s *Sweep) words() string {
	var b strings.Builder
	say := func(c scores.Curve) {
		for i, v := range c {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, " %s at %g", v.Test, v.LR)
		}
	}
	for i, set := range s.Sets {
		for _, r := range s.Rows {
			fmt.Fprintf(&b, " %s on %s:", r.Rule, set.Data)
			say(curve(r, i))
			if len(paperCurve(r, i)) > 0 {
				fmt.Fprintf(&b, " (paper, %s:", set.Paper)
				say(paperCurve(r, i))
				b.WriteString(")")
			}
			b.WriteString(".")
		}
	}
	return b.String()
}
