package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
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
		if err != nil || math.Abs(a.Rho-c.rho) > 1e-12 || math.Abs(a.P-c.p) > 1e-12 {
			t.Errorf("%v against %v: %+v, %v; want ρ %v, p %v", c.x, c.y, a, err, c.rho, c.p)
		}
	}
	x := scores(1, 2, 3, math.NaN(), 4)
	a, err := CompareRanks(x, scores(1, 2, 3, 9, 4))
	if err != nil || a.N != 4 || a.Rho != 1 {
		t.Errorf("with a missing mean: %+v, %v", a, err)
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

// By hand for ρ = 0.8 and n = 12: z = 1.0986, variance 1.32/9, half 1.95996·0.38297 = 0.75061, so tanh 0.34800 and
// tanh 1.84923.
func TestSpearmanInterval(t *testing.T) {
	low, high := SpearmanInterval(0.8, 12)
	if math.Abs(low-0.33460) > 1e-4 || math.Abs(high-0.95165) > 1e-4 {
		t.Errorf("[%g, %g]", low, high)
	}
	if l, h := SpearmanInterval(-0.8, 12); l != -high || h != -low {
		t.Errorf("mirrored: [%g, %g]", l, h)
	}
	if low, high := SpearmanInterval(1, 6); high != 1 || !(low > 0 && low < 1) {
		t.Errorf("a perfect order: [%g, %g]", low, high)
	}
	if low, high := SpearmanInterval(-1, 6); low != -1 || !(high < 0 && high > -1) {
		t.Errorf("the opposite order: [%g, %g]", low, high)
	}
	for _, n := range []int{0, 3} {
		if low, high := SpearmanInterval(0.5, n); !math.IsNaN(low) || !math.IsNaN(high) {
			t.Errorf("%d pairs: [%g, %g]", n, low, high)
		}
	}
}

// The intervals contain the true value in 95 ± 2 % of simulated samples: those of ρ for 12 and more pairs (below that
// they contain it more often), Welch's for two groups of seeds with unequal variances, Student's for paired ones.
func TestCoverage(t *testing.T) {
	const samples = 20000
	source := rand.New(rand.NewPCG(3, 4))
	normal := func(n int, std float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = std * source.NormFloat64()
		}
		return out
	}
	check := func(name string, most float64, covered func() bool) {
		hits := 0
		for range samples {
			if covered() {
				hits++
			}
		}
		if share := float64(hits) / samples; share < 0.93 || share > most {
			t.Errorf("%s: covered by %.3f, want 0.93 to %.2f", name, share, most)
		}
	}
	for _, n := range []int{4, 6, 8, 12, 28} {
		for _, r := range []float64{0, 0.3, 0.6, 0.9} {
			truth := 6 / math.Pi * math.Asin(r/2) // Spearman's ρ of normal variables with Pearson's r.
			most := 0.97
			if n < 12 {
				most = 1
			}
			check(fmt.Sprintf("ρ of %d pairs at %.1f", n, truth), most, func() bool {
				x, y := normal(n, 1), normal(n, math.Sqrt(1-r*r))
				for i := range x {
					y[i] += r * x[i]
				}
				low, high := SpearmanInterval(Spearman(x, y), n)
				return low <= truth && truth <= high
			})
		}
	}
	for _, n := range [][2]int{{3, 3}, {5, 3}, {10, 10}} {
		check(fmt.Sprintf("Welch, %d and %d seeds", n[0], n[1]), 0.97, func() bool {
			d := Difference(MeanOf(normal(n[0], 1)), MeanOf(normal(n[1], 1.5)))
			return d.Low <= 0 && 0 <= d.High
		})
		check(fmt.Sprintf("%d pairs", n[0]), 0.97, func() bool {
			d := Paired(normal(n[0], 2)).Difference
			return d.Low <= 0 && 0 <= d.High
		})
	}
}
