package figures

import (
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

// batchMarks are the styles of the methods, in the order of the rows.
var batchMarks = []struct {
	color color.NRGBA
	shape draw.GlyphDrawer
}{{quiet, diamond{}}, {Orange, draw.BoxGlyph{}}, {Blue, draw.CircleGlyph{}}, {Green, draw.PyramidGlyph{}},
	{Purple, draw.SquareGlyph{}}, {Black, draw.CrossGlyph{}}}

// batchCurve holds the recalls of a method by the factor of its batch.
type batchCurve struct {
	method string
	times  []int
	scores []stats.Mean
}

// Plot draws Recall@1 over the batch size, in a pair of panels for each data set: our runs and the paper's own.
func (b *Batches) Plot() *Figure {
	var methods []string
	for i, r := range b.rows {
		if i == 0 || r.method != b.rows[i-1].method {
			methods = append(methods, r.method)
		}
	}
	var entries []keyed
	for i, m := range methods {
		mark := batchMarks[i%len(batchMarks)]
		entries = append(entries, keyed{m, mark.color, mark.shape})
	}
	var lines [][]*plot.Plot
	for _, s := range b.sets {
		line := []*plot.Plot{b.panel("ours, "+s.data, methods, s.ours[0])}
		if s.paper != "" {
			line = append(line, b.panel("the paper's, "+s.paper, methods, s.theirs[0]))
		}
		lines = append(lines, line)
	}
	const height, gap = vg.Length(170), vg.Length(12)
	return &Figure{
		Width: 680, Height: (height+gap)*vg.Length(len(lines)) + 36,
		Alt:        "Table 5 as a picture: Recall@1 over the size of the batch, ours and the paper's own runs." + b.words(),
		Provenance: b.provenance,
		panels: func(c draw.Canvas) {
			key(c, entries)
			c.Max.Y -= 18
			for _, line := range lines {
				strip := c
				strip.Min.Y = c.Max.Y - height
				drawLine(strip, line, 2, 18)
				c.Max.Y -= height + gap
			}
		},
	}
}

// curves returns the scores of each method in the order of the rows. It leaves out scores without a run.
func (b *Batches) curves(methods []string, scores []stats.Mean) []batchCurve {
	out := make([]batchCurve, len(methods))
	at := -1
	for i, r := range b.rows {
		if i == 0 || r.method != b.rows[i-1].method {
			at++
			out[at].method = methods[at]
		}
		if !math.IsNaN(scores[i].Mean) {
			out[at].times, out[at].scores = append(out[at].times, r.times), append(out[at].scores, scores[i])
		}
	}
	return out
}

func (b *Batches) panel(title string, methods []string, scores []stats.Mean) *plot.Plot {
	p := newPlot(title, "batch, times the smallest", "Recall@1, %")
	low, high, most := math.Inf(1), math.Inf(-1), 1
	for i, s := range scores {
		most = max(most, b.rows[i].times)
		if !math.IsNaN(s.Mean) {
			low, high = min(low, s.Mean-s.Std), max(high, s.Mean+s.Std)
		}
	}
	if low > high {
		low, high = 0, 100
	}
	room := max(0.08*(high-low), 0.5)
	p.Y.Min, p.Y.Max = low-room, high+room
	p.X.Min, p.X.Max = 0.6, float64(most)+0.4
	ticks := make(plot.ConstantTicks, most)
	for i := range ticks {
		ticks[i] = plot.Tick{Value: float64(i + 1), Label: fmt.Sprintf("×%d", i+1)}
	}
	p.X.Tick.Marker = ticks
	p.Y.Tick.Marker = every(roundStep((high-low+2*room)/5), p.Y.Min, p.Y.Max)
	p.Add(lightGrid(), batchLines(b.curves(methods, scores)))
	return p
}

// batchLines draws curves with their deviations, shifted sideways so that they do not overlap.
type batchLines []batchCurve

func (l batchLines) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	if !slices.ContainsFunc(l, func(b batchCurve) bool { return len(b.scores) > 0 }) {
		c.FillText(aligned(style(noteSize, quiet), text.XCenter, text.YCenter), c.Center(), "not run yet")
	}
	for i, curve := range l {
		mark := batchMarks[i%len(batchMarks)]
		shift := 0.05 * (float64(i) - float64(len(l)-1)/2)
		var points []vg.Point
		for k, s := range curve.scores {
			at := x(float64(curve.times[k]) + shift)
			points = append(points, vg.Point{X: at, Y: y(s.Mean)})
			if s.Std > 0 {
				c.StrokeLine2(stroke(mark.color, 1.2), at, y(s.Mean-s.Std), at, y(s.Mean+s.Std))
			}
		}
		if len(points) > 1 {
			c.StrokeLines(stroke(mark.color, 1.2), points)
		}
		for _, at := range points {
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: mark.color, Radius: vg.Points(3.2), Shape: mark.shape}, at)
		}
	}
}

// words returns the scores as a text.
func (b *Batches) words() string {
	var w strings.Builder
	for _, s := range b.sets {
		fmt.Fprintf(&w, " %s:", s.data)
		for i, r := range b.rows {
			fmt.Fprintf(&w, " %s %s", r.label, s.ours[0][i])
			if s.paper != "" && !math.IsNaN(s.theirs[0][i].Mean) {
				fmt.Fprintf(&w, " (paper, %s: %s)", s.paper, s.theirs[0][i])
			}
			w.WriteString(map[bool]string{true: ".", false: ","}[i == len(b.rows)-1])
		}
	}
	return w.String()
}
