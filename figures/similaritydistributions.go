package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Distribution is the similarities of a set's images to their nearest positives and their nearest negatives.
type Distribution struct {
	Title Markup
	// Positive and Negative are histograms over [−1, 1], [run][bin]: shares of images that sum to 1, in bins of equal
	// width. Without runs the panel is empty.
	Positive, Negative [][]float64
	// Overlap is the share that the two have in common, in percent over runs.
	Overlap stats.Mean
}

// bins returns the number of bins, or an error that says what is wrong with the histograms.
func (d Distribution) bins() (int, error) {
	if len(d.Positive) != len(d.Negative) {
		return 0, fmt.Errorf("figure 4, %s: %d histograms of positives and %d of negatives; want one of each per run",
			Plain(d.Title), len(d.Positive), len(d.Negative))
	}
	if len(d.Positive) == 0 {
		return 0, nil
	}
	n := len(d.Positive[0])
	for run := range d.Positive {
		for _, h := range [][]float64{d.Positive[run], d.Negative[run]} {
			sum := 0.0
			for _, share := range h {
				if !(share >= 0) {
					return 0, fmt.Errorf("figure 4, %s: run %d has a share of %v; want 0 or more", Plain(d.Title), run, share)
				}
				sum += share
			}
			if len(h) != n || n < 2 || math.Abs(sum-1) > 1e-6 {
				return 0, fmt.Errorf("figure 4, %s: run %d has %d bins that sum to %.4g; want %d that sum to 1", Plain(d.Title),
					run, len(h), sum, n)
			}
		}
	}
	return n, nil
}

// SimilarityDistributions draws Figure 4: for each set, the distributions over images of the similarities to the
// nearest positive (blue) and the nearest negative (orange), in percent of the images, with their overlap hatched.
// Thin lines are single runs, areas their mean.
func SimilarityDistributions(provenance string, sets ...Distribution) (*Figure, error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("figure 4: no sets; want at least one")
	}
	words := []string{"Figure 4. Distributions of the similarities to the nearest positive (blue) " +
		"and the nearest negative (orange)."}
	low, high := 1.0, 0.0 // The least similarity drawn, and the highest bin.
	for _, d := range sets {
		n, err := d.bins()
		if err != nil {
			return nil, err
		}
		for _, h := range slices.Concat(d.Positive, d.Negative) {
			for i, share := range h {
				if share > 0 {
					low, high = min(low, -1+2*float64(i)/float64(n)), max(high, share)
				}
			}
		}
		words = append(words, fmt.Sprintf("%s: they share %s.", Plain(d.Title), percent(d.Overlap)))
	}
	if high == 0 {
		low, high = 0, 0.1
	}
	low = max(-1, math.Floor(low*10+1e-9)/10)
	panels := make([]*plot.Plot, len(sets))
	for i, d := range sets {
		p := newPlot(d.Title, "similarity $S$", "")
		if i == 0 {
			p.Y.Label.Text = "images in each bin, %"
		}
		setAxis(&p.X, low, 1, 0.2)
		setAxis(&p.Y, 0, 108*high, roundStep(100*high/4))
		p.Add(painter(d.draw))
		panels[i] = p
	}
	return &Figure{
		Width: vg.Points(290*float64(len(sets)) + 30), Height: vg.Points(226), Alt: strings.Join(words, " "),
		Provenance: provenance,
		panels:     func(c draw.Canvas) { drawRow(c, panels, 16) },
	}, nil
}

