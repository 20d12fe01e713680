package report

import (
	"errors"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/experiment"
)

// What is missing is listed without a backend: runs of tables, portraits of the figures that show them, the first of the
// grid's two rounds, and nothing of what the program has.
func TestMissing(t *testing.T) {
	store, err := experiment.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	smoke, err := experiment.ParsePreset("smoke")
	if err != nil {
		t.Fatal(err)
	}
	quick, err := experiment.ParsePreset("quick")
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*experiment.Trainer, error) { return nil, errors.New("a backend was opened") }
	for _, c := range []struct {
		name     string
		preset   experiment.Preset
		runs     int
		portrait bool
	}{
		{"table2", smoke, len(dmlx.Directions) * 2 * len(smoke.Seeds), false},
		{"figure4", smoke, len(portraitDirections) * 2 * len(smoke.Seeds), true},
		{"grid", smoke, 12 * 2, false},
		{"table2", quick, 0, false},
		{"claims", quick, 0, false},
	} {
		jobs, err := Missing(t.Context(), c.name, Request{Open: open, Store: store, Preset: c.preset})
		if err != nil {
			t.Errorf("%s, %s: %v", c.name, c.preset.Name, err)
		}
		if len(jobs) != c.runs {
			t.Errorf("%s, %s: %d runs are missing, want %d", c.name, c.preset.Name, len(jobs), c.runs)
		}
		for _, j := range jobs {
			if j.Portrait != c.portrait || j.Check() != nil {
				t.Errorf("%s: %+v, %v", c.name, j, j.Check())
			}
		}
	}
	if _, err := Missing(t.Context(), "abacus", Request{}); err == nil {
		t.Error("an abacus can be made")
	}
}
