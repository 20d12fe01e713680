package figures

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"html"
	"image/color"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	pretty "github.com/jedib0t/go-pretty/v6/table"
	prettytext "github.com/jedib0t/go-pretty/v6/text"
)

// Missing is the mean of runs that have not been run.
var Missing = stats.Mean{Mean: math.NaN()}

// Table is a table in the paper's layout. It can be written for a terminal and as Markdown, CSV, HTML and LaTeX.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	// Rules are the row numbers, counted from 1, that a line follows.
	Rules   []int
	Caption Markup
	// Notes are the lines under the table.
	Notes []Markup
	// Provenance names the preset, data and backend of the numbers.
	Provenance string
	// Setting, if not empty, is a setting of the runs that CSV has in a column of its own, since it has no caption.
	Setting string
	// Tint is the color of a cell with shade 1; the zero value is [Red]. The paper's tables use red, green and blue.
	Tint color.NRGBA
}

// Column is the head of a column. Adjacent columns with the same Group share a second head above theirs.
type Column struct {
	Title, Group Markup
	Left         bool // Text, aligned left; numbers are centered.
	// Merged merges equal cells in consecutive rows. CSV repeats them.
	Merged bool
	// Wrap is the number of characters after which long text is broken, in formats that do not do so themselves; 0 is
	// never.
	Wrap int
}

// Cell is a cell of a table: text or a score.
type Cell struct {
	Text  Markup
	Score *stats.Mean
	Bold  bool
	// If Shaded is set, Shade colors the cell, from white at 0 to the table's tint at 1.
	Shade  float64
	Shaded bool
	// Background is the color behind the text of a cell that is not shaded; the zero value is none.
	Background color.NRGBA
	// Note is the footnote of the cell.
	Note Markup
	// Test is the test that the cell shows, nil without one, and Family names those that it is corrected with; see
	// [Table.MarkSignificant].
	Test   *stats.Test
	Family string
}

// The tints of the paper's tables.
var (
	Red       = color.NRGBA{0xe6, 0x7c, 0x73, 0xff} // Tables 2 and 6.
	LeafGreen = color.NRGBA{0x57, 0xbb, 0x8a, 0xff} // Tables 3 and 7.
	BrightSky = color.NRGBA{0x42, 0x85, 0xf4, 0xff} // Tables 4 and 8.
)

// Text returns a cell of text.
func Text(m Markup) Cell { return Cell{Text: m} }

// Tested is a cell with a test and its text.
func Tested(t stats.Test, text Markup) Cell { return Cell{Text: text, Test: &t} }

// MarkSignificant sets the tests in bold that are significant at 0.05 after Holm's correction for the tests of their
// family, and says in a note how many those are.
func (t *Table) MarkSignificant() {
	var families []string
	tested, p := make(map[string][]*Cell), make(map[string][]float64)
	for _, row := range t.Rows {
		for i := range row {
			c := &row[i]
			if c.Test == nil {
				continue
			}
			if p[c.Family] == nil {
				families = append(families, c.Family)
			}
			tested[c.Family], p[c.Family] = append(tested[c.Family], c), append(p[c.Family], c.Test.P)
		}
	}
	var parts []string
	for _, family := range families {
		last := stats.Holm(p[family], 0.05)
		for _, c := range tested[family] {
			c.Bold = c.Test.P <= last
		}
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d %s", len(p[family]), family)))
	}
	switch {
	case len(families) == 1 && families[0] == "":
		t.Notes = append(t.Notes, "Bold: not zero at the level 0.05, after Holm's correction for all tests of this table.")
	case families != nil:
		t.Notes = append(t.Notes, "Bold: not zero at the level 0.05, after Holm's correction for the tests of a family: "+
			strings.Join(parts, ", ")+".")
	}
}

// Scored is a cell with a score; runs that diverged are said in a footnote.
func Scored(s stats.Mean) Cell {
	c := Cell{Score: &s}
	if s.Diverged > 0 {
		c.Note = fmt.Sprintf("%d of %d runs diverged and are not in the mean.", s.Diverged, s.N+s.Diverged)
	}
	return c
}

