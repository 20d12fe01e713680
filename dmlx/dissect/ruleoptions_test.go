package dissect

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
)

// An option changes the gradient of a batch for exactly the rules that use it.
func TestRuleUsesOptions(t *testing.T) {
	gradient := func(r dmlx.Rule) []float32 {
		t.Helper()
		b, err := probeBackend()
		if err != nil {
			t.Fatal(err)
		}
		d, err := Rule(b, probeBatch(6, 4, 8, 0.9, 3), r)
		if err != nil {
			t.Fatal(err)
		}
		return d.G
	}
	var rules []dmlx.Rule
	for _, name := range []string{"cos/con/con", "euc/euc/con", "euc-orth/lin/cos", "cos-orth/lin-ms/cir+sc1",
		"cos/sig/con", "cos/sig-ms/cir+sc2"} {
		r, err := dmlx.ParseRule(name)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	for _, r := range rules {
		plain := gradient(r)
		for option, value := range map[string]string{"alpha": "=3", "beta": "=4", "epsilon": "=0.3", "lambda": "=0.1",
			"tau": "=2", "keep-length": "", "negative-only": "", "sum": ""} {
			all := r
			if parsed, err := dmlx.ParseRecorded(fmt.Sprintf("%s?%s%s", r, option, value)); err != nil {
				t.Fatal(err)
			} else {
				all = parsed
			}
			if changes := !slices.Equal(gradient(all), plain); changes != r.Uses(option) {
				t.Errorf("%s changes %s: %v, but Uses says %v", option, r, changes, r.Uses(option))
			}
			with, err := r.WithOptions(option + value)
			if want := map[bool]string{true: all.Name(), false: r.Name()}[r.Uses(option)]; err != nil || with.Name() != want {
				t.Errorf("%s with %s%s is %s, %v, want %s", r, option, value, with, err, want)
			}
		}
	}
	if _, err := rules[0].WithOptions("theta=1"); err == nil {
		t.Error("no error for an unknown option")
	}
}
