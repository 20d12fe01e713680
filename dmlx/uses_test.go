package dmlx_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
)

// TestUses changes each option and sees whether the gradient of a rule changes.
func TestUses(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	batch := dissect.Sample(4, 4, 3, 0.9, 7)
	copy(batch.Values[3:6], batch.Values[:3]) // A duplicate.
	for _, r := range dmlx.Rules() {
		plain, err := dissect.Rule(b, batch, r)
		if err != nil {
			t.Fatal(err)
		}
		options := map[string]string{}
		for _, n := range dmlx.Numbers {
			options[n.Name] = fmt.Sprintf("%s=%g", n.Name, n.Default+1.5)
		}
		for _, s := range dmlx.Switches {
			options[s.Name] = s.Name
		}
		for option, text := range options {
			r, err := dmlx.ParseRecorded(r.Name() + "?" + text)
			if err != nil {
				t.Fatal(err)
			}
			d, err := dissect.Rule(b, batch, r)
			if err != nil {
				t.Fatal(err)
			}
			if changed, used := !slices.Equal(d.G, plain.G), slices.Contains(r.UsedOptions(), option); changed != used {
				t.Errorf("%s: the gradient changes: %v, but Uses lists it: %v", r.Name(), changed, used)
			}
		}
	}
}
