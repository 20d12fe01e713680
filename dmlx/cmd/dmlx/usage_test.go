package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The exit code tells a wrong command line from a command that failed.
func TestExitCodes(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{exitUsage, []string{"trian"}, `unknown command "trian" for "dmlx"; did you mean train?`},
		{exitUsage, []string{"runs", "remov", "x"}, "did you mean remove?"},
		{exitUsage, []string{"abacus"}, "dmlx --help lists them"},
		{exitUsage, []string{"--abacus"}, "unknown flag"},
		{exitUsage, []string{"train", "--seed", "x"}, "invalid argument"},
		{exitUsage, []string{"train", "--rule", "x"}, `rule "x"`},
		{exitUsage, []string{"train", "--loss", "x"}, `"x"`},
		{exitUsage, []string{"train", "--seed", "1", "--seeds", "1-2"}, "want one of them"},
		{exitUsage, []string{"train", "--rule", "cos/con/con", "--rule", "cos/con/con"}, "is given twice"},
		{exitUsage, []string{"doctor", "--preset", "x"}, `"x"`},
		{exitUsage, []string{"recall"}, "embeddings"},
		{exitUsage, []string{"runs", "show"}, "accepts 1 arg"},
		{exitFailed, []string{"runs", "show", "0123"}, "0123"},
		{exitFailed, []string{"recall", "--embeddings", "none.npy", "--labels", "none.npy"}, "none.npy"},
	} {
		code, stdout, stderr := invoke(t, c.args...)
		if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("dmlx %s: code %d, want %d; stdout %q, stderr %q, want …%s…", c.args, code, c.code, stdout, stderr, c.want)
		}
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A command whose output is lost fails, also if cobra or fmt wrote it.
func TestFullDisk(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	device := io.Writer(full{})
	if runtime.GOOS == "linux" {
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		device = f
	}
	for _, args := range [][]string{{"--help"}, {"train", "--help"}, {"help", "train"}, {"--version"},
		{"version", "--json"}, {"runs"}, {}} {
		var stderr bytes.Buffer
		code := run(t.Context(), args, device, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "no space left on device") ||
			strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("dmlx %s onto a full disk: code %d, stderr %q", args, code, stderr.String())
		}
	}
}

// Each command's help has an example, which its flags accept.
func TestExamples(t *testing.T) {
	newTree := func() *cobra.Command {
		return newRoot(&app{ctx: context.Background(), stdout: io.Discard, stderr: io.Discard})
	}
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		own := false
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(line, "#")
			words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
			for i, name := range []string{"./dmlx/cmd/dmlx", "dmlx"} { // As in "go run ./dmlx/cmd/dmlx lab".
				if at := slices.Index(words, name); at >= 0 && (i == 1 || words[0] == "go") {
					words = words[at:]
					break
				}
			}
			if len(words) == 0 || strings.HasSuffix(words[0], ".sh") {
				continue
			}
			of, args, err := newTree().Find(words[1:])
			if err == nil {
				err = of.ParseFlags(args)
			}
			if err == nil {
				err = of.ValidateRequiredFlags()
			}
			if err == nil {
				err = of.ValidateArgs(of.Flags().Args())
			}
			if err != nil {
				t.Errorf("the example %q: %v", strings.TrimSpace(line), err)
			}
			own = own || of.CommandPath() == cmd.CommandPath() || cmd.HasSubCommands()
		}
		if !own {
			t.Errorf("the help of %s has no example of it", cmd.CommandPath())
		}
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	check(newTree())
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "version")
	for _, want := range []string{"dmlx ", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, "backends: go"} {
		if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("no %q in %q, code %d, stderr %q", want, stdout, code, stderr)
		}
	}
	if _, short, _ := invoke(t, "--version"); short != stdout {
		t.Errorf("--version prints %q, version %q", short, stdout)
	}
}

// The former names of flags still work, and help does not show them.
func TestFormerFlags(t *testing.T) {
	t.Parallel()
	for former, flag := range map[string]string{"--piece=8": "micro-batch", "--have": "cached-only",
		"--fresh": "no-bundled", "--ship=x.json": "write-bundled"} {
		cmd, _, err := newRoot(&app{stdout: io.Discard, stderr: io.Discard}).Find([]string{"reproduce"})
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags([]string{former}); err != nil || !cmd.Flags().Changed(flag) {
			t.Errorf("%s does not set --%s: %v", former, flag, err)
		}
		name, _, _ := strings.Cut(former, "=")
		if help := cmd.UsageString(); !strings.Contains(help, "--"+flag+" ") || strings.Contains(help, name+" ") {
			t.Errorf("the help shows %s, or not --%s:\n%s", name, flag, help)
		}
	}
}

func TestUsageErrorsWrap(t *testing.T) {
	t.Parallel()
	if usage(nil) != nil || !errors.Is(usage(io.EOF), io.EOF) || !isUsage(fmt.Errorf("x: %w", usage(io.EOF))) ||
		isUsage(io.EOF) {
		t.Error("an error of the command line is lost, or made")
	}
}
