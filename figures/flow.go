package figures

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TripletMotion is a triplet on the unit circle with the gradient that a rule composes at each of its members.
type TripletMotion struct {
	Title Markup
	// Rule is the name of the rule for the alternative text; if empty, the title is.
	Rule string
	// Anchor, Positive and Negative are embeddings of length 1.
	Anchor, Positive, Negative [2]float64
	// The gradients of the rule at them. Members move against these.
	AnchorGradient, PositiveGradient, NegativeGradient [2]float64
}

// motionLength is the length, in radii, of the arrow of a gradient of length 1, and motionLongest that of the longest
// arrow.
const motionLength, motionLongest = 0.9, 1.1

// Motion draws how a rule moves the members of a triplet on the unit circle: arrows point against the gradients, and
// green arrows are their parts along the circle, which are all that remains once embeddings are normalized. An arrow
// of length 0.9 radii is a gradient of length 1; longer ones are cut at 1.1 radii. The paper has no such figure.
// Embeddings must have length 1.
func Motion(m TripletMotion) (*Figure, error) {
	members := []motionMember{
		{`$\mathbf{f}_a$`, "anchor", ink, m.Anchor, m.AnchorGradient},
		{`$\mathbf{f}_p$`, "positive", Blue, m.Positive, m.PositiveGradient},
		{`$\mathbf{f}_n$`, "negative", Vermilion, m.Negative, m.NegativeGradient},
	}
	for _, k := range members {
		if length := math.Hypot(k.at[0], k.at[1]); !(math.Abs(length-1) < 1e-3) {
			return nil, fmt.Errorf("motion: the %s has length %.3g; want 1", k.role, length)
		}
	}
	if err := allFinite("motion", m); err != nil {
		return nil, err
	}
	return &Figure{
		Width: vg.Points(250), Height: vg.Points(258),
		Alt: fmt.Sprintf("A triplet on the unit circle. Arrows show how %s moves it: "+
			"anchor by %.2f, positive by %.2f, negative by %.2f. "+
			"Green arrows are the parts along the circle: %.2f, %.2f and %.2f.", cmp.Or(m.Rule, Plain(m.Title)),
			members[0].length(), members[1].length(), members[2].length(), members[0].along(), members[1].along(),
			members[2].along()),
		panels: func(c draw.Canvas) { drawMotion(c, m.Title, members) },
	}, nil
}

type motionMember struct {
	name         Markup
	role         string
	color        color.NRGBA
	at, gradient [2]float64
}

func (k motionMember) length() float64 { return math.Hypot(k.gradient[0], k.gradient[1]) }

// along returns the length of the gradient's part along the circle.
func (k motionMember) along() float64 {
	return math.Abs(k.at[0]*k.gradient[1] - k.at[1]*k.gradient[0])
}

func drawMotion(c draw.Canvas, title Markup, members []motionMember) {
	heading(&c, title, text.XCenter, 4)
	note := aligned(style(noteSize, quiet), text.XCenter, text.YBottom)
	for _, line := range []Markup{
		fmt.Sprintf(`lengths: $\mathbf{f}_a$ %.3f, $\mathbf{f}_p$ %.3f, $\mathbf{f}_n$ %.3f`, members[0].length(),
			members[1].length(), members[2].length()),
		"arrows: against the gradient; green: its part along the circle",
	} {
		write(c, note, c.Center().X, c.Min.Y, line)
		c.Min.Y += noteSize + 3
	}
	const box = 1.55 // Half the side of the drawing, in radii.
	radius := min(c.Max.X-c.Min.X, c.Max.Y-c.Min.Y) / (2 * box)
	origin := c.Center()
	at := plane(origin, radius)
	ring(c, origin, radius, 0, 2*math.Pi, stroke(quiet, 0.8))
	for _, k := range members {
		c.StrokeLines(stroke(faint, 0.8), []vg.Point{origin, at(k.at[0], k.at[1])})
	}
	for _, k := range members {
		x, y := k.at[0], k.at[1]
		scale := motionLength
		if l := k.length(); l*motionLength > motionLongest {
			scale = motionLongest / l
		}
		dx, dy := -scale*k.gradient[0], -scale*k.gradient[1]
		along := -dx*y + dy*x // On the tangent (−y, x).
		tx, ty := -along*y, along*x
		c.StrokeLines(stroke(Green, 0.6, 1.5, 1.5), []vg.Point{at(x+dx, y+dy), at(x+tx, y+ty)})
		arrow(c, at(x, y), at(x+tx, y+ty), stroke(Green, 1.1))
		arrow(c, at(x, y), at(x+dx, y+dy), stroke(k.color, 1.8))
	}
	for _, k := range members {
		x, y := k.at[0], k.at[1]
		disc(c, at(x, y), k.color)
		c.FillText(aligned(style(labelSize, k.color), text.XCenter, text.YCenter), at(0.84*x, 0.84*y), k.name)
	}
	disc(c, origin, quiet)
}

