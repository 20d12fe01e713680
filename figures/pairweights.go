package figures

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// WeightedPairs are the pairs of a batch: the similarity of each, and the weight that a gradient gives it.
type WeightedPairs struct{ S, Weight []float64 }

// PairWeights draws the weights of a batch's pairs over their similarity, those of its positive pairs on the left, of
// its negative pairs on the right: each pair as a point, or of more than 400 the median and the range from the 10 % to
// the 90 % quantile in 40 equal parts of the similarities. Values must be finite; a side may be empty, but not both.
func PairWeights(provenance string, of Markup, positive, negative WeightedPairs) (*Figure, error) {
	similarities, weights := spanOf(), spanOf(0)
	for _, side := range []WeightedPairs{positive, negative} {
		if len(side.S) != len(side.Weight) {
			return nil, fmt.Errorf("pair weights: %d similarities and %d weights; want as many", len(side.S), len(side.Weight))
		}
		if err := allFinite("pair weights", side); err != nil {
			return nil, err
		}
		similarities.add(side.S...)
	}
	if similarities.high < similarities.low {
		return nil, fmt.Errorf("pair weights: no pairs; want at least one")
	}
	panels := []*plot.Plot{newPlot("positive pairs of "+of, "$S_{ap}$", "$T\\,P_+$"),
		newPlot("negative pairs of "+of, "$S_{an}$", "$T\\,P_-$")}
	for k, side := range []WeightedPairs{positive, negative} {
		look := []color.Color{SkyBlue, Vermilion}[k]
		if len(side.S) <= 400 {
			points := curve(len(side.S), func(i int) (x, y float64) { return side.S[i], side.Weight[i] })
			weights.add(side.Weight...)
			panels[k].Add(scatter(points, look, 1.6, draw.CircleGlyph{}))
			continue
		}
		for j, points := range side.quantiles(similarities, 0.1, 0.5, 0.9) {
			for _, at := range points {
				weights.add(at.Y)
			}
			addPath(panels[k], []Markup{"10 % and 90 %", "median", ""}[j], points,
				[]draw.LineStyle{stroke(look, 0.8, 3, 3), stroke(look, 1.8), stroke(look, 0.8, 3, 3)}[j])
		}
	}
	if weights.high == weights.low { // All weights are zero.
		weights.high = 1
	}
	if similarities.high == similarities.low {
		similarities = span{similarities.low - 0.1, similarities.high + 0.1}
	}
	for _, p := range panels { // Both panels have one scale.
		height := weights.high - weights.low
		similarities.scaled(&p.X, 5)
		setAxis(&p.Y, weights.low, weights.high+0.3*height, roundStep(height/5)) // Room for the legend.
		p.Legend.Top = true
		p.Add(lightGrid())
	}
	return &Figure{
		Width: vg.Points(500), Height: vg.Points(220), Provenance: provenance,
		Alt: fmt.Sprintf("Weights of %s at the %d positive and %d negative pairs of a batch, over their similarity.",
			Plain(of), len(positive.S), len(negative.S)),
		panels: func(c draw.Canvas) { drawRow(c, panels, 14) },
	}, nil
}

// quantiles returns curves of quantiles of the weights in 40 equal parts of a range of similarities.
func (w WeightedPairs) quantiles(similarities span, of ...float64) []plotter.XYs {
	parts := make([][]float64, 40)
	width := max(similarities.high-similarities.low, 1e-9) / float64(len(parts))
	for i, s := range w.S {
		at := min(int((s-similarities.low)/width), len(parts)-1)
		parts[at] = append(parts[at], w.Weight[i])
	}
	lines := make([]plotter.XYs, len(of))
	for i, weights := range parts {
		slices.Sort(weights)
		for j, q := range of {
			if len(weights) > 0 {
				lines[j] = append(lines[j], plotter.XY{X: similarities.low + (float64(i)+0.5)*width,
					Y: stat.Quantile(q, stat.LinInterp, weights, nil)})
			}
		}
	}
	return lines
}
