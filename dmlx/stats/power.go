package stats

import (
	"math"

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
	if !enough(mostSeeds) {
		return 0
	}
	low, high := 1, mostSeeds // 1 is not enough: it has no deviation.
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
