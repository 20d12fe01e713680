package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// power is the probability with which [Test.Detectable] and [Seeds] want a difference to be found.
const power = 0.8

// Within returns the p-value of an equivalence test: that the difference is smaller than a margin, whatever its sign,
// by two one-sided tests (Schuirmann 1987). It is 1 where nothing was tested.
func (t Test) Within(margin float64) float64 {
	if math.IsNaN(t.Err) {
		return 1
	}
	d := distuv.StudentsT{Sigma: 1, Nu: t.Freedom}
	return max(d.Survival((margin-t.Difference.Value)/t.Err), d.Survival((margin+t.Difference.Value)/t.Err))
}

// Detectable returns the true difference that a test at a two-sided level finds in four of five repetitions, with the
// noise and the runs of this one. It is NaN where nothing was tested.
func (t Test) Detectable(level float64) float64 {
	if math.IsNaN(t.Err) {
		return t.Err
	}
	d := distuv.StudentsT{Sigma: 1, Nu: t.Freedom}
	return t.Err * (d.Quantile(1-level/2) + d.Quantile(power))
}

// mostSeeds ends the search of [Seeds].
const mostSeeds = 100_000

// Seeds returns how many runs each of two means needs for Welch's t at a two-sided level to find a difference in four
// of five repetitions, where runs have a standard deviation. It is 0 if no number of runs is enough, as for a
// difference of 0 or an unknown deviation. With the level 0.05 and a margin as difference, so many runs of equal means
// show by [Test.Within] in three of five repetitions that they differ by less than the margin.
func Seeds(difference, std, level float64) int {
	enough := func(n int) bool {
		t := Test{Freedom: float64(2*n - 2), Err: std * math.Sqrt(2/float64(n))}
		return t.Detectable(level) <= math.Abs(difference)
	}
	// So many are needed by the normal distribution, and a few more by Student's.
	d := distuv.UnitNormal
	least := 2 * math.Pow(std*(d.Quantile(1-level/2)+d.Quantile(power))/difference, 2)
	if !(least < mostSeeds) {
		return 0
	}
	low := max(1, int(least)-1) // 1 is not enough: it has no deviation.
	high := low + 1
	for !enough(high) {
		if high >= mostSeeds {
			return 0
		}
		low, high = high, min(2*high-low+1, mostSeeds)
	}
	for high-low > 1 {
		if n := (low + high) / 2; enough(n) {
			high = n
		} else {
			low = n
		}
	}
	return high
}

// Proportion returns the share k of n with its 95 % interval by Clopper and Pearson, which no true share misses more
// often than it says. It is unknown for n = 0.
func Proportion(k, n int) Interval {
	if n == 0 {
		return Point(math.NaN())
	}
	out := Interval{Value: float64(k) / float64(n), Low: 0, High: 1}
	if k > 0 {
		out.Low = distuv.Beta{Alpha: float64(k), Beta: float64(n - k + 1)}.Quantile(0.025)
	}
	if k < n {
		out.High = distuv.Beta{Alpha: float64(k + 1), Beta: float64(n - k)}.Quantile(0.975)
	}
	return out
}

// Above returns the p-value of a one-sided test that the difference is above a bound. It is 1 where nothing was tested.
func (t Test) Above(bound float64) float64 {
	if math.IsNaN(t.Err) {
		return 1
	}
	return distuv.StudentsT{Sigma: 1, Nu: t.Freedom}.Survival((t.Difference.Value - bound) / t.Err)
}

// At returns the difference with its interval at a two-sided level: 0.05 is the 95 % interval. The test is significant
// at the level if the interval excludes 0.
func (t Test) At(level float64) Interval {
	if math.IsNaN(t.Err) {
		return Point(t.Difference.Value)
	}
	half := distuv.StudentsT{Sigma: 1, Nu: t.Freedom}.Quantile(1-level/2) * t.Err
	return Interval{t.Difference.Value, t.Difference.Value - half, t.Difference.Value + half}
}

// WithRuns returns the test of the same difference with some times as many runs. Its p-value is unknown.
func (t Test) WithRuns(times float64) Test {
	t.Err, t.Freedom, t.T, t.P = t.Err/math.Sqrt(times), t.Freedom*times, math.NaN(), math.NaN()
	return t
}

// HolmLevels returns for each p-value the level at which Holm's step-down procedure tests it, NaN for a test that was
// not made. A test is significant if its p-value is at most that; those after the first that is not have its level.
func HolmLevels(p []float64, level float64) []float64 {
	out := make([]float64, len(p))
	var made []int
	for i, v := range p {
		if out[i] = math.NaN(); !math.IsNaN(v) {
			made = append(made, i)
		}
	}
	slices.SortStableFunc(made, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	last := 0
	for step, i := range made {
		if step > 0 && p[made[step-1]] <= out[made[step-1]] {
			last = step
		}
		out[i] = level / float64(len(made)-last)
	}
	return out
}
