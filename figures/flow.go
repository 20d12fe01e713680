package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TripletMotion is a triplet on the unit circle with its composed gradient: where its members are and what a rule asks
// of them.
type TripletMotion struct {
	Title Markup
	// Anchor, Positive and Negative are the embeddings, of length 1.
	Anchor, Positive, Negative [2]float64
	// The gradients at them. A gradient is descended: members move against it.
	AnchorGradient, PositiveGradient, NegativeGradient [2]float64
}

// motionLength is how long the arrow of a gradient of length 1 is drawn, in radii, and motionLongest the longest arrow.
const motionLength, motionLongest = 0.9, 1.1

// Motion draws how a rule moves the members of a triplet on the unit circle: against the gradient, and, as the
// embeddings are normalised, by its part along the circle alone.
func Motion(m TripletMotion) (*Figure, error) {
	members := []motionMember{
		{`$\mathbf{f}_a$`, "anchor", ink, m.Anchor, m.AnchorGradient},
		{`$\mathbf{f}_p$`, "positive", Blue, m.Positive, m.PositiveGradient},
		{`$\mathbf{f}_n$`, "negative", Vermilion, m.Negative, m.NegativeGradient},
	}
	for _, k := range members {
		if length := math.Hypot(k.at[0], k.at[1]); !(math.Abs(length-1) < 1e-3) {
			return nil, fmt.Errorf("motion: the %s has the length %.3g; embeddings have the length 1", k.role, length)
		}
		if length := math.Hypot(k.gradient[0], k.gradient[1]); math.IsNaN(length) || math.IsInf(length, 0) {
			return nil, fmt.Errorf("motion: the gradient at the %s is %v, not finite", k.role, k.gradient)
		}
	}
	return &Figure{
		Width: vg.Points(250), Height: vg.Points(258),
		Alt: fmt.Sprintf("A triplet on the unit circle and how %s moves it, as arrows: anchor by %.2f, positive by %.2f, negative by %.2f; "+
			"green, the parts along the circle, which are what the normalisation leaves: %.2f, %.2f and %.2f.", Plain(m.Title),
			members[0].length(), members[1].length(), members[2].length(), members[0].along(), members[1].along(), members[2].along()),
		panels: func(c draw.Canvas) { drawMotion(c, m.Title, members) },
	}, nil
}

type motionMember struct {
	name         Markup
	role         string
	colour       color.NRGBA
	at, gradient [2]float64
}

func (k motionMember) length() float64 { return math.Hypot(k.gradient[0], k.gradient[1]) }

// along is the length of the gradient's part along the circle.
func (k motionMember) along() float64 {
	return math.Abs(k.at[0]*k.gradient[1] - k.at[1]*k.gradient[0])
}

func drawMotion(c draw.Canvas, title Markup, members []motionMember) {
	head := aligned(bold(style(titleSize, ink)), text.XCenter, text.YTop)
	c.FillText(head, vg.Point{X: c.Center().X, Y: c.Max.Y + head.FontExtents().Descent}, title)
	c.Max.Y -= head.Height("x") + 4
	note := aligned(style(noteSize, quiet), text.XCenter, text.YBottom)
	for _, line := range []Markup{
		fmt.Sprintf(`lengths: $\mathbf{f}_a$ %.3f, $\mathbf{f}_p$ %.3f, $\mathbf{f}_n$ %.3f`, members[0].length(), members[1].length(), members[2].length()),
		"arrows: against the gradient; green: its part along the circle",
	} {
		c.FillText(note, vg.Point{X: c.Center().X, Y: c.Min.Y}, line)
		c.Min.Y += noteSize + 3
	}
	const box = 1.55 // Half the side of what is drawn, in radii.
	radius := min(c.Max.X-c.Min.X, c.Max.Y-c.Min.Y) / (2 * box)
	origin := c.Center()
	at := func(x, y float64) vg.Point {
		return vg.Point{X: origin.X + radius*vg.Length(x), Y: origin.Y + radius*vg.Length(y)}
	}
	var circle vg.Path
	circle.Move(at(1, 0))
	circle.Arc(origin, radius, 0, 2*math.Pi)
	circle.Close()
	c.SetLineStyle(stroke(quiet, 0.8))
	c.Stroke(circle)
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
		arrow(c, at(x, y), at(x+dx, y+dy), stroke(k.colour, 1.8))
	}
	for _, k := range members {
		x, y := k.at[0], k.at[1]
		disc(c, at(x, y), k.colour)
		c.FillText(aligned(style(labelSize, k.colour), text.XCenter, text.YCenter), at(0.84*x, 0.84*y), k.name)
	}
	disc(c, origin, quiet)
}