// Row returns cells: a [Cell] as it is, a mean as by [Scored], and anything else as its text.
func Row(values ...any) []Cell {
	out := make([]Cell, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case Cell:
			out[i] = v
		case stats.Mean:
			out[i] = Scored(v)
		default:
			out[i] = Text(fmt.Sprint(v))
		}
	}
	return out
}

// RuleBlocks draws a line after each block of rows that have the same text in the first columns.
func (t *Table) RuleBlocks(columns int) {
	for i := 1; i < len(t.Rows); i++ {
		same := func(a, b Cell) bool { return a.Text == b.Text }
		if !slices.EqualFunc(t.Rows[i][:columns], t.Rows[i-1][:columns], same) {
			t.Rules = append(t.Rules, i)
		}
	}
}

// Shade shades the scores of some cells as the paper does, from white at the lowest mean to the tint at the highest.
func Shade(cells ...*Cell) {
	means := spanOf()
	for _, c := range cells {
		if c.Score != nil {
			means.add(c.Score.Mean)
		}
	}
	for _, c := range cells {
		if c.Score != nil && !math.IsNaN(c.Score.Mean) && means.low < means.high {
			c.Shade, c.Shaded = (c.Score.Mean-means.low)/(means.high-means.low), true
		}
	}
}

// ShadeAroundMedian shades like [Shade], but gives the median of the means half the tint, as the paper's Table 3
// does. A few low scores then do not make the others look alike.
func ShadeAroundMedian(cells ...*Cell) {
	Shade(cells...)
	var shades []float64
	for _, c := range cells {
		if c.Shaded {
			shades = append(shades, c.Shade)
		}
	}
	if len(shades) == 0 {
		return
	}
	slices.Sort(shades)
	middle := (shades[(len(shades)-1)/2] + shades[len(shades)/2]) / 2
	for _, c := range cells {
		switch {
		case !c.Shaded:
		case c.Shade < middle:
			c.Shade /= 2 * middle
		case c.Shade > 0 && middle < 1:
			c.Shade = 0.5 + (c.Shade-middle)/(1-middle)/2
		}
	}
}

func (c Cell) markup() Markup {
	if c.Score != nil {
		return c.Score.String()
	}
	return c.Text
}

// ground returns the background of a cell, if it has one.
func (t *Table) ground(c Cell) (k color.NRGBA, colored bool) {
	if c.Shaded {
		return scale{paper, cmp.Or(t.Tint, Red)}.at(c.Shade), true
	}
	return c.Background, c.Background != color.NRGBA{}
}

// painted is the style of text on a color, "" for none.
func painted(k color.NRGBA) string {
	if k == (color.NRGBA{}) {
		return ""
	}
	return fmt.Sprintf("background:#%02x%02x%02x;color:#000", k.R, k.G, k.B)
}

// footnotes numbers the notes of cells. Equal notes share a mark.
func (t *Table) footnotes() (marks map[Markup]string, notes []Markup) {
	marks = map[Markup]string{}
	for _, row := range t.Rows {
		for _, c := range row {
			if _, known := marks[c.Note]; c.Note != "" && !known {
				marks[c.Note] = superscript(len(marks) + 1)
				notes = append(notes, marks[c.Note]+" "+c.Note)
			}
		}
	}
	return marks, append(notes, t.Notes...)
}

func superscript(n int) string {
	return strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷",
		"8", "⁸", "9", "⁹").Replace(strconv.Itoa(n))
}

func (t *Table) check() error {
	for i, row := range t.Rows {
		if len(row) != len(t.Columns) {
			return fmt.Errorf("table: row %d has %d cells; want %d, one for each column", i, len(row), len(t.Columns))
		}
	}
	return nil
}

// Formats returns txt, which is for a terminal, md, csv, html and tex.
func (t *Table) Formats() []string { return []string{"txt", "md", "csv", "html", "tex"} }

func (t *Table) bytes(format string) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	switch format {
	case "md":
		return t.markdown(), nil
	case "csv":
		return t.csv()
	case "html":
		return t.html(), nil
	case "tex":
		return t.latex(), nil
	default:
		return t.terminal(), nil
	}
}

// String returns the table for a terminal, or the text of its error.
func (t *Table) String() string {
	b, err := t.bytes("txt")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (t *Table) grouped() bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Group != "" })
}

