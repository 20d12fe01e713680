package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// batchLooks are the styles of the methods, in the order of the rows.
var batchLooks = []look{{color: quiet, shape: diamond{}}, {color: Orange, shape: draw.BoxGlyph{}},
	{color: Blue, shape: draw.CircleGlyph{}}, {color: Green, shape: draw.PyramidGlyph{}},
	{color: Purple, shape: draw.SquareGlyph{}}, {color: Black, shape: draw.CrossGlyph{}}}

// Plot draws Recall@1 over the batch size, in a pair of panels for each data set: our runs and the paper's own.
func (b *Batches) Plot() *Figure {
	var entries []keyed
	for i, m := range b.methods() {
		entries = append(entries, keyed{m, batchLooks[i%len(batchLooks)]})
	}
	var lines [][]*plot.Plot
	for _, s := range b.sets {
		line := []*plot.Plot{b.panel("ours, "+s.Data, b.means(s.Ours, s.measures[0]))}
		if s.Theirs != nil {
			line = append(line, b.panel("the paper's, "+s.Beside, b.means(s.Theirs, s.measures[0])))
		}
		lines = append(lines, line)
	}
	const height, gap = vg.Length(170), vg.Length(12)
	total := (height+gap)*vg.Length(len(lines)) + 36
	inner := total - 18 - 2*margin - noteRoom(b.provenance) // The height below the legend, in the figure's own shape.
	return &Figure{
		Width: besideWidth, Height: total,
		Alt:        "Table 5 as a picture: Recall@1 over the size of the batch, ours and the paper's own runs." + b.words(),
		Provenance: b.provenance,
		panels: func(c draw.Canvas) {
			key(&c, entries, 18)
			drawLines(&c, lines, 2, 18, height+(c.Max.Y-c.Min.Y-inner)/vg.Length(len(lines)), gap)
		},
	}
}

// methods returns the methods in the order of the rows. Rows of a method are adjacent.
func (b *Batches) methods() []string {
	var out []string
	for _, r := range b.rows {
		out = append(out, r.method)
	}
	return slices.Compact(out)
}

func (b *Batches) panel(title string, scores []stats.Mean) *plot.Plot {
	p := newPlot(title, "batch, times the smallest", "Recall@1, %")
	values, methods := spanOf(), b.methods()
	tracks := make([]track, len(methods)) // Moved sideways so that they do not overlap.
	var times []Markup
	for i, s := range scores {
		r := b.rows[i]
		for len(times) < r.times {
			times = append(times, fmt.Sprintf("×%d", len(times)+1))
		}
		if !math.IsNaN(s.Mean) {
			values.addMean(s)
			k := slices.Index(methods, r.method)
			tracks[k].points = append(tracks[k].points,
				meanPoint(float64(r.times-1)+0.05*(float64(k)-float64(len(methods)-1)/2), s))
		}
	}
	p.Add(lightGrid())
	if values.low > values.high {
		p.Add(painter(notRun))
	}
	values.padded(0.08, 0.5).scaled(&p.Y, 5)
	p.X.Min, p.X.Max, p.X.Tick.Marker = -0.4, float64(len(times))-0.6, nameTicks(1, times)
	for k, t := range tracks {
		if t.look, t.bar, t.width, t.radius = batchLooks[k%len(batchLooks)], 1.2, 1.2, 3.2; t.points != nil {
			p.Add(t)
		}
	}
	return p
}

// notRun says in the middle of a plot that there are no runs.
func notRun(c draw.Canvas, _ *plot.Plot, _, _ place) {
	write(c, aligned(style(noteSize, quiet), text.XCenter, text.YCenter), c.Center().X, c.Center().Y, "not run yet")
}

// words returns the scores as a text.
func (b *Batches) words() string {
	var out string
	for _, s := range b.sets {
		var scores []string
		for _, r := range b.rows {
			score := fmt.Sprintf("%s %s", r.label, s.Ours.At(r.name, s.measures[0]).Mean())
			if s.Theirs != nil {
				if theirs := s.Theirs.At(r.name, s.measures[0]).Mean(); !math.IsNaN(theirs.Mean) {
					score += fmt.Sprintf(" (paper, %s: %s)", s.Beside, theirs)
				}
			}
			scores = append(scores, score)
		}
		out += fmt.Sprintf(" %s: %s.", s.Data, strings.Join(scores, ", "))
	}
	return out
}
