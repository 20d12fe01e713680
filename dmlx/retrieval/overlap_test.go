package retrieval

import (
	"math"
	"testing"
)

func TestOverlapAndCompactness(t *testing.T) {
	nan := float32(math.NaN())
	a, b := []float32{-1, 0.005, 0.005, 1, nan}, []float32{0.015, 0.0199, -0.5, 1}
	if got := Overlap(a, a); math.Abs(got-1) > 1e-12 {
		t.Errorf("with itself %g", got)
	}
	if got := Overlap(a, b); math.Abs(got-0.75) > 1e-12 { // 0 … 0.02 is a bin: two of each, and one of each at 1.
		t.Errorf("overlap %g, want 0.75", got)
	}
	if got := Overlap(a[:1], b); got != 0 {
		t.Errorf("of separate ones %g", got)
	}
	if got := Compactness([]float32{0.95, 0.95, 0.5, nan}, []float32{0.91, 0.9, 0.99, 0.99}); math.Abs(got-1./3) > 1e-12 {
		t.Errorf("compactness %g, want 1/3", got)
	}
}
