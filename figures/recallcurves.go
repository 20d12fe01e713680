package figures

import (
	"fmt"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// RecallGroup is trainings that differ only in their seed.
type RecallGroup struct {
	Name Markup
	// Curves are Recall@1 of the test set in percent after each epoch, for each seed; a training may not be as far as
	// the others.
	Curves [][]float64
	Recall stats.Mean // Of the seeds that have finished, in percent.
}

// RecallCurves draws Recall@1 as it grows over the given number of epochs: thin lines are seeds, and the thick line
// with marks is their mean. A dashed line is at the given reference, whose name the legend has, unless it is NaN.
// The paper has no such figure. It takes at most seven groups, which have distinct colors, and finite values.
func RecallCurves(epochs int, reference float64, name Markup, groups ...RecallGroup) (*Figure, error) {
	if epochs < 1 || len(groups) == 0 || len(groups) > len(flowColors) {
		return nil, fmt.Errorf("recall curves: %d groups over %d epochs; want 1 to %d groups over at least 1", len(groups),
			epochs, len(flowColors))
	}
	p := overEpochs("Recall@1 of the test set", "%", float64(epochs), 5)
	curves := make([][]plotter.XYs, len(groups))
	for i, g := range groups {
		if err := allFinite("recall curves of "+Plain(g.Name), g.Curves); err != nil {
			return nil, err
		}
		for _, c := range g.Curves {
			if len(c) > 0 {
				curves[i] = append(curves[i], curve(len(c), func(k int) (x, y float64) { return float64(k + 1), c[k] }))
			}
		}
	}
	values := courses(p, false, curves)
	if !math.IsNaN(reference) {
		values.add(reference)
		p.Add(path(plotter.XYs{{X: p.X.Min, Y: reference}, {X: p.X.Max, Y: reference}}, stroke(quiet, 0.8, 4, 3)))
	}
	if values.low > values.high { // Nothing was measured yet.
		values = span{0, 100}
	}
	values = span{max(0, 5*math.Floor(values.low/5)), min(100, 5*math.Ceil(values.high/5))}
	if values.low == values.high {
		values = span{max(0, values.low-5), min(100, values.high+5)}
	}
	values.scaled(&p.Y, 5)
	alt := "Recall@1 of the test set by epoch."
	names := make([]courseName, len(groups))
	for i, g := range groups {
		names[i] = courseName{g.Name, g.state(epochs), g.Recall.N > 0}
		alt += fmt.Sprintf(" %s: %s.", Plain(g.Name), names[i].state)
	}
	if !math.IsNaN(reference) {
		alt += fmt.Sprintf(" %s: %.1f %%.", Plain(name), reference)
	}
	return &Figure{
		Width: vg.Points(600), Height: max(210, vg.Length(32*len(names)+50)), Alt: alt,
		panels: func(c draw.Canvas) {
			parts := columns(c, 14, 1.7, 1)
			drawPlot(p, parts[0])
			c = parts[1]
			y := courseNames(c, c.Max.Y-16, names)
			if !math.IsNaN(reference) {
				c.StrokeLine2(stroke(quiet, 0.8, 4, 3), c.Min.X, y, c.Min.X+18, y)
				s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
				write(c, s, c.Min.X+23, y, fitted(s, name, c.Max.X-c.Min.X-24))
				s.Color = quiet
				write(c, s, c.Min.X+23, y-12, fmt.Sprintf("%.1f %%", reference))
			}
		},
	}, nil
}

// state returns the group's recall once a seed has finished, else how far it is.
func (g RecallGroup) state(epochs int) string {
	epoch, last := 0, []float64(nil)
	for _, c := range g.Curves {
		epoch = max(epoch, len(c))
	}
	for _, c := range g.Curves {
		if len(c) == epoch && epoch > 0 {
			last = append(last, c[epoch-1])
		}
	}
	switch {
	case g.Recall.N > 1 || g.Recall.Diverged > 0:
		return fmt.Sprintf("%s %%, %d seeds", g.Recall, g.Recall.N+g.Recall.Diverged)
	case g.Recall.N == 1:
		return fmt.Sprintf("%s %%, one seed", g.Recall)
	case epoch == 0:
		return "waiting"
	}
	return fmt.Sprintf("%s %%, epoch %d of %d", stats.MeanOf(last), epoch, epochs)
}