// run returns the number of rows that the cell of a merged column spans: 0 if it belongs to the cell above it.
func (t *Table) run(row, column int) int {
	if !t.Columns[column].Merged {
		return 1
	}
	same := func(i int) bool { return t.Rows[i][column].markup() == t.Rows[row][column].markup() }
	if row > 0 && same(row-1) {
		return 0
	}
	n := 1
	for row+n < len(t.Rows) && same(row+n) {
		n++
	}
	return n
}

// texts returns the cells of each row as text; that of a cell that belongs to the one above it is empty.
func (t *Table) texts(of func(c Cell) string) [][]string {
	out := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		out[i] = make([]string, len(row))
		for j, c := range row {
			if t.run(i, j) > 0 {
				out[i][j] = of(c)
			}
		}
	}
	return out
}

func (t *Table) ruled(row int) bool { return row+1 < len(t.Rows) && slices.Contains(t.Rules, row+1) }

func (t *Table) terminal() []byte {
	marks, notes := t.footnotes()
	w := pretty.NewWriter()
	s := pretty.StyleLight
	s.Options = pretty.Options{SeparateColumns: true, SeparateHeader: true}
	s.Format.Header = prettytext.FormatDefault
	w.SetStyle(s)
	if t.grouped() {
		row := make(pretty.Row, len(t.Columns))
		for i, c := range t.Columns {
			row[i] = Plain(c.Group)
		}
		w.AppendHeader(row, pretty.RowConfig{AutoMerge: true})
	}
	row := make(pretty.Row, len(t.Columns))
	configs := make([]pretty.ColumnConfig, len(t.Columns))
	for i, c := range t.Columns {
		row[i] = Plain(c.Title)
		configs[i] = pretty.ColumnConfig{Number: i + 1, Align: prettytext.AlignCenter, AlignHeader: prettytext.AlignCenter}
		if c.Left {
			configs[i].Align, configs[i].AlignHeader = prettytext.AlignLeft, prettytext.AlignLeft
		}
		if c.Wrap > 0 {
			configs[i].WidthMax, configs[i].WidthMaxEnforcer = c.Wrap, prettytext.WrapSoft
		}
	}
	w.AppendHeader(row)
	for i, n := range t.groups() {
		// Columns are as wide as the group's head needs. Without a minimum, go-pretty 6.6.8 divides by zero on some widths.
		need := utf8.RuneCountInString(Plain(t.Columns[i].Group)) - (n - 1)
		for j := i; n > 1 && j < i+n; j++ {
			configs[j].WidthMin = (need + n - 1) / n
		}
	}
	w.SetColumnConfigs(configs)
	for i, cells := range t.texts(func(c Cell) string { return Plain(c.markup()) + marks[c.Note] }) {
		row := make(pretty.Row, len(cells))
		for j, text := range cells {
			row[j] = text
		}
		if w.AppendRow(row); t.ruled(i) {
			w.AppendSeparator()
		}
	}
	var b bytes.Buffer
	line := func(m Markup) {
		if m != "" {
			b.WriteString(Plain(m) + "\n")
		}
	}
	line(t.Caption)
	b.WriteString(w.Render() + "\n")
	for _, n := range notes {
		line(n)
	}
	line(t.Provenance)
	return b.Bytes()
}

func (t *Table) markdown() []byte {
	marks, notes := t.footnotes()
	// GitHub and JupyterLab render the formulas between dollar signs.
	text := func(m Markup) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(Markdown(m)) }
	var b bytes.Buffer
	row := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	head, line := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i], line[i] = text(c.Title), ":-:"
		if c.Group != "" {
			head[i] = text(c.Group) + ", " + head[i]
		}
		if c.Left {
			line[i] = ":--"
		}
	}
	row(head)
	row(line)
	for _, cells := range t.texts(func(c Cell) string {
		out := text(c.markup())
		if c.Bold {
			out = "**" + out + "**"
		}
		return out + marks[c.Note]
	}) {
		row(cells)
	}
	for _, m := range append([]Markup{t.Caption}, append(notes, t.Provenance)...) {
		if m != "" {
			b.WriteString("\n" + Markdown(m) + "\n")
		}
	}
	return b.Bytes()
}

