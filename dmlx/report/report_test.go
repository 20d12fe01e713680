package report

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func TestOverall(t *testing.T) {
	var fraction float64
	var text string
	show := Overall(func(f float64, s string) { fraction, text = f, s })
	for _, p := range []runs.Progress{
		{Run: 1, Runs: 4, Progress: train.Progress{Step: 5, Steps: 10}},
		{Run: 2, Runs: 4, Progress: train.Progress{Step: 1, Steps: 10}},
		{Run: 1, Runs: 4, Progress: train.Progress{Step: 10, Steps: 10}},
	} {
		show(p)
	}
	if math.Abs(fraction-1.1/4) > 1e-12 || !strings.HasPrefix(text, "run 1/4") || !strings.HasSuffix(text, " left") {
		t.Errorf("%v %q", fraction, text)
	}
	for want, p := range map[string]runs.Progress{
		"7 of 8 images decoded":  {Runs: 4, Progress: train.Progress{Decoded: 7, Images: 8}},
		"8 of 8 images embedded": {Runs: 4, Progress: train.Progress{Embedded: 8, Images: 8}},
	} {
		if show(p); !strings.Contains(text, want) {
			t.Errorf("%q, want %s", text, want)
		}
	}
	show(runs.Progress{Progress: train.Progress{Step: 1}}) // A run of its own that does not know its length.
}