// Swarm is the embeddings of a batch on the unit circle or the unit sphere at one step.
type Swarm struct {
	Title  Markup
	Dim    int       // 2 or 3.
	Points []float32 // [N, Dim], rows of length 1.
	Labels []int64   // [N]
	// Before are earlier Points, oldest first. They are drawn as paths behind the points.
	Before [][]float32
	// Turn is the rotation of a sphere about its vertical axis, in degrees.
	Turn float64
	// Images are drawn in place of marks, with a frame in the color of their class; nil, or one for each point.
	Images []image.Image
}

func (s Swarm) check() error {
	if s.Dim != 2 && s.Dim != 3 {
		return fmt.Errorf("flow %q: embeddings have dimension %d; want 2 (circle) or 3 (sphere)", Plain(s.Title), s.Dim)
	}
	if s.Images != nil && len(s.Images) != len(s.Labels) {
		return fmt.Errorf("flow %q: %d images of %d embeddings; want one of each, or none", Plain(s.Title), len(s.Images),
			len(s.Labels))
	}
	for _, points := range append([][]float32{s.Points}, s.Before...) {
		if len(points) != s.Dim*len(s.Labels) {
			return fmt.Errorf("flow %q: %d values; want %d embeddings of dimension %d", Plain(s.Title), len(points),
				len(s.Labels), s.Dim)
		}
		for i := range s.Labels {
			square := 0.0
			for _, v := range points[i*s.Dim : (i+1)*s.Dim] {
				square += float64(v) * float64(v)
			}
			if !(math.Abs(square-1) < 1e-2) {
				return fmt.Errorf("flow %q: embedding %d has length %.3g; want 1", Plain(s.Title), i, math.Sqrt(square))
			}
		}
	}
	return nil
}

// seen projects a point onto the page. x and y are in radii from the center; near runs from −1 at the back to 1.
func (s Swarm) seen(point []float32) (x, y, near float64) {
	if s.Dim == 2 {
		return float64(point[0]), float64(point[1]), 1
	}
	const tilt = 20 * math.Pi / 180 // The camera looks down from above the equator.
	sin, cos := math.Sincos(s.Turn * math.Pi / 180)
	px, py, pz := float64(point[0]), float64(point[1]), float64(point[2])
	right, away := px*cos-py*sin, px*sin+py*cos
	return right, pz*math.Cos(tilt) + away*math.Sin(tilt), pz*math.Sin(tilt) - away*math.Cos(tilt)
}

// History is the mean similarities of a flow's triplets over its steps. All slices have the same length.
type History struct {
	Steps    []int
	Sap, San []float64
}

// Flow draws embeddings that move by a rule: one panel for each swarm, in which each class has its own color and
// shape and the paths lead to the points. If h has steps, a last panel draws the mean similarities of the triplets
// over them. The paper has no such figure.
func Flow(h History, swarms ...Swarm) (*Figure, error) {
	if len(swarms) == 0 {
		return nil, fmt.Errorf("flow: no embeddings; want at least one swarm")
	}
	for _, s := range swarms {
		if err := s.check(); err != nil {
			return nil, err
		}
	}
	if len(h.Sap) != len(h.Steps) || len(h.San) != len(h.Steps) {
		return nil, fmt.Errorf("flow: %d steps, %d S_ap and %d S_an; want equally many", len(h.Steps), len(h.Sap), len(h.San))
	}
	what := "Embeddings on the unit %s, a color and shape for each class."
	photographs := slices.ContainsFunc(swarms, func(s Swarm) bool { return s.Images != nil })
	if photographs {
		what = "Images whose embeddings are on the unit %s, in frames with a color for each class."
	}
	alt := fmt.Sprintf(what, map[bool]string{true: "sphere", false: "circle"}[swarms[0].Dim == 3])
	widths, total := equal(len(swarms)), float64(len(swarms))
	var chart *plot.Plot
	if n := len(h.Steps); n > 0 {
		if err := allFinite("flow", h); err != nil {
			return nil, err
		}
		chart = h.plot()
		widths, total = append(widths, 1.15), total+1.15
		alt += fmt.Sprintf(" From step %d to %d the mean S_ap goes from %.2f to %.2f "+
			"and the mean S_an from %.2f to %.2f.", h.Steps[0], h.Steps[n-1], h.Sap[0], h.Sap[n-1], h.San[0], h.San[n-1])
	}
	side := min(190, (besideWidth.Points()-10)/total)
	return &Figure{
		Width: vg.Points(side*total + 10), Height: vg.Points(side + 22), Alt: alt, Photographs: photographs,
		panels: func(c draw.Canvas) {
			parts := columns(c, 10, widths...)
			for i, s := range swarms {
				s.draw(parts[i])
			}
			if chart != nil {
				drawPlot(chart, parts[len(parts)-1])
			}
		},
	}, nil
}