// csv writes a column for each part of a score, and one for the setting.
func (t *Table) csv() ([]byte, error) {
	text := func(m Markup) string { return scores.CellText(strings.ReplaceAll(Plain(m), "\u00a0", " ")) }
	float := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	records := make([][]string, 1+len(t.Rows))
	for j, c := range t.Columns {
		name := Plain(c.Title)
		if c.Group != "" {
			name = Plain(c.Group) + " " + name
		}
		if !slices.ContainsFunc(t.Rows, func(row []Cell) bool { return row[j].Score != nil }) {
			records[0] = append(records[0], name)
			for i, row := range t.Rows {
				records[i+1] = append(records[i+1], text(row[j].Text))
			}
			continue
		}
		records[0] = append(records[0], name+" mean", name+" std", name+" runs", name+" diverged")
		for i, row := range t.Rows {
			parts := []string{text(row[j].Text), "", "", ""}
			if s := row[j].Score; s != nil {
				if parts[0] = float(s.Mean); parts[0] != "" {
					parts[1] = float(s.Std)
				}
				parts[2], parts[3] = strconv.Itoa(s.N), strconv.Itoa(s.Diverged)
			}
			records[i+1] = append(records[i+1], parts...)
		}
	}
	if t.Setting != "" {
		records[0] = append(records[0], "setting")
		for i := range t.Rows {
			records[i+1] = append(records[i+1], scores.CellText(Printable(t.Setting)))
		}
	}
	var b bytes.Buffer
	err := csv.NewWriter(&b).WriteAll(records)
	return b.Bytes(), err
}

