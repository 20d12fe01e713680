package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Mean is a mean over seeds with its sample standard deviation (divisor n−1; 0 for a single seed). Diverged runs are
// counted and not averaged. Without a finite run the mean is NaN.
type Mean struct {
	Mean, Std float64
	N         int // The number of finite runs in the mean.
	Diverged  int // The number of diverged runs, which are not in the mean.
}

// MeanOf returns the mean and standard deviation of the values that are not NaN.
func MeanOf(values []float64) Mean {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	m := Mean{N: len(known)}
	switch m.N {
	case 0:
		m.Mean = math.NaN()
	case 1:
		m.Mean = known[0]
	default:
		m.Mean, m.Std = stat.MeanStdDev(known, nil)
	}
	return m
}

// Times returns the mean in another unit: with the factor 100, a fraction becomes percent.
func (m Mean) Times(factor float64) Mean {
	m.Mean *= factor
	m.Std *= factor
	return m
}

// String formats the mean as the paper prints percents: "75.5 ± 0.2", "75.5" for a single seed, "diverged" where all
// runs diverged, and "–" where nothing was measured.
func (m Mean) String() string {
	switch {
	case math.IsNaN(m.Mean) && m.Diverged > 0:
		return "diverged"
	case math.IsNaN(m.Mean):
		return "–"
	case m.N == 1:
		return fmt.Sprintf("%.1f", m.Mean)
	}
	return fmt.Sprintf("%.1f ± %.1f", m.Mean, m.Std)
}
