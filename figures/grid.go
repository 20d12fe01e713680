package figures

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// GridSet is the full grid of rules on a data set: all combinations of directions, pair weights and triplet weights.
type GridSet struct {
	Data                        string
	Directions, Pairs, Triplets []string
	// Scores is Recall@1 in percent by rule, direction/pair/triplet. A rule without a run is missing.
	Scores map[string]stats.Mean
	// Marks are the rules with a frame, at most three. The first frame is solid, the second dashed, the third dotted.
	Marks []GridMark
}

// GridMark is a rule with a frame, and its name in the legend. Without a rule only the legend shows the mark.
type GridMark struct{ Name, Rule string }

// gridFrames are the frames of the marks. Color and dashes each suffice to tell two apart.
var gridFrames = []struct {
	color  color.NRGBA
	dashes []vg.Length
}{{ink, nil}, {Vermilion, []vg.Length{3.2, 1.6}}, {Purple, []vg.Length{1.1, 1.3}}}

const (
	gridLeft, gridGap            = vg.Length(48), vg.Length(9) // For the pair labels, at least; between directions.
	gridLong                     = vg.Length(110)              // For any label, at most.
	gridTitle, gridHead, gridKey = vg.Length(16), vg.Length(18), vg.Length(20)
	gridWide, gridHigh           = vg.Length(31), vg.Length(17) // A cell.
)

// across returns how many blocks stand side by side: two at most, a notebook's page has no room for more.
func (s GridSet) across() int { return min(len(s.Directions), 2) }

// GridMap draws the full grid as a heat map of Recall@1. It has a block for each data set and direction, two of them
// side by side, in which a row is a pair weight and a column a triplet weight. Each data set has its own color scale.
// The scale starts at the 5 % quantile, so that a few very low scores do not hide the differences between the others.
// Cells of rules without a run are empty, those of diverged rules are crossed. GridMap returns an error without
// data sets, for an empty part, and for more than three marks.
func GridMap(sets []GridSet, provenance string) (*Figure, error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("grid: no data set, want at least one")
	}
	var words strings.Builder
	room, left := vg.Length(0), gridLeft // Of the blocks, and of the pair labels.
	for _, s := range sets {
		if len(s.Directions) == 0 || len(s.Pairs) == 0 || len(s.Triplets) == 0 {
			return nil, fmt.Errorf("grid on %s: %d directions, %d pair weights and %d triplet weights, want some of each",
				s.Data, len(s.Directions), len(s.Pairs), len(s.Triplets))
		}
		if len(s.Marks) > len(gridFrames) {
			return nil, fmt.Errorf("grid on %s: %d marks, want at most %d", s.Data, len(s.Marks), len(gridFrames))
		}
		words.WriteString(s.words())
		left = min(widest(style(tickSize, ink), left-5, s.Pairs, PairLabel)+5, gridLong)
		room = max(room, vg.Length(s.across())*(gridWide*vg.Length(len(s.Triplets))+gridGap)-gridGap+barRoom+8)
	}
	key := gridLegend(sets)
	head := gridKey + key.end.Y
	height := head + noteRoom(provenance)
	for _, s := range sets {
		height += s.height()
	}
	return &Figure{
		Width: left + max(room, key.reach) + 2*margin, Height: height + 2*margin,
		Alt: "The full grid of rules as a heat map of Recall@1: blocks are directions, rows pair weights, columns " +
			"triplet weights." + words.String(),
		Provenance: provenance,
		panels: func(c draw.Canvas) {
			c.Min.X += left
			key.draw(c, pt(c.Min.X, c.Max.Y-8))
			c.Max.Y -= head
			for _, s := range sets {
				s.draw(c, left)
				c.Max.Y -= s.height()
			}
		},
	}, nil
}

// cell returns the place of a rule, from the top left corner of the data set's blocks.
func (s GridSet) cell(block, row, column int) vg.Rectangle {
	x := vg.Length(block%s.across())*(gridGap+gridWide*vg.Length(len(s.Triplets))) + gridWide*vg.Length(column)
	y := -gridTitle - vg.Length(block/s.across())*(gridHead+gridHigh*vg.Length(len(s.Pairs))+s.names()) - gridHead -
		gridHigh*vg.Length(row)
	return rect(x, y-gridHigh, x+gridWide, y)
}

// names returns the room of the names of triplet weights.
func (s GridSet) names() vg.Length {
	return min(widest(style(tickSize, ink), 50-9, s.Triplets, TripletLabel)+9, gridLong)
}

func (s GridSet) height() vg.Length {
	return s.names() - s.cell(len(s.Directions)-1, len(s.Pairs)-1, 0).Min.Y
}

// scale returns the color scale, which is none without scores, and whether scores below it are cut.
func (s GridSet) scale() (b bar, cut bool) {
	var means []float64
	for _, score := range s.Scores {
		if finite(score.Mean) {
			means = append(means, score.Mean)
		}
	}
	if len(means) == 0 {
		return bar{}, false
	}
	slices.Sort(means)
	low := stat.Quantile(0.05, stat.Empirical, means, nil)
	b = newBar(low, means[len(means)-1], false, hues[HueWeight])
	b.label = "R@1, %"
	return b, low > means[0]
}

// count returns the number of rules with a score, of those that diverged, and of those without a run.
func (s GridSet) count() (known, diverged, missing int) {
	for _, score := range s.Scores {
		switch {
		case finite(score.Mean):
			known++
		case score.Diverged > 0:
			diverged++
		}
	}
	return known, diverged, len(s.Directions)*len(s.Pairs)*len(s.Triplets) - known - diverged
}

