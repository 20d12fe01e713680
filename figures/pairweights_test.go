package figures

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestPairWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var few, many WeightedPairs
	for i := range 2000 {
		s := 0.4 + 0.15*rng.NormFloat64()
		if i < 60 {
			few.S, few.Weight = append(few.S, s+0.3), append(few.Weight, 0.02*max(0.9-s, 0))
		}
		many.S, many.Weight = append(many.S, s), append(many.Weight, 0.01*math.Exp(4*(s-1))*(1+0.3*rng.NormFloat64()))
	}
	f, err := PairWeights(somewhere, "a loss", few, many)
	checkGolden(t, "pairweights", f, err)
	if want := "the 60 positive and 2000 negative pairs"; !strings.Contains(f.Alt, want) {
		t.Error(f.Alt)
	}
	one := WeightedPairs{S: []float64{0.5}, Weight: []float64{0}}
	if f, err := PairWeights("", "zero", one, WeightedPairs{}); err != nil {
		t.Error(err)
	} else if _, err := Bytes(f, "svg"); err != nil {
		t.Error(err)
	}
	for want, p := range map[string]WeightedPairs{
		"no pairs":                     {},
		"1 similarities and 0 weights": {S: []float64{1}},
		"want finite numbers":          {S: []float64{1}, Weight: []float64{math.Inf(1)}},
		".S[0] is NaN; want":           {S: []float64{math.NaN()}, Weight: []float64{0}},
	} {
		if _, err := PairWeights("", "bad", p, WeightedPairs{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
