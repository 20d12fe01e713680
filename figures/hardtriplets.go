package figures

import (
	"fmt"
	"image"
	"math"

	"gonum.org/v1/plot/vg"
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
	p := &Pictures{heads: []Markup{"anchor", "positive", "negative"}, Figure: &Figure{
		Alt: fmt.Sprintf("%d triplets as pictures: anchor, nearest positive, nearest negative. "+
			"S_an − S_ap is %.3f to %.3f; where it is above 0 the negative is nearer.", len(triplets), least, most),
		Provenance: provenance,
	}}
	for _, t := range triplets {
		p.rows = append(p.rows, []pictured{
			{t.Anchor, "anchor, " + t.Class, nil, []string{t.Class}, false},
			{t.Positive, "positive", &yes, []string{fmt.Sprintf("$S_{ap}$ = %.3f", t.Sap)}, t.Sap > t.San},
			{t.Negative, "negative, " + t.NegativeClass, &no, []string{fmt.Sprintf("$S_{an}$ = %.3f", t.San),
				t.NegativeClass}, t.San > t.Sap},
		})
	}
	const gap = vg.Length(8)
	return p.plan(sheetPlan{columns: min(4, len(triplets)), between: 24, head: 14, headSize: tickSize, under: 8,
		afterFirst: gap, gap: gap}), nil
}
