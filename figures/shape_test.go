package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

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

// A name is not cut within a formula, which would show its commands.
func TestFittedFormula(t *testing.T) {
	t.Parallel()
	s, name := style(tickSize, ink), Markup(`costs \$5, $P_{+}^{e^{-S_{ap}}}$ of mine`)
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
		if _, cut, err := f.probe(); err != nil || cut > 0 {
			t.Errorf("%s: %d labels are cut, %v", name, cut, err)
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
	raw, err := m.input(0)
	if err != nil {
		t.Fatal(err)
	}
	var d mapData
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
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
