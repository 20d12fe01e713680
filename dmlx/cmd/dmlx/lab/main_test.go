package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
)

func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("DMLX_CACHE", t.TempDir())
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestCommandLine(t *testing.T) {
	code, stdout, stderr := invoke(t, "--help")
	if code != 0 || !strings.Contains(stdout, "--no-browser") || stderr != "" {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
	for _, c := range []struct{ args, want string }{
		{"--preset quick", "want dmlx lab --preset"},
		{"--prot 1", "did you mean --port?"},
		{"--port x", `--port "x": want a whole number`},
		{"tabel2", "did you mean table2?"},
		{"--execute --json", "name the notebooks to run"},
	} {
		code, stdout, stderr := invoke(t, strings.Fields(c.args)...)
		if code != cli.ExitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("lab %s: code %d, %q", c.args, code, stderr)
		}
		if json := strings.HasPrefix(stdout, `{
  "error"`); json != strings.Contains(c.args, "--json") {
			t.Errorf("lab %s prints %q", c.args, stdout)
		}
	}
}

// Whoever opens the notebooks for the first time waits for this program to compile.
func TestLinksNothingLarge(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	large := []string{"net/http", "crypto/tls", "github.com/gradient-surgery/dml/dmlx"}
	for _, name := range strings.Fields(string(out)) {
		if slices.Contains(large, name) || strings.Contains(name, "gomlx") || strings.Contains(name, "gonum") {
			t.Errorf("it links %s", name)
		}
	}
}
