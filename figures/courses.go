package figures

import (
	"fmt"
	"image/color"
	"math"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TrainingEpoch is the state of the triplets and the gradient in one epoch.
type TrainingEpoch struct {
	Epoch         int     // From 1.
	ViolationRate float64 // The share of triplets with S_an > S_ap.
	Sap, San      float64 // Mean similarities.
	GradientNorm  float64 // Length of the gradient of all weights of the network.
}

// check returns an error that says what an epoch has that cannot be.
func (e TrainingEpoch) check() error {
	if !finite(e.ViolationRate+e.Sap+e.San+e.GradientNorm) || e.GradientNorm < 0 {
		return fmt.Errorf("a value in epoch %d that is not finite, or a negative length", e.Epoch)
	}
	if e.ViolationRate < 0 || e.ViolationRate > 1 {
		return fmt.Errorf("violation rate %v in epoch %d; want a share, 0 to 1", e.ViolationRate, e.Epoch)
	}
	return nil
}

// violated returns the share of violated triplets in percent.
func violated(e TrainingEpoch) float64 { return 100 * e.ViolationRate }

// length returns the gradient's length. That of a batch without triplets, which is 0, has no logarithm.
func length(e TrainingEpoch) float64 { return max(e.GradientNorm, 1e-12) }

// meanCourse returns the mean of curves over the epochs that all of them have.
func meanCourse(curves []plotter.XYs) (out plotter.XYs) {
	for k := 0; len(curves) > 0; k++ {
		var values []float64
		for _, c := range curves {
			if k == len(c) {
				return out
			}
			values = append(values, c[k].Y)
		}
		out = append(out, plotter.XY{X: curves[0][k].X, Y: stats.MeanOf(values).Mean})
	}
	return out
}

// sapOf and sanOf return the mean similarities of an epoch.
func sapOf(e TrainingEpoch) float64 { return e.Sap }
func sanOf(e TrainingEpoch) float64 { return e.San }

// course returns a measure by epoch of the runs of each group that have epochs.
func course(groups [][][]TrainingEpoch, of func(TrainingEpoch) float64) [][]plotter.XYs {
	out := make([][]plotter.XYs, len(groups))
	for i, g := range groups {
		for _, epochs := range g {
			if len(epochs) > 0 {
				out[i] = append(out[i], curve(len(epochs), func(k int) (x, y float64) {
					return float64(epochs[k].Epoch), of(epochs[k])
				}))
			}
		}
	}
	return out
}

// overEpochs returns a plot over the epochs, in about the given number of parts.
func overEpochs(title, y Markup, epochs, parts float64) *plot.Plot {
	p := newPlot(title, "epoch", y)
	p.Add(lightGrid())
	p.X.Min, p.X.Max = 1, max(epochs, 2)
	p.X.Tick.Marker = every(max(1, roundStep(epochs/parts)), 1, epochs)
	return p
}

// courses adds groups of curves to a plot: thin lines are single runs, and the thick line with marks is their mean over
// the epochs that all of them have. It returns the range of the values.
func courses(p *plot.Plot, groups [][]plotter.XYs) span {
	values := spanOf()
	for i, g := range groups {
		for _, c := range g {
			for _, v := range c {
				values.add(v.Y)
			}
			if len(g) > 1 { // A single run is its mean.
				p.Add(path(c, stroke(scale{paper, trainingColor(i)}.at(0.45), 0.7)))
			}
		}
	}
	for i, g := range groups {
		if mean := meanCourse(g); len(mean) > 0 {
			p.Add(path(mean, stroke(trainingColor(i), 1.5)),
				painter(func(c draw.Canvas, _ *plot.Plot, x, y place) { // At most twelve marks.
					for k := len(mean) - 1; k >= 0; k -= (len(mean) + 11) / 12 {
						c.DrawGlyphNoClip(runGlyph(i, 2), pt(x(mean[k].X), y(mean[k].Y)))
					}
				}))
		}
	}
	return values
}

// violationScale sets the scale of the share of violated triplets.
func violationScale(p *plot.Plot, shares span) {
	span{0, max(10, 10*math.Ceil(shares.high/10))}.scaled(&p.Y, 4)
}

// lengthScale sets a logarithmic scale of whole powers of ten.
func lengthScale(p *plot.Plot, lengths span) {
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, normDecades{}
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(lengths.low)))
	p.Y.Max = math.Pow(10, math.Floor(math.Log10(lengths.high))+1)
}

// courseKey draws the mark of a group in a legend with its name.
func courseKey(c draw.Canvas, x, y vg.Length, group int, name Markup, room vg.Length) {
	c.StrokeLine2(stroke(trainingColor(group), 1.5), x-9, y, x+9, y)
	c.DrawGlyphNoClip(runGlyph(group, 2.4), pt(x, y))
	s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	write(c, s, x+14, y, fitted(s, name, room))
}

// Color and shape both change from one training to the next.
var (
	seriesColors = []color.NRGBA{Vermilion, Blue, Green, Orange, Purple, SkyBlue, Black}
	seriesShapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}}
)

func trainingColor(i int) color.NRGBA { return seriesColors[i%len(seriesColors)] }
