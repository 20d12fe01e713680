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

// Entry is a cell of one of the paper's tables from our runs: Recall@1 in percent.
type Entry struct {
	Rule  string // direction/pair/triplet.
	Data  string // Our data set.
	Paper string // The paper's data set in the same role; empty if there is none.
	Score stats.Mean
	// Own marks a row of the user's own: a rule with any parts and options, or another text, as the name of a loss, in
	// Rule. A rule with options, or with a part that the table keeps the same, is one even without the mark. Label names
	// the row; by default its parts do, see [OwnLabel].
	Own   bool
	Label Markup
}

// part is one of the three parts of a rule's name.
type part int

const (
	direction part = iota
	pairWeight
	tripletWeight
	none
)

func (p part) title() string { return [...]string{"Direction", "PairWeight", "TripletWeight"}[p] }

func (p part) label(name string) Markup {
	switch p {
	case direction:
		return DirectionLabel(name)
	case pairWeight:
		return PairLabel(name)
	default:
		return TripletLabel(name)
	}
}

// components are the paper's tables that vary one or two parts of a rule and keep the others.
var components = []struct {
	name   string
	number int
	// rows and columns are the parts that are varied. Without a part for the columns, each data set is a column.
	// Otherwise each data set is a block of rows.
	rows, columns part
	compared      string // The things that the rows stand for, in the plural.
	held          Markup
	tint          color.NRGBA
	shade         func(cells ...*Cell)
}{
	{"table2", 2, direction, none, "gradient directions", "$P^{con}$ and $T^{con}$", Red, Shade},
	{"table3", 3, pairWeight, direction, "pair weights with the Euclidean and the cosine direction", "$T^{con}$",
		LeafGreen, ShadeAroundMedian},
	{"table4", 4, tripletWeight, pairWeight, "triplet weights with constant and linear pair weights",
		`$\mathbf{e^{cos}}$`, BrightSky, Shade},
}

// Comparison draws one of the paper's Tables 2 to 4 with our numbers beside the paper's.
type Comparison struct {
	kind       int // In components.
	provenance string
	sets       []string // Ours.
	papers     []string // The paper's, beside them; "" for none.
	rows       []comparisonRow
	columns    []string // One without a name if the data sets are the columns.
	// By data set, column and row.
	ours, theirs [][][]stats.Mean
	agreements   []Markup
}

// comparisonRow is a row of a comparison: a part of a rule, or a row of the user's own.
type comparisonRow struct {
	name  string
	label Markup
	// everywhere is set for a row of the user's own without a column: its runs stand in each.
	everywhere bool
}

// Compare returns the drawings of our Recall@1, as mean ± sample standard deviation over seeds, beside one of the
// paper's tables: "table2" of the directions, "table3" of the pair weights or "table4" of the triplet weights. Rows,
// columns and data sets keep the order of the entries. Rows of the user's own stand below the others; the paper has no
// number for them. It returns an error for another table, without entries, for duplicates, for what is no rule, and for
// a data set that the paper's table lacks.
func Compare(table string, entries []Entry, provenance string) (*Comparison, error) {
	c := &Comparison{kind: -1, provenance: provenance}
	var names []string
	for i, k := range components {
		names = append(names, k.name)
		if k.name == table {
			c.kind = i
		}
	}
	if c.kind < 0 {
		return nil, fmt.Errorf("no comparison %q: want one of %s", table, strings.Join(names, ", "))
	}
	kind := components[c.kind]
	if err := c.fill(markOwn(kind.rows, kind.columns, entries)); err != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}
	var err error
	if c.agreements, err = c.agree(); err != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}
	return c, nil
}

// markOwn marks the entries whose rules cannot be told by the parts of a row and a column alone.
func markOwn(rows, columns part, entries []Entry) []Entry {
	out := slices.Clone(entries)
	for i, e := range out {
		if parts := strings.Split(e.Rule, "/"); len(parts) == 3 && e.Paper != "" {
			out[i].Own = e.Own || OwnLabel(e.Rule, int(rows), int(columns)) != rows.label(parts[rows])
		}
	}
	return out
}

