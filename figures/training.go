package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
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
			if err := e.check(); err != nil {
				return nil, fmt.Errorf("training: %s has %w", c.Name, err)
			}
		}
	}
	groups, names := make([][][]TrainingEpoch, len(curves)), make([]courseName, len(curves))
	alt := "Training by epoch: share of violated triplets, mean similarities, length of the gradient."
	for i, c := range curves {
		groups[i] = [][]TrainingEpoch{c.Epochs}
		names[i] = courseName{c.Name, c.state(epochs), c.Failed == "" && !math.IsNaN(c.Recall)}
		alt += fmt.Sprintf(" %s: %s.", c.Name, c.state(epochs))
	}
	n := float64(epochs)
	violations := overEpochs("$S_{an} > S_{ap}$", "share of triplets, %", n, 4)
	violationScale(violations, courses(violations, false, course(groups, violated)))
	similarities := overEpochs("$S_{ap}$ (solid), $S_{an}$ (dashed)", "mean similarity", n, 4)
	low := min(courses(similarities, false, course(groups, sapOf)).low,
		courses(similarities, false, course(groups, sanOf), 4, 2).low)
	setAxis(&similarities.Y, min(0, math.Floor(4*low)/4), 1, 0.25)
	norms := overEpochs("Gradient of the network", "length", n, 4)
	lengthScale(norms, courses(norms, false, course(groups, logLength))) // Lengths differ by orders of magnitude.
	return &Figure{
		Width: besideWidth, Height: max(200, vg.Length(32*len(names)+40)), Alt: alt,
		panels: func(c draw.Canvas) {
			parts := columns(c, 10, 1, 1, 1, 0.95)
			for i, p := range []*plot.Plot{violations, similarities, norms} {
				drawPlot(p, parts[i])
			}
			heading(&parts[3], "Recall@1 of the test set", text.XLeft, 14)
			courseNames(parts[3], parts[3].Max.Y, names)
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
