package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
)

// The exit codes.
const (
	exitFailed      = cli.ExitFailed
	exitUsage       = cli.ExitUsage
	exitInterrupted = cli.ExitInterrupted
)

func TestMain(m *testing.M) {
	cli.HugePages() // So that benchmarks measure what users have, and other libraries beside them have it, too.
	// A process that jobs.Spawn started, or a task of a job array.
	if len(os.Args) > 1 && (os.Args[1] == "job" || os.Args[1] == "runs") ||
		os.Getenv("DMLX_TEST_COMMAND") != "" { // A dmlx that a test has put on the PATH.
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	if os.Getenv("DMLX_TEST_HUGE_PAGES") != "" {
		fmt.Print(os.Args[1:], os.Getenv("GLIBC_TUNABLES"))
		os.Exit(0)
	}
	code := m.Run()
	if err := writeBenchRecord(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// invoke runs the command in this process.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	if cli.WantsJSON(args) && out.Len() > 0 {
		if err := checkJSON(args, code, out.String(), false); err != nil {
			t.Errorf("dmlx %s: %v", args, err)
		}
	}
	return code, out.String(), err.String()
}

// failed tells whether an exit code is one of the two for errors; TestExitCodes distinguishes them.
func failed(code int) bool { return code == exitFailed || code == exitUsage }

func TestErrorsAreOneLine(t *testing.T) {
	for _, args := range [][]string{{"trian"}, {"--abacus"}, {"--preset"}, {"train", "--preset", "tiny"}} {
		code, stdout, stderr := invoke(t, args...)
		if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("dmlx %s: code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// Impossible arguments are rejected before any work.
func TestRefusedBeforeTheWork(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	source := filepath.Join(t.TempDir(), "E.npy")
	if err := os.WriteFile(source, []byte("embeddings"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"E.npy is an input: want another file": {"dissect", "--loss", "ms", "--embeddings", source, "--labels", "L.npy",
			"--matrix", filepath.Dir(source) + "/./E.npy"},
		"lab --timeout -1s: want 0 for no limit": {"lab", "--execute", "--timeout", "-1s", "x.ipynb"},
		"1 classes × 4 images has no triplets":   {"train", "--preset", "smoke", "--batch", "1x4"},
		"4 classes × 1 images has no triplets":   {"train", "--preset", "smoke", "--batch", "4x1"},
		"proxies in place of pairs":              {"train", "--preset", "smoke", "--loss", "proxy-anchor, miner ms"},
		"--miner hard: arcface has proxies": {"dissect", "--loss", "arcface", "--miner", "hard", "--embeddings",
			"E.npy", "--labels", "L.npy"},
		"two outputs have the path m.npy": {"dissect", "--loss", "ms", "--embeddings", "E.npy", "--labels", "L.npy",
			"--matrix", "m.npy", "--pairs", "m.npy"},
		"want the name of a file":          {"reproduce", "table2", "--write-bundled", t.TempDir()},
		"both minicar: want two data sets": {"reproduce", "table2", "--set", "coarse_grained=minicar"},
		"--out is empty":                   {"embed", "--weights", "W", "--images", "D", "--out", ""},
	} {
		if code, _, stderr := invoke(t, args...); code != exitUsage || !strings.Contains(stderr, want) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("dmlx %s: code %d, %q, want …%s…", args, code, stderr, want)
		}
	}
}
