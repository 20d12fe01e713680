package stats

import (
	"fmt"
	"math"
	"strings"
)

// Interval is a value with its 95 % confidence interval; Low and High are NaN where there is none.
type Interval struct{ Value, Low, High float64 }

// Point returns a value without an interval. The value may be NaN for none.
func Point(value float64) Interval { return Interval{value, math.NaN(), math.NaN()} }

// Times returns the interval in another unit: with the factor 100, a fraction becomes percent.
func (v Interval) Times(factor float64) Interval {
	return Interval{factor * v.Value, factor * v.Low, factor * v.High}
}

// ExcludesZero tells whether zero lies outside the interval. It is false where there is no interval.
func (v Interval) ExcludesZero() bool { return v.Low > 0 || v.High < 0 }

// String formats the interval with one decimal: "1.2 [0.3, 2.1]", "1.2" without an interval, "–" without a value.
func (v Interval) String() string {
	switch {
	case math.IsNaN(v.Value):
		return "–"
	case math.IsNaN(v.Low) || math.IsNaN(v.High):
		return tenths(v.Value)
	}
	return fmt.Sprintf("%s [%s,\u00a0%s]", tenths(v.Value), tenths(v.Low), tenths(v.High))
}

// tenths formats a number with one decimal and a true minus sign.
func tenths(v float64) string {
	s := fmt.Sprintf("%.1f", v)
	if s == "-0.0" {
		s = "0.0"
	}
	return strings.Replace(s, "-", "−", 1)
}
