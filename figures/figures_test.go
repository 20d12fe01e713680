package figures

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/plot/cmpimg"
)

// goldenResolution keeps the reference images small.
const goldenResolution = 72

var draft = flag.String("draft", "", "also write every figure of the tests to this `folder`, as PNG, SVG and PDF")

// checkGolden compares a figure with testdata/NAME_golden.png; -regen writes that anew.
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
	// A rounding error of another processor may move an edge by one grey.
	ok, err := cmpimg.EqualApprox("png", got, want, 0.02)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Errorf("%s differs from %s; look at it with -draft DIR, and if it shall be so run with -regen", name, golden)
	}
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

// weights are the values of a closed form on a grid, as a caller gets them from the rule.
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
	cir := Field{Title: "$T^{cir}$", Values: weights(n, func(p, q float64) float64 { return 1 / (1 + math.Exp(circle(p, q))) })}
	masks := Masks{
		SC1: weights(n, func(p, q float64) float64 { return acts(p >= q) }),
		SC2: weights(n, func(p, q float64) float64 { return acts(circle(p, q) >= 0.5) }),
	}
	f, err := TripletWeights(cos, cir, masks)
	checkGolden(t, "tripletweights", f, err)

	d := Diagram{Field: Field{Title: "$P_+ T$ of cos/lin/cir", Values: weights(n, func(p, q float64) float64 { return (1 - p) / (1 + math.Exp(circle(p, q))) })}}
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
	masks.SC1[3] = 0.5
	if _, err := TripletWeights(cos, cir, masks); err == nil {
		t.Error("a mask of 0.5 was drawn")
	}
}
