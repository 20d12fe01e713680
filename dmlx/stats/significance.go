package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Difference returns a − b with its 95 % interval by Welch's t, which does not assume equal variances. The interval
// is unknown if one of the means has fewer than two runs. The value is NaN if one of the means is.
func Difference(a, b Mean) Interval {
	d := a.Mean - b.Mean
	if math.IsNaN(d) || a.N < 2 || b.N < 2 {
		return Point(d)
	}
	va, vb := a.Std*a.Std/float64(a.N), b.Std*b.Std/float64(b.N)
	if va+vb == 0 {
		return Interval{d, d, d}
	}
	freedom := (va + vb) * (va + vb) / (va*va/float64(a.N-1) + vb*vb/float64(b.N-1))
	half := distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile(0.975) * math.Sqrt(va+vb)
	return Interval{d, d - half, d + half}
}

// Holm returns the largest p-value that is significant at the level by Holm's step-down procedure, which corrects for
// the number of tests. It returns -1 if none is.
func Holm(p []float64, level float64) float64 {
	last := -1.0
	for i, v := range slices.Sorted(slices.Values(p)) {
		if v > level/float64(len(p)-i) {
			break
		}
		last = v
	}
	return last
}