func (s GridSet) words() string {
	n, diverged, missing := s.count()
	out := fmt.Sprintf(" %s: %d of %d rules", s.Data, n, n+diverged+missing)
	if n > 0 {
		b, cut := s.scale()
		from := fmt.Sprintf("%.1f", b.low)
		if cut {
			from = "below " + from
		}
		out += fmt.Sprintf(", from %s to %.1f %%", from, b.high)
	}
	if diverged > 0 {
		out += fmt.Sprintf(", %d diverged", diverged)
	}
	for _, m := range s.Marks {
		if m.Rule == "" {
			continue
		}
		out += fmt.Sprintf("; %s: %s", m.Name, m.Rule)
		if score, ok := s.Scores[m.Rule]; ok {
			out += " with " + score.String()
		}
	}
	return out + "."
}

// gridLegend returns the legend: the names of the frames, which all data sets share.
func gridLegend(sets []GridSet) legend {
	l := legend{width: vg.Length(math.Inf(1)), mark: 21, after: 18, line: 14}
	entry := func(name string, paint func(c draw.Canvas, r vg.Rectangle)) {
		l.add(name, func(c draw.Canvas, at vg.Point) { paint(c, rect(at.X, at.Y-5, at.X+16, at.Y+5)) })
	}
	var most []GridMark
	missing, diverged := 0, 0
	for _, set := range sets {
		if len(set.Marks) > len(most) {
			most = set.Marks
		}
		_, lost, absent := set.count()
		missing, diverged = missing+absent, diverged+lost
	}
	for i, m := range most {
		entry(m.Name, func(c draw.Canvas, r vg.Rectangle) { gridFrame(c, r, i) })
	}
	if missing > 0 {
		entry("no run yet", gridEmpty)
	}
	if diverged > 0 {
		entry("diverged", gridCross)
	}
	return l
}

// draw draws the data set from the top left corner of its blocks, with labels in some room at their left.
func (s GridSet) draw(c draw.Canvas, left vg.Length) {
	scale, cut := s.scale()
	cell := func(block, row, column int) vg.Rectangle { return s.cell(block, row, column).Add(pt(c.Min.X, c.Max.Y)) }
	write(c, aligned(bold(style(titleSize, ink)), text.XLeft, text.YTop), c.Min.X-left, c.Max.Y-1, s.Data)
	lastRow, lastColumn := len(s.Pairs)-1, len(s.Triplets)-1
	value := aligned(style(noteSize, ink), text.XCenter, text.YCenter)
	name := aligned(style(tickSize, ink), text.XRight, text.YCenter)
	for b, direction := range s.Directions {
		first, last := cell(b, 0, 0), cell(b, 0, lastColumn)
		write(c, aligned(style(labelSize, ink), text.XCenter, text.YBottom),
			(first.Min.X+last.Max.X)/2, first.Max.Y+6, DirectionLabel(direction))
		for i, pair := range s.Pairs {
			if b%s.across() == 0 {
				write(c, name, c.Min.X-5, center(cell(b, i, 0)).Y, fitted(name, PairLabel(pair), left-5+1e-6))
			}
			for j, triplet := range s.Triplets {
				r := cell(b, i, j)
				score, known := s.Scores[direction+"/"+pair+"/"+triplet]
				switch {
				case known && finite(score.Mean):
					step := (scale.high - scale.low) / 24 // Of few colors a notebook saves a small picture.
					k := scale.at(scale.low + step*math.Round((score.Mean-scale.low)/step))
					fill(c, r, k)
					value.Color = inkOn(k)
					c.FillText(value, center(r), fmt.Sprintf("%.1f", score.Mean))
				case known && score.Diverged > 0:
					gridCross(c, r)
				default:
					gridEmpty(c, r)
				}
			}
		}
		for j, triplet := range s.Triplets {
			at := cell(b, lastRow, j)
			label := name
			label.Rotation = math.Pi / 2
			write(c, label, center(at).X, at.Min.Y-5, fitted(name, TripletLabel(triplet), s.names()-9+1e-6))
		}
	}
	for m, mark := range s.Marks {
		parts := append(strings.Split(mark.Rule, "/"), "", "")
		b, i, j := slices.Index(s.Directions, parts[0]), slices.Index(s.Pairs, parts[1]), slices.Index(s.Triplets, parts[2])
		if b >= 0 && i >= 0 && j >= 0 {
			in := vg.Length(1)
			for _, other := range s.Marks[:m] { // A second frame of the same rule lies inside the first.
				if other.Rule == mark.Rule {
					in += 2.6
				}
			}
			gridFrame(c, inset(cell(b, i, j), in), m)
		}
	}
	data := c
	data.Min = cell(len(s.Directions)-1, lastRow, 0).Min
	data.Max = cell(s.across()-1, 0, lastColumn).Max
	if cut {
		write(c, aligned(style(noteSize, quiet), text.XCenter, text.YTop), data.Max.X+13, data.Min.Y-3, "and less")
	}
	scale.draw(data, c)
}

// gridFrame draws a frame with a light border, which keeps it visible on every color.
func gridFrame(c draw.Canvas, r vg.Rectangle, kind int) {
	frame(c, r, stroke(paper, 2.8))
	frame(c, r, stroke(gridFrames[kind].color, 1.6, gridFrames[kind].dashes...))
}

// gridEmpty draws the cell of a rule without a run.
func gridEmpty(c draw.Canvas, r vg.Rectangle) {
	frame(c, r, stroke(faint, 0.6))
	c.StrokeLine2(stroke(quiet, 0.8), center(r).X-2.5, center(r).Y, center(r).X+2.5, center(r).Y)
}

// gridCross draws the cell of a rule whose run diverged.
func gridCross(c draw.Canvas, r vg.Rectangle) {
	fill(c, r, faint)
	cross(c, center(r), 3.5, stroke(ink, 1))
}
