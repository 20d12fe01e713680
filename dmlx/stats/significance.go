package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Test is a two-sided test of a difference of means by Student's t.
type Test struct {
	// Difference has its 95 % interval, unknown where the test is.
	Difference Interval
	// T has Freedom degrees of freedom if there is no difference, and P is its two-sided p-value. All three are NaN if a
	// mean has too few runs to be tested, or if no runs differ: a measure such as Recall@1 has steps, and that a few runs
	// end on the same one does not say that they have no noise.
	T, Freedom, P float64
	// Err is the standard error of the difference, NaN where T is.
	Err float64
}

// Welch tests the difference a − b of the means of independent runs by Welch's t, which does not assume equal
// variances (Welch 1947). It needs two runs of each.
func Welch(a, b Mean) Test {
	if a.N < 2 || b.N < 2 {
		return Untested(a.Mean - b.Mean)
	}
	va, vb := a.Std*a.Std/float64(a.N), b.Std*b.Std/float64(b.N)
	freedom := float64(a.N + b.N - 2)
	if va+vb > 0 {
		freedom = (va + vb) * (va + vb) / (va*va/float64(a.N-1) + vb*vb/float64(b.N-1))
	}
	return TestOf(a.Mean-b.Mean, va+vb, freedom)
}

// Paired tests the mean of differences against 0 by Student's t. It needs two differences. They are independent of
// each other if each is of two runs that share their batches, and no two differences share any.
func Paired(differences []float64) Test {
	if len(differences) < 2 {
		return Untested(stat.Mean(differences, nil))
	}
	mean, std := stat.MeanStdDev(differences, nil)
	return TestOf(mean, std*std/float64(len(differences)), float64(len(differences)-1))
}

// Times returns the test of a measure in another unit: with the factor 100, a fraction becomes percent.
func (t Test) Times(factor float64) Test {
	t.Difference, t.Err = t.Difference.Times(factor), t.Err*math.Abs(factor)
	return t
}

// Difference returns a − b with its 95 % interval by [Welch].
func Difference(a, b Mean) Interval { return Welch(a, b).Difference }

// Interval returns the mean with its 95 % interval by Student's t, which is unknown with fewer than two runs.
func (m Mean) Interval() Interval {
	if m.N < 2 {
		return Point(m.Mean)
	}
	return TestOf(m.Mean, m.Std*m.Std/float64(m.N), float64(m.N-1)).Difference
}

// Untested returns a difference without a test.
func Untested(difference float64) Test {
	nan := math.NaN()
	return Test{Difference: Point(difference), T: nan, Freedom: nan, P: nan, Err: nan}
}

// TestOf returns the test of a difference whose variance is estimated with some degrees of freedom. A variance of 0 is
// no estimate.
func TestOf(difference, variance, freedom float64) Test {
	if math.IsNaN(difference) || math.IsInf(difference, 0) || variance == 0 {
		return Untested(difference)
	}
	distribution := distuv.StudentsT{Sigma: 1, Nu: freedom}
	half := distribution.Quantile(0.975) * math.Sqrt(variance)
	t := Test{Difference: Interval{difference, difference - half, difference + half}, Freedom: freedom,
		T: difference / math.Sqrt(variance), Err: math.Sqrt(variance)}
	t.P = 2 * distribution.Survival(math.Abs(t.T))
	return t
}

// Holm returns the largest p-value that is significant at the level by Holm's step-down procedure, which corrects for
// the number of tests. It returns -1 if none is. NaN stands for a test that was not made and is left out.
func Holm(p []float64, level float64) float64 {
	made := slices.DeleteFunc(slices.Clone(p), math.IsNaN)
	last := -1.0
	for i, v := range slices.Sorted(slices.Values(made)) {
		if v > level/float64(len(made)-i) {
			break
		}
		last = v
	}
	return last
}

// Gain says how far the mean a is above b, by Welch's t, and whether the noise between runs alone could explain it:
// "9.0 [6.3, 11.6], beyond noise", or "0.9 [−0.3, 2.1], undecided: 11 runs of each would tell it", where so many find
// such a difference in four of five repetitions. Both means have one unit.
func Gain(a, b Mean) string {
	d := Welch(a, b).Difference
	seeds := Seeds(d.Value, PoolNoise([]Mean{a, b}).Std, 0.05)
	switch {
	case d.Low > 0 || d.High < 0:
		return d.String() + ", beyond noise"
	case seeds > max(a.N, b.N):
		return fmt.Sprintf("%s, undecided: %d runs of each would tell it", d, seeds)
	}
	return d.String() + ", undecided"
}
