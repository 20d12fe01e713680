package figures

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Curves draws the sweep: a panel for each configuration and data set, Recall@1 over the rate on a logarithmic axis,
// the paper's curve behind ours. Each has an axis of its own, ours below and the paper's above, in which a factor of
// two is equally long; the middles of the two grids stand above each other. The panels of a data set have one scale of
// recall.
func (s *Sweep) Curves() *Figure {
	kind := sweeps[s.kind]
	octaves := s.reach()
	var lines [][]*plot.Plot
	for set := range s.sets {
		low, high := s.recalls(set)
		first := 0
		for _, end := range s.blockEnds() {
			var line []*plot.Plot
			for i, r := range s.rows[first:end] {
				line = append(line, s.panel(r, set, octaves, low, high, i == 0))
			}
			lines, first = append(lines, line), end
		}
	}
	most := 0
	for _, line := range lines {
		most = max(most, len(line))
	}
	const height, gap, titles = vg.Length(118), vg.Length(10), vg.Length(18)
	block := len(lines) / len(s.sets) // Lines of a data set.
	return &Figure{
		Width: vg.Points(max(600, 52+104*float64(most))), Height: (height+gap)*vg.Length(len(lines)) +
			titles*vg.Length(len(s.sets)) + 38,
		Alt: fmt.Sprintf("Table %d as curves: Recall@1 over the learning rate of different %s, ours with the paper's "+
			"behind.%s", kind.number, kind.compared,
			s.words()),
		Provenance: s.provenance,
		panels: func(c draw.Canvas) {
			key(c, s.keys())
			c.Max.Y -= 18
			for i, line := range lines {
				if i%block == 0 {
					set := i / block
					c.FillText(aligned(bold(style(titleSize, ink)), text.XLeft, text.YTop), vg.Point{X: c.Min.X, Y: c.Max.Y},
						s.setLabel(set))
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

// keys are what the curves show: a run that diverged, or a mean below the scale, only where there is one.
func (s *Sweep) keys() []keyed {
	entries := []keyed{{"ours, learning rates below", Blue, draw.CircleGlyph{}},
		{"the paper's, learning rates above", quiet, diamond{}},
		{"best on test", Blue, circled{}}, {"best on held-out classes", Vermilion, boxed{}}}
	diverged, below := false, false
	for set := range s.sets {
		low, _ := s.recalls(set)
		for _, r := range s.rows {
			for _, v := range slices.Concat(r.ours[set], r.theirs[set]) {
				diverged = diverged || math.IsNaN(v.test.Mean) && v.test.Diverged > 0
				below = below || v.test.Mean < low
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

// drawLine draws plots in a row with room for n, their data areas equally large.
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
	room -= left[len(plots)-1] * vg.Length(n-len(plots)) // Plots that are not there would need what the last does.
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

// reach is how many factors of two a panel shows to each side of a grid's middle.
func (s *Sweep) reach() float64 {
	half := 0.5
	for _, r := range s.rows {
		for _, c := range slices.Concat(r.ours, r.theirs) {
			if len(c) > 0 {
				half = max(half, math.Log2(c[len(c)-1].lr/c[0].lr)/2)
			}
		}
	}
	return half + 0.35
}

// sweepDepth is how many points below the highest recall of a data set a panel goes: some curves fall so deep that the
// others would look flat. Where the best of ours and of the paper's are far apart, it goes half as far below the lower
// one.
const sweepDepth = 40

// recalls is the range of all means of a data set with their deviations, cut below.
func (s *Sweep) recalls(set int) (low, high float64) {
	low = math.Inf(1)
	var tops []float64 // The best of ours and of the paper's.
	for _, of := range []func(sweepRow) sweepCurve{func(r sweepRow) sweepCurve { return r.ours[set] },
		func(r sweepRow) sweepCurve { return r.theirs[set] }} {
		top := math.Inf(-1)
		for _, r := range s.rows {
			for _, v := range of(r) {
				if !math.IsNaN(v.test.Mean) {
					low, top = min(low, v.test.Mean-v.test.Std), max(top, v.test.Mean+v.test.Std)
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

// place is where a rate stands: in factors of two from the middle of its curve's grid.
func (c sweepCurve) place(i int) float64 {
	return math.Log2(c[i].lr) - (math.Log2(c[0].lr)+math.Log2(c[len(c)-1].lr))/2
}

func (s *Sweep) panel(r sweepRow, set int, octaves, low, high float64, first bool) *plot.Plot {
	title := sweeps[s.kind].rows.label(r.row)
	if r.block != "" {
		title += ", " + sweeps[s.kind].blocks.label(r.block)
	}
	p := newPlot(title, "", "")
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
	p.X.Tick.Marker = plot.ConstantTicks(r.ours[set].ticks())
	p.X.Tick.Label.Color, p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = Blue, noteSize, noteSize
	p.Add(sweepGround{ticks, r.theirs[set]}, sweepLine{r.theirs[set], quiet, diamond{}, false},
		sweepLine{r.ours[set], Blue, draw.CircleGlyph{}, true})
	return p
}

// ticks are the rates of a curve; one that would touch its neighbour has no label.
func (c sweepCurve) ticks() []plot.Tick {
	var out []plot.Tick
	last := math.Inf(-1)
	for i, v := range c {
		t := plot.Tick{Value: c.place(i), Label: strings.TrimPrefix(fmt.Sprintf("%.3g", v.lr), "0")}
		if t.Value-last > 0.17*float64(len(t.Label)) {
			last = t.Value
		} else {
			t.Label = ""
		}
		out = append(out, t)
	}
	return out
}

// sweepGround is the ground of a panel: a light line at each recall, and the paper's rates above.
type sweepGround struct {
	recalls []plot.Tick
	paper   sweepCurve
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
	for _, t := range g.paper.ticks() {
		c.StrokeLine2(stroke(quiet, 0.5), x(t.Value), c.Max.Y, x(t.Value), c.Max.Y+3)
		c.FillText(aligned(style(noteSize, quiet), text.XCenter, text.YBottom), vg.Point{X: x(t.Value), Y: c.Max.Y + 6},
			t.Label)
	}
}

// sweepLine is a curve with its points and their standard deviations. Rates that were not run are left out.
type sweepLine struct {
	curve  sweepCurve
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
	below := func(i int) bool { return l.curve[i].test.Mean < p.Y.Min }
	at := func(i int) vg.Point { return vg.Point{X: x(l.curve.place(i)), Y: y(l.curve[i].test.Mean)} }
	mark := func(i int) vg.Point { // What is below the scale stands at its end.
		if below(i) {
			return vg.Point{X: at(i).X, Y: c.Min.Y + 4}
		}
		return at(i)
	}
	found := false
	for i, v := range l.curve {
		found = found || made(v.test)
		if math.IsNaN(v.test.Mean) {
			if v.test.Diverged > 0 {
				c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.color, Radius: vg.Points(3), Shape: crossed{}},
					vg.Point{X: x(l.curve.place(i)), Y: c.Min.Y + 6})
			}
			continue
		}
		if i > 0 && !math.IsNaN(l.curve[i-1].test.Mean) {
			c.StrokeLines(stroke(l.color, width), c.ClipLinesY([]vg.Point{at(i - 1), at(i)})...)
		}
	}
	for i, v := range l.curve {
		switch {
		case math.IsNaN(v.test.Mean):
			continue
		case below(i):
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.color, Radius: radius, Shape: under{}}, mark(i))
			continue
		case v.test.Std > 0:
			c.StrokeLines(stroke(l.color, 0.8), c.ClipLinesY([]vg.Point{{X: at(i).X, Y: y(v.test.Mean - v.test.Std)},
				{X: at(i).X, Y: y(v.test.Mean + v.test.Std)}})...)
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
	if i := l.curve.best(testOf); i >= 0 {
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: l.color, Radius: vg.Points(5), Shape: circled{}}, mark(i))
	}
	if i := l.curve.best(heldOutOf); i >= 0 {
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: Vermilion, Radius: vg.Points(6), Shape: boxed{}}, mark(i))
	}
}

// circled, boxed, crossed and under are a ring, a square's outline, a cross and a triangle that points down.
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

// words reads the curves out.
func (s *Sweep) words() string {
	var b strings.Builder
	say := func(c sweepCurve) {
		for i, v := range c {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, " %s at %g", v.test, v.lr)
		}
	}
	for i := range s.sets {
		for _, r := range s.rows {
			fmt.Fprintf(&b, " %s on %s:", r.rule, s.sets[i])
			say(r.ours[i])
			if len(r.theirs[i]) > 0 {
				fmt.Fprintf(&b, " (paper, %s:", s.papers[i])
				say(r.theirs[i])
				b.WriteString(")")
			}
			b.WriteString(".")
		}
	}
	return b.String()
}
