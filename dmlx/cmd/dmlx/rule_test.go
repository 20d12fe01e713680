package main

import (
	"strings"
	"testing"
)

func TestFormerRuleName(t *testing.T) {
	for name, want := range map[string]int{"ms?tau=2": 1, "table1-ms": 0, "cos/lin/cir": 0} {
		_, _, stderr := invoke(t, "gradient", "--embeddings", "missing.npy", "--labels", "missing.npy", "--rule", name,
			"--out", t.TempDir()+"/G.npy")
		if n := strings.Count(stderr, `warning: rule "ms" is now called table1-ms (cos/sig-ms/con)`); n != want {
			t.Errorf("%s: warned %d times, want %d: %s", name, n, want, stderr)
		}
	}
}
