package figures

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// WeightCurve is a pair weight over the similarity of the pair, with the anchor's other pairs all less similar by Delta.
type WeightCurve struct {
	Pair               string // As in a rule's name: sig-ms, lin-ms.
	Delta              float64
	S                  []float64 // S_ap of Positive and S_an of Negative.
	Positive, Negative []float64 // P₊ and P₋ at S.
}

// seriesDashes tell at which value of a parameter a curve is.
var seriesDashes = [][]vg.Length{nil, {5, 2}, {1.5, 1.5}}

// MSWeights is the appendix's figure of the relative pair weights: P₊ over S_ap and P₋ over S_an. A color is a weight, a
// dash a ΔS.
func MSWeights(curves ...WeightCurve) (*Figure, error) {
	if len(curves) == 0 {
		return nil, fmt.Errorf("relative weights: no curve")
	}
	positive := newPlot("positive pair", "$S_{ap}$", "$P_+$")
	negative := newPlot("negative pair", "$S_{an}$", "$P_-$")
	var deltas []float64
	low, high, top := math.Inf(1), math.Inf(-1), 0.0
	for _, k := range curves {
		if len(k.S) < 2 || len(k.Positive) != len(k.S) || len(k.Negative) != len(k.S) {
			return nil, fmt.Errorf("relative weights: %s at ΔS = %g has %d similarities, %d P₊ and %d P₋", k.Pair, k.Delta,
				len(k.S), len(k.Positive), len(k.Negative))
		}
		dash, fresh := seriesIndex(&deltas, k.Delta)
		if fresh && dash >= len(seriesDashes) {
			return nil, fmt.Errorf("relative weights: more than %d ΔS", len(seriesDashes))
		}
		for _, side := range []struct {
			plot   *plot.Plot
			values []float64
		}{{positive, k.Positive}, {negative, k.Negative}} {
			line := make(plotter.XYs, len(k.S))
			for i, s := range k.S {
				if v := side.values[i]; math.IsNaN(s+v) || math.IsInf(s+v, 0) {
					return nil, fmt.Errorf("relative weights: %s at S = %g is %g", k.Pair, s, v)
				}
				line[i] = plotter.XY{X: s, Y: side.values[i]}
				low, high, top = min(low, s), max(high, s), max(top, side.values[i])
			}
			l, err := plotter.NewLine(line)
			if err != nil {
				return nil, err
			}
			l.LineStyle = stroke(pairLook(k.Pair).colour, 1.6, seriesDashes[dash]...)
			side.plot.Add(l)
			if side.plot == negative {
				side.plot.Legend.Add(fmt.Sprintf("$P^{%s}$, $\\Delta S$ = %s", k.Pair, number(k.Delta)), l)
			}
		}
	}
	for _, p := range []*plot.Plot{positive, negative} { // One scale: a weight is a weight.
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low, high, 0, 1.05*top
		p.X.Tick.Marker, p.Y.Tick.Marker = every(roundStep((high-low)/5), low, high), every(roundStep(top/6), 0, 1.05*top)
		p.Add(lightGrid())
	}
	negative.Legend.Top, negative.Legend.Left = true, true
	negative.Legend.XOffs, negative.Legend.YOffs = vg.Points(6), vg.Points(-4)
	return &Figure{
		Width: vg.Points(500), Height: vg.Points(210),
		Alt: "Appendix. Pair weights relative to the anchor's other pairs, over the similarity of the pair itself: with ΔS = 0.1 the weight of a near negative rises " +
			"to over two and a half times that with ΔS = 0 under sig-ms, and by a tenth under lin-ms; the weight of a positive falls a little under both.",
		panels: func(c draw.Canvas) {
			parts := columns(c, 14, 1, 1)
			drawPlot(positive, parts[0])
			drawPlot(negative, parts[1])
		},
	}, nil
}

// seriesIndex finds a value in a list, and adds it at the end if it is not there.
func seriesIndex[T comparable](list *[]T, value T) (at int, fresh bool) {
	if at = slices.Index(*list, value); at >= 0 {
		return at, false
	}
	*list = append(*list, value)
	return len(*list) - 1, true
}
