package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Projection is one measurement for Figure 2. S is the similarity of a pair; Euc and Cos are the lengths of the unit
// gradients e^euc and e^cos along d_⊥, which is orthogonal to the embedding they act on.
type Projection struct{ S, Euc, Cos float64 }

// ProjectionEuc returns the length of e^euc along d_⊥ in closed form, √((1+S)/2) (Eq. 20 and appendix).
func ProjectionEuc(s float64) float64 { return math.Sqrt(max((1+s)/2, 0)) }

// ProjectionCos returns the length of e^cos along d_⊥ in closed form, √(1−S²) (Eq. 20 and appendix).
func ProjectionCos(s float64) float64 { return math.Sqrt(max(1-s*s, 0)) }

// Directions draws Figure 2. On the left, the unit circle shows the steps along −e^euc and −e^cos of a positive
// and a negative, with their parts along d_∥ and d_⊥. On the right, the length along d_⊥ is drawn over the
// similarity of the pair: lines are the closed forms (Eq. 20), points are the measurements. Without measurements only
// the lines are drawn.
func Directions(measured []Projection) (*Figure, error) {
	for i, m := range measured {
		if math.Abs(m.S) > 1+1e-6 {
			return nil, fmt.Errorf("figure 2: measurement %d is at S = %v; want one in [-1, 1]", i, m.S)
		}
	}
	if err := allFinite("figure 2", measured); err != nil {
		return nil, err
	}
	right := newPlot("Strength along $d_\\perp$", "$S$, similarity of the pair", "length of the projection on $d_\\perp$")
	setAxis(&right.X, -1, 1, 0.5)
	setAxis(&right.Y, 0, 1.05, 0.25)
	right.Add(lightGrid())
	curves := []struct {
		name   Markup
		color  color.NRGBA
		closed func(float64) float64
		value  func(Projection) float64
		dashes []vg.Length
	}{
		{`$\mathbf{e}^{euc}$: $\sqrt{(1+S)/2}$`, Vermilion, ProjectionEuc, func(m Projection) float64 { return m.Euc }, nil},
		{`$\mathbf{e}^{cos}$: $\sqrt{1-S^2}$`, Blue, ProjectionCos, func(m Projection) float64 { return m.Cos },
			[]vg.Length{5, 2}},
	}
	for _, k := range curves {
		// Equal steps of the angle rather than of S, since the curves are steep at their ends.
		const steps = 180
		line := curve(steps+1, func(i int) (x, y float64) {
			s := math.Cos(math.Pi * (1 - float64(i)/steps))
			return s, k.closed(s)
		})
		addPath(right, k.name, line, stroke(k.color, 1.6, k.dashes...))
	}
	if len(measured) > 0 {
		for i, k := range curves {
			points := curve(len(measured), func(j int) (x, y float64) { return measured[j].S, k.value(measured[j]) })
			right.Add(scatter(points, k.color, 2.2, ringed{measuredDots[i].Shape}))
		}
		right.Legend.Add("measured from the op", measuredDots)
	}
	setLegend(right, false, true, 50, 8)
	return &Figure{
		Width: vg.Points(580), Height: vg.Points(230),
		Alt: "Figure 2. Left: the directions of the Euclidean and the cosine gradient at a positive and a negative " +
			"on the unit circle. Right: their strength along d_⊥ against the similarity S: √((1+S)/2) grows with S, " +
			"√(1−S²) vanishes at S = ±1.",
		panels: func(c draw.Canvas) {
			parts := columns(c, 12, 1.22, 1)
			unitCircle(parts[0])
			drawPlot(right, parts[1])
		},
	}, nil
}

