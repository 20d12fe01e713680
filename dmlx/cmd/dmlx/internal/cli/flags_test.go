package cli

import (
	"slices"
	"testing"
)

func TestParseNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]uint64{"3": {3}, "1-3": {1, 2, 3}, "1,3-4, 9": {1, 3, 4, 9}, "0-0": {0},
		"18446744073709551615": {18446744073709551615}} {
		if got, err := ParseNumbers("seeds", text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "3-1", "1-", "-1", "1,,2", "1-99999999", "0.5"} {
		if got, err := ParseNumbers("seeds", text); err == nil || !IsUsage(err) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
