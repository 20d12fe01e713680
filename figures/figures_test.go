package figures

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot/cmpimg"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// goldenResolution keeps the reference images small.
const goldenResolution = 72

var draft = flag.String("draft", "", "also write every figure of the tests to this `folder`, as PNG, SVG and PDF")

// checkGolden compares a figure with testdata/NAME_golden.png, which -regen rewrites.
func checkGolden(t *testing.T, name string, f *Figure, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if f.Alt == "" {
		t.Errorf("%s: no alternative text", name)
	}
	if *draft != "" {
		for _, format := range f.Formats() {
			if err := Save(f, filepath.Join(*draft, name+"."+format)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := collisions(f); n > 0 {
		t.Errorf("%s: %d texts are cut or on others", name, n)
	}
	got, err := f.png(goldenResolution)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", name+"_golden.png")
	if *cmpimg.GenerateTestData {
		if err := os.WriteFile(golden, got, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	// Rounding on another processor may change the gray of an edge.
	ok, err := cmpimg.EqualApprox("png", got, want, 0.02)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Errorf("%s differs from %s; look at it with -draft DIR, and run with -regen to accept it", name, golden)
	}
}

// collisions returns how many texts of a figure are cut at its edge or stand on others. A text is a filled outline with
// curves, which nothing else has.
func collisions(f *Figure) int {
	on := &seeing{Canvas: new(recorder.Canvas), within: rect(0, 0, f.Width, f.height())}
	f.Draw(draw.Canvas{Canvas: on, Rectangle: on.within})
	return on.collisions
}

// seeing is a canvas that sees where text is.
type seeing struct {
	vg.Canvas
	within     vg.Rectangle
	moved      vg.Point // To which a turned text is moved.
	turned     bool
	boxes      []vg.Rectangle
	collisions int
}

func (c *seeing) Translate(by vg.Point) { c.moved = by }
func (c *seeing) Rotate(float64)        { c.turned = true }
func (c *seeing) Pop()                  { c.moved, c.turned = vg.Point{}, false }

func (c *seeing) Fill(p vg.Path) {
	box := vg.Rectangle{Min: pt(1e9, 1e9), Max: pt(-1e9, -1e9)}
	curves := false
	for _, part := range p {
		curves = curves || part.Type == vg.CurveComp
		if part.Type == vg.CloseComp {
			continue
		}
		at := part.Pos
		if c.turned {
			at = pt(-at.Y, at.X)
		}
		at = at.Add(c.moved)
		box.Min, box.Max = pt(min(box.Min.X, at.X), min(box.Min.Y, at.Y)), pt(max(box.Max.X, at.X), max(box.Max.Y, at.Y))
	}
	if !curves {
		return
	}
	box = inset(box, 0.3)
	if w := c.within; box.Min.X < w.Min.X || box.Max.X > w.Max.X || box.Min.Y < w.Min.Y || box.Max.Y > w.Max.Y {
		c.collisions++
	}
	for _, o := range c.boxes {
		if box.Min.X < o.Max.X && o.Min.X < box.Max.X && box.Min.Y < o.Max.Y && o.Min.Y < box.Max.Y {
			c.collisions++
		}
	}
	c.boxes = append(c.boxes, box)
}

func TestDirections(t *testing.T) {
	var measured []Projection
	for i := range 21 {
		s := math.Cos(math.Pi * (float64(i) + 0.5) / 21)
		measured = append(measured, Projection{S: s, Euc: ProjectionEuc(s), Cos: ProjectionCos(s)})
	}
	f, err := Directions(measured)
	checkGolden(t, "directions", f, err)
	if _, err := Directions([]Projection{{S: 2}}); err == nil {
		t.Error("a similarity of 2 was drawn")
	}
}

// weights returns the values of a closed form on a similarity grid.
func weights(n int, f func(sap, san float64) float64) []float32 {
	sap, san := SimilarityGrid(0, 1, n)
	out := make([]float32, len(sap))
	for i := range out {
		out[i] = float32(f(float64(sap[i]), float64(san[i])))
	}
	return out
}

func TestTripletWeights(t *testing.T) {
	const n = 101
	acts := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	circle := func(p, q float64) float64 { return p*(2-p) - q*q }
	cos := Field{Title: "$T^{cos}$", Values: weights(n, func(p, q float64) float64 { return 1 / (1 + math.Exp(p-q)) })}
	cir := Field{Title: "$T^{cir}$", Values: weights(n, func(p, q float64) float64 {
		return 1 / (1 +
			math.Exp(circle(p, q)))
	})}
	masks := Masks{
		SC1: weights(n, func(p, q float64) float64 { return acts(p >= q) }),
		SC2: weights(n, func(p, q float64) float64 { return acts(circle(p, q) >= 0.5) }),
	}
	f, err := TripletWeights(cos, cir, masks)
	checkGolden(t, "tripletweights", f, err)

	masks.SC2Printed = weights(n, func(p, q float64) float64 { return acts(circle(p, q) <= 0.5) })
	f, err = SignOfSC2(masks)
	checkGolden(t, "signofsc2", f, err)

	d := Diagram{Field: Field{Title: "$P_+ T$ of cos/lin/cir",
		Values: weights(n, func(p, q float64) float64 { return (1 - p) / (1 + math.Exp(circle(p, q))) })}}
	for i := range 40 {
		d.Triplets.Sap = append(d.Triplets.Sap, float32(0.5+0.4*math.Sin(float64(i)*1.7)))
		d.Triplets.San = append(d.Triplets.San, float32(0.45+0.35*math.Cos(float64(i)*2.3)))
	}
	f, err = TripletDiagram(d)
	checkGolden(t, "tripletdiagram", f, err)

	for name, bad := range map[string]Field{
		"no square": {Values: make([]float32, 10)},
		"empty":     {},
		"no range":  {Min: 1, Max: -1, Values: make([]float32, 4)},
	} {
		if _, err := TripletDiagram(Diagram{Field: bad}); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
	if _, err := TripletDiagram(Diagram{Field: Field{Values: make([]float32, 9)}}); err != nil {
		t.Errorf("a constant field: %v", err)
	}
	// A logarithm: -Inf on the diagonal, and NaN below it.
	logarithm := weights(n, func(p, q float64) float64 { return math.Log(q - p) })
	d = Diagram{Field: Field{Title: "$T$ of log", Values: logarithm}}
	f, err = TripletDiagram(d)
	checkGolden(t, "tripletdiagramgaps", f, err)
	if want := "Gray: not a finite number at 5151 of 10201 points, such as S_ap = 0, S_an = 0."; f.Provenance != want ||
		!strings.HasSuffix(f.Alt, want) {
		t.Errorf("a field with gaps says %q, %q", f.Provenance, f.Alt)
	}
	for _, s := range (field{Field: d.Field, n: n}).contour(-1) {
		if s[1]-s[0] < 0 || s[3]-s[2] < 0 || max(s[0], s[1], s[2], s[3]) > 1 {
			t.Fatalf("a contour reaches %v, where the logarithm is no number", s)
		}
	}
	masks.SC1[3] = 0.5
	if _, err := TripletWeights(cos, cir, masks); err == nil {
		t.Error("a mask of 0.5 was drawn")
	}
}

// oneTriplet returns the gradient matrix of cos/con/con for a batch whose anchor i has positive i^1 and negative i+5.
func oneTriplet(n int) Matrix {
	m := Matrix{Title: "$M$ of cos/con/con", Values: make([]float32, n*n), Labels: make([]int64, n)}
	for a := range n {
		m.Labels[a] = int64(a / 4)
		p, q := a^1, (a+5)%n
		for _, e := range []struct {
			i, j int
			v    float32
		}{{p, a, -1}, {q, a, 1}, {a, p, -1}, {a, q, 1}} {
			m.Values[e.i*n+e.j] += 0.5 * e.v / float32(n)
		}
	}
	return m
}

// A picture is the same PDF each time.
func TestSamePDF(t *testing.T) {
	f := Of(newPlot("Title", "x", "y"), 150, 150)
	if one := bytesOf(Bytes(f, "pdf")); len(one) == 0 || !bytes.Equal(one, bytesOf(Bytes(f, "pdf"))) {
		t.Error("two PDFs differ")
	}
}

func TestGradientMatrix(t *testing.T) {
	m := oneTriplet(32)
	f, err := GradientMatrix(m, oneTriplet(16))
	checkGolden(t, "gradientmatrix", f, err)
	m.Values[35] = float32(math.NaN())
	if _, err := GradientMatrix(m); err == nil ||
		err.Error() != "gradient matrix M of cos/con/con: [35] is NaN; want finite numbers" {
		t.Errorf("NaN: %v", err)
	}
	if _, err := GradientMatrix(Matrix{Values: make([]float32, 5), Labels: make([]int64, 2)}); err == nil {
		t.Error("5 values for 2 labels were drawn")
	}
	if _, err := GradientMatrix(Matrix{Values: make([]float32, 4), Labels: make([]int64, 2)}); err != nil {
		t.Errorf("a zero matrix: %v", err)
	}
}

// compared lays scores out by rows and columns of a rule's parts, beside the paper's numbers of a table.
func compared(t *testing.T, table int, ours scores.Table, rows, columns scores.Column) *Comparison {
	t.Helper()
	c := &Comparison{RowTitle: "Part", Alt: "A picture.", Shade: Shade, Provenance: somewhere}
	for _, name := range ours.Values(rows.Of) {
		c.Rows = append(c.Rows, Line{Name: name, Label: PartLabel(rows, name)})
	}
	for _, name := range ours.Values(columns.Of) {
		c.Columns = append(c.Columns, Line{Name: name, Label: PartLabel(columns, name)})
	}
	pivot := func(of scores.Table) *scores.Pivot {
		p, err := of.Pivot(rows.Of, columns.Of)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, set := range ours.Group(scores.Data.Of) {
		role := set.Rows[0].Role
		printed := scores.Printed().Select(scores.Row{Table: table, Data: role})
		c.Sets = append(c.Sets, ComparedSet{set.Key, role, pivot(set.Rows), pivot(printed)})
	}
	return c
}

// prototype is Table 2 at a small size.
func prototype() scores.Table {
	var out scores.Table
	for _, s := range []struct {
		rule          string
		fine, coarser stats.Mean
	}{
		{"euc/con/con", meanOf(65.1, 2.0, 3, 0), meanOf(71.2, 1.2, 3, 0)},
		{"cos/con/con", meanOf(69.2, 1.5, 3, 0), meanOf(72.9, 1.0, 3, 0)},
		{"euc-orth/con/con", meanOf(67.5, 0.6, 2, 1), meanOf(73.6, 0.6, 3, 0)},
		{"cos-orth/con/con", meanOf(66.9, 1.5, 3, 0), Missing},
	} {
		r := scores.Row{Measure: "R@1"}
		r.SetRule(s.rule)
		for _, set := range []scores.Row{{Data: "minicar", Role: "CAR", Value: s.fine},
			{Data: "minishop", Role: "In-shop", Value: s.coarser}} {
			r.Data, r.Role, r.Value = set.Data, set.Role, set.Value
			out = append(out, r)
		}
	}
	return out
}

// papers are the paper's own numbers of a table as ours, moved: all by the same, each a little.
func papers(table int, shift, wobble float64) scores.Table {
	out := scores.Printed().Select(scores.Row{Table: table})
	for i := range out {
		r := &out[i]
		r.Data = map[string]string{"CAR": "minicar", "In-shop": "minishop"}[r.Data]
		r.Value.Mean += shift + wobble*math.Sin(float64(7*i))
		r.Value.N = 3
	}
	return out
}

const somewhere = "preset quick · minicar, minishop · xla:cpu · 3 seeds · 2026-01-01"

// A provenance that is wider than its figure is broken, and the figure grows.
func TestProvenanceIsBroken(t *testing.T) {
	note := "preset quick · minicar · xla:cpu · a machine, 2 cores, linux"
	if lines := broken(noteStyle(), note, 1000); len(lines) != 1 || lines[0] != note {
		t.Errorf("%q", lines)
	}
	width := noteStyle().Width("preset quick · minicar")
	lines := broken(noteStyle(), note, width)
	if strings.Join(lines, " ") != note || lines[0] != "preset quick · minicar" || len(lines) < 3 {
		t.Errorf("%q", lines)
	}
	for _, line := range lines {
		if noteStyle().Width(line) > width {
			t.Errorf("%q is too long", line)
		}
	}
	if lines := broken(noteStyle(), strings.Repeat("w", 99), width); len(lines) != 1 { // One word is not broken.
		t.Errorf("%q", lines)
	}
	f := Figure{Width: 2*margin + width, Height: 100, Provenance: note}
	if got, want := f.height(), 100+noteLine()*vg.Length(len(lines)-1); got != want {
		t.Errorf("%v high, want %v", got, want)
	}
	if f.Provenance = ""; f.height() != 100 {
		t.Errorf("%v high without provenance", f.height())
	}
}

func TestComparisonPlots(t *testing.T) {
	third := papers(3, -3, 1)
	third[3].Value = meanOf(math.NaN(), 0, 0, 3)
	checkGolden(t, "table2", compared(t, 2, prototype(), scores.Direction, "").Plot(), nil)
	checkGolden(t, "table3", compared(t, 3, third, scores.Pair, scores.Direction).Plot(), nil)
	checkGolden(t, "table4", compared(t, 4, papers(4, -3, 1), scores.Triplet, scores.Pair).Plot(), nil)
}
