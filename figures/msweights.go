package figures

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// WeightCurve is a relative pair weight over the similarity S of its pair. All other pairs of the anchor are less
// similar by Delta.
type WeightCurve struct {
	Pair               string // The name in a rule: sig-ms or lin-ms.
	Delta              float64
	S                  []float64 // S_ap for Positive, S_an for Negative.
	Positive, Negative []float64 // P₊ and P₋ at S.
}

// seriesDashes are the dashes of the first, second and third value of a parameter.
var seriesDashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}}

// MSWeights draws the appendix's figure of the relative pair weights: P₊ over S_ap on the left, P₋ over S_an on
// the right. Color is the weight, dashes are ΔS. All slices of a curve have the same length and finite values; at
// most three ΔS can be drawn.
func MSWeights(curves ...WeightCurve) (*Figure, error) {
	if len(curves) == 0 {
		return nil, fmt.Errorf("relative weights: no curves; want at least one")
	}
	if err := allFinite("relative weights", curves); err != nil {
		return nil, err
	}
	panels := []*plot.Plot{newPlot("positive pair", "$S_{ap}$", "$P_+$"), newPlot("negative pair", "$S_{an}$", "$P_-$")}
	var deltas []float64
	similarities, top := spanOf(), 0.0
	for _, k := range curves {
		if len(k.S) < 2 || len(k.Positive) != len(k.S) || len(k.Negative) != len(k.S) {
			return nil, fmt.Errorf("relative weights: %s at ΔS = %g has %d similarities, %d P₊ and %d P₋; "+
				"want two or more, as many of each", k.Pair, k.Delta, len(k.S), len(k.Positive), len(k.Negative))
		}
		dash, fresh := seriesIndex(&deltas, k.Delta)
		if fresh && dash >= len(seriesDashes) {
			return nil, fmt.Errorf("relative weights: more than %d ΔS; their dashes would repeat", len(seriesDashes))
		}
		name := fmt.Sprintf("$P^{%s}$, $\\Delta S$ = %s", k.Pair, number(k.Delta))
		for j, weights := range [][]float64{k.Positive, k.Negative} {
			line := curve(len(k.S), func(i int) (x, y float64) { return k.S[i], weights[i] })
			similarities.add(k.S...)
			top = max(top, slices.Max(weights))
			addPath(panels[j], []Markup{"", name}[j], line, stroke(pairLook(k.Pair).color, 1.6, seriesDashes[dash]...))
		}
	}
	for _, p := range panels { // Both have one scale.
		similarities.scaled(&p.X, 5)
		setAxis(&p.Y, 0, 1.05*top, roundStep(top/6))
		p.Add(lightGrid())
	}
	setLegend(panels[1], true, true, 6, -4)
	return &Figure{
		Width: vg.Points(500), Height: vg.Points(210),
		Alt: "Appendix. Pair weights relative to the anchor's other pairs, over the similarity of the pair itself. " +
			"With ΔS = 0.1 the weight of a near negative is more than 2.5 times that with ΔS = 0 under sig-ms " +
			"and 1.1 times that under lin-ms; the weight of a positive falls a little under both.",
		panels: func(c draw.Canvas) { drawRow(c, panels, 14) },
	}, nil
}

// seriesIndex returns the index of a value in a list and appends the value if the list lacks it.
func seriesIndex[T comparable](list *[]T, value T) (at int, fresh bool) {
	if at = slices.Index(*list, value); at >= 0 {
		return at, false
	}
	*list = append(*list, value)
	return len(*list) - 1, true
}
