package sample

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
)

// Directions have the strengths of the paper's appendix.
func TestStrengths(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	pairs := Pairs(33, 16, 1)
	for _, c := range []struct {
		rule string
		want func(s float64) float64
	}{
		{"euc/con/con", func(s float64) float64 { return math.Sqrt((1 + s) / 2) }},
		{"cos/con/con", func(s float64) float64 { return math.Sqrt(1 - s*s) }},
		{"cos/lin/con", func(s float64) float64 { return math.Sqrt(1 - s*s) }}, // A pair weight changes no direction.
	} {
		rule, err := dmlx.ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		d, err := dissect.Rule(b, pairs, rule)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range Strengths(d) {
			s := math.Cos(math.Pi * (float64(i) + 0.5) / 33)
			if sap := float64(d.Triplets[i].Sap); math.Abs(sap-s) > 1e-5 {
				t.Fatalf("pair %d has S %v, want %v", i, sap, s)
			}
			if math.Abs(got-c.want(s)) > 2e-4 {
				t.Errorf("%s at S %.3f: %v, want %v", c.rule, s, got, c.want(s))
			}
		}
	}
}

func TestProducts(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	for _, direction := range dmlx.Directions {
		d, err := dissect.Rule(b, Pairs(9, 16, 1), dmlx.Rule{Direction: direction})
		if err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for _, product := range Products(d) {
			worst = max(worst, math.Abs(product))
		}
		if orthogonal := strings.HasSuffix(direction.Name, "-orth"); orthogonal != (worst < 1e-5) {
			t.Errorf("%s: largest product %v", direction.Name, worst)
		}
	}
}

func TestBatch(t *testing.T) {
	e := Batch(3, 4, 5, 0.5, 1)
	if e.N != 12 || len(e.Values) != 60 || len(e.Labels) != 12 || e.Labels[4] != 1 {
		t.Errorf("%+v", e)
	}
	if again := Batch(3, 4, 5, 0.5, 1); again.Values[7] != e.Values[7] {
		t.Error("the same seed gave another batch")
	}
}
