package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ParameterLine is the Recall@1 in percent of what differs in one parameter alone, by its values, which ascend.
type ParameterLine struct {
	Name   Markup
	Values []float64
	Recall []stats.Mean
}

// OverParameter draws Recall@1 over the values of a parameter, named at the axis: means over seeds with their standard
// deviations, and a line's name at its right end. The axis is logarithmic if all values are positive. It takes finite
// values, at least two different ones in each line.
func OverParameter(provenance string, parameter Markup, lines ...ParameterLine) (*Figure, error) {
	values, recalls, longest := spanOf(), spanOf(), 0
	for _, l := range lines {
		for i, v := range l.Values {
			if math.IsInf(v, 0) || math.IsNaN(v) || len(l.Recall) != len(l.Values) || i > 0 && v <= l.Values[i-1] {
				return nil, fmt.Errorf("recall over %s: %s has the values %g with %d scores; want finite values that ascend, and "+
					"a score for each", Plain(parameter), Plain(l.Name), l.Values, len(l.Recall))
			}
			values.add(v)
			if !math.IsNaN(l.Recall[i].Mean) {
				recalls.addMean(l.Recall[i])
			}
		}
		if len(l.Values) < 2 {
			return nil, fmt.Errorf("recall over %s: %s has %d values; want at least two", Plain(parameter), Plain(l.Name),
				len(l.Values))
		}
		longest = max(longest, len(Plain(l.Name)))
	}
	if recalls.low > recalls.high {
		return nil, fmt.Errorf("recall over %s: there is none", Plain(parameter))
	}
	place := func(v float64) float64 { return v }
	if values.low > 0 {
		place = math.Log2
	}
	p := newPlot("", parameter, "Recall@1, %")
	recalls.padded(0.06, 0.5).scaled(&p.Y, 5)
	low, wide := place(values.low), place(values.high)-place(values.low)
	p.X.Min, p.X.Max = low-0.04*wide, low+1.04*wide
	var ticks plot.ConstantTicks
	var names lineNames
	var words []string
	for i, l := range lines {
		drawn := track{look: look{color: trainingColor(i), shape: flowShapes[i%len(flowShapes)]}, bar: 0.8, width: 1.2,
			radius: 2.8}
		for j, v := range l.Values {
			near := false
			for _, t := range ticks {
				near = near || math.Abs(t.Value-place(v)) < 0.08*wide
			}
			if !near {
				ticks = append(ticks, plot.Tick{Value: place(v), Label: number(v)})
			}
			drawn.points = append(drawn.points, meanPoint(place(v), l.Recall[j]))
			words = append(words, fmt.Sprintf("%s at %s: %s", Plain(l.Name), number(v), l.Recall[j]))
		}
		p.Add(drawn)
		for _, at := range slices.Backward(drawn.points) {
			if !math.IsNaN(at.Value) {
				names = append(names, lineName{at.Value, l.Name, drawn.look.color})
				break
			}
		}
	}
	p.Add(names)
	p.X.Tick.Marker = ticks
	room := vg.Points(5*float64(longest) + 6)
	return &Figure{
		Width: vg.Points(330) + room, Height: vg.Points(230), Provenance: provenance,
		Alt: fmt.Sprintf("Recall@1 over %s. %s.", Plain(parameter), strings.Join(words, "; ")),
		panels: func(c draw.Canvas) {
			c.Max.X -= room
			drawPlot(p, c)
		},
	}, nil
}