// Color and shape both change from class to class, so that 7 × 4 classes can be told apart.
var (
	flowColors = []color.NRGBA{Vermilion, Blue, Green, Orange, Purple, SkyBlue, Black}
	flowShapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}}
)

// classes numbers the labels in order of appearance.
func (s Swarm) classes() []int {
	var seen []int64
	out := make([]int, len(s.Labels))
	for i, l := range s.Labels {
		out[i], _ = seriesIndex(&seen, l)
	}
	return out
}

func (s Swarm) draw(c draw.Canvas) {
	heading(&c, s.Title, text.XCenter, 4)
	radius := min(c.Max.X-c.Min.X, c.Max.Y-c.Min.Y) / (2 * 1.06)
	middle := c.Center()
	at := func(points []float32, i int) (vg.Point, float64) {
		x, y, near := s.seen(points[i*s.Dim : (i+1)*s.Dim])
		return pt(middle.X+radius*vg.Length(x), middle.Y+radius*vg.Length(y)), near
	}
	ring(c, middle, radius, 0, 2*math.Pi, stroke(quiet, 0.8))
	if s.Dim == 3 { // The equator; its far side is dashed.
		for far, look := range []draw.LineStyle{stroke(faint, 0.8), stroke(faint, 0.6, 2, 2)} {
			var line []vg.Point
			for k := range 61 {
				sin, cos := math.Sincos(math.Pi * (float64(1-far) + float64(k)/60 - s.Turn/180))
				p, _ := at([]float32{float32(cos), float32(sin), 0}, 0)
				line = append(line, p)
			}
			c.StrokeLines(look, line)
		}
	}
	class := s.classes()
	near := func(i int) float64 { _, n := at(s.Points, i); return n }
	order := sorted(len(s.Labels), func(a, b int) int { return cmp.Compare(near(a), near(b)) }) // Far points first.
	for _, i := range order {
		color := flowColors[class[i]%len(flowColors)]
		trail := slices.Concat(s.Before, [][]float32{s.Points})
		for k := 1; k < len(trail); k++ {
			from, _ := at(trail[k-1], i)
			to, n := at(trail[k], i)
			fade := 0.15 + 0.45*float64(k)/float64(len(trail)) // Older parts of the path are fainter.
			if n < 0 {
				fade *= 0.5
			}
			c.StrokeLines(stroke(scale{paper, color}.at(fade), 0.9), []vg.Point{from, to})
		}
	}
	for _, i := range order {
		p, n := at(s.Points, i)
		if s.Images != nil {
			r := inset(vg.Rectangle{Min: p, Max: p}, -vg.Length(6+1.5*n)) // Those behind are smaller.
			c.DrawImage(r, thumb(s.Images[i]))
			outline(c, r, stroke(flowColors[class[i]%len(flowColors)], 0.9))
			continue
		}
		color, radius := flowColors[class[i]%len(flowColors)], vg.Points(3)
		if n < 0 {
			color, radius = scale{paper, color}.at(0.45), vg.Points(2.3)
		}
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: color, Radius: radius, Shape: ringed{flowShapes[class[i]%len(flowShapes)]}},
			p)
	}
}

func (h History) plot() *plot.Plot {
	p := newPlot("Triplets", "step", "mean similarity")
	last := float64(h.Steps[len(h.Steps)-1])
	p.X.Min, p.X.Max = float64(h.Steps[0]), max(last, float64(h.Steps[0])+1)
	p.Y.Min, p.Y.Max = 0, 1
	for _, v := range slices.Concat(h.Sap, h.San) {
		p.Y.Min = min(p.Y.Min, math.Floor(4*v)/4)
	}
	p.X.Tick.Marker = every(roundStep((p.X.Max-p.X.Min)/4), p.X.Min, p.X.Max)
	p.Y.Tick.Marker = every(0.25, p.Y.Min, p.Y.Max)
	p.Add(lightGrid())
	over := func(values []float64) plotter.XYs {
		return curve(len(h.Steps), func(i int) (x, y float64) { return float64(h.Steps[i]), values[i] })
	}
	addPath(p, "$S_{ap}$", over(h.Sap), stroke(Blue, 1.6))
	addPath(p, "$S_{an}$", over(h.San), stroke(Vermilion, 1.6, 5, 2))
	setLegend(p, false, true, 8, 8)
	return p
}
