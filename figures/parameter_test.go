package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

func TestOverParameter(t *testing.T) {
	mean := func(v float64) stats.Mean { return stats.Mean{Mean: v, Std: 0.8, N: 3} }
	lines := []ParameterLine{
		{"cos/lin/cir", []float64{0.5, 1, 2, 4}, []stats.Mean{mean(70), mean(71.5), mean(72), mean(69)}},
		{"cos/con/cos", []float64{0.5, 1.05, 4}, []stats.Mean{mean(68), mean(68.4), Missing}},
	}
	f, err := OverParameter("preset quick · made-up numbers", `$\tau$`, lines...)
	checkGolden(t, "parameter", f, err)
	for _, want := range []string{"Recall@1 over τ.", "cos/lin/cir at 2: 72.0 ± 0.8"} {
		if !strings.Contains(f.Alt, want) {
			t.Errorf("no %q in %s", want, f.Alt)
		}
	}
	for want, l := range map[string]ParameterLine{
		"has 1 values":  {"a", []float64{1}, []stats.Mean{mean(1)}},
		"that ascend":   {"a", []float64{1, 1}, []stats.Mean{mean(1), mean(1)}},
		"a score for":   {"a", []float64{1, 2}, []stats.Mean{mean(1)}},
		"finite ones":   {"a", []float64{1, math.Inf(1)}, []stats.Mean{mean(1), mean(1)}},
		"there is none": {"a", []float64{1, 2}, []stats.Mean{Missing, Missing}},
	} {
		if _, err := OverParameter("", "m", l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
}
