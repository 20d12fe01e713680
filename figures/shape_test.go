package figures

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// row is a figure of plots side by side.
func row(n int) *Figure {
	var plots []*plot.Plot
	for range n {
		plots = append(plots, newPlot("Title", "x", "y"))
	}
	return &Figure{Width: vg.Length(150 * n), Height: 150, Provenance: "preset quick · minicar",
		panels: func(c draw.Canvas) { drawRow(c, plots, 10) }}
}

// A figure for a narrow page has its panels below each other, with text of the same size; one that is too wide is an
// error, and the zero style changes nothing.
func TestStyle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width  vg.Length
		panels int
		height vg.Length
	}{{150, 3, 450}, {240, 3, 240}, {460, 3, 150}, {120, 2, 240}} {
		s, f := Style{Width: c.width, Serif: true}, row(c.panels)
		out, err := s.Apply(f)
		if err != nil {
			t.Fatal(err)
		}
		got := out.(*Figure)
		if got.Width != s.Width || got.Height < c.height-1 || got.Height > c.height+1 || f.Width != vg.Length(150*c.panels) {
			t.Errorf("%d panels in %v: %v × %v, want a height of %v", c.panels, c.width, got.Width, got.Height, c.height)
		}
		sans, serif := bytesOf(Bytes(f, "svg")), bytesOf(Bytes(got, "svg"))
		if len(sans) == 0 || len(serif) == 0 || bytes.Equal(sans, serif) {
			t.Errorf("%d panels in %v: the pictures are %d and %d bytes", c.panels, c.width, len(sans), len(serif))
		}
	}
	f := row(1)
	if same, err := (Style{}).Apply(f); err != nil || same != Output(f) {
		t.Errorf("the zero style: %v, %v", same, err)
	}
	table := &Table{}
	if same, err := (Style{Width: 240}).Apply(table); err != nil || same != Output(table) {
		t.Errorf("a table: %v, %v", same, err)
	}
	wide := Of(newPlot("A title that is much too long for the narrow column of a page of two columns, in bold letters",
		"x", "y"), 600, 200)
	for _, width := range []vg.Length{240, 400} { // Less than half of its own; narrower than its title.
		if _, err := (Style{Width: width}).Apply(wide); err == nil || !strings.Contains(err.Error(), "such as 600 pt") {
			t.Errorf("too wide for %v: %v", width, err)
		}
	}
	if s, err := ParseStyle("3.5in", "serif"); err != nil || s != (Style{Width: 252, Serif: true}) {
		t.Errorf("3.5 in: %+v, %v", s, err)
	}
	for want, given := range map[string][2]string{"as in 240pt": {"wide", ""}, "of 234pt": {"20pt", ""},
		"to 2000pt": {"NaNpt", ""}, "sans or serif": {"", "comic"}} {
		if _, err := ParseStyle(given[0], given[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", given, err)
		}
	}
}

// No letter of a figure for a given width is below 7 points, of a script of a script neither.
func TestLetters(t *testing.T) {
	t.Parallel()
	of := func(title Markup, s Style) []byte {
		f := Of(newPlot(title, "x", "y"), 240, 150)
		out, err := s.Apply(f)
		if err != nil {
			t.Fatal(err)
		}
		return bytesOf(Bytes(out, "svg"))
	}
	for title, same := range map[Markup]bool{"A title": true, "$e^{a_b}$": false} {
		if got := bytes.Equal(of(title, Style{}), of(title, Style{Width: 240})); got != same {
			t.Errorf("%s as in its own width: %v, want %v", title, got, same)
		}
	}
	h := handler()
	h.least = leastSize
	for _, size := range []vg.Length{7, 10.5} {
		for _, g := range h.set("$P^{sig-ms}_{S_{ap}}$", style(size, ink).Font).glyphs {
			if g.size < 7 {
				t.Errorf("%c is of %v points", g.rune, g.size)
			}
		}
	}
}

