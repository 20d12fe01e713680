package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	os.Setenv(simdEnv, "off")                    // A test program is not to be replaced by the command.
	if len(os.Args) > 1 && os.Args[1] == "job" { // The process that makes runs for another; see spawn.
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// invoke runs the command in this process.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestErrorsAreOneLine(t *testing.T) {
	for _, args := range [][]string{{"trian"}, {"--abacus"}, {"--preset"}, {"lab", "--preset", "tiny"}} {
		code, stdout, stderr := invoke(t, args...)
		if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("dmlx %s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
