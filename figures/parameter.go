package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
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
	longest, words := 0, []string{}
	fail := func(format string, args ...any) (*Figure, error) {
		return nil, fmt.Errorf("recall over %s: %s", Plain(parameter), fmt.Sprintf(format, args...))
	}
	for _, l := range lines {
		name := Plain(l.Name)
		if len(l.Values) < 2 || len(l.Recall) != len(l.Values) {
			return fail("%s has %d values and %d scores; want at least two, and a score for each", name, len(l.Values),
				len(l.Recall))
		}
		for i, v := range l.Values {
			if v-v != 0 || i > 0 && v <= l.Values[i-1] {
				return fail("%s has the values %g; want finite ones that ascend", name, l.Values)
			}
			if !math.IsNaN(l.Recall[i].Mean) {
				words = append(words, fmt.Sprintf("%s at %g: %s", name, v, l.Recall[i]))
			}
		}
		longest = max(longest, len(name))
	}
	if len(words) == 0 {
		return fail("there is none")
	}
	room := vg.Points(5*float64(longest) + 6)
	p := newPlot("", parameter, "Recall@1, %")
	overValues(p, lines, room-4, func(i int) look {
		return look{color: trainingColor(i), shape: seriesShapes[i%len(seriesShapes)]}
	})
	return &Figure{
		Width: 330 + room, Height: 230, Provenance: provenance,
		Alt: fmt.Sprintf("Recall@1 over %s. %s.", Plain(parameter), strings.Join(words, "; ")),
		panels: func(c draw.Canvas) {
			c.Max.X -= room
			drawPlot(p, c)
		},
	}, nil
}

// overValues adds lines to a plot with names in some room at its right, and scales its axes to them: that of the values
// by logarithms if all are positive.
func overValues(p *plot.Plot, lines []ParameterLine, room vg.Length, looks func(i int) look) {
	values, recalls := spanOf(), spanOf()
	for _, l := range lines {
		values.add(l.Values...)
		for _, r := range l.Recall {
			recalls.addMean(r)
		}
	}
	recalls.padded(0.06, 0.5).scaled(&p.Y, 5)
	place, edge := func(v float64) float64 { return v }, 0.06*(values.high-values.low)
	if values.low > 0 {
		place, edge = math.Log2, 0.15
	}
	low, high := place(values.low), place(values.high)
	p.X.Min, p.X.Max = low-edge, high+edge
	var ticks plot.ConstantTicks
	var names lineNames
	for i, l := range lines {
		drawn := track{look: looks(i), bar: 0.8, width: 1.2, radius: 2.8}
		for j, v := range l.Values {
			if !slices.ContainsFunc(ticks, func(t plot.Tick) bool { return math.Abs(t.Value-place(v)) < 0.08*(high-low) }) {
				ticks = append(ticks, plot.Tick{Value: place(v), Label: fmt.Sprint(v)})
			}
			if !math.IsNaN(l.Recall[j].Mean) {
				drawn.points = append(drawn.points, meanPoint(place(v), l.Recall[j]))
			}
		}
		if n := len(drawn.points); n > 0 {
			p.Add(drawn)
			name := fitted(style(tickSize, ink), l.Name, room)
			names = append(names, lineName{drawn.points[n-1].Value, name, drawn.look.color})
		}
	}
	p.X.Tick.Marker = ticks
	p.Add(names)
}

// lineNames writes the names of lines to the right of a plot at their last values, moved apart where they would
// overlap.
type lineNames []lineName

type lineName struct {
	value float64
	name  string
	color color.NRGBA
}

func (l lineNames) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	names := slices.SortedStableFunc(slices.Values(l), func(a, b lineName) int { return cmp.Compare(a.value, b.value) })
	places := make([]vg.Length, len(names))
	for i, n := range names {
		places[i] = y(n.value)
	}
	const apart = vg.Length(10)
	for range 20 { // Each of two names that are too close moves by half of the missing distance.
		for i := range len(names) - 1 {
			if d := places[i+1] - places[i]; d < apart {
				places[i] -= (apart - d) / 2
				places[i+1] += (apart - d) / 2
			}
		}
	}
	for i, n := range names {
		write(c, aligned(style(tickSize, n.color), text.XLeft, text.YCenter), c.Max.X+4, places[i], n.name)
	}
}