// draw draws the areas, lines and key.
func (d Distribution) draw(c draw.Canvas, p *plot.Plot, x, y place) {
	if len(d.Positive) == 0 {
		c.FillText(aligned(style(labelSize, quiet), text.XCenter, text.YCenter), c.Center(), "no finite run")
		return
	}
	n := len(d.Positive[0])
	mean := func(runs [][]float64) []float64 {
		out := make([]float64, n)
		for _, h := range runs {
			for i := range h {
				out[i] += h[i] / float64(len(runs))
			}
		}
		return out
	}
	steps := func(h []float64) []vg.Point {
		var line []vg.Point
		for i, share := range h {
			for _, edge := range []int{i, i + 1} {
				if at := -1 + 2*float64(edge)/float64(n); at >= p.X.Min-1e-9 {
					line = append(line, pt(x(at), y(100*share)))
				}
			}
		}
		return line
	}
	positive, negative := mean(d.Positive), mean(d.Negative)
	shared := make([]float64, n)
	for i := range shared {
		shared[i] = min(positive[i], negative[i])
	}
	pale := func(k color.NRGBA) color.NRGBA { return scale{paper, k}.at(0.38) }
	both := scale{pale(Blue), pale(Orange)}.at(0.5)
	for i, shares := range [][]float64{positive, negative, shared} {
		c.FillPolygon([]color.NRGBA{pale(Blue), pale(Orange), both}[i],
			slices.Concat([]vg.Point{pt(x(p.X.Min), y(0))}, steps(shares), []vg.Point{pt(x(1), y(0))}))
	}
	hatch := func(c draw.Canvas, height func(at vg.Length) vg.Length) {
		const apart, step = vg.Length(4.5), vg.Length(0.5)
		for from := c.Min.X - (c.Max.Y - c.Min.Y); from < c.Max.X; from += apart {
			var line []vg.Point // A line at 45°, where it is below the height.
			for at := max(from, c.Min.X); at <= c.Max.X+step; at += step {
				if rise := at - from; at <= c.Max.X && rise <= height(at) {
					line = append(line, pt(at, c.Min.Y+rise))
					continue
				}
				if n := len(line); n > 1 {
					c.StrokeLine2(stroke(quiet, 0.4), line[0].X, line[0].Y, line[n-1].X, line[n-1].Y)
				}
				line = nil
			}
		}
	}
	hatch(c, func(at vg.Length) vg.Length {
		s := p.X.Min + float64((at-c.Min.X)/(c.Max.X-c.Min.X))*(1-p.X.Min)
		return y(100*shared[min(int((s+1)/2*float64(n)), n-1)]) - c.Min.Y
	})
	lines := func(runs [][]float64, mean []float64, color color.NRGBA, dashes ...vg.Length) {
		for _, h := range runs {
			c.StrokeLines(stroke(pale(color), 0.8), steps(h))
		}
		c.StrokeLines(stroke(color, 1.5, dashes...), steps(mean))
	}
	lines(d.Negative, negative, Orange, 4, 1.5)
	lines(d.Positive, positive, Blue)

	// The key is at the left: nearest images are rarely that dissimilar.
	s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	at := pt(c.Min.X+8, c.Max.Y-9)
	for _, e := range []keyed{{"nearest positive, $S_{ap}$", look{color: Blue}},
		{"nearest negative, $S_{an}$", look{color: Orange, dashes: []vg.Length{4, 1.5}}}} {
		c.StrokeLine2(stroke(e.color, 1.5, e.dashes...), at.X, at.Y, at.X+16, at.Y)
		write(c, s, at.X+21, at.Y, e.name)
		at.Y -= 13
	}
	swatch := c
	swatch.Min, swatch.Max = at.Add(vg.Point{Y: -4}), at.Add(pt(16, 4))
	fill(swatch, swatch.Rectangle, both)
	hatch(swatch, func(vg.Length) vg.Length { return 8 })
	write(c, s, at.X+21, at.Y, "both: "+percent(d.Overlap))
}

// percent is a score with its unit, if it has a value.
func percent(s stats.Mean) string {
	if math.IsNaN(s.Mean) {
		return s.String()
	}
	return s.String() + " %"
}

// Overlaps returns a table of the overlaps of Figure 4, with a row for each label or rule and protocol, which says of
// which images, a column for each data set and, for two of them, one for their difference.
func Overlaps(ours scores.Table, provenance string) (*Table, error) {
	name := func(r scores.Row) string { return cmp.Or(r.Label, r.Rule) }
	p, err := ours.Pivot(func(r scores.Row) string { return name(r) + r.Protocol }, scores.Data.Of)
	if err != nil {
		return nil, fmt.Errorf("figure 4: %w", err)
	}
	t := &Table{
		Columns: []Column{{Title: "Rule", Left: true, Merged: true}, {Title: "Images", Left: true}},
		Caption: "Figure 4 as a number: the overlap of the distributions of nearest-positive and nearest-negative " +
			"similarities, in percent over seeds.",
		Notes:      []Markup{"Σ min(p, q) over 100 bins on [−1, 1]: 100 if the two are equal, 0 if they do not overlap."},
		Provenance: provenance,
	}
	for _, set := range p.Columns {
		t.Columns = append(t.Columns, Column{Title: set})
	}
	if len(p.Columns) == 2 {
		t.Columns = append(t.Columns, Column{Title: "difference"})
		t.Notes = append(t.Notes, "Difference: the first set less the second, in points, with its 95 % interval "+
			"by Welch's t over seeds.")
	}
	for _, line := range p.Cells {
		r := slices.Concat(line...)[0]
		cells := Row(name(r), r.Protocol)
		for _, of := range line {
			cells = append(cells, Scored(of.Mean()))
		}
		if len(line) == 2 {
			cells = append(cells, gain(scores.Difference(line[0], line[1])))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t, nil
}
