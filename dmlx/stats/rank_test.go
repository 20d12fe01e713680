package stats

import (
	"math"
	"slices"
	"testing"
)

func TestRanks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ values, want []float64 }{
		{nil, []float64{}},
		{[]float64{3, 1, 2}, []float64{3, 1, 2}},
		{[]float64{5, 1, 5, 0, 5}, []float64{4, 2, 4, 1, 4}},
		{[]float64{2, 2}, []float64{1.5, 1.5}},
	} {
		if got := Ranks(c.values); !slices.Equal(got, c.want) {
			t.Errorf("Ranks(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestSpearman(t *testing.T) {
	t.Parallel()
	// Without ties ρ = 1 − 6 Σd²/(n(n²−1)): ranks 1 2 3 4 and 2 1 3 4 give 1 − 6·2/(4·15).
	if rho := Spearman([]float64{1, 2, 3, 4}, []float64{0.3, 0.2, 0.5, 0.6}); math.Abs(rho-0.8) > 1e-12 {
		t.Errorf("ρ = %g, want 0.8", rho)
	}
	if rho := Spearman([]float64{1, 2}, []float64{3, 3}); !math.IsNaN(rho) {
		t.Errorf("ρ with a constant sample = %g, want NaN", rho)
	}
}