// unitCircle draws the left of Figure 2.
func unitCircle(c draw.Canvas) {
	const anchor, positive, negative = 90.0, 33.0, 156.0 // Degrees.
	heading(&c, "One step: $-\\mathbf{e}^{euc}$ and $-\\mathbf{e}^{cos}$", text.XCenter, 2)
	// The box of the drawing, in radii.
	const left, right, bottom, top = -1.72, 1.72, -0.52, 1.42
	radius := min((c.Max.X-c.Min.X)/(right-left), (c.Max.Y-c.Min.Y)/(top-bottom))
	origin := pt(c.Center().X-radius*(left+right)/2, c.Center().Y-radius*(bottom+top)/2)
	at := plane(origin, radius)
	polar := func(degrees float64) (x, y float64) {
		sin, cos := math.Sincos(degrees * math.Pi / 180)
		return cos, sin
	}

	ring(c, origin, radius, -24*math.Pi/180, 228*math.Pi/180, stroke(quiet, 0.8))
	ax, ay := polar(anchor)
	for _, degrees := range []float64{anchor, positive, negative} {
		x, y := polar(degrees)
		c.StrokeLines(stroke(faint, 0.8), []vg.Point{origin, at(x, y)})
	}

	const length = 0.66
	for _, member := range []struct {
		degrees, sign float64 // Sign is 1 for a step toward the anchor and −1 for one away from it.
		name          string
	}{{positive, 1, "p"}, {negative, -1, "n"}} {
		x, y := polar(member.degrees)
		here := at(x, y)
		// The tangent toward the anchor, or away from it.
		tx, ty := -y, x
		if dot := tx*ax + ty*ay; dot*member.sign < 0 {
			tx, ty = -tx, -ty
		}
		ex, ey := ax-x, ay-y
		norm := math.Hypot(ex, ey)
		ex, ey = member.sign*ex/norm, member.sign*ey/norm
		cx, cy := member.sign*ax, member.sign*ay
		for _, e := range [][2]float64{{ex, ey}, {cx, cy}} { // Feet of the projections on d_⊥.
			along := length * (e[0]*tx + e[1]*ty)
			c.StrokeLines(stroke(Green, 0.6, 1.5, 1.5), []vg.Point{at(x+length*e[0], y+length*e[1]), at(x+along*tx, y+along*ty)})
		}
		arrow(c, here, at(x+0.82*tx, y+0.82*ty), stroke(Green, 1.1))
		arrow(c, here, at(x+0.42*x, y+0.42*y), stroke(Green, 1.1))
		arrow(c, here, at(x+length*ex, y+length*ey), stroke(Vermilion, 1.8))
		arrow(c, here, at(x+length*cx, y+length*cy), stroke(Blue, 1.8))

		label := func(color color.Color, lx, ly float64, s Markup) {
			c.FillText(aligned(style(labelSize, color), text.XCenter, text.YCenter), at(lx, ly), s)
		}
		label(Green, x+0.91*tx+0.02*x, y+0.93*ty+0.02*y, `$d_\perp$`)
		label(Green, x+0.53*x, y+0.53*y, `$d_\parallel$`)
		side := map[bool][4]float64{true: {-0.10, -0.11, 0.15, 0.05}, false: {-0.16, 0.04, 0.17, -0.06}}[member.sign > 0]
		label(Vermilion, x+length*ex+side[0], y+length*ey+side[1], fmt.Sprintf(`$-\mathbf{e}_%s^{euc}$`, member.name))
		label(Blue, x+length*cx+side[2], y+length*cy+side[3], fmt.Sprintf(`$-\mathbf{e}_%s^{cos}$`, member.name))
		disc(c, here, ink)
		label(ink, x-0.15*x+0.02, y-0.15*y-0.06, fmt.Sprintf(`$\mathbf{f}_%s$`, member.name))
	}
	disc(c, at(ax, ay), ink)
	c.FillText(aligned(style(labelSize, ink), text.XCenter, text.YBottom), at(ax, ay+0.09), `$\mathbf{f}_a$`)
	disc(c, origin, quiet)
}

// plane returns what places coordinates in radii from the middle of a circle.
func plane(middle vg.Point, radius vg.Length) func(x, y float64) vg.Point {
	return func(x, y float64) vg.Point { return pt(middle.X+radius*vg.Length(x), middle.Y+radius*vg.Length(y)) }
}

// arrow draws a line from one point to another with a filled head.
func arrow(c draw.Canvas, from, to vg.Point, s draw.LineStyle) {
	d := to.Sub(from)
	length := vg.Length(math.Hypot(float64(d.X), float64(d.Y)))
	if length == 0 {
		return
	}
	d = d.Scale(1 / length)
	head := min(3+2.2*s.Width, length)
	n := pt(-d.Y, d.X).Scale(head * 0.38)
	base := to.Sub(d.Scale(head))
	c.StrokeLines(s, []vg.Point{from, base})
	c.FillPolygon(s.Color, []vg.Point{to, base.Add(n), base.Sub(n)})
}

func disc(c draw.Canvas, at vg.Point, color color.Color) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: color, Radius: vg.Points(2.4), Shape: draw.CircleGlyph{}}, at)
}

// ringed is a glyph with a white rim, which separates points from lines and from each other.
type ringed struct{ draw.GlyphDrawer }

func (r ringed) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	c.SetColor(paper)
	r.GlyphDrawer.DrawGlyph(c, draw.GlyphStyle{Color: paper, Radius: s.Radius + 0.8}, at)
	c.SetColor(s.Color)
	r.GlyphDrawer.DrawGlyph(c, s, at)
}

// dots is a legend's thumbnail of one or more points.
type dots []draw.GlyphStyle

func (d dots) Thumbnail(c *draw.Canvas) {
	for i, glyph := range d {
		x := c.Min.X + (c.Max.X-c.Min.X)*vg.Length(float64(i)+0.5)/vg.Length(len(d))
		c.DrawGlyphNoClip(glyph, pt(x, c.Center().Y))
	}
}

// measuredDots are the marks of measurements of euc and of cos.
var measuredDots = dots{{Color: Vermilion, Radius: 2.2, Shape: draw.CircleGlyph{}},
	{Color: Blue, Radius: 2.2, Shape: draw.BoxGlyph{}}}

// every returns ticks with labels at the multiples of step.
func every(step, low, high float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for i := math.Ceil(low/step - 1e-9); i*step <= high+1e-9; i++ {
		v := i * step
		label := fmt.Sprintf("%.4g", math.Abs(math.Round(v*1e6)/1e6))
		if v < -1e-9 {
			label = "−" + label
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	return ticks
}

func lightGrid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal, g.Vertical = stroke(faint, 0.4), stroke(faint, 0.4)
	return g
}
