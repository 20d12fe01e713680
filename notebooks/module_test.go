package notebooks

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestModuleOfYourOwn does what dmlx/README.md says, with this checkout as the clone: its commands, its program and its
// output. go mod tidy also wants what the tests of this module's modules import, which it fetches once.
func TestModuleOfYourOwn(t *testing.T) {
	t.Parallel()
	page := read(t, "dmlx/README.md")
	blocks := func(language string) (found []string) {
		for rest, more := page, true; more; {
			var block string
			if _, rest, more = strings.Cut(rest, "```"+language+"\n"); more {
				block, rest, more = strings.Cut(rest, "```\n")
				found = append(found, block)
			}
		}
		return found
	}
	shell, programs, outputs := blocks("sh"), blocks("go"), blocks("text")
	if len(shell) != 2 || len(programs) != 1 || len(outputs) != 1 {
		t.Fatalf("%d, %d and %d blocks, want commands before and after one program, and its output", len(shell),
			len(programs), len(outputs))
	}
	clone, rest, _ := strings.Cut(shell[0], "\n")
	if !strings.HasPrefix(clone, "git clone ") {
		t.Fatalf("the first command is %q, not the clone", clone)
	}
	dir := t.TempDir()
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(checkout, filepath.Join(dir, "dml")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	run := func(in, script string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOMLX_BACKEND=go")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", script, err, out, stderr.String())
		}
		return string(out)
	}
	run(dir, rest)
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(filepath.Join(mine, "main.go"), []byte(programs[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(mine, shell[1]); got != outputs[0] {
		t.Errorf("the program prints\n%s\nwant\n%s", got, outputs[0])
	}
}
