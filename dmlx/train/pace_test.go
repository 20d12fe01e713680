package train

import (
	"testing"
	"testing/synctest"
	"time"
)

// The time left is that of the recent steps: neither compilation in the first two nor an earlier pace counts.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pace Pace
		rate, left := pace.At(1, 300)
		if rate != 0 || left != 0 {
			t.Errorf("after the first step: %v, %v", rate, left)
		}
		time.Sleep(12 * time.Second)
		if rate, left = pace.At(2, 300); rate != 0 || left != 0 {
			t.Errorf("after a step that compiled: %v, %v", rate, left)
		}
		for step := 3.0; step <= 100; step++ {
			time.Sleep(125 * time.Millisecond)
			if rate, left = pace.At(step, 300); rate != 8 || left != time.Duration((300-step)/8*1e9).Round(time.Second) {
				t.Fatalf("after %v steps: %v, %v", step, rate, left)
			}
		}
		for step := 101.0; step <= 300; step++ { // Slower from here on.
			time.Sleep(2 * time.Second)
			rate, left = pace.At(step, 300)
		}
		if rate != 0.5 || left != 0 {
			t.Errorf("at the end: %v, %v", rate, left)
		}
		if _, left := new(Pace).At(60, 300); left != 0 { // A training that goes on.
			t.Errorf("at the first step after an interruption: %v", left)
		}
	})
	for want, rate := range map[string]float64{"": 0, "4.0 s/step": 0.25, "2.5 steps/s": 2.5, "120 steps/s": 120.3} {
		if got := (Progress{StepRate: rate}).Speed(); got != want {
			t.Errorf("%v steps a second: %q, want %q", rate, got, want)
		}
	}
}
