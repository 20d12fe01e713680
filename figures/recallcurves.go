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
	p := newPlot("Recall@1 of the test set", "epoch", "%")
	curves := make([][]plotter.XYs, len(groups))
	for i, g := range groups {
		for _, c := range g.Curves {
			points := make(plotter.XYs, len(c))
			for k, v := range c {
				if !finite(v) {
					return nil, fmt.Errorf("recall curves: %s is %v after epoch %d; want finite values", Plain(g.Name), v, k+1)
				}
				points[k] = plotter.XY{X: float64(k + 1), Y: v}
			}
			if len(points) > 0 {
				curves[i] = append(curves[i], points)
			}
		}
	}
	low, high := courses(p, float64(epochs), 5, false, curves)
	if !math.IsNaN(reference) {
		low, high = min(low, reference), max(high, reference)
		p.Add(path(plotter.XYs{{X: p.X.Min, Y: reference}, {X: p.X.Max, Y: reference}}, stroke(quiet, 0.8, 4, 3)))
	}
	if low > high { // Nothing was measured yet.
		low, high = 0, 100
	}
	p.Y.Min, p.Y.Max = max(0, 5*math.Floor(low/5)), min(100, 5*math.Ceil(high/5))
	if p.Y.Min == p.Y.Max {
		p.Y.Min, p.Y.Max = max(0, p.Y.Min-5), min(100, p.Y.Max+5)
	}
	p.Y.Tick.Marker = every(roundStep((p.Y.Max-p.Y.Min)/5), p.Y.Min, p.Y.Max)
	alt := "Recall@1 of the test set by epoch."
	for _, g := range groups {
		alt += fmt.Sprintf(" %s: %s.", Plain(g.Name), g.state(epochs))
	}
	if !math.IsNaN(reference) {
		alt += fmt.Sprintf(" %s: %.1f %%.", Plain(name), reference)
	}
	return &Figure{
		Width: vg.Points(600), Height: vg.Points(210), Alt: alt,
		panels: func(c draw.Canvas) {
			parts := columns(c, 14, 1.7, 1)
			drawPlot(p, parts[0])
			drawRecallNames(parts[1], epochs, reference, name, groups)
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

// drawRecallNames draws the legend: the groups in their colors with their states, and the reference.
func drawRecallNames(c draw.Canvas, epochs int, reference float64, name Markup, groups []RecallGroup) {
	y := c.Max.Y - 16
	plain := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	room := c.Max.X - c.Min.X - 24
	for i, g := range groups {
		x := c.Min.X + 9
		courseKey(c, vg.Point{X: x, Y: y}, 9, i, runGlyph(i, 2.4))
		c.FillText(plain, vg.Point{X: x + 14, Y: y}, fitted(plain, g.Name, room))
		y -= 12
		state := aligned(style(tickSize, quiet), text.XLeft, text.YCenter)
		if g.Recall.N > 0 {
			state = aligned(bold(style(tickSize, trainingColor(i))), text.XLeft, text.YCenter)
		}
		c.FillText(state, vg.Point{X: x + 14, Y: y}, g.state(epochs))
		y -= 20
	}
	if !math.IsNaN(reference) {
		c.StrokeLine2(stroke(quiet, 0.8, 4, 3), c.Min.X, y, c.Min.X+18, y)
		c.FillText(plain, vg.Point{X: c.Min.X + 23, Y: y}, fitted(plain, name, room))
		c.FillText(aligned(style(tickSize, quiet), text.XLeft, text.YCenter), vg.Point{X: c.Min.X + 23, Y: y - 12},
			fmt.Sprintf("%.1f %%", reference))
	}
}
