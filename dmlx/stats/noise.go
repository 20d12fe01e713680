package stats

import (
	"math"
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

// Test tests a value against 0 by Student's t. The variance of the value is factor times that of the noise: 1/n for a
// mean of n runs. The interval is unknown if the noise has no degrees of freedom.
func (n Noise) Test(value, factor float64) Test {
	if n.Freedom <= 0 {
		return Untested(value)
	}
	return TestOf(value, factor*n.Std*n.Std, float64(n.Freedom))
}
