package runs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// SameButSeed groups runs that differ only in their seeds, in the order of their first occurrence. Duplicates count
// once.
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

// SeedTest tells whether a measure differs between two groups of runs by more than its variation over seeds.
type SeedTest struct {
	// Paired is true if both groups have the same seeds. The test is then Student's t on the differences seed by seed.
	// Otherwise it is Welch's t, which does not assume equal variances.
	Paired bool
	// A and B are the numbers of compared runs, one per seed; they are equal in a paired test. Diverged is the number of
	// diverged runs, which are not compared.
	A, B     int
	Diverged int
	// Difference is the mean of the first group minus the mean of the second, with its 95 % interval.
	Difference stats.Interval
	// T has Freedom degrees of freedom under the null hypothesis, and P is its two-sided p-value. If the runs of each
	// group are equal, T is infinite, or 0 with P = 1 if the groups are equal, too.
	T, Freedom, P float64
}

// Method returns the name of the test with the numbers of seeds.
func (t SeedTest) Method() string {
	if t.Paired {
		return fmt.Sprintf("paired by seed, %d pairs", t.A)
	}
	return fmt.Sprintf("Welch, %d and %d seeds", t.A, t.B)
}

// CompareSeeds tests a measure between two groups of runs. The runs of a group differ only in their seeds. Runs that
// diverged, or whose measure is NaN, are left out. If the remaining seeds of both groups are the same, the test is
// paired. It returns an error with fewer than two seeds in a group.
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
	var difference, variance float64 // The difference of the means and its variance.
	if t.Paired {
		differences := make([]float64, len(seeds))
		for i, s := range seeds {
			differences[i] = x[s] - y[s]
		}
		var std float64
		difference, std = stat.MeanStdDev(differences, nil)
		variance = std * std / float64(t.A)
		t.Freedom = float64(t.A - 1)
	} else {
		mean := func(values map[uint64]float64) (m, variance, freedom float64) {
			var list []float64
			for _, s := range slices.Sorted(maps.Keys(values)) { // Sorted, because the rounding of a sum depends on its order.
				list = append(list, values[s])
			}
			m, std := stat.MeanStdDev(list, nil)
			return m, std * std / float64(len(list)), float64(len(list) - 1)
		}
		mx, vx, fx := mean(x)
		my, vy, fy := mean(y)
		difference, variance = mx-my, vx+vy
		t.Freedom = fx + fy
		if variance > 0 {
			t.Freedom = variance * variance / (vx*vx/fx + vy*vy/fy)
		}
	}
	if math.IsInf(difference, 0) || math.IsNaN(difference) {
		return t, errors.New("the measure of a run is not finite")
	}
	if variance == 0 {
		t.Difference = stats.Interval{Value: difference, Low: difference, High: difference}
		if difference == 0 {
			t.P = 1
		} else {
			t.T = math.Inf(int(math.Copysign(1, difference)))
		}
		return t, nil
	}
	student := distuv.StudentsT{Sigma: 1, Nu: t.Freedom}
	half := student.Quantile(0.975) * math.Sqrt(variance)
	t.Difference = stats.Interval{Value: difference, Low: difference - half, High: difference + half}
	t.T = difference / math.Sqrt(variance)
	t.P = 2 * student.Survival(math.Abs(t.T))
	return t, nil
}