func (c *Comparison) fill(entries []Entry) error {
	if len(entries) == 0 {
		return fmt.Errorf("there are no results")
	}
	kind := components[c.kind]
	index := func(list *[]string, s string) int {
		i := slices.Index(*list, s)
		if i < 0 {
			i = len(*list)
			*list = append(*list, s)
		}
		return i
	}
	rowOf := func(r comparisonRow) int {
		i := slices.IndexFunc(c.rows, func(there comparisonRow) bool { return there.name == r.name })
		if i < 0 {
			i = len(c.rows)
			c.rows = append(c.rows, r)
		}
		return i
	}
	type place struct{ set, column, row int }
	places := make([][]place, len(entries)) // Several for a row that stands in each column.
	seen := make(map[place]bool)
	for _, own := range []bool{false, true} { // Columns are those of the paper's rules.
		for i, e := range entries {
			if e.Own != own {
				continue
			}
			name, _, _ := strings.Cut(e.Rule, "?")
			parts := append(strings.Split(name, "/"), "") // And no part.
			at := place{set: index(&c.sets, e.Data)}
			switch {
			case own:
				column := -1
				if len(parts) == 4 {
					column = slices.Index(c.columns, parts[kind.columns])
				}
				row := ownRow(e, kind.rows, kind.columns, column >= 0)
				if column < 0 && len(c.columns) == 0 {
					return fmt.Errorf("%s is a row of one's own: want at least one of the paper's beside it", e.Rule)
				}
				at.row = rowOf(row)
				for at.column = range c.columns {
					if column < 0 || column == at.column {
						places[i] = append(places[i], at)
					}
				}
			case len(parts) != 4:
				return fmt.Errorf("rule %q: want direction/pair/triplet", e.Rule)
			default:
				at.column = index(&c.columns, parts[kind.columns])
				at.row = rowOf(comparisonRow{name: parts[kind.rows], label: kind.rows.label(parts[kind.rows])})
				places[i] = []place{at}
			}
			for _, at := range places[i] {
				if seen[at] {
					return fmt.Errorf("%s on %s is there twice", e.Rule, e.Data)
				}
				seen[at] = true
			}
			if at.set == len(c.papers) {
				c.papers = append(c.papers, e.Paper)
			} else if c.papers[at.set] != e.Paper {
				return fmt.Errorf("%s stands beside %q and beside %q", e.Data, c.papers[at.set], e.Paper)
			}
		}
	}
	for range c.sets {
		var ours, theirs [][]stats.Mean
		for range c.columns {
			ours = append(ours, slices.Repeat([]stats.Mean{Missing}, len(c.rows)))
			theirs = append(theirs, slices.Repeat([]stats.Mean{Missing}, len(c.rows)))
		}
		c.ours, c.theirs = append(c.ours, ours), append(c.theirs, theirs)
	}
	for i, e := range entries {
		for _, at := range places[i] {
			c.ours[at.set][at.column][at.row] = e.Score
		}
		if e.Paper == "" || e.Own {
			continue
		}
		at := places[i][0]
		parts := strings.Split(e.Rule, "/")
		key := PaperResult{Table: kind.number, Dataset: e.Paper, Direction: parts[direction], Pair: parts[pairWeight],
			Triplet: parts[tripletWeight]}
		r, err := Paper(key)
		switch {
		case err == nil:
			c.theirs[at.set][at.column][at.row] = r.Score()
		case !hasData(kind.number, e.Paper):
			return err
		}
	}
	return nil
}

// hasData reports whether one of the paper's tables has numbers on a data set.
func hasData(table int, data string) bool {
	all, err := PaperResults(table)
	return err == nil && slices.ContainsFunc(all, func(r PaperResult) bool { return r.Dataset == data })
}

// ownRow returns the row of an entry of the user's own. Rules that differ in the column's part alone share a row if
// that part is a column.
func ownRow(e Entry, rows, columns part, placed bool) comparisonRow {
	name, options, _ := strings.Cut(e.Rule, "?")
	parts := strings.Split(name, "/")
	r := comparisonRow{name: "own " + e.Rule, label: e.Label, everywhere: columns != none && !placed}
	column := -1
	if placed && columns != none {
		column = int(columns)
		parts[columns] = ""
		r.name = "own " + strings.Join(parts, "/") + "?" + options
	}
	if r.label == "" {
		r.label = OwnLabel(e.Rule, int(rows), column)
	} else {
		r.name = "own " + r.label
	}
	return r
}

// agree returns the rank correlations with the paper, a line for each column of a data set.
func (c *Comparison) agree() ([]Markup, error) {
	var out []Markup
	for i, set := range c.sets {
		if c.papers[i] == "" {
			continue
		}
		for j := range c.columns {
			a, err := stats.CompareRanks(c.ours[i][j], c.theirs[i][j])
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprintf("Order on %s%s against the paper's on %s (Spearman): %s.", set,
				c.columnLabel(" with ", j), c.papers[i], a))
		}
	}
	if out != nil {
		out = append(out, rankNote)
	}
	return out, nil
}

