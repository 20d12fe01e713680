package figures

import (
	"math"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// finite reports whether all values are finite.
func (e TrainingEpoch) finite() bool { return finite(e.ViolationRate + e.Sap + e.San + e.GradientNorm) }

// violated returns the share of violated triplets in percent.
func violated(e TrainingEpoch) float64 { return 100 * e.ViolationRate }

// logLength returns the base-10 logarithm of the gradient's length. A batch without triplets has gradient zero.
func logLength(e TrainingEpoch) float64 { return math.Log10(max(e.GradientNorm, 1e-12)) }

// course returns a measure by epoch.
func course(epochs []TrainingEpoch, of func(TrainingEpoch) float64) plotter.XYs {
	out := make(plotter.XYs, len(epochs))
	for i, e := range epochs {
		out[i] = plotter.XY{X: float64(e.Epoch), Y: of(e)}
	}
	return out
}

// path returns a line through points, which are finite.
func path(points plotter.XYs, s draw.LineStyle) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: s}
}

// reach returns the range of values from low to high with those of the points.
func reach(points plotter.XYs, low, high float64) (float64, float64) {
	for _, v := range points {
		low, high = min(low, v.Y), max(high, v.Y)
	}
	return low, high
}

// overEpochs makes a plot's horizontal axis one of epochs, in about the given number of parts.
func overEpochs(p *plot.Plot, epochs, parts float64) {
	p.Add(lightGrid())
	p.X.Min, p.X.Max = 1, max(epochs, 2)
	p.X.Tick.Marker = every(max(1, roundStep(epochs/parts)), 1, epochs)
}

// courses draws groups of curves with points over the epochs: thin lines are single runs, and the thick line with marks
// is their mean over the runs that are as far, or with all over the epochs that all of them have. It returns the range
// of the values.
func courses(p *plot.Plot, epochs, parts float64, all bool, groups [][]plotter.XYs) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	overEpochs(p, epochs, parts)
	for i, g := range groups {
		for _, c := range g {
			if low, high = reach(c, low, high); len(g) > 1 { // A single run is its mean.
				p.Add(path(c, stroke(scale{paper, trainingColor(i)}.at(0.45), 0.7)))
			}
		}
	}
	for i, g := range groups {
		if mean := meanCourse(g, all); len(mean) > 0 {
			p.Add(path(mean, stroke(trainingColor(i), 1.5)), runMarks{mean, i})
		}
	}
	return low, high
}

// meanCourse returns the mean of curves.
func meanCourse(curves []plotter.XYs, all bool) (out plotter.XYs) {
	for k := 0; ; k++ {
		var at float64
		var values []float64
		for _, c := range curves {
			if k < len(c) {
				at, values = c[k].X, append(values, c[k].Y)
			}
		}
		if len(values) == 0 || all && len(values) < len(curves) {
			return out
		}
		out = append(out, plotter.XY{X: at, Y: stats.MeanOf(values).Mean})
	}
}

// violationScale sets the scale of the share of violated triplets, of which high is the highest.
func violationScale(p *plot.Plot, high float64) {
	p.Y.Min, p.Y.Max = 0, max(10, 10*math.Ceil(high/10))
	p.Y.Tick.Marker = every(roundStep(p.Y.Max/4), 0, p.Y.Max)
}

// courseKey draws the mark of a group in a legend.
func courseKey(c draw.Canvas, at vg.Point, half vg.Length, group int, glyph draw.GlyphStyle) {
	c.StrokeLine2(stroke(trainingColor(group), 1.5), at.X-half, at.Y, at.X+half, at.Y)
	c.DrawGlyphNoClip(glyph, at)
}
