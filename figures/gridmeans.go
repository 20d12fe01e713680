package figures

import (
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// GridMargins holds the marginal means of the parts of a rule on a data set, in percent.
type GridMargins struct {
	Data string
	// Levels are the names of the directions, pair weights and triplet weights, and Means their means.
	Levels [3][]string
	Means  [3][]stats.Interval
	Mean   float64 // The mean of the directions' means, to which the others are compared.
}

// GridEffects draws main effects: the marginal mean of each direction, pair weight and triplet weight with its
// interval, around the mean of the directions' means, in which every rule counts once. The panels of a data set have
// the same scale. It returns an error without data sets, for a mean of NaN, and unless each level has a mean.
func GridEffects(sets []GridMargins, provenance string) (*Figure, error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("main effects: no data set, want at least one")
	}
	var rows [len(GridMargins{}.Levels)][]*plot.Plot
	most := 1
	alt := "Main effects: marginal means of Recall@1 in percent with 95 % intervals."
	for _, s := range sets {
		values := spanOf(s.Mean)
		for f, means := range s.Means {
			if len(means) != len(s.Levels[f]) {
				return nil, fmt.Errorf("main effects on %s: %d means for %d levels", s.Data, len(means), len(s.Levels[f]))
			}
			most = max(most, len(means))
			for i, v := range means {
				values.addInterval(v)
				alt += fmt.Sprintf(" %s, %s: %s.", s.Data, s.Levels[f][i], v)
			}
		}
		if math.IsNaN(s.Mean) {
			return nil, fmt.Errorf("main effects on %s: the mean is NaN", s.Data)
		}
		for f := range s.Levels {
			rows[f] = append(rows[f], s.panel(f, values.padded(0.05, 0.3)))
		}
	}
	return gridPanels(rows[:], vg.Points(56+18*float64(most)), nil, alt, provenance), nil
}

func (s GridMargins) panel(part int, values span) *plot.Plot {
	p := dotPlot(s.Data+", "+parts[part].title, "marginal mean of Recall@1, % (dashed: their mean)",
		partLabels(part, s.Levels[part]), values, 5)
	p.Add(meanLine(s.Mean), whiskers{values: s.Means[part], width: 1.4,
		mark: draw.GlyphStyle{Color: Blue, Radius: vg.Points(3.2), Shape: ringed{draw.CircleGlyph{}}}})
	return p
}

// gridPanels returns a figure of rows of plots, one for each data set, with a legend above each row.
func gridPanels(rows [][]*plot.Plot, height vg.Length, keys [][]keyed, alt, provenance string) *Figure {
	const gap, head = vg.Length(12), vg.Length(20)
	if keys != nil {
		height += head
	}
	return &Figure{
		Width: vg.Points(270 * float64(len(rows[0]))), Height: (height+gap)*vg.Length(len(rows)) + 24,
		Alt: alt, Provenance: provenance,
		panels: func(canvas draw.Canvas) {
			for i, row := range stack(canvas, gap, len(rows)) {
				if keys != nil {
					gridKeys(&row, keys[i], head)
				}
				drawRow(row, rows[i], 18)
			}
		},
	}
}

// GridProfile holds the means of two parts of a rule, in percent, over some levels of the third.
type GridProfile struct {
	// Lines is the part with a line for each level, and Points the part with a point for each level on every line: 0 for
	// the direction, 1 for the pair weight, 2 for the triplet weight.
	Lines, Points         int
	LineNames, PointNames []string
	Over                  []string           // The levels of the third part.
	Means                 [][]stats.Interval // By line and point.
}

// GridInteraction holds the profiles of a data set. All data sets have profiles of the same parts.
type GridInteraction struct {
	Data     string
	Profiles []GridProfile
}

// gridLooks are the styles of directions and of triplet weights. Pair weights have [pairLooks].
var gridLooks = []look{
	{color: Vermilion, shape: draw.CircleGlyph{}},
	{color: Blue, shape: draw.BoxGlyph{}},
	{color: Orange, shape: draw.TriangleGlyph{}, dashes: []vg.Length{4, 2}},
	{color: SkyBlue, shape: diamond{}, dashes: []vg.Length{4, 2}},
	{color: Green, shape: draw.PyramidGlyph{}, dashes: []vg.Length{1.5, 1.5}},
	{color: Black, shape: draw.CrossGlyph{}, dashes: []vg.Length{6, 2, 1.5, 2}},
	{color: Purple, shape: draw.RingGlyph{}, dashes: []vg.Length{1.5, 1.5}},
}

