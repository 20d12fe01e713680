package stats

import (
	"math"
	"strings"
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

func TestGain(t *testing.T) {
	t.Parallel()
	for want, of := range map[string][2]Mean{
		"10.0 [9.5, 10.5], beyond noise":    {{Mean: 80, Std: 0.2, N: 3}, {Mean: 70, Std: 0.2, N: 3}},
		"−10.0 [−10.5, −9.5], beyond noise": {{Mean: 70, Std: 0.2, N: 3}, {Mean: 80, Std: 0.2, N: 3}},
		// (t of 0.975 + t of 0.8) · √(2/17) · 1 ≤ 1 with 32 degrees of freedom: 2.037 + 0.853 = 2.890 · 0.343 = 0.991.
		"1.0 [−1.3, 3.3], undecided: 17 runs of each would tell it": {{Mean: 71, Std: 1, N: 3}, {Mean: 70, Std: 1, N: 3}},
		"0.0 [−2.3, 2.3], undecided":                                {{Mean: 70, Std: 1, N: 3}, {Mean: 70, Std: 1, N: 3}},
		"1.0, undecided":                                            {{Mean: 71, N: 1}, {Mean: 70, N: 1}},
	} {
		if got := strings.ReplaceAll(Gain(of[0], of[1]), "\u00a0", " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
