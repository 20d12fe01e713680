package runs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// SameButSeed groups runs that differ in their seed alone, in the order in which they come. A run that is given twice
// counts once.
func SameButSeed(runs []*Result) [][]*Result {
	place := make(map[string]int)
	seen := make(map[string]bool)
	var out [][]*Result
	for _, r := range runs {
		if seen[r.Hash] {
			continue
		}
		seen[r.Hash] = true
		s := r.Spec
		s.Seed = 0
		key := string(s.Canonical())
		if i, known := place[key]; known {
			out[i] = append(out[i], r)
			continue
		}
		place[key] = len(out)
		out = append(out, []*Result{r})
	}
	return out
}

// SeedTest tells whether a measure differs between two groups of runs by more than seeds make it differ.
type SeedTest struct {
	// Paired is true where both groups have the same seeds: the test is then on the differences seed by seed, Student's t.
	// Else it is Welch's t, which assumes no common variance.
	Paired bool
	// A and B count the runs that are compared, one per seed; they are equal in a paired test. Diverged runs are not.
	A, B     int
	Diverged int
	// Difference is the mean of the first group less that of the second, Low to High its 95 % interval.
	Difference, Low, High float64
	// T has Freedom degrees of freedom where nothing differs; P is how likely it then is so far from zero (two-sided). Where
	// no two runs of a group differ, T is infinite, or zero with P = 1.
	T, Freedom, P float64
}

// Method names the test.
func (t SeedTest) Method() string {
	if t.Paired {
		return fmt.Sprintf("paired by seed, %d pairs", t.A)
	}
	return fmt.Sprintf("Welch, %d and %d seeds", t.A, t.B)
}

// CompareSeeds tests a measure between two groups of runs, each of which differs in the seed alone. Runs that diverged, or have
// no such measure (NaN), are left out; if that leaves both groups the same seeds the test is paired. With fewer than two
// seeds on either side there is nothing to judge a difference by, which is an error.
func CompareSeeds(a, b []*Result, measure func(*Result) float64) (SeedTest, error) {
	var t SeedTest
	of := func(runs []*Result) map[uint64]float64 {
		values := make(map[uint64]float64)
		for _, r := range runs {
			if r.Diverged != "" {
				t.Diverged++
			} else if v := measure(r); !math.IsNaN(v) {
				values[r.Spec.Seed] = v
			}
		}
		return values
	}
	x, y := of(a), of(b)
	t.A, t.B = len(x), len(y)
	if t.A < 2 || t.B < 2 {
		return t, fmt.Errorf("%d and %d seeds: a test needs at least two of each", t.A, t.B)
	}
	seeds := slices.Sorted(maps.Keys(x))
	t.Paired = slices.Equal(seeds, slices.Sorted(maps.Keys(y)))
	var variance float64 // Of the difference of means.
	if t.Paired {
		differences := make([]float64, len(seeds))
		for i, s := range seeds {
			differences[i] = x[s] - y[s]
		}
		var std float64
		t.Difference, std = stat.MeanStdDev(differences, nil)
		variance = std * std / float64(t.A)
		t.Freedom = float64(t.A - 1)
	} else {
		mean := func(values map[uint64]float64) (m, variance, freedom float64) {
			var list []float64
			for _, s := range slices.Sorted(maps.Keys(values)) { // A sum depends on its order.
				list = append(list, values[s])
			}
			m, std := stat.MeanStdDev(list, nil)
			return m, std * std / float64(len(list)), float64(len(list) - 1)
		}
		mx, vx, fx := mean(x)
		my, vy, fy := mean(y)
		t.Difference, variance = mx-my, vx+vy
		t.Freedom = fx + fy
		if variance > 0 {
			t.Freedom = variance * variance / (vx*vx/fx + vy*vy/fy)
		}
	}
	if math.IsInf(t.Difference, 0) || math.IsNaN(t.Difference) {
		return t, errors.New("a measure is not finite")
	}
	if variance == 0 {
		t.Low, t.High = t.Difference, t.Difference
		if t.Difference == 0 {
			t.P = 1
		} else {
			t.T = math.Inf(int(math.Copysign(1, t.Difference)))
		}
		return t, nil
	}
	student := distuv.StudentsT{Sigma: 1, Nu: t.Freedom}
	half := student.Quantile(0.975) * math.Sqrt(variance)
	t.Low, t.High = t.Difference-half, t.Difference+half
	t.T = t.Difference / math.Sqrt(variance)
	t.P = 2 * student.Survival(math.Abs(t.T))
	return t, nil
}
