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

// logLength returns the base-10 logarithm of the gradient's length. A batch without triplets has gradient zero.
func logLength(e TrainingEpoch) float64 { return math.Log10(max(e.GradientNorm, 1e-12)) }

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
// the runs that are as far, or with all over the epochs that all of them have. It returns the range of the values.
func courses(p *plot.Plot, all bool, groups [][]plotter.XYs, dashes ...vg.Length) span {
	values := spanOf()
	for i, g := range groups {
		for _, c := range g {
			for _, v := range c {
				values.add(v.Y)
			}
			if len(g) > 1 { // A single run is its mean.
				p.Add(path(c, stroke(scale{paper, trainingColor(i)}.at(0.45), 0.7, dashes...)))
			}
		}
	}
	for i, g := range groups {
		if mean := meanCourse(g, all); len(mean) > 0 {
			p.Add(path(mean, stroke(trainingColor(i), 1.5, dashes...)),
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

// lengthScale sets the scale of base-10 logarithms of lengths.
func lengthScale(p *plot.Plot, lengths span) {
	if lengths.low > lengths.high {
		lengths = span{-1, 0}
	}
	p.Y.Min, p.Y.Max = math.Floor(lengths.low), math.Ceil(lengths.high)
	if lengths.high-lengths.low < 0.5 { // Too narrow for whole powers of ten.
		p.Y.Min, p.Y.Max = lengths.low-0.1, lengths.high+0.1
	}
	p.Y.Tick.Marker = runPowers(p.Y.Min, p.Y.Max)
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