// rankNote says how a rank correlation is judged.
const rankNote = "In brackets: 95 % by Bonett and Wright, as if the rows were drawn from many. p: how often a random " +
	"order agrees as well."

// columnLabel returns the label of a column after some text. It is empty if the data sets are the columns.
func (c *Comparison) columnLabel(before string, column int) Markup {
	if components[c.kind].columns == none {
		return ""
	}
	return before + components[c.kind].columns.label(c.columns[column])
}

// setLabel returns a data set of ours with the paper's data set beside it.
func (c *Comparison) setLabel(set int) string {
	if c.papers[set] == "" {
		return c.sets[set]
	}
	return c.sets[set] + " beside " + c.papers[set]
}

// Table returns the comparison in the paper's own layout and shading. The shades of a data set are relative to its own
// cells, separately for ours and for the paper's.
func (c *Comparison) Table() *Table {
	kind := components[c.kind]
	titles := make([]Markup, len(c.columns))
	for j := range titles {
		titles[j] = c.columnLabel("", j)
	}
	t := c.lay(titles, func(scores [][]stats.Mean, column, row int) Cell { return Scored(scores[column][row]) },
		kind.shade)
	t.Caption = fmt.Sprintf("Table %d. Recall@1 in percent of different %s, %s.", kind.number, kind.compared, kind.held)
	t.Notes, t.Tint = c.agreements, kind.tint
	return t
}

// Gains returns the table of differences in points with their 95 % intervals by Welch's t. Each row is compared to the
// first row of its column; if there are two columns, the second is compared to the first.
func (c *Comparison) Gains() *Table {
	kind := components[c.kind]
	titles := make([]Markup, len(c.columns))
	for j := range titles {
		titles[j] = c.columnLabel("", j)
	}
	if len(titles) == 2 {
		titles = append(titles, titles[1]+" − "+titles[0])
	}
	t := c.lay(titles, func(scores [][]stats.Mean, column, row int) Cell {
		switch {
		case column == len(c.columns) && c.rows[row].everywhere:
			return Text("–")
		case column == len(c.columns):
			return gain(scores[1][row], scores[0][row])
		case row == 0:
			return Text(scores[column][0].String())
		}
		return gain(scores[column][row], scores[column][0])
	}, nil)
	t.Caption = fmt.Sprintf("Table %d as differences of Recall@1 to the first row of each column, in points.", kind.number)
	t.Notes = []Markup{welchNote}
	t.MarkSignificant()
	return t
}

// welchNote says where intervals of differences come from.
const welchNote = "In brackets: 95 % by Welch's t over seeds."

// gain returns the cell of a − b with its interval.
func gain(a, b stats.Mean) Cell {
	signed := func(v float64) string {
		return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%+.1f", v), "-0.0", "+0.0"), "-", "−")
	}
	test := stats.Welch(a, b)
	d := test.Difference
	switch {
	case math.IsNaN(d.Value):
		return Text("–")
	case math.IsNaN(d.Low):
		return Text(signed(d.Value))
	}
	return Tested(test, fmt.Sprintf("%s [%s,\u00a0%s]", signed(d.Value), signed(d.Low), signed(d.High)))
}

