package figures

import (
	"math"
	"strings"
	"testing"
)

func TestMotion(t *testing.T) {
	polar := func(degrees float64) [2]float64 {
		sin, cos := math.Sincos(degrees * math.Pi / 180)
		return [2]float64{cos, sin}
	}
	a, p, n := polar(90), polar(30), polar(140)
	times := func(k float64, v [2]float64) [2]float64 { return [2]float64{k * v[0], k * v[1]} }
	m := TripletMotion{
		Title: "cos/con/con", Anchor: a, Positive: p, Negative: n,
		PositiveGradient: times(-0.5, a), NegativeGradient: times(0.5, a),
		AnchorGradient: [2]float64{0.5 * (n[0] - p[0]), 0.5 * (n[1] - p[1])},
	}
	f, err := Motion(m)
	checkGolden(t, "motion", f, err)
	if want := "positive by 0.50, negative by 0.50"; !strings.Contains(f.Alt, want) {
		t.Errorf("%q lacks %q", f.Alt, want)
	}
	bad := m
	bad.Positive = [2]float64{2, 0}
	if _, err := Motion(bad); err == nil || !strings.Contains(err.Error(), "positive") {
		t.Errorf("a positive of length 2: %v", err)
	}
	bad = m
	bad.NegativeGradient[1] = math.NaN()
	if _, err := Motion(bad); err == nil || !strings.Contains(err.Error(), "NegativeGradient[1] is NaN") {
		t.Errorf("NaN: %v", err)
	}
}
