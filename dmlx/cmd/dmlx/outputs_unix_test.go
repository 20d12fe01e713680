//go:build unix

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
)

// Every flag for a file to write refuses a folder, a pipe, a link and an input, and leaves what is there. A flag whose
// help speaks of a file to write and that is not in the table fails the test.
func TestOutputs(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	dir := t.TempDir()
	in := filepath.Join(dir, "in.npy")
	if err := os.WriteFile(in, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ending := range []string{"", ".toml", ".txt", ".svg"} { // Some names must have one.
		if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe"+ending), 0o600),
			os.Mkdir(filepath.Join(dir, "folder"+ending), 0o700), os.Symlink("in.npy", filepath.Join(dir,
				"link"+ending))); err != nil {
			t.Fatal(err)
		}
	}
	commands := map[string]struct {
		args  string // OUT is the output, IN the input.
		input string // That is an output, too; none reads nothing from a file.
	}{
		"embed --out":               {"embed --images . --weights IN --out OUT --names n --labels l.npy", in},
		"embed --names":             {"embed --images . --weights IN --out o.npy --names OUT --labels l.npy", in},
		"embed --labels":            {"embed --images . --weights IN --out o.npy --names n --labels OUT.txt", ""},
		"weights onnx --out":        {"weights onnx x --arch IN --out OUT", in},
		"dissect --matrix":          {"dissect --loss triplet --embeddings IN --labels IN --matrix OUT", in},
		"dissect --pairs":           {"dissect --loss triplet --embeddings IN --labels IN --pairs OUT", in},
		"dissect --map":             {"dissect --court --embeddings IN --labels IN --map OUT.svg", ""},
		"recall --curve":            {"recall --embeddings IN --labels IN --curve OUT.svg", ""},
		"rule --out":                {"rule ours --pytorch --out OUT", ""},
		"rates --write":             {"rates --preset smoke --rule ours --lr 0.1,0.2 --write OUT.toml", ""},
		"reproduce --write-bundled": {"reproduce table3 --preset smoke --write-bundled OUT", ""},
	}
	written := regexp.MustCompile(`to write|output: |file for`)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name := strings.TrimPrefix(cmd.CommandPath(), "dmlx ") + " --" + f.Name
			if _, found := commands[name]; !found && written.MatchString(f.Usage) && !strings.HasPrefix(f.Usage, "folder") {
				t.Errorf("%s is not in the table: %s", name, f.Usage)
			}
		})
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRoot(app.New(t.Context(), io.Discard, io.Discard)))
	t.Chdir(dir)
	for name, c := range commands {
		for out, want := range map[string]string{"pipe": "a pipe or a device", "link": "a link to ", "folder": "is a folder",
			c.input: "is an input"} {
			if out == "" {
				continue
			}
			if out != c.input {
				out = filepath.Join(dir, out)
			}
			args := strings.Fields(strings.NewReplacer("OUT", out, "IN", in).Replace(c.args))
			if code, _, stderr := invoke(t, args...); code != exitUsage || !strings.Contains(stderr, want) {
				t.Errorf("%s: %s: code %d, %s, want %q", name, args, code, stderr, want)
			}
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "link")); err != nil || string(raw) != "x" {
		t.Errorf("%q, %v", raw, err)
	}
}
