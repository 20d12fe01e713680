package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// CosineMap draws the cosines [n, n] between the gradients of n losses as a heat map, those of a group side by side,
// with lines between groups. Cosines are finite, and each name is in one group. The paper has no such figure.
func CosineMap(names []string, groups [][]string, cosines [][]float64, provenance string) (*Figure, error) {
	m := Matrix{}
	var down, across plot.ConstantTicks
	var alike []string
	order, n := slices.Concat(groups...), len(names)
	for g, group := range groups {
		for _, name := range group {
			i, k := slices.Index(names, name), len(m.Labels)
			if i < 0 || n != len(order) || n != len(cosines) || n != len(cosines[i]) {
				return nil, fmt.Errorf("cosines of gradients: %d names, %d in groups, %d rows: want as many of each, and the "+
					"same names", n, len(order), len(cosines))
			}
			m.Labels = append(m.Labels, int64(g))
			down = append(down, plot.Tick{Value: float64(n-k) - 0.5, Label: name})
			across = append(across, plot.Tick{Value: float64(k) + 0.5, Label: name + "  "}) // Room to the axis.
			for _, other := range order {
				m.Values = append(m.Values, float32(cosines[i][max(0, slices.Index(names, other))]))
			}
		}
		if len(group) > 1 {
			alike = append(alike, strings.Join(group, ", "))
		}
	}
	p := newPlot("Cosines of gradients", "", "")
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, float64(n), 0, float64(n)
	p.X.Tick.Marker, p.Y.Tick.Marker, p.X.LineStyle.Width, p.Y.LineStyle.Width = across, down, 0, 0
	p.X.Tick.Length, p.Y.Tick.Length = 0, 0
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/2, text.XRight, text.YCenter
	p.X.Tick.Label.Font.Size, p.Y.Tick.Label.Font.Size = noteSize, noteSize
	colors := bar{low: -1, high: 1, colors: diverging}
	p.Add(painter(func(c draw.Canvas, _ *plot.Plot, _, _ place) { m.draw(c, colors) }))
	return &Figure{
		Width: vg.Points(500), Height: vg.Points(450) + noteRoom(provenance), Provenance: provenance,
		Alt: "How alike the gradients of losses are: a cosine of 1 is the same direction, 0 none in common. Groups: " +
			strings.Join(alike, "; ") + ".",
		panels: func(c draw.Canvas) { squares(c, []square{{Plot: p, bar: &colors, after: barRoom + 8}}) },
	}, allFinite("cosines of gradients", m.Values)
}
