package figures

import (
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

// Comparison lays scores out by row and column, ours beside the paper's: as a table, as its differences and as a
// picture. Each data set is a block of rows, or a column if the comparison has a single column without a name or label.
type Comparison struct {
	Caption, Differences Markup // Of the two tables.
	Alt                  string // Of the picture, before the scores in words.
	RowTitle             Markup
	Rows, Columns        []Line
	Sets                 []ComparedSet
	Notes                []Markup // Under the table.
	Tint                 color.NRGBA
	Shade                func(cells ...*Cell) // Shades the cells of a data set, separately for ours and for the paper's.
	Provenance           string
}

// Line is a row or column of a [Comparison].
type Line struct {
	Name  string // In the pivots of the scores, and in words.
	Label Markup
	// Note is a footnote of a row that stands in each column, since its scores are in the column without a name.
	Note Markup
	Own  bool // A row that the paper's table does not have.
}

// ComparedSet holds the scores of a data set of ours, and those of the paper's data set Beside it, nil without one.
type ComparedSet struct {
	Data, Beside string
	Ours, Theirs *scores.Pivot
}

// across reports whether the data sets are the columns.
func (c *Comparison) across() bool {
	return len(c.Columns) == 1 && (c.Columns[0].Name == "" || c.Columns[0].Label == "")
}

// CellOf returns the scores of a cell of a comparison, none without a pivot.
func CellOf(p *scores.Pivot, row, column Line) scores.Table {
	if p == nil {
		return nil
	}
	if row.Note != "" {
		column.Name = ""
	}
	return p.At(row.Name, column.Name)
}

// columnLabels returns the labels of the columns, which are empty if the data sets are the columns.
func (c *Comparison) columnLabels() []Markup {
	labels := make([]Markup, len(c.Columns))
	for j, column := range c.Columns {
		if !c.across() {
			labels[j] = column.Label
		}
	}
	return labels
}

// Label returns a data set of ours with the paper's data set beside it.
func (s ComparedSet) Label() string {
	if s.Beside == "" {
		return s.Data
	}
	return s.Data + " beside " + s.Beside
}

// Table returns the comparison in the paper's own layout and shading.
func (c *Comparison) Table() *Table {
	t := c.lay(c.columnLabels(), func(p *scores.Pivot, row, column int) Cell {
		return Scored(CellOf(p, c.Rows[row], c.Columns[column]).Mean())
	}, c.Shade)
	t.Caption, t.Notes, t.Tint = c.Caption, c.Notes, c.Tint
	return t
}

// Gains returns the table of differences in points with their 95 % intervals by Welch's t. Each row is compared to the
// first row of its column; if there are two columns, the second is compared to the first. Our differences of rows that
// the paper has are the family of tests by which the ledger judges the table.
func (c *Comparison) Gains() *Table {
	titles := c.columnLabels()
	if len(titles) == 2 {
		titles = append(titles, titles[1]+" − "+titles[0])
	}
	t := c.lay(titles, func(p *scores.Pivot, row, column int) Cell {
		of := func(row, column int) scores.Table { return CellOf(p, c.Rows[row], c.Columns[column]) }
		ours := slices.ContainsFunc(c.Sets, func(s ComparedSet) bool { return s.Ours == p })
		in := func(family string, cell Cell) Cell {
			if cell.Family = family; !ours {
				cell.Family = "of the paper's " + strings.TrimPrefix(family, "of ")
			}
			return cell
		}
		switch {
		case column == len(c.Columns) && c.Rows[row].Note != "":
			return Text("–")
		case column == len(c.Columns):
			return in("of columns", gain(scores.Difference(of(row, 1), of(row, 0))))
		case row == 0:
			return Text(of(0, column).Mean().String())
		case c.Rows[row].Own:
			return in("of other rows", gain(scores.Difference(of(row, column), of(0, column))))
		}
		return in("of rows", gain(scores.Difference(of(row, column), of(0, column))))
	}, nil)
	t.Caption, t.Notes = c.Differences, []Markup{welchNote}
	t.MarkSignificant()
	return t
}

// RankNote says how a rank correlation is judged.
const RankNote = "In brackets: 95 % by Bonett and Wright, as if the rows were drawn from many; with four rows " +
	"it never excludes 0, with six from ρ = 0.89 on. p, one-sided: how often a random order agrees as well."

// welchNote says where intervals of differences come from.
const welchNote = "In brackets: 95 % by Welch's t over seeds."

// Signed formats a difference in points with its sign.
func Signed(v float64) string {
	return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%+.1f", v), "-0.0", "+0.0"), "-", "−")
}

// gain returns the cell of a difference with its interval.
func gain(test stats.Test) Cell {
	d := test.Difference
	switch {
	case math.IsNaN(d.Value):
		return Text("–")
	case math.IsNaN(d.Low):
		return Text(Signed(d.Value))
	}
	return Tested(test, fmt.Sprintf("%s [%s,\u00a0%s]", Signed(d.Value), Signed(d.Low), Signed(d.High)))
}

// lay returns a table in the paper's layout: our cells, then the paper's. shade, if not nil, gets all cells of a data
// set.
func (c *Comparison) lay(titles []Markup, cell func(p *scores.Pivot, row, column int) Cell,
	shade func(cells ...*Cell)) *Table {
	t := &Table{Provenance: c.Provenance}
	head := func(r Line) Cell { return Cell{Text: r.Label, Note: r.Note} }
	across := c.across()
	if across {
		for _, row := range c.Rows {
			t.Rows = append(t.Rows, []Cell{head(row)})
		}
	} else {
		t.Columns = []Column{{Title: "Data", Left: true, Merged: true}}
		for _, set := range c.Sets {
			for _, row := range c.Rows {
				t.Rows = append(t.Rows, Row(set.Label(), head(row)))
			}
			t.Rules = append(t.Rules, len(t.Rows))
		}
	}
	t.Columns = append(t.Columns, Column{Title: c.RowTitle, Left: true})
	group := func(name string, of func(ComparedSet) (string, *scores.Pivot)) {
		first := 0 // Row of the data set's block.
		for i, set := range c.Sets {
			data, pivot := of(set)
			if across && pivot == nil {
				continue
			}
			block := t.Rows[first : first+len(c.Rows)]
			for j, title := range titles {
				switch {
				case across:
					t.Columns = append(t.Columns, Column{Group: name, Title: data})
				case i == 0:
					t.Columns = append(t.Columns, Column{Group: name, Title: title})
				}
				for k := range block {
					block[k] = append(block[k], cell(pivot, k, j))
				}
			}
			if shade != nil {
				var cells []*Cell
				for _, row := range block {
					for k := range titles {
						cells = append(cells, &row[len(row)-1-k])
					}
				}
				shade(cells...)
			}
			if !across {
				first += len(c.Rows)
			}
		}
	}
	group("ours", func(s ComparedSet) (string, *scores.Pivot) { return s.Data, s.Ours })
	if slices.ContainsFunc(c.Sets, func(s ComparedSet) bool { return s.Theirs != nil }) {
		group("the paper's", func(s ComparedSet) (string, *scores.Pivot) { return s.Beside, s.Theirs })
	}
	return t
}

// Plot draws our means and the paper's with their standard deviations, in a panel for each data set and column. Where
// all of ours are on one side of all of the paper's, both are drawn as points above the first row of the first column,
// since an axis with both levels would hide the differences.
func (c *Comparison) Plot() *Figure {
	var panels [][]*plot.Plot // In lines.
	for i, set := range c.Sets {
		var line []*plot.Plot
		values := c.reach(set)
		for j := range c.Columns {
			line = append(line, c.panel(set, j, values))
		}
		if c.across() && i > 0 {
			panels[0] = append(panels[0], line...)
		} else {
			panels = append(panels, line)
		}
	}
	const gap = vg.Length(14) // Between lines.
	line := vg.Points(64 + 31*float64(len(c.Rows)))
	if len(panels) > 1 {
		line = vg.Points(46 + 24*float64(len(c.Rows)))
	}
	return &Figure{
		Width: vg.Points(290 * float64(len(panels[0]))), Height: (line+gap)*vg.Length(len(panels)) - gap + 24,
		Alt: c.Alt + c.words(), Provenance: c.Provenance,
		panels: func(canvas draw.Canvas) {
			keys := []keyed{{"ours, mean ± std over seeds", look{Blue, draw.CircleGlyph{}, nil}},
				{"the paper's", look{quiet, diamond{}, nil}}}
			if !slices.ContainsFunc(c.Sets, func(s ComparedSet) bool { return s.Theirs != nil }) {
				keys = keys[:1]
			}
			key(&canvas, keys, 16)
			drawRows(canvas, panels, gap, 18)
		},
	}
}

// reach returns the range of all scores of a data set, whose panels have the same scale.
func (c *Comparison) reach(set ComparedSet) span {
	values := spanOf()
	for _, p := range []*scores.Pivot{set.Ours, set.Theirs} {
		r := reachOf(p, c.origin(set, p))
		values.add(r.low, r.high)
	}
	return values.padded(0.06, 0.5)
}

// reachOf returns the range of scores above an origin, which is empty without scores.
func reachOf(p *scores.Pivot, origin float64) span {
	s := spanOf()
	if p != nil {
		for _, cell := range slices.Concat(p.Cells...) {
			s.addMean(less(cell.Mean(), origin))
		}
	}
	return s
}

func less(m stats.Mean, origin float64) stats.Mean {
	m.Mean -= origin
	return m
}

// origin returns what the scores of a pivot are drawn above: 0, or if all of ours are below or above the paper's, the
// score of the first row and column.
func (c *Comparison) origin(set ComparedSet, p *scores.Pivot) float64 {
	first := func(p *scores.Pivot) float64 { return CellOf(p, c.Rows[0], c.Columns[0]).Mean().Mean }
	ours, theirs := reachOf(set.Ours, 0), reachOf(set.Theirs, 0)
	overlap := ours.low <= theirs.high && theirs.low <= ours.high
	if set.Theirs == nil || overlap || !finite(first(set.Ours)) || !finite(first(set.Theirs)) {
		return 0
	}
	return first(p)
}

func (c *Comparison) panel(set ComparedSet, column int, values span) *plot.Plot {
	title := set.Label()
	if !c.across() {
		title += ", " + c.Columns[column].Label
	}
	var names []Markup
	for _, row := range c.Rows {
		names = append(names, row.Label)
	}
	axis := "Recall@1, %"
	if c.origin(set, set.Ours) != 0 {
		axis = strings.TrimSuffix("Recall@1 above "+c.Rows[0].Label+", "+c.columnLabels()[0], ", ")
	}
	p := dotPlot(title, axis, names, values, 6)
	p.Y.Tick.Label.Font.Size = labelSize
	add := func(pivot *scores.Pivot, shift float64, color color.NRGBA, shape draw.GlyphDrawer) {
		origin := c.origin(set, pivot)
		w := whiskers{shift: shift, width: 1.4,
			mark: draw.GlyphStyle{Color: color, Radius: vg.Points(3.2), Shape: ringed{shape}}}
		for _, row := range c.Rows {
			m := less(CellOf(pivot, row, c.Columns[column]).Mean(), origin)
			w.values = append(w.values, deviation(m))
			w.diverged = append(w.diverged, m.Diverged > 0)
		}
		p.Add(w)
	}
	add(set.Ours, 0.12, Blue, draw.CircleGlyph{})
	if set.Theirs != nil {
		add(set.Theirs, -0.18, quiet, diamond{})
	}
	return p
}

// words returns the scores as a text.
func (c *Comparison) words() string {
	var b strings.Builder
	for _, set := range c.Sets {
		for _, column := range c.Columns {
			var scores []string
			for _, row := range c.Rows {
				score := strings.TrimPrefix(row.Name, "own ") + " " + CellOf(set.Ours, row, column).Mean().String()
				if set.Theirs != nil {
					score += fmt.Sprintf(" (paper, %s: %s)", set.Beside, CellOf(set.Theirs, row, column).Mean())
				}
				scores = append(scores, score)
			}
			name := set.Data
			if column.Name != "" {
				name += ", " + column.Name
			}
			fmt.Fprintf(&b, " %s: %s.", name, strings.Join(scores, ", "))
		}
	}
	return b.String()
}

// diamond draws a filled diamond.
type diamond struct{}

func (diamond) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	r := s.Radius * 1.15
	c.FillPolygon(s.Color, []vg.Point{pt(at.X+r, at.Y), pt(at.X, at.Y+r), pt(at.X-r, at.Y), pt(at.X, at.Y-r)})
}

