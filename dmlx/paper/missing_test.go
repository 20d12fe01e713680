package paper

import (
	"errors"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// What is missing is listed without a backend: runs of tables, portraits of the figures that show them, the first of
// the grid's two rounds, and nothing of what the program has.
func TestMissing(t *testing.T) {
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	smoke, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	quick, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	open := func() (*train.Trainer, error) { return nil, errors.New("a backend was opened") }
	for _, c := range []struct {
		name     string
		preset   presets.Preset
		runs     int
		portrait bool
	}{
		{"table2", smoke, len(directions) * 2 * len(smoke.Seeds), false},
		{"figure4", smoke, len(histogramDirections) * 2 * len(smoke.Seeds), true},
		{"grid", smoke, 12 * 2, false},
		{"table2", quick, 0, false},
	} {
		jobs, err := Missing(t.Context(), c.name, report.Request{Open: open, Store: store, Preset: c.preset})
		if err != nil {
			t.Errorf("%s, %s: %v", c.name, c.preset.Name, err)
		}
		if len(jobs) != c.runs {
			t.Errorf("%s, %s: %d runs are missing, want %d", c.name, c.preset.Name, len(jobs), c.runs)
		}
		for _, j := range jobs {
			if j.Histograms != c.portrait || j.Check() != nil {
				t.Errorf("%s: %+v, %v", c.name, j, j.Check())
			}
		}
	}
	if _, err := Missing(t.Context(), "abacus", report.Request{}); err == nil {
		t.Error("an abacus can be made")
	}
}
