package paper

import (
	"testing"

	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// TestFullAsFixed checks that the bundled runs of the preset full are those that full.md fixed before the first: all of
// Tables 2 and 3, and of Table 4 nothing else.
func TestFullAsFixed(t *testing.T) {
	t.Parallel()
	bundled, err := runs.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	fixed := make(map[string]bool)
	for _, name := range []string{"table2", "table3", "table4"} {
		cells, err := Cells(name, report.Request{Preset: FullPreset()})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			for _, s := range c.Specs {
				fixed[s.Hash()] = true
				if name != "table4" && bundled[s.Hash()] == nil {
					t.Errorf("%s: %s on %s with seed %d is not bundled", name, s.Rule, s.Data, s.Seed)
				}
			}
		}
	}
	if len(fixed) != 260 {
		t.Errorf("%d runs, and full.md has 260", len(fixed))
	}
	for hash, r := range bundled {
		if r.Version == "3298f4d4025d" && !fixed[hash] { // The commit that added full.md.
			t.Errorf("%s is bundled and not in full.md: %s", hash, r.Spec.Canonical())
		}
	}
}
