//go:build cgo && linux && !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// With too little address space the command ends with one line instead of a trace of Go's runtime or XLA's C code.
func TestLittleAddressSpace(t *testing.T) {
	store := t.TempDir()
	start := func(kilobytes int, backend string) (string, error) {
		script := fmt.Sprintf("ulimit -v %d && echo '[]' | %s job --store %s", kilobytes, os.Args[0], store)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = append(os.Environ(), "GOMLX_BACKEND="+backend)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, c := range []struct {
		kilobytes     int
		backend, want string
	}{
		{300_000, "go", "ulimit -v allows 0.3 GB"},
		{1_000_000, "go", "ulimit -v allows 1.0 GB"},
		{2_500_000, "xla", "ulimit -v allows 2.6 GB"},
		{2_500_000, "", ""}, // On the Go backend: no jobs, no output.
	} {
		out, err := start(c.kilobytes, c.backend)
		if c.want == "" && err == nil && out == "" {
			continue
		}
		if err == nil || strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "dmlx: ") ||
			!strings.Contains(out, c.want) {
			t.Errorf("%d kB, backend %q: %v, %q, want …%s…", c.kilobytes, c.backend, err, out, c.want)
		}
	}
}
