package dmlx_test

import (
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
		for _, o := range []struct {
			name    string
			options dmlx.Options
		}{
			{"alpha", dmlx.Options{Alpha: new(5.0)}}, {"beta", dmlx.Options{Beta: new(3.0)}},
			{"epsilon", dmlx.Options{Epsilon: new(2.0)}}, {"keep-length", dmlx.Options{KeepLength: true}},
			{"lambda", dmlx.Options{Lambda: new(0.1)}}, {"negative-only", dmlx.Options{NegativeOnly: true}},
			{"skip-duplicates", dmlx.Options{SkipDuplicates: true}}, {"sum", dmlx.Options{Sum: true}},
			{"tau", dmlx.Options{Tau: new(4.0)}},
		} {
			r.Options = o.options
			d, err := dissect.Rule(b, batch, r)
			if err != nil {
				t.Fatal(err)
			}
			if changed, used := !slices.Equal(d.G, plain.G), slices.Contains(r.UsedOptions(), o.name); changed != used {
				t.Errorf("%s: the gradient changes: %v, but Uses lists it: %v", r.Name(), changed, used)
			}
		}
	}
}
