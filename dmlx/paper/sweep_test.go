package paper

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// Without a run a sweep shows the paper's numbers, says how many runs it lacks, and asks for no backend.
func TestSweepWithoutRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, preset := range presets.Names() {
		p, err := presets.Parse(preset)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"table6", "table7", "table8"} {
			q := report.Request{Open: func() (*train.Trainer, error) { return nil, errors.New("asked for a backend") },
				Store:  store,
				Preset: p}
			q.CachedOnly, q.IgnoreBundled = true, true
			r, err := Make(context.Background(), name, q)
			if err != nil {
				t.Fatal(err)
			}
			if r.Runs == 0 || !strings.Contains(r.Provenance, "not trained yet") {
				t.Errorf("%s: %d runs, %q", name, r.Runs, r.Provenance)
			}
			for _, part := range r.Parts {
				for _, format := range part.Of.Formats() {
					if data, err := figures.Bytes(part.Of, format); err != nil || len(data) == 0 {
						t.Errorf("%s at %s, part %q as %s: %d bytes, error %v", name, preset, part.Name, format, len(data), err)
					}
				}
			}
		}
	}
}
