package figures

import (
	"fmt"
	"image"
	"math"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// PicturedTriplet is a triplet with its pictures and similarities.
type PicturedTriplet struct {
	Anchor, Positive, Negative image.Image
	Class, NegativeClass       string // The class of anchor and positive, and that of the negative.
	Sap, San                   float64
}

// HardTriplets draws triplets as pictures in the order given: anchor, nearest positive, nearest negative, with the
// similarities of their pairs. The larger similarity is bold. The paper has no such figure. Similarities must lie in
// [−1, 1].
func HardTriplets(provenance string, triplets ...PicturedTriplet) (*Pictures, error) {
	if len(triplets) == 0 {
		return nil, fmt.Errorf("triplets: no triplets; want at least one")
	}
	least, most := math.Inf(1), math.Inf(-1)
	for i, t := range triplets {
		if t.Anchor == nil || t.Positive == nil || t.Negative == nil {
			return nil, fmt.Errorf("triplets: triplet %d lacks a picture; want three", i+1)
		}
		if !(math.Abs(t.Sap) <= 1.001 && math.Abs(t.San) <= 1.001) {
			return nil, fmt.Errorf("triplets: triplet %d has S_ap = %v, S_an = %v; want similarities in [-1, 1]",
				i+1, t.Sap, t.San)
		}
		least, most = min(least, t.San-t.Sap), max(most, t.San-t.Sap)
	}
	const gap, block = vg.Length(8), 3*sheetSide + 2*8
	columns := min(4, len(triplets))
	lines := (len(triplets) + columns - 1) / columns
	f := &Figure{
		Width:  2*margin + vg.Length(columns)*block + vg.Length(columns-1)*24,
		Height: 2*margin + 14 + vg.Length(lines)*(sheetRow+8),
		Alt: fmt.Sprintf("%d triplets as pictures: anchor, nearest positive, nearest negative. "+
			"S_an − S_ap is %.3f to %.3f; where it is above 0 the negative is nearer.",
			len(triplets), least, most),
		Provenance: provenance,
	}
	if provenance != "" {
		f.Height += noteSize + 6
	}
	f.panels = func(c draw.Canvas) {
		head := aligned(bold(style(tickSize, ink)), text.XLeft, text.YTop)
		yes, no := true, false
		for i, t := range triplets {
			x := c.Min.X + vg.Length(i%columns)*(block+24)
			y := c.Max.Y - 14 - vg.Length(i/columns)*(sheetRow+8) - sheetSide
			number := func(label string, of, other float64, at vg.Point, class string) {
				s := aligned(style(noteSize, ink), text.XLeft, text.YTop)
				if of > other {
					s = bold(s)
				}
				c.FillText(s, vg.Point{X: at.X, Y: at.Y - 2}, fmt.Sprintf("$%s$ = %.3f", label, of))
				if class != "" {
					s = aligned(style(noteSize, Vermilion), text.XLeft, text.YTop)
					c.FillText(s, vg.Point{X: at.X, Y: at.Y - 2.5 - noteSize}, fitted(s, class, sheetSide))
				}
			}
			for k, part := range []struct {
				name    string
				picture image.Image
				right   *bool
			}{{"anchor", t.Anchor, nil}, {"positive", t.Positive, &yes}, {"negative", t.Negative, &no}} {
				at := vg.Point{X: x + vg.Length(k)*(sheetSide+gap), Y: y}
				if i < columns {
					c.FillText(head, vg.Point{X: at.X, Y: c.Max.Y}, part.name)
				}
				drawThumb(c, part.picture, at, part.right)
				switch k {
				case 0:
					sheetText(c, at, t.Class, ink)
				case 1:
					number("S_{ap}", t.Sap, t.San, at, "")
				case 2:
					number("S_{an}", t.San, t.Sap, at, t.NegativeClass)
				}
			}
		}
	}
	p, yes, no := &Pictures{Figure: f}, true, false
	for _, t := range triplets {
		p.rows = append(p.rows, []pictured{
			{t.Anchor, "anchor, " + t.Class, nil, []string{"anchor", t.Class}},
			{t.Positive, "positive", &yes, []string{"positive", fmt.Sprintf("$S_{ap}$ %.3f", t.Sap)}},
			{t.Negative, "negative, " + t.NegativeClass, &no, []string{"negative", fmt.Sprintf("$S_{an}$ %.3f", t.San),
				t.NegativeClass}},
		})
	}
	return p, nil
}
