package stats

import (
	"math"
	"testing"
)

func TestDifference(t *testing.T) {
	// By scipy 1.17.1: ttest_ind of [0.70, 0.72, 0.75] and [0.76, 0.78, 0.775, 0.79] with equal_var=False.
	a, b := MeanOf([]float64{0.70, 0.72, 0.75}), MeanOf([]float64{0.76, 0.78, 0.775, 0.79})
	want := Interval{2.17/3 - 3.105/4, -0.10599320236175257, 0.0001598690284191212}
	got := Difference(a, b)
	for _, pair := range [][2]float64{{got.Value, want.Value}, {got.Low, want.Low}, {got.High, want.High}} {
		if math.Abs(pair[0]-pair[1]) > 1e-9 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	one := Mean{Mean: 0.5, N: 1}
	if d := Difference(one, b); d.Value != 0.5-b.Mean || !math.IsNaN(d.Low) || !math.IsNaN(d.High) {
		t.Errorf("a single run: %+v", d)
	}
	if d := Difference(Mean{Mean: 0.5, N: 2}, Mean{Mean: 0.25, N: 2}); d.Value != 0.25 ||
		!math.IsNaN(d.Low) || !math.IsNaN(d.High) {
		t.Errorf("without spread: %+v", d)
	}
	if d := Difference(Mean{Mean: math.NaN(), Diverged: 3}, b); !math.IsNaN(d.Value) {
		t.Errorf("diverged: %+v", d)
	}
}

// The example of Holm's procedure: of p = 0.01, 0.02, 0.03 and 0.04 only the first is below 0.05/4, and the second is
// not below 0.05/3.
func TestHolm(t *testing.T) {
	for _, c := range []struct {
		p    []float64
		want float64
	}{{[]float64{0.04, 0.01, 0.03, 0.02}, 0.01}, {[]float64{0.012, 0.016, 0.024}, 0.024}, {[]float64{0.2}, -1},
		{nil, -1}} {
		if got := Holm(c.p, 0.05); got != c.want {
			t.Errorf("%v: %g, want %g", c.p, got, c.want)
		}
	}
}
