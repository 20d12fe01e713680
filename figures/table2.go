package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Entry is a measured cell of one of the paper's tables: Recall@1 in percent.
type Entry struct {
	Row    string // What is compared, by its name: in Table 2 the direction.
	Column string // The data set that ours is measured on.
	Paper  string // The paper's data set that it stands beside; empty for none.
	Score  Score
}

// comparison is a table of ours beside the paper's: rows × data sets.
type comparison struct {
	rows         []string
	sets         []string // Ours.
	papers       []string // The paper's, beside them; "" for none.
	ours, theirs [][]Score
}

func compare(entries []Entry, paper func(e Entry) (Score, error)) (*comparison, error) {
	c := &comparison{}
	index := func(list *[]string, s string) int {
		for i, x := range *list {
			if x == s {
				return i
			}
		}
		*list = append(*list, s)
		return len(*list) - 1
	}
	for _, e := range entries {
		index(&c.rows, e.Row)
		if i := index(&c.sets, e.Column); i == len(c.papers) {
			c.papers = append(c.papers, e.Paper)
		} else if c.papers[i] != e.Paper {
			return nil, fmt.Errorf("%s stands beside %q and beside %q", e.Column, c.papers[i], e.Paper)
		}
	}
	for range c.sets {
		ours, theirs := make([]Score, len(c.rows)), make([]Score, len(c.rows))
		for i := range ours {
			ours[i], theirs[i] = Missing, Missing
		}
		c.ours, c.theirs = append(c.ours, ours), append(c.theirs, theirs)
	}
	for _, e := range entries {
		row, set := index(&c.rows, e.Row), index(&c.sets, e.Column)
		c.ours[set][row] = e.Score
		if e.Paper == "" {
			continue
		}
		var err error
		if c.theirs[set][row], err = paper(e); err != nil {
			return nil, err
		}
	}
	if len(c.rows) == 0 {
		return nil, fmt.Errorf("there are no results")
	}
	return c, nil
}

// agreements are notes on how well the orders agree, one a data set.
func (c *comparison) agreements() ([]Markup, error) {
	var out []Markup
	for i, set := range c.sets {
		if c.papers[i] == "" {
			continue
		}
		a, err := Agreement(c.ours[i], c.theirs[i])
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("Order on %s against the paper's on %s (Spearman): %s.", set, c.papers[i], a))
	}
	if out != nil {
		out = append(out, "In brackets: 95 % of ρ when each mean moves by its standard error. p: how often a random order agrees as well.")
	}
	return out, nil
}

// table sets the comparison, each column shaded by itself as in the paper.
func (c *comparison) table(head Markup, label func(string) Markup) (*Table, error) {
	t := &Table{Columns: []Column{{Title: head, Left: true}}}
	var err error
	if t.Notes, err = c.agreements(); err != nil {
		return nil, err
	}
	for _, row := range c.rows {
		t.Rows = append(t.Rows, []Cell{Text(label(row))})
	}
	column := func(group, title string, scores []Score) {
		t.Columns = append(t.Columns, Column{Title: title, Group: group})
		for i := range t.Rows {
			t.Rows[i] = append(t.Rows[i], Scored(scores[i]))
		}
		var cells []*Cell
		for i := range t.Rows {
			cells = append(cells, &t.Rows[i][len(t.Rows[i])-1])
		}
		Shade(cells...)
	}
	for i, set := range c.sets {
		column("ours", set, c.ours[i])
	}
	for i, set := range c.papers {
		if set != "" {
			column("the paper's", set, c.theirs[i])
		}
	}
	return t, nil
}

func compareTable2(entries []Entry) (*comparison, error) {
	c, err := compare(entries, func(e Entry) (Score, error) {
		r, err := Paper(PaperResult{Table: 2, Dataset: e.Paper, Direction: e.Row})
		return r.Score(), err
	})
	if err != nil {
		return nil, fmt.Errorf("table 2: %w", err)
	}
	return c, nil
}

// Table2 is Table 2, Recall@1 of the directions with P = con and T = con: ours as mean ± sample standard deviation over
// seeds, the paper's beside it.
func Table2(entries []Entry, provenance string) (*Table, error) {
	c, err := compareTable2(entries)
	if err != nil {
		return nil, err
	}
	t, err := c.table("Direction", DirectionLabel)
	if err != nil {
		return nil, fmt.Errorf("table 2: %w", err)
	}
	t.Caption = "Table 2. Recall@1 in percent of different gradient directions, $P^{con}$ and $T^{con}$."
	t.Provenance, t.Tint = provenance, Red
	return t, nil
}