// keyed is an entry of a legend.
type keyed struct {
	name Markup
	look
}

// key draws a legend at the top right, in one line or, where that is too narrow, in several, and takes their room from
// the canvas: 12 for each line, and room for the last one.
func key(c *draw.Canvas, entries []keyed, room vg.Length) {
	s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	const step = vg.Length(25) // From a name to the next one.
	width, whole := -step/2, c.Max.X-c.Min.X
	for _, e := range entries {
		width += step + s.Width(e.name)
	}
	if n := len(entries); n > 1 && width > whole {
		key(c, entries[:n/2], 12)
		key(c, entries[n/2:], room)
		return
	}
	x, y := c.Max.X, c.Max.Y-6
	for _, e := range slices.Backward(entries) {
		name := fitted(s, e.name, whole-step/2)
		x -= s.Width(name)
		write(*c, s, x, y, name)
		dot(*c, e.color, vg.Points(3), e.shape, x-9, y)
		x -= step
	}
	c.Max.Y -= room
}

// legend is names behind marks, in lines that begin at the left.
type legend struct {
	width, mark, after, line vg.Length // At most; the room of a mark and that after a name; from a line to the next one.
	end                      vg.Point  // Of the last line so far, to the right and down.
	reach                    vg.Length // The width of the widest line.
	entries                  []func(c draw.Canvas, from vg.Point)
}

// add adds a name, and what draws its mark to the right of a point.
func (l *legend) add(name Markup, mark func(c draw.Canvas, at vg.Point)) {
	s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	name = fitted(s, name, l.width-l.mark)
	room := l.mark + s.Width(name)
	if l.end.X > 0 && l.end.X+room > l.width {
		l.end = pt(0, l.end.Y+l.line)
	}
	place := pt(l.end.X, -l.end.Y)
	l.entries = append(l.entries, func(c draw.Canvas, from vg.Point) {
		at := from.Add(place)
		mark(c, at)
		write(c, s, at.X+l.mark, at.Y, name)
	})
	l.end.X += room + l.after
	l.reach = max(l.reach, l.end.X)
}

// draw draws the legend from a point at the left of its first line.
func (l *legend) draw(c draw.Canvas, from vg.Point) {
	for _, draw := range l.entries {
		draw(c, from)
	}
}
