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
// picture. Each data set is a block of rows, or a column if the comparison has a single column without a name.
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
}

// ComparedSet holds the scores of a data set of ours, and those of the paper's data set Beside it, nil without one.
type ComparedSet struct {
	Data, Beside string
	Ours, Theirs *scores.Pivot
}

// across reports whether the data sets are the columns.
func (c *Comparison) across() bool { return len(c.Columns) == 1 && c.Columns[0].Name == "" }

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

// columnLabel returns the label of a column after some text. It is empty if the data sets are the columns.
func (c *Comparison) columnLabel(before string, column int) Markup {
	if c.across() {
		return ""
	}
	return before + c.Columns[column].Label
}

// label returns a data set of ours with the paper's data set beside it.
func (s ComparedSet) label() string {
	if s.Beside == "" {
		return s.Data
	}
	return s.Data + " beside " + s.Beside
}

// Table returns the comparison in the paper's own layout and shading.
func (c *Comparison) Table() *Table {
	titles := make([]Markup, len(c.Columns))
	for j := range titles {
		titles[j] = c.columnLabel("", j)
	}
	t := c.lay(titles, func(p *scores.Pivot, row, column int) Cell {
		return Scored(CellOf(p, c.Rows[row], c.Columns[column]).Mean())
	}, c.Shade)
	t.Caption, t.Notes, t.Tint = c.Caption, c.Notes, c.Tint
	return t
}