// Table2Plot draws Table 2: for each data set a panel with ours and the paper's, mean and standard deviation.
func Table2Plot(entries []Entry, provenance string) (*Figure, error) {
	c, err := compareTable2(entries)
	if err != nil {
		return nil, err
	}
	f := c.plot(DirectionLabel)
	f.Provenance = provenance
	f.Alt = "Table 2 as a picture: Recall@1 of each gradient direction, ours and the paper's, with standard deviations." + c.words()
	return f, nil
}

// words reads the scores out.
func (c *comparison) words() string {
	s := ""
	for i, set := range c.sets {
		s += " " + set + ":"
		for j, row := range c.rows {
			s += fmt.Sprintf(" %s %s", row, c.ours[i][j])
			if c.papers[i] != "" {
				s += fmt.Sprintf(" (paper, %s: %s)", c.papers[i], c.theirs[i][j])
			}
			s += map[bool]string{true: ".", false: ","}[j == len(c.rows)-1]
		}
	}
	return s
}

func (c *comparison) plot(label func(string) Markup) *Figure {
	var panels []*plot.Plot
	for i, set := range c.sets {
		title := set
		if c.papers[i] != "" {
			title += " beside " + c.papers[i]
		}
		p := newPlot(title, "Recall@1, %", "")
		ticks := make(plot.ConstantTicks, len(c.rows))
		for j, row := range c.rows {
			ticks[j] = plot.Tick{Value: -float64(j), Label: label(row)}
		}
		p.Y.Tick.Marker, p.Y.Tick.Length = ticks, 0
		p.Y.Tick.Label.Font.Size = labelSize
		p.Y.LineStyle.Width = 0
		p.Y.Min, p.Y.Max = 0.5-float64(len(c.rows)), 0.5
		low, high := math.Inf(1), math.Inf(-1)
		for j := range c.rows {
			for _, s := range []Score{c.ours[i][j], c.theirs[i][j]} {
				if !math.IsNaN(s.Mean) {
					low, high = min(low, s.Mean-s.Std), max(high, s.Mean+s.Std)
				}
			}
		}
		if low > high {
			low, high = 0, 100
		}
		room := max(0.06*(high-low), 0.5)
		p.X.Min, p.X.Max = low-room, high+room
		step := roundStep((p.X.Max - p.X.Min) / 6)
		p.X.Tick.Marker = every(step, p.X.Min, p.X.Max)
		p.Add(stripes{len(c.rows), step}, whiskers{c.ours[i], 0.12, Blue, draw.CircleGlyph{}})
		if c.papers[i] != "" {
			p.Add(whiskers{c.theirs[i], -0.18, quiet, diamond{}})
		}
		panels = append(panels, p)
	}
	return &Figure{
		Width: vg.Points(290 * float64(len(panels))), Height: vg.Points(64 + 31*float64(len(c.rows)) + 24),
		panels: func(canvas draw.Canvas) {
			key(canvas, []keyed{{"ours, mean ± std over seeds", Blue, draw.CircleGlyph{}}, {"the paper's", quiet, diamond{}}})
			canvas.Max.Y -= 16
			widths := make([]float64, len(panels))
			for i := range widths {
				widths[i] = 1
			}
			for i, part := range columns(canvas, 18, widths...) {
				drawPlot(panels[i], part)
			}
		},
	}
}

// stripes are the grounds of a dot plot: a light line a row and at each step.
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

// whiskers are scores as points with their standard deviations, shifted within their rows.
type whiskers struct {
	scores []Score
	shift  float64
	colour color.NRGBA
	shape  draw.GlyphDrawer
}

func (w whiskers) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, s := range w.scores {
		at := y(w.shift - float64(i))
		if math.IsNaN(s.Mean) {
			if s.Diverged > 0 {
				c.FillText(aligned(style(noteSize, w.colour), text.XLeft, text.YCenter), vg.Point{X: c.Min.X + 4, Y: at}, "diverged")
			}
			continue
		}
		if s.Std > 0 {
			c.StrokeLine2(stroke(w.colour, 1.4), x(s.Mean-s.Std), at, x(s.Mean+s.Std), at)
		}
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: w.colour, Radius: vg.Points(3.2), Shape: ringed{w.shape}}, vg.Point{X: x(s.Mean), Y: at})
	}
}

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

type keyed struct {
	name   Markup
	colour color.NRGBA
	shape  draw.GlyphDrawer
}

// key writes a legend in one line at the top right.
func key(c draw.Canvas, entries []keyed) {
	s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	x := c.Max.X
	for i := len(entries) - 1; i >= 0; i-- {
		e := entries[i]
		x -= s.Width(e.name)
		at := vg.Point{X: x, Y: c.Max.Y - 6}
		c.FillText(s, at, e.name)
		x -= 9
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: e.colour, Radius: vg.Points(3), Shape: e.shape}, vg.Point{X: x, Y: at.Y})
		x -= 16
	}
}