// Figures with legends above several panels fit into a column of two.
func TestColumnOfTwo(t *testing.T) {
	t.Parallel()
	of := map[string]*Figure{"batches": batchesPlot(t)}
	for table, rules := range map[int]int{6: 4, 7: 12} {
		sets, orders := sweepOf(table, 3, 1.5, nil)
		of[fmt.Sprint("rates of ", table)] = RateCurves("curves", sets, somewhere)
		of[fmt.Sprint("orders of ", table)] = RankChanges("orders", rules, orders, somewhere)
	}
	var err error
	if of["exchanges"], err = ExchangeGains(someExchanges(), somewhere); err != nil {
		t.Fatal(err)
	}
	for name, f := range of {
		if _, err := (Style{Width: 240}).Apply(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// seenAt returns the texts of a figure for a width, and how many of them are cut at an edge or on others.
func seenAt(t *testing.T, f *Figure, width vg.Length) (texts []string, collisions int) {
	t.Helper()
	out, err := Style{Width: width}.Apply(f)
	if err != nil {
		t.Fatal(err)
	}
	on, err := out.(*Figure).probe()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range on.labels {
		text := ""
		for _, g := range l.glyphs {
			text += string(g.rune)
		}
		texts = append(texts, text)
	}
	return texts, on.collisions
}

// Names that are longer than their usual room get more of it, and very long ones end in an ellipsis: pictures of runs
// that are done are not refused for a label.
func TestLongNames(t *testing.T) {
	t.Parallel()
	row, word := strings.Repeat("a long label of mine, ", 4), strings.Repeat("Wörterbuchübersetzung", 4)
	named := func(names ...string) *Comparison {
		c := &Comparison{Alt: "A", Columns: []Line{{}}}
		var of scores.Table
		for i, name := range names {
			c.Rows = append(c.Rows, Line{Name: name, Label: name})
			of = append(of, scores.Row{Rule: name, Value: meanOf(70+float64(i), 1, 3, 0)})
		}
		p, err := of.Pivot(func(r scores.Row) string { return r.Rule }, func(scores.Row) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		c.Sets = []ComparedSet{{"minicar", "CAR", p, p}}
		return c
	}
	ours := scores.Curve{{LR: 0.1, Test: meanOf(60, 1, 3, 0)}, {LR: 0.2, Test: meanOf(63, 1, 3, 0)}}
	placed := []Placed{{row, [3]float64{60, 61, 62}, [3]int{}}, {word, [3]float64{59, 60, 61}, [3]int{1, 1, 1}}}
	tiles, err := Tiles("v", []TileKind{{row, "R", Confirming}}, []TileLine{{"Photographs of birds", []int{0, 0}},
		{row, nil}, {word, []int{0}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	grid := GridSet{Data: "minicar", Directions: []string{"cos"}, Triplets: gridLevels[2], Scores: gridScores(70),
		Pairs: []string{"con", "own-weight", strings.Repeat("own-", 30)}}
	grids, err := GridMap([]GridSet{grid}, "")
	if err != nil {
		t.Fatal(err)
	}
	panels := [][]RatePanel{{{Title: row, Ours: ours}, {Title: word, Ours: ours}}}
	for name, f := range map[string]*Figure{"tiles": tiles, "grid": grids, "rows": named(row, word).Plot(),
		"ranks": RankChanges("a", 2, []RankSet{{word, true, placed}}, ""),
		"rates": RateCurves("a", []RateSet{{row, panels}}, "")} {
		for _, width := range []vg.Length{234, 240, 500, f.Width} {
			texts, collisions := seenAt(t, f, width)
			cut := slices.ContainsFunc(texts, func(s string) bool { return strings.HasSuffix(s, "…") })
			if collisions > 0 || !cut {
				t.Errorf("%s, %v wide: %d texts are cut or on others: %q", name, width, collisions, texts)
			}
			for of, whole := range map[string]string{"tiles": "Photographs of birds", "grid": "Pown-weight"} {
				if of == name && !slices.Contains(texts, whole) {
					t.Errorf("%s, %v wide: no %q in %q", name, width, whole, texts)
				}
			}
		}
	}
}

// Square areas grow with the width; other panels keep their height.
func TestWideSquares(t *testing.T) {
	t.Parallel()
	diagram, err := TripletDiagram(Diagram{Field: Field{Title: "$T$", Values: make([]float32, 4)}})
	if err != nil {
		t.Fatal(err)
	}
	for f, want := range map[*Figure]vg.Length{diagram: 252 * 2000. / 292, row(1): 150} {
		out, err := Style{Width: 2000}.Apply(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.(*Figure).Height; math.Abs(float64(got-want)) > 1e-6 {
			t.Errorf("%v high, want %v", got, want)
		}
	}
}

// A picture of no finite value has no color bar, whose range would be made up, and endless intervals end at the axis.
func TestNothingFinite(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	diagram, err := TripletDiagram(Diagram{Field: Field{Title: "$T$", Values: []float32{nan, inf, -inf, nan}}})
	if err != nil {
		t.Fatal(err)
	}
	grid, err := GridMap([]GridSet{{Data: "x", Directions: []string{"cos"}, Pairs: []string{"con"},
		Triplets: []string{"con"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	densities, err := TripletDensities("", []Markup{"train"}, DensityRow{"none", make([]Density, 1)})
	if err != nil {
		t.Fatal(err)
	}
	effects, err := GridEffects([]GridMargins{{Data: "x", Mean: 70, Levels: [3][]string{{"cos"}, {"con"}, {"con"}},
		Means: [3][]stats.Interval{{stats.Point(math.Inf(1))}, {intervalOf(70, math.Inf(-1), math.Inf(1))},
			{stats.Point(71)}}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*Figure{"diagram": diagram, "grid": grid, "densities": densities, "effects": effects} {
		plain := *f
		plain.Alt = "" // It may have such numbers.
		svg := bytesOf(Bytes(&plain, "svg"))
		if len(svg) == 0 || bytes.Contains(svg, []byte("Inf")) || bytes.Contains(svg, []byte("NaN")) {
			t.Errorf("%s: %d bytes, or coordinates that are not finite", name, len(svg))
		}
		texts, _ := seenAt(t, f, f.Width)
		if name != "effects" && slices.ContainsFunc(texts, func(s string) bool {
			return s == "R@1, %" || s == "per square" || s == "−0.4"
		}) {
			t.Errorf("%s has the labels of a color bar: %q", name, texts)
		}
	}
}

// A formula is cut with an ellipsis within it, and never within a command, which it would show.
func TestFittedFormula(t *testing.T) {
	t.Parallel()
	s, name := style(tickSize, ink), Markup(`costs \$5, $P_{+}^{e^{-S_{ap}}}$ of mine`)
	if got := fitted(s, PairLabel("own-weight-of-pairs"), 60); !strings.HasPrefix(got, "$P^{own-w") ||
		!strings.HasSuffix(got, "…}$") {
		t.Errorf("a long name of a pair weight became %q", got)
	}
	for width := vg.Length(5); width < s.Width(name)+10; width += 3 {
		cut := fitted(s, name, width)
		if got := Plain(cut); strings.Count(got, "$") > 1 || width > 10 && s.Width(cut) > width {
			t.Errorf("in %v: %q", width, got)
		}
	}
}

// The names of seven groups, as many as there are colors, are not cut.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	var groups []RecallGroup
	var curves []TrainingCurve
	for i := range flowColors {
		groups = append(groups, RecallGroup{Name: fmt.Sprint("own ", i), Curves: [][]float64{{20, 30}}})
		curves = append(curves, TrainingCurve{Name: fmt.Sprint("own ", i), Recall: math.NaN()})
	}
	recalls, err := RecallCurves(5, 25, "reference", groups...)
	if err != nil {
		t.Fatal(err)
	}
	training, err := Training(5, curves...)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*Figure{"sevenrecalls": recalls, "seventraining": training} {
		if on, err := f.probe(); err != nil || on.collisions > 0 {
			t.Errorf("%s: %d labels are cut, %v", name, on.collisions, err)
		}
		checkWidths(t, name, f)
	}
}

// Panels that share an axis show it where they begin a line; those with axes of their own keep them.
func TestAxesOfLines(t *testing.T) {
	t.Parallel()
	for shared, want := range map[bool]int{true: 4, false: 7} {
		plots := []*plot.Plot{newPlot("", "", "y"), newPlot("", "", "y"), newPlot("", "", "y")}
		for i, p := range plots {
			p.X.Tick.Marker, p.Y.Tick.Marker = plot.ConstantTicks{}, plot.ConstantTicks{{Value: 0.5, Label: "own"}}
			switch {
			case shared && i > 0:
				p.Y.Label.Text, p.Y.Tick.Marker = "", plot.ConstantTicks{}
			case !shared && i == 2:
				p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0.2, Label: "own"}, {Value: 0.8, Label: "own"}}
			}
		}
		on := &styled{Canvas: new(recorder.Canvas), across: 2}
		drawLine(draw.Canvas{Canvas: on, Rectangle: rect(0, 0, 200, 200)}, plots, 3, 10)
		if len(on.labels) != want { // Those of the ticks and of the vertical axes.
			t.Errorf("shared %v: %d labels, want %d", shared, len(on.labels), want)
		}
		if shared && plots[2].Y.Label.Text != "" {
			t.Error("a plot has changed")
		}
	}
}

// A row's legend stands once above its plots, also where they are below each other.
func TestLegendsOfNarrowGrid(t *testing.T) {
	t.Parallel()
	set := GridInteraction{"minicar", []GridProfile{gridProfile(0, 1, "cos"), gridProfile(1, 2, "cos"),
		gridProfile(0, 2, "con")}}
	f, err := GridInteractions([]GridInteraction{set, set}, "")
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := Style{Width: 260}.Apply(f)
	if err != nil {
		t.Fatal(err)
	}
	texts := func(of *Figure) int {
		f := *of
		f.style = Style{} // Else the labels are on a canvas of its own.
		on := &styled{Canvas: new(recorder.Canvas), across: f.across}
		f.Draw(draw.Canvas{Canvas: on, Rectangle: vg.Rectangle{Max: vg.Point{X: f.Width, Y: f.Height}}})
		return len(on.labels)
	}
	if wide := texts(f); texts(narrow.(*Figure)) != wide {
		t.Errorf("%d labels, want the %d of two plots side by side", texts(narrow.(*Figure)), wide)
	}
}

// The provenance can be left out of a PDF alone, of a map's and of photographs' too.
func TestNoProvenance(t *testing.T) {
	t.Parallel()
	for _, f := range []Output{row(1), mapOf(t, "preset quick"), sheetOf(t)} {
		out, err := Style{NoProvenance: true}.Apply(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range f.Formats() {
			if with, without := bytesOf(Bytes(f, format)), bytesOf(Bytes(out, format)); bytes.Equal(with, without) !=
				(format != "pdf") {
				t.Errorf("%T as %s: %d and %d bytes", f, format, len(with), len(without))
			}
		}
	}
}

// A map and photographs take a typeface, and a width, in which a map's script finds its points.
func TestStyleOfPictures(t *testing.T) {
	t.Parallel()
	size := func(o Output) int { return len(bytesOf(Bytes(o, "svg"))) }
	for _, f := range []Output{mapOf(t, "preset quick"), sheetOf(t)} {
		serif, err := Style{Serif: true}.Apply(f)
		if err != nil {
			t.Fatal(err)
		}
		if size(serif) == size(f) || size(f) == 0 {
			t.Errorf("%T: %d bytes, %d in serif", f, size(f), size(serif))
		}
		narrow, err := Style{Width: 240}.Apply(f)
		if err != nil {
			t.Fatal(err)
		}
		if page := bytesOf(Bytes(narrow, "html")); len(page) == 0 {
			t.Errorf("%T of 240 pt: no HTML", f)
		}
	}
	long, err := NewEmbeddingMap("", "first principal component (39 % of the variance)", "second", mapPoints(20), tile)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := Style{Width: 240}.Apply(long)
	if err != nil {
		t.Fatal(err)
	}
	m := narrow.(*EmbeddingMap)
	d := mapInput(t, m)
	data := m.area(m.Width, margin, m.height()-margin)
	on := m.on(new(recorder.Canvas))
	m.Draw(draw.Canvas{Canvas: on, Rectangle: rect(0, 0, m.Width, m.height())})
	for _, l := range on.labels {
		if at := center(l.box); l.width > 60 && at.Y < data.Min.Y && math.Abs(float64(at.X-center(data).X)) > 1 {
			t.Errorf("a label of the axis is at %v, not below the middle of %v", at, data)
		}
	}
	for i := range d.X {
		at := pt(m.Width*vg.Length(d.X[i])/1e4, m.height()*(1-vg.Length(d.Y[i])/1e4))
		if at.X < data.Min.X-0.1 || at.X > data.Max.X+0.1 || at.Y < data.Min.Y-0.1 || at.Y > data.Max.Y+0.1 {
			t.Errorf("point %d is at %v, outside of %v", i, at, data)
		}
	}
}

func sheetOf(t *testing.T) *Pictures {
	t.Helper()
	p, err := RetrievalSheet("preset quick", RetrievalRow{Query: tile(0), Class: "a",
		Hits: []RetrievalHit{{Image: tile(1), Class: "b", Similarity: 0.5}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func bytesOf(data []byte, err error) []byte {
	if err != nil {
		return nil
	}
	return data
}
