package figures

import (
	"fmt"
	"image/color"
	"math"
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
	low, high, bottom, top := math.Inf(1), math.Inf(-1), 0.0, 0.0
	for _, side := range []WeightedPairs{positive, negative} {
		if len(side.S) != len(side.Weight) {
			return nil, fmt.Errorf("pair weights: %d similarities and %d weights; want as many", len(side.S), len(side.Weight))
		}
		for i, s := range side.S {
			if w := side.Weight[i]; !finite(s + w) {
				return nil, fmt.Errorf("pair weights: the weight at S = %g is %g; want finite numbers", s, w)
			}
			low, high = min(low, s), max(high, s)
		}
	}
	if high < low {
		return nil, fmt.Errorf("pair weights: no pairs; want at least one")
	}
	panels := []*plot.Plot{newPlot("positive pairs of "+of, "$S_{ap}$", "$T\\,P_+$"),
		newPlot("negative pairs of "+of, "$S_{an}$", "$T\\,P_-$")}
	for k, side := range []WeightedPairs{positive, negative} {
		look := []color.Color{SkyBlue, Vermilion}[k]
		if len(side.S) <= 400 {
			points := make(plotter.XYs, len(side.S))
			for i, s := range side.S {
				points[i] = plotter.XY{X: s, Y: side.Weight[i]}
				bottom, top = min(bottom, side.Weight[i]), max(top, side.Weight[i])
			}
			if len(points) == 0 {
				continue
			}
			panels[k].Add(scatter(points, look, 1.6, draw.CircleGlyph{}))
			continue
		}
		parts := make([][]float64, 40)
		width := max(high-low, 1e-9) / float64(len(parts))
		for i, s := range side.S {
			at := min(int((s-low)/width), len(parts)-1)
			parts[at] = append(parts[at], side.Weight[i])
		}
		var lines [3]plotter.XYs
		for i, weights := range parts {
			if len(weights) == 0 {
				continue
			}
			slices.Sort(weights)
			for j, q := range []float64{0.1, 0.5, 0.9} {
				y := stat.Quantile(q, stat.LinInterp, weights, nil)
				lines[j] = append(lines[j], plotter.XY{X: low + (float64(i)+0.5)*width, Y: y})
				bottom, top = min(bottom, y), max(top, y)
			}
		}
		for j, points := range lines {
			line := path(points, []draw.LineStyle{stroke(look, 0.8, 3, 3), stroke(look, 1.8), stroke(look, 0.8, 3, 3)}[j])
			panels[k].Add(line)
			switch j {
			case 0:
				panels[k].Legend.Add("10 % and 90 %", line)
			case 1:
				panels[k].Legend.Add("median", line)
			}
		}
	}
	if top == bottom { // All weights are zero.
		top = 1
	}
	if high == low {
		low, high = low-0.1, high+0.1
	}
	for _, p := range panels { // Both panels have one scale.
		span{low, high}.scaled(&p.X, 5)
		setAxis(&p.Y, bottom, top+0.3*(top-bottom), roundStep((top-bottom)/5)) // Room for the legend.
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
