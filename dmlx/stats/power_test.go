package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// By Clopper and Pearson's own defining tails, and by hand: 0 of n has 1 − 0.025^(1/n) as its upper end.
func TestProportion(t *testing.T) {
	t.Parallel()
	tail := func(k, n int, p float64) (atLeast float64) { // P(X ≥ k).
		for i := k; i <= n; i++ {
			lg, _ := math.Lgamma(float64(n + 1))
			a, _ := math.Lgamma(float64(i + 1))
			b, _ := math.Lgamma(float64(n - i + 1))
			atLeast += math.Exp(lg - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
		}
		return atLeast
	}
	v := Proportion(7, 20)
	if v.Value != 0.35 || math.Abs(tail(7, 20, v.Low)-0.025) > 1e-8 || math.Abs(1-tail(8, 20, v.High)-0.025) > 1e-8 {
		t.Errorf("%+v", v)
	}
	if v := Proportion(0, 10); v.Low != 0 || math.Abs(v.High-(1-math.Pow(0.025, 0.1))) > 1e-9 {
		t.Errorf("%+v", v)
	}
	if v := Proportion(10, 10); v.High != 1 || math.Abs(v.Low-math.Pow(0.025, 0.1)) > 1e-9 {
		t.Errorf("%+v", v)
	}
	if !math.IsNaN(Proportion(0, 0).Value) {
		t.Error("a share of nothing")
	}
}

// Simulated: the smallest number of seeds finds the difference in 80 % of repetitions, one below it in fewer, and equal
// means are then shown to be equivalent.
func TestSeeds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulates")
	}
	source := rand.New(rand.NewPCG(1, 2))
	mean := func(mean, std float64, n int) Mean {
		values := make([]float64, n)
		for i := range values {
			values[i] = mean + std*source.NormFloat64()
		}
		return MeanOf(values)
	}
	const draws = 4000
	share := func(difference float64, n int, of func(Test) bool) float64 {
		found := 0
		for range draws {
			if of(Welch(mean(difference, 2, n), mean(0, 2, n))) {
				found++
			}
		}
		return float64(found) / draws
	}
	for _, difference := range []float64{1, 3, -6} {
		n := Seeds(difference, 2, 0.05)
		found := share(difference, n, func(t Test) bool { return t.P <= 0.05 })
		fewer := share(difference, n/2, func(t Test) bool { return t.P <= 0.05 })
		if found < 0.78 || fewer > 0.75 || n > 6 && found > 0.84 {
			t.Errorf("%g with %d seeds: found in %.2f, with half of them in %.2f", difference, n, found, fewer)
		}
	}
	equal := share(0, Seeds(1, 2, 0.05), func(t Test) bool { return t.Within(1) <= 0.025 })
	if equal < 0.5 || equal > 0.8 {
		t.Errorf("equal means are shown to be so in %.2f", equal)
	}
	// At the margin itself equivalence is claimed in 2.5 %.
	if wrong := share(1, 40, func(t Test) bool { return t.Within(1) <= 0.025 }); wrong > 0.035 {
		t.Errorf("means that differ by the margin are called equivalent in %.3f", wrong)
	}
	if n := Seeds(0, 2, 0.05); n != 0 {
		t.Errorf("no difference is found by %d seeds", n)
	}
	if n := Seeds(1, math.NaN(), 0.05); n != 0 {
		t.Errorf("an unknown noise needs %d seeds", n)
	}
}

// With one mean a deviation of 1 and three runs each, the error is √(2/3), and the untested stays so.
func TestDetectable(t *testing.T) {
	t.Parallel()
	test := Welch(Mean{Mean: 4, Std: 1, N: 3}, Mean{Mean: 1, Std: 1, N: 3})
	// Quantiles of Student's t with 4 degrees of freedom from a table: 2.776 and 0.941.
	if want := math.Sqrt(2.0/3) * (2.776 + 0.941); math.Abs(test.Detectable(0.05)-want) > 1e-3 {
		t.Errorf("%g, want %g", test.Detectable(0.05), want)
	}
	if untested := Untested(3); !math.IsNaN(untested.Detectable(0.05)) || untested.Within(5) != 1 {
		t.Errorf("%+v", untested)
	}
	if test.Times(100).Err != 100*test.Err {
		t.Error("the error has another unit")
	}
}
