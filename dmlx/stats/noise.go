package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Noise is the variation of one measure between seeds.
type Noise struct {
	Std     float64 // Pooled over groups of runs; NaN if none has several.
	Freedom int     // Its degrees of freedom.
}

// PoolNoise returns the standard deviation over seeds, pooled over groups of runs.
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

// Around returns a value with its 95 % interval, where the value's variance is factor times the noise's.
func (n Noise) Around(value, factor float64) Interval {
	e := Point(value)
	if n.Freedom > 0 && !math.IsNaN(value) {
		half := distuv.StudentsT{Sigma: 1, Nu: float64(n.Freedom)}.Quantile(0.975) * n.Std * math.Sqrt(factor)
		e.Low, e.High = value-half, value+half
	}
	return e
}

// Difference returns a's mean less b's with its 95 % interval, as if no seed were shared. It is NaN without runs on
// either side, and has no interval without noise.
func (n Noise) Difference(a, b Mean) Interval {
	if a.N == 0 || b.N == 0 {
		return Point(math.NaN())
	}
	return n.Around(a.Mean-b.Mean, 1/float64(a.N)+1/float64(b.N))
}
