package figures

import (
	"strings"
	"testing"
)

func TestErrorRates(t *testing.T) {
	f, err := ErrorRates([]ErrorRate{{FMR: 0.002, FNMR: 0.6},
		{FMR: 0.03, FNMR: 0.2}, {FMR: 0.2, FNMR: 0.05}, {FMR: 1}},
		"made-up numbers")
	checkGolden(t, "errorrates", f, err)
	if want := "60 % at 0.2 %, 5 % at 20 %"; !strings.Contains(f.Alt, want) {
		t.Errorf("no %q in %s", want, f.Alt)
	}
	if _, err := ErrorRates([]ErrorRate{{FNMR: 1}}, ""); err == nil ||
		!strings.Contains(err.Error(), "above 0") {
		t.Error(err)
	}
}
