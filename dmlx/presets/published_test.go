package presets

import (
	"testing"
)

// Other data sets replace the paper's. Published ones have the paper's names.
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
