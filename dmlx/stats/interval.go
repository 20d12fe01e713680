package stats

// Estimate is a value with its 95 % interval; NaN where there is none.
type Interval struct{ Value, Low, High float64 }
