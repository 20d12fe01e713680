package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// TrainingCurve is the course of a run's training, up to the last epoch so far.
type TrainingCurve struct {
	Name   string
	Epochs []TrainingEpoch
	// Recall is Recall@1 of the test set in percent; NaN until the run has ended.
	Recall float64
	// Failed is the reason why the run ended without a Recall; empty for none.
	Failed string
}

// TrainingEpoch is the state of the triplets and the gradient in one epoch.
type TrainingEpoch struct {
	Epoch         int     // From 1.
	ViolationRate float64 // The share of triplets with S_an > S_ap.
	Sap, San      float64 // Mean similarities.
	GradientNorm  float64 // Length of the gradient of all weights of the network.
}

// Training draws runs while they train, over the given number of epochs: the share of violated triplets in percent,
// their mean similarities, and the length of the gradient on a logarithmic scale. A list gives each run's Recall@1 or
// its progress. The paper has no such figure. Values must be finite.
func Training(epochs int, curves ...TrainingCurve) (*Figure, error) {
	if epochs < 1 || len(curves) == 0 {
		return nil, fmt.Errorf("training: %d curves over %d epochs; want at least one of each", len(curves), epochs)
	}
	for _, c := range curves {
		for _, e := range c.Epochs {
			if !e.finite() {
				return nil, fmt.Errorf("training: %s has a value in epoch %d that is not finite", c.Name, e.Epoch)
			}
			if e.ViolationRate < 0 || e.ViolationRate > 1 {
				return nil, fmt.Errorf("training: %s has violation rate %v in epoch %d; want a share, 0 to 1",
					c.Name, e.ViolationRate, e.Epoch)
			}
		}
	}
	violations := newPlot("$S_{an} > S_{ap}$", "epoch", "share of triplets, %")
	similarities := newPlot("$S_{ap}$ (solid), $S_{an}$ (dashed)", "epoch", "mean similarity")
	norms := newPlot("Gradient of the network", "epoch", "length")
	plots := []*plot.Plot{violations, similarities, norms}
	add := func(p *plot.Plot, of ...func(TrainingEpoch) float64) (low, high float64) {
		low, high = math.Inf(1), math.Inf(-1)
		overEpochs(p, float64(epochs), 4)
		for i, c := range curves {
			for k, of := range of {
				points := course(c.Epochs, of)
				low, high = reach(points, low, high)
				if len(points) > 0 {
					p.Add(path(points, stroke(trainingColor(i), 1.5, [][]vg.Length{nil, {4, 2}}[k]...)),
						&plotter.Scatter{XYs: points, GlyphStyle: trainingGlyph(i, 1.8)})
				}
			}
		}
		return low, high
	}
	_, high := add(violations, violated)
	violationScale(violations, high)
	low, _ := add(similarities, func(e TrainingEpoch) float64 { return e.Sap },
		func(e TrainingEpoch) float64 { return e.San })
	similarities.Y.Min, similarities.Y.Max = min(0, math.Floor(4*low)/4), 1
	similarities.Y.Tick.Marker = every(0.25, similarities.Y.Min, 1)
	low, high = add(norms, logLength) // The lengths of different rules differ by orders of magnitude.
	if low > high {
		low, high = -1, 0
	}
	norms.Y.Min, norms.Y.Max = math.Floor(low), math.Ceil(high)
	if norms.Y.Min == norms.Y.Max {
		norms.Y.Max++
	}
	norms.Y.Tick.Marker = powersOfTen(norms.Y.Min, norms.Y.Max)
	alt := "Training by epoch: share of violated triplets, mean similarities, length of the gradient."
	for _, c := range curves {
		alt += fmt.Sprintf(" %s: %s.", c.Name, c.state(epochs))
	}
	return &Figure{
		Width: vg.Points(720), Height: vg.Points(200), Alt: alt,
		panels: func(c draw.Canvas) {
			parts := columns(c, 10, 1, 1, 1, 0.95)
			for i, p := range plots {
				drawPlot(p, parts[i])
			}
			drawTrainingNames(parts[3], epochs, curves)
		},
	}, nil
}

// state returns a run's Recall@1, its failure or its progress.
func (c TrainingCurve) state(epochs int) string {
	switch {
	case c.Failed != "":
		return c.Failed
	case !math.IsNaN(c.Recall):
		return fmt.Sprintf("R@1 %.1f %%", c.Recall)
	case len(c.Epochs) == 0:
		return "waiting"
	}
	return fmt.Sprintf("epoch %d of %d", c.Epochs[len(c.Epochs)-1].Epoch, epochs)
}

func trainingColor(i int) color.NRGBA { return flowColors[i%len(flowColors)] }

func trainingGlyph(i int, radius vg.Length) draw.GlyphStyle {
	return draw.GlyphStyle{Color: trainingColor(i), Radius: radius, Shape: flowShapes[i%len(flowShapes)]}
}

// powersOfTen returns the ticks of an axis of base-10 logarithms.
func powersOfTen(low, high float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for v := low; v <= high; v++ {
		ticks = append(ticks, plot.Tick{Value: v, Label: number(math.Pow(10, v))})
	}
	return ticks
}

// drawTrainingNames draws the legend: the runs in their colors with their states.
func drawTrainingNames(c draw.Canvas, epochs int, curves []TrainingCurve) {
	head := aligned(bold(style(titleSize, ink)), text.XLeft, text.YTop)
	c.FillText(head, vg.Point{X: c.Min.X, Y: c.Max.Y + head.FontExtents().Descent}, "Recall@1 of the test set")
	y := c.Max.Y - head.Height("x") - 14
	for i, k := range curves {
		at := vg.Point{X: c.Min.X + 6, Y: y}
		courseKey(c, at, 6, i, trainingGlyph(i, 2.4))
		c.FillText(aligned(style(tickSize, ink), text.XLeft, text.YCenter), vg.Point{X: at.X + 11, Y: y}, k.Name)
		y -= 12
		name := aligned(bold(style(tickSize, trainingColor(i))), text.XLeft, text.YCenter)
		if k.Failed != "" || math.IsNaN(k.Recall) {
			name = aligned(style(tickSize, quiet), text.XLeft, text.YCenter)
		}
		c.FillText(name, vg.Point{X: at.X + 11, Y: y}, k.state(epochs))
		y -= 18
	}
}