// Gains returns the table of differences in points with their 95 % intervals by Welch's t. Each row is compared to the
// first row of its column; if there are two columns, the second is compared to the first.
func (c *Comparison) Gains() *Table {
	titles := make([]Markup, len(c.Columns))
	for j := range titles {
		titles[j] = c.columnLabel("", j)
	}
	if len(titles) == 2 {
		titles = append(titles, titles[1]+" − "+titles[0])
	}
	t := c.lay(titles, func(p *scores.Pivot, row, column int) Cell {
		of := func(row, column int) scores.Table { return CellOf(p, c.Rows[row], c.Columns[column]) }
		switch {
		case column == len(c.Columns) && c.Rows[row].Note != "":
			return Text("–")
		case column == len(c.Columns):
			return gain(scores.Difference(of(row, 1), of(row, 0)))
		case row == 0:
			return Text(of(0, column).Mean().String())
		}
		return gain(scores.Difference(of(row, column), of(0, column)))
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

// gain returns the cell of a difference with its interval.
func gain(test stats.Test) Cell {
	signed := func(v float64) string {
		return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%+.1f", v), "-0.0", "+0.0"), "-", "−")
	}
	d := test.Difference
	switch {
	case math.IsNaN(d.Value):
		return Text("–")
	case math.IsNaN(d.Low):
		return Text(signed(d.Value))
	}
	return Tested(test, fmt.Sprintf("%s [%s,\u00a0%s]", signed(d.Value), signed(d.Low), signed(d.High)))
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
				t.Rows = append(t.Rows, []Cell{Text(set.label()), head(row)})
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

// Plot draws our means and the paper's with their standard deviations, in a panel for each data set and column.
func (c *Comparison) Plot() *Figure {
	var panels [][]*plot.Plot // In lines.
	for i, set := range c.Sets {
		var line []*plot.Plot
		low, high := set.reach()
		for j := range c.Columns {
			line = append(line, c.panel(set, j, low, high))
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
		Alt:        c.Alt + c.words(),
		Provenance: c.Provenance,
		panels: func(canvas draw.Canvas) {
			key(canvas, []keyed{{"ours, mean ± std over seeds", Blue, draw.CircleGlyph{}}, {"the paper's", quiet, diamond{}}})
			canvas.Max.Y -= 16
			height := (canvas.Max.Y - canvas.Min.Y + gap) / vg.Length(len(panels))
			for i, line := range panels {
				strip := canvas
				strip.Max.Y -= height * vg.Length(i)
				strip.Min.Y = strip.Max.Y - height + gap
				for j, part := range columns(strip, 18, slices.Repeat([]float64{1}, len(line))...) {
					drawPlot(line[j], part)
				}
			}
		},
	}
}

// reach returns the range of all scores of a data set, whose panels have the same scale.
func (s ComparedSet) reach() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, p := range []*scores.Pivot{s.Ours, s.Theirs} {
		if p == nil {
			continue
		}
		for _, cell := range slices.Concat(p.Cells...) {
			if m := cell.Mean(); !math.IsNaN(m.Mean) {
				low, high = min(low, m.Mean-m.Std), max(high, m.Mean+m.Std)
			}
		}
	}
	if low > high {
		low, high = 0, 100
	}
	room := max(0.06*(high-low), 0.5)
	return low - room, high + room
}

func (c *Comparison) panel(set ComparedSet, column int, low, high float64) *plot.Plot {
	p := newPlot(set.label()+c.columnLabel(", ", column), "Recall@1, %", "")
	ticks := make(plot.ConstantTicks, len(c.Rows))
	ours, theirs := make([]stats.Mean, len(c.Rows)), make([]stats.Mean, len(c.Rows))
	for i, row := range c.Rows {
		ticks[i] = plot.Tick{Value: -float64(i), Label: row.Label}
		ours[i] = CellOf(set.Ours, row, c.Columns[column]).Mean()
		theirs[i] = CellOf(set.Theirs, row, c.Columns[column]).Mean()
	}
	p.Y.Tick.Marker, p.Y.Tick.Length = ticks, 0
	p.Y.Tick.Label.Font.Size = labelSize
	p.Y.LineStyle.Width = 0
	p.Y.Min, p.Y.Max = 0.5-float64(len(c.Rows)), 0.5
	p.X.Min, p.X.Max = low, high
	step := roundStep((high - low) / 6)
	p.X.Tick.Marker = every(step, low, high)
	p.Add(stripes{len(c.Rows), step}, whiskers{ours, 0.12, Blue, draw.CircleGlyph{}})
	if set.Theirs != nil {
		p.Add(whiskers{theirs, -0.18, quiet, diamond{}})
	}
	return p
}

// words returns the scores as a text.
func (c *Comparison) words() string {
	var b strings.Builder
	for _, set := range c.Sets {
		for _, column := range c.Columns {
			b.WriteString(" " + set.Data)
			if column.Name != "" {
				b.WriteString(", " + column.Name)
			}
			b.WriteString(":")
			for k, row := range c.Rows {
				fmt.Fprintf(&b, " %s %s", strings.TrimPrefix(row.Name, "own "), CellOf(set.Ours, row, column).Mean())
				if set.Theirs != nil {
					fmt.Fprintf(&b, " (paper, %s: %s)", set.Beside, CellOf(set.Theirs, row, column).Mean())
				}
				b.WriteString(map[bool]string{true: ".", false: ","}[k == len(c.Rows)-1])
			}
		}
	}
	return b.String()
}

// stripes draws the background of a dot plot: a light line in each row and at each step.
type stripes struct {
	rows int
	step float64
}

func (s stripes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i := range s.rows {
		c.StrokeLine2(stroke(faint, 0.8), c.Min.X, y(-float64(i)), c.Max.X, y(-float64(i)))
	}
	for _, t := range every(s.step, p.X.Min, p.X.Max) {
		c.StrokeLine2(stroke(faint, 0.4), x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
}

// whiskers draws scores as points with their standard deviations, shifted within their rows.
type whiskers struct {
	scores []stats.Mean
	shift  float64
	color  color.NRGBA
	shape  draw.GlyphDrawer
}

func (w whiskers) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, s := range w.scores {
		at := y(w.shift - float64(i))
		if math.IsNaN(s.Mean) {
			if s.Diverged > 0 {
				c.FillText(aligned(style(noteSize, w.color), text.XLeft, text.YCenter), vg.Point{X: c.Min.X + 4, Y: at},
					"diverged")
			}
			continue
		}
		if s.Std > 0 {
			c.StrokeLine2(stroke(w.color, 1.4), x(s.Mean-s.Std), at, x(s.Mean+s.Std), at)
		}
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: w.color, Radius: vg.Points(3.2), Shape: ringed{w.shape}},
			vg.Point{X: x(s.Mean), Y: at})
	}
}

// diamond draws a filled diamond.
type diamond struct{}

func (diamond) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	r := s.Radius * 1.15
	c.SetColor(s.Color)
	var p vg.Path
	p.Move(at.Add(vg.Point{X: r}))
	p.Line(at.Add(vg.Point{Y: r}))
	p.Line(at.Add(vg.Point{X: -r}))
	p.Line(at.Add(vg.Point{Y: -r}))
	p.Close()
	c.Fill(p)
}

// keyed is an entry of a legend.
type keyed struct {
	name  Markup
	color color.NRGBA
	shape draw.GlyphDrawer
}

// key draws a legend in one line at the top right.
func key(c draw.Canvas, entries []keyed) {
	s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	x := c.Max.X
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		x -= s.Width(e.name)
		at := vg.Point{X: x, Y: c.Max.Y - 6}
		c.FillText(s, at, e.name)
		x -= 9
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: e.color, Radius: vg.Points(3), Shape: e.shape}, vg.Point{X: x, Y: at.Y})
		x -= 16
	}
}
