package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Noise is the standard deviation of a measure between runs that differ only in their seed.
type Noise struct {
	Std     float64 // Pooled over groups of runs; NaN if no group has two runs.
	Freedom int     // Its degrees of freedom.
}

// PoolNoise returns the pooled standard deviation of groups of runs.
func PoolNoise(groups []Mean) Noise {
	var n Noise
	sum := 0.0
	for _, s := range groups {
		if s.N > 1 {
			sum += s.Std * s.Std * float64(s.N-1)
			n.Freedom += s.N - 1
		}
	}
	n.Std = math.Sqrt(sum / float64(n.Freedom)) // 0/0 is NaN.
	return n
}

// Around returns a value with its interval by Student's t. The variance of the value is factor times that of the
// noise: 1/n for a mean of n runs. The interval is unknown if the noise has no degrees of freedom.
func (n Noise) Around(value, factor float64) Interval {
	e := Point(value)
	if n.Freedom > 0 && !math.IsNaN(value) {
		half := distuv.StudentsT{Sigma: 1, Nu: float64(n.Freedom)}.Quantile(0.975) * n.Std * math.Sqrt(factor)
		e.Low, e.High = value-half, value+half
	}
	return e
}

// Difference returns the mean of a less that of b with its interval, as for independent runs. All is NaN if a or b
// has no runs.
func (n Noise) Difference(a, b Mean) Interval {
	if a.N == 0 || b.N == 0 {
		return Point(math.NaN())
	}
	return n.Around(a.Mean-b.Mean, 1/float64(a.N)+1/float64(b.N))
}
