package presets

import (
	"testing"
)

// Data sets of one's own take the places of the paper's, under the paper's names where they have one.
func TestPresetOn(t *testing.T) {
	p, err := Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for given, want := range map[[2]string][2]string{
		{}:                  {"minicar", "minishop"},
		{"cub"}:             {"CUB", "minishop"},
		{"CAR", "inshop"}:   {"CAR", "In-shop"},
		{folder, "minicar"}: {folder, "minicar"},
	} {
		if on := p.On(given[0], given[1]); on.FineGrained != want[0] || on.CoarseGrained != want[1] {
			t.Errorf("%q: %s and %s", given, on.FineGrained, on.CoarseGrained)
		}
	}
}

// A published set trains by its name; one that is not whole only where that is allowed, which is then part of the run.
