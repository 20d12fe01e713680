package stats

// Stat is a mean over seeds with its sample standard deviation (divisor n−1; 0 for a single seed).
type Mean struct {
	Mean, Std float64
	N         int // How many finite runs are in the mean.
	Diverged  int // How many runs diverged and are not in it.
}

// Estimate is a value with its 95 % interval; NaN where there is none.
type Interval struct{ Value, Low, High float64 }
