package stats

import (
	"math"
	"testing"
)

func TestCompareRanks(t *testing.T) {
	scores := func(means ...float64) []Mean {
		out := make([]Mean, len(means))
		for i, m := range means {
			out[i] = Mean{Mean: m, N: 3}
		}
		return out
	}
	// Without noise the interval is the value itself.
	for _, c := range []struct {
		x, y   []float64
		rho, p float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{10, 20, 30, 40}, 1, 1.0 / 24},
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, -1, 1},
		// Differences of rank 1, 1, 0, 0: 1 − 6·2/(4·15) = 0.8; 1 + 3 of 24 orders reach it.
		{[]float64{1, 2, 3, 4}, []float64{2, 1, 3, 4}, 0.8, 4.0 / 24},
		// Ties share ranks 1.5: correlation of (1.5, 1.5, 3) and (1, 2, 3) is √3/2; two of six orders.
		{[]float64{5, 5, 6}, []float64{1, 2, 3}, math.Sqrt(3) / 2, 2.0 / 6},
	} {
		a, err := CompareRanks(scores(c.x...), scores(c.y...))
		if err != nil || math.Abs(a.Rho-c.rho) > 1e-12 || math.Abs(a.P-c.p) > 1e-12 || math.Abs(a.Low-c.rho) > 1e-12 ||
			math.Abs(a.High-c.rho) > 1e-12 {
			t.Errorf("%v against %v: %+v, %v; want ρ %v, p %v", c.x, c.y, a, err, c.rho, c.p)
		}
	}
	x := scores(1, 2, 3, math.NaN(), 4)
	a, err := CompareRanks(x, scores(1, 2, 3, 9, 4))
	if err != nil || a.N != 4 || a.Rho != 1 {
		t.Errorf("with a missing mean: %+v, %v", a, err)
	}
	x[0].Std = 5
	a, _ = CompareRanks(x, scores(1, 2, 3, 9, 4))
	again, _ := CompareRanks(x, scores(1, 2, 3, 9, 4))
	if !(a.Low < 1) || a != again {
		t.Errorf("with noise: %+v, again %+v", a, again)
	}
	x[1].N = 1 // The noise of one seed is not known.
	if a, _ = CompareRanks(x, scores(1, 2, 3, 9, 4)); !math.IsNaN(a.Low) || !math.IsNaN(a.High) ||
		a.String() != "ρ = 1.00, n = 4, p = 0.042" {
		t.Errorf("with a single seed: %v", a)
	}
	if a, _ := CompareRanks(scores(1, 1, 1), scores(1, 2, 3)); !math.IsNaN(a.Rho) {
		t.Errorf("a constant side: %+v", a)
	}
	if _, err := CompareRanks(scores(1), scores(1, 2)); err == nil {
		t.Error("one score was compared with two")
	}
	many := make([]Mean, 20)
	for i := range many {
		many[i] = Mean{Mean: float64(i), N: 1}
	}
	if a, _ := CompareRanks(many, many); a.Rho != 1 || a.P > 1e-3 {
		t.Errorf("20 in the same order: %+v", a)
	}
}