// html sets colors on shaded cells only, so that the table reads well in light and dark notebooks.
func (t *Table) html() []byte {
	marks, notes := t.footnotes()
	var b bytes.Buffer
	cell, left, size := "padding:3px 12px;", "text-align:left;", ""
	if len(t.Columns) > 7 { // Numbers that do not wrap must fit into a window of JupyterLab that is 1366 pixels wide.
		cell, left = "padding:3px;", "padding-right:8px;text-align:left;"
	}
	if len(t.Columns) > 10 {
		size = ";font-size:81%"
	}
	align := func(c Column) string {
		if c.Left {
			return left
		}
		return "text-align:center;"
	}
	fmt.Fprintf(&b, `<table style="border-collapse:collapse;margin:6px 0%s">`+"\n", size)
	if t.Caption != "" {
		fmt.Fprintf(&b, `<caption style="caption-side:top;text-align:left;padding:4px 0">%s</caption>`+"\n", HTML(t.Caption))
	}
	b.WriteString("<thead>\n")
	if t.grouped() {
		b.WriteString("<tr>")
		for i, span := range t.groups() {
			head(&b, fmt.Sprintf(`colspan="%d" style="%stext-align:center;"`, span, cell), t.Columns[i].Group)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString(`<tr style="border-bottom:1px solid currentColor">`)
	for _, c := range t.Columns {
		head(&b, fmt.Sprintf(`style="%s%s"`, cell, align(c)), c.Title)
	}
	b.WriteString("</tr>\n</thead>\n<tbody>\n")
	for i, row := range t.Rows {
		rule := ""
		if t.ruled(i) {
			rule = ` style="border-bottom:1px solid currentColor"`
		}
		fmt.Fprintf(&b, "<tr%s>", rule)
		for j, c := range row {
			span := ""
			switch n := t.run(i, j); {
			case n == 0:
				continue
			case n > 1:
				span = fmt.Sprintf(` rowspan="%d"`, n)
			}
			style := cell + align(t.Columns[j])
			if k, colored := t.ground(c); colored {
				style += painted(k) + ";"
			}
			text := strings.ReplaceAll(HTML(c.markup()), " ± ", "\u00a0±\u00a0") // A number stays on one line.
			if c.Bold {
				text = "<b>" + text + "</b>"
			}
			fmt.Fprintf(&b, `<td%s style="%s">%s%s</td>`, span, style, text, marks[c.Note])
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody>\n</table>\n")
	for _, n := range notes {
		fmt.Fprintf(&b, `<div style="font-size:90%%">%s</div>`+"\n", HTML(n))
	}
	if t.Provenance != "" {
		fmt.Fprintf(&b, `<div style="font-size:85%%;opacity:.7">%s</div>`+"\n", html.EscapeString(t.Provenance))
	}
	return b.Bytes()
}

// head writes a column's title. A screen reader is told of no header where there is none.
func head(b *bytes.Buffer, attributes string, title Markup) {
	tag := "th"
	if title == "" {
		tag = "td"
	}
	fmt.Fprintf(b, "<%s %s>%s</%[1]s>", tag, attributes, HTML(title))
}

// groups returns the first column and the number of columns of each group. A column without a group is alone.
func (t *Table) groups() iter.Seq2[int, int] {
	return func(yield func(first, n int) bool) {
		for i, n := 0, 1; i < len(t.Columns); i, n = i+n, 1 {
			for t.Columns[i].Group != "" && i+n < len(t.Columns) && t.Columns[i+n].Group == t.Columns[i].Group {
				n++
			}
			if !yield(i, n) {
				return
			}
		}
	}
}

// latex returns a table for any document: it does not float, has its caption as text, and needs only the packages
// booktabs, xcolor and adjustbox. Shaded cells are colored boxes.
func (t *Table) latex() []byte {
	marks, notes := t.footnotes()
	text := func(m Markup) string { return latex(strings.ReplaceAll(m, "\n", " ")) }
	var b bytes.Buffer
	b.WriteString("% needs \\usepackage{booktabs,xcolor,adjustbox}\n\\begin{center}\n\\setlength{\\fboxsep}{2pt}\n")
	if t.Caption != "" {
		fmt.Fprintf(&b, "%s\\par\\smallskip\n", text(t.Caption))
	}
	b.WriteString("\\begin{adjustbox}{max width=\\linewidth,max totalheight=0.9\\textheight}\n\\begin{tabular}{")
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = text(c.Title)
		switch {
		case c.Wrap > 0:
			fmt.Fprintf(&b, "p{%.1fem}", 0.3*float64(c.Wrap))
		case c.Left:
			b.WriteString("l")
		default:
			b.WriteString("c")
		}
	}
	b.WriteString("}\n\\toprule\n")
	line := func(cells []string) { b.WriteString(strings.Join(cells, " & ") + " \\\\\n") }
	if t.grouped() {
		var groups, rules []string
		for i, n := range t.groups() {
			groups = append(groups, fmt.Sprintf("\\multicolumn{%d}{c}{%s}", n, text(t.Columns[i].Group)))
			if t.Columns[i].Group != "" {
				rules = append(rules, fmt.Sprintf("\\cmidrule(lr){%d-%d}", i+1, i+n))
			}
		}
		line(groups)
		b.WriteString(strings.Join(rules, " ") + "\n")
	}
	line(heads)
	b.WriteString("\\midrule\n")
	for i, cells := range t.texts(func(c Cell) string {
		out := text(c.markup())
		if c.Bold {
			out = "\\textbf{" + out + "}"
		}
		out += latexMarks.Replace(marks[c.Note])
		if k, colored := t.ground(c); colored {
			out = fmt.Sprintf("\\colorbox[HTML]{%02X%02X%02X}{%s}", k.R, k.G, k.B, out)
		}
		return out
	}) {
		if line(cells); t.ruled(i) {
			b.WriteString("\\midrule\n")
		}
	}
	b.WriteString("\\bottomrule\n\\end{tabular}\n\\end{adjustbox}\n")
	for _, m := range append(notes, t.Provenance) {
		if m != "" {
			fmt.Fprintf(&b, "\\par{\\footnotesize %s}\n", latexMarks.Replace(text(m)))
		}
	}
	b.WriteString("\\end{center}\n")
	return b.Bytes()
}

// latexMarks are the marks of footnotes in LaTeX.
var latexMarks = strings.NewReplacer("⁰", "$^0$", "¹", "$^1$", "²", "$^2$", "³", "$^3$", "⁴", "$^4$", "⁵", "$^5$", "⁶",
	"$^6$", "⁷", "$^7$", "⁸", "$^8$", "⁹", "$^9$")