// lay returns a table in the paper's layout: our cells, then the paper's. cell returns a cell of one data set, whose
// scores are by column and row. shade, if not nil, gets all cells of a data set.
func (c *Comparison) lay(titles []Markup, cell func(scores [][]stats.Mean, column, row int) Cell,
	shade func(cells ...*Cell)) *Table {
	kind := components[c.kind]
	across := kind.columns == none
	t := &Table{Provenance: c.provenance}
	head := func(r comparisonRow) Cell {
		cell := Text(r.label)
		if r.everywhere {
			cell.Note = "The same runs in each column: it has none of these " +
				map[part]string{direction: "directions", pairWeight: "pair weights"}[kind.columns] + "."
		}
		return cell
	}
	if across {
		for _, row := range c.rows {
			t.Rows = append(t.Rows, []Cell{head(row)})
		}
	} else {
		t.Columns = []Column{{Title: "Data", Left: true, Merged: true}}
		for i := range c.sets {
			for _, row := range c.rows {
				t.Rows = append(t.Rows, []Cell{Text(c.setLabel(i)), head(row)})
			}
			t.Rules = append(t.Rules, len(t.Rows))
		}
	}
	t.Columns = append(t.Columns, Column{Title: kind.rows.title(), Left: true})
	group := func(name string, sets []string, scores [][][]stats.Mean) {
		first := 0 // Row of the data set's block.
		for i, set := range sets {
			if across && set == "" {
				continue
			}
			block := t.Rows[first : first+len(c.rows)]
			for j, title := range titles {
				switch {
				case across:
					t.Columns = append(t.Columns, Column{Group: name, Title: set})
				case i == 0:
					t.Columns = append(t.Columns, Column{Group: name, Title: title})
				}
				for k := range block {
					block[k] = append(block[k], cell(scores[i], j, k))
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
				first += len(c.rows)
			}
		}
	}
	group("ours", c.sets, c.ours)
	if slices.ContainsFunc(c.papers, func(s string) bool { return s != "" }) {
		group("the paper's", c.papers, c.theirs)
	}
	return t
}

// Plot draws our means and the paper's with their standard deviations, in a panel for each data set and column.
func (c *Comparison) Plot() *Figure {
	kind := components[c.kind]
	var panels [][]*plot.Plot // In lines.
	for i := range c.sets {
		var line []*plot.Plot
		low, high := c.reach(i)
		for j := range c.columns {
			line = append(line, c.panel(i, j, low, high))
		}
		if kind.columns == none && i > 0 {
			panels[0] = append(panels[0], line...)
		} else {
			panels = append(panels, line)
		}
	}
	const gap = vg.Length(14) // Between lines.
	line := vg.Points(64 + 31*float64(len(c.rows)))
	if len(panels) > 1 {
		line = vg.Points(46 + 24*float64(len(c.rows)))
	}
	return &Figure{
		Width: vg.Points(290 * float64(len(panels[0]))), Height: (line+gap)*vg.Length(len(panels)) - gap + 24,
		Alt: fmt.Sprintf("Table %d as a picture: Recall@1 of different %s, ours and the paper's, with standard deviations.%s",
			kind.number, kind.compared, c.words()),
		Provenance: c.provenance,
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
func (c *Comparison) reach(set int) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, scores := range slices.Concat(c.ours[set], c.theirs[set]) {
		for _, s := range scores {
			if !math.IsNaN(s.Mean) {
				low, high = min(low, s.Mean-s.Std), max(high, s.Mean+s.Std)
			}
		}
	}
	if low > high {
		low, high = 0, 100
	}
	room := max(0.06*(high-low), 0.5)
	return low - room, high + room
}

func (c *Comparison) panel(set, column int, low, high float64) *plot.Plot {
	p := newPlot(c.setLabel(set)+c.columnLabel(", ", column), "Recall@1, %", "")
	ticks := make(plot.ConstantTicks, len(c.rows))
	for i, row := range c.rows {
		ticks[i] = plot.Tick{Value: -float64(i), Label: row.label}
	}
	p.Y.Tick.Marker, p.Y.Tick.Length = ticks, 0
	p.Y.Tick.Label.Font.Size = labelSize
	p.Y.LineStyle.Width = 0
	p.Y.Min, p.Y.Max = 0.5-float64(len(c.rows)), 0.5
	p.X.Min, p.X.Max = low, high
	step := roundStep((high - low) / 6)
	p.X.Tick.Marker = every(step, low, high)
	p.Add(stripes{len(c.rows), step}, whiskers{c.ours[set][column], 0.12, Blue, draw.CircleGlyph{}})
	if c.papers[set] != "" {
		p.Add(whiskers{c.theirs[set][column], -0.18, quiet, diamond{}})
	}
	return p
}

// words returns the scores as a text.
func (c *Comparison) words() string {
	var b strings.Builder
	for i, set := range c.sets {
		for j, column := range c.columns {
			b.WriteString(" " + set)
			if column != "" {
				b.WriteString(", " + column)
			}
			b.WriteString(":")
			for k, row := range c.rows {
				fmt.Fprintf(&b, " %s %s", strings.TrimPrefix(row.name, "own "), c.ours[i][j][k])
				if c.papers[i] != "" {
					fmt.Fprintf(&b, " (paper, %s: %s)", c.papers[i], c.theirs[i][j][k])
				}
				b.WriteString(map[bool]string{true: ".", false: ","}[k == len(c.rows)-1])
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
