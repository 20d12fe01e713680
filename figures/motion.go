package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"math"

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