// GridInteractions draws interactions of two parts of a rule. Each level of one part has a line through its means at
// the levels of the other. Without interaction the lines are parallel. Bars are 95 % intervals. It returns an error
// without profiles, and for data sets with different numbers of profiles.
func GridInteractions(sets []GridInteraction, provenance string) (*Figure, error) {
	if len(sets) == 0 || len(sets[0].Profiles) == 0 {
		return nil, fmt.Errorf("interactions: no profile, want at least one data set with at least one")
	}
	rows := make([][]*plot.Plot, len(sets[0].Profiles))
	keys := make([][]keyed, len(rows))
	alt := "Interactions: means of Recall@1 in percent of two parts of a rule, a line for each level of one."
	for _, s := range sets {
		if len(s.Profiles) != len(keys) {
			return nil, fmt.Errorf("interactions on %s: %d profiles, %d on %s", s.Data, len(s.Profiles), len(keys), sets[0].Data)
		}
		for i, p := range s.Profiles {
			if err := p.check(); err != nil {
				return nil, fmt.Errorf("interactions on %s: %w", s.Data, err)
			}
			key := p.key()
			if len(key) > len(keys[i]) {
				keys[i] = key
			}
			rows[i] = append(rows[i], p.panel(s.Data))
			alt += fmt.Sprintf(" %s%s:", s.Data, Plain(p.over()))
			for j, name := range p.LineNames {
				alt += " " + name
				for k, at := range p.PointNames {
					alt += fmt.Sprintf(" %s %s", at, stats.Point(p.Means[j][k].Value))
				}
				alt += ";"
			}
		}
	}
	return gridPanels(rows, 196, keys, alt, provenance), nil
}

func (p GridProfile) check() error {
	if p.Lines == p.Points || min(p.Lines, p.Points) < 0 || max(p.Lines, p.Points) > 2 {
		return fmt.Errorf("a profile of the parts %d and %d, want two different ones of 0 to 2", p.Lines, p.Points)
	}
	if len(p.LineNames) > len(gridLooks) {
		return fmt.Errorf("%d lines, at most %d can be told apart", len(p.LineNames), len(gridLooks))
	}
	if len(p.Means) != len(p.LineNames) {
		return fmt.Errorf("%d lines of means for %d names", len(p.Means), len(p.LineNames))
	}
	for i, line := range p.Means {
		if len(line) != len(p.PointNames) {
			return fmt.Errorf("%d means of %s for %d names", len(line), p.LineNames[i], len(p.PointNames))
		}
	}
	return nil
}

// over returns the levels of the third part as a text.
func (p GridProfile) over() Markup {
	third := parts[3-p.Lines-p.Points]
	switch len(p.Over) {
	case 0:
		return ""
	case 1:
		return ", with " + PartLabel(third.column, p.Over[0])
	}
	return fmt.Sprintf(", over %d %ss", len(p.Over), third.name)
}

func (p GridProfile) key() []keyed {
	out := make([]keyed, len(p.LineNames))
	for i, label := range partLabels(p.Lines, p.LineNames) {
		out[i] = keyed{label, gridLooks[i]}
		if parts[p.Lines].column == scores.Pair {
			out[i].look = pairLook(p.LineNames[i])
		}
	}
	return out
}

func (p GridProfile) panel(data string) *plot.Plot {
	out := newPlot(data+p.over(), "", "Recall@1, %")
	values := spanOf()
	for _, line := range p.Means {
		for _, v := range line {
			values.addInterval(v)
		}
	}
	values.padded(0.05, 0.3).scaled(&out.Y, 6)
	ticks := nameTicks(1, partLabels(p.Points, p.PointNames))
	out.X.Tick.Marker = ticks
	if parts[p.Points].column == scores.Triplet { // These labels are too long to stand side by side.
		out.X.Tick.Length = 0
		for i := range ticks {
			ticks[i].Label += "\u00a0" // Keeps them off the axis.
		}
		out.X.Tick.Label.Rotation = math.Pi / 2
		out.X.Tick.Label.XAlign, out.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
	}
	out.X.Min, out.X.Max = -0.4, float64(len(p.PointNames))-0.6
	out.Add(painter(rungs))
	for i, key := range p.key() {
		drawn := track{look: key.look, bar: 0.7, width: 1.2, radius: 2.7}
		for k, v := range p.Means[i] {
			// Lines are moved sideways so that their bars do not overlap.
			drawn.points = append(drawn.points, point{float64(k) + 0.4*((float64(i)+0.5)/float64(len(p.Means))-0.5), v})
		}
		out.Add(drawn)
	}
	return out
}

// gridKeys draws the legend of the lines above a row, in smaller letters where it is narrow, and in several lines where
// it is narrower still. It takes their room from the canvas as [key] does.
func gridKeys(c *draw.Canvas, lines []keyed, room vg.Length) {
	s := aligned(style(labelSize, ink), draw.XLeft, draw.YCenter)
	width := func() (total vg.Length) {
		for _, l := range lines {
			total += 19 + s.Width(l.name)
		}
		return total
	}
	if width()+10*vg.Length(len(lines)-1) > c.Max.X-c.Min.X {
		s.Font.Size = tickSize
	}
	total := width()
	if n := len(lines); n > 1 && total+2*vg.Length(n-1) > c.Max.X-c.Min.X {
		gridKeys(c, lines[:n/2], 12)
		gridKeys(c, lines[n/2:], room)
		return
	}
	gap := min(10, max(2, (c.Max.X-c.Min.X-total)/vg.Length(max(len(lines)-1, 1))))
	x, y := c.Min.X+max(0, (c.Max.X-c.Min.X-total-gap*vg.Length(len(lines)-1))/2), c.Max.Y-7
	for _, l := range lines {
		c.StrokeLines(stroke(l.color, 1.2, l.dashes...), []vg.Point{{X: x, Y: y}, {X: x + 15, Y: y}})
		dot(*c, l.color, vg.Points(2.7), l.shape, x+7.5, y)
		write(*c, s, x+18, y, fitted(s, l.name, c.Max.X-c.Min.X-18))
		x += 19 + s.Width(l.name) + gap
	}
	c.Max.Y -= room
}
