package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
)

// Every flag that is no text or list of texts says what it wants in words of its own.
func TestNumbersOfFlags(t *testing.T) {
	known := []string{"string", "stringArray", "stringSlice", "key=value"}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			err := f.Value.Set("1.5.x")
			if kind := f.Value.Type(); cli.Numbers[kind] == "" && err != nil && strings.Contains(err.Error(), "strconv") {
				t.Errorf("%s --%s is of type %s: %v", cmd.CommandPath(), f.Name, kind, err)
			} else if err == nil && !slices.Contains(known, kind) {
				t.Errorf("%s --%s is of type %s and takes any text", cmd.CommandPath(), f.Name, kind)
			}
		})
		for _, below := range cmd.Commands() {
			walk(below)
		}
	}
	walk(newRoot(app.New(t.Context(), io.Discard, io.Discard)))
}

// A command that reads the store makes none, and one that is named must be there.
func TestStoresThatAreRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "store"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"runs"}, {"runs", "list"}, {"runs", "list", "--csv"}, {"runs", "show", "077c9a"},
		{"runs", "verify"}, {"runs", "remove", "077c9a"},
		{"runs", "compare", "077c9a", "1f3b20"}, {"ledger"}, {"reproduce", "table2", "--cached-only"},
		{"weights", "onnx", "077c9a", "--out", filepath.Join(dir, "n.onnx")}} {
		code, _, stderr := invoke(t, append(args, "--store", filepath.Join(dir, "stroe"))...)
		if code != exitFailed || !strings.Contains(stderr, "no such folder") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := invoke(t, "runs", "list", "--store", filepath.Join(dir, "store")); code != 0 {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	t.Setenv("DMLX_STORE", filepath.Join(dir, "none"))
	if v := object(t, "runs", "list"); len(v["runs"].([]any)) != 0 {
		t.Error(v)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if all, _ := os.ReadDir(dir); err != nil || len(made) > 0 || len(all) != 1 {
		t.Errorf("%q, %v in %s, %v", made, all, dir, err)
	}
}

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
		{exitUsage, []string{"train", "minicar"}, `"minicar": data is given by --data, a rule by --rule`},
		{exitUsage, []string{"train", "--seeds", "x"}, "want numbers and ranges"},
		{exitUsage, []string{"train", "--rule", "x"}, `rule "x"`},
		{exitUsage, []string{"train", "--loss", "x"}, `"x"`},
		{exitUsage, []string{"train", "--rule", "x", "--features", "none.npy"}, `rule "x"`},
		{exitUsage, []string{"reproduce", "table3", "--add-loss", "x", "--preset", "paper"}, `loss "x"`},
		{exitUsage, []string{"train", "--epochs", "x"}, "dmlx: epochs: x: want a positive whole number\n"},
		{exitUsage, []string{"train", "--seeds", "-1"}, "want numbers and ranges"},
		{exitUsage, []string{"train", "--seed", "-1"}, "unknown flag: --seed; did you mean --seeds?"},
		{exitUsage, []string{"train", "--measure", "1.5"}, `--measure "1.5": want a whole number`},
		{exitUsage, []string{"train", "--jobs", "99999999999999999999"}, `: want a whole number`},
		{exitUsage, []string{"runs", "list", "--csv=x"}, `--csv "x": want true or false`},
		{exitUsage, []string{"train", "--set", "epoch=3"}, "did you mean epochs?"},
		{exitUsage, []string{"train", "--rule", "cos/con/con", "--rule", "cos/con/con"}, "is given twice"},
		{exitUsage, []string{"lab", "--preset", "x"}, `"x"`},
		{exitUsage, []string{"recall"}, "embeddings"},
		{exitUsage, []string{"runs", "show"}, "accepts 1 arg"},
		{exitUsage, []string{"help", "trian"}, "unknown command"},
		{exitUsage, []string{"runs", "show", "zzz"}, "want the first digits"},
		// A name that does not exist gets the nearest one; a value that cannot be is wrong too.
		{exitUsage, []string{"train", "--bacth", "8x8"}, "did you mean --batch?"},
		{exitUsage, []string{"train", "--rule", "cos/lin/cirr"}, "did you mean cir?"},
		{exitUsage, []string{"train", "--rule", "cos/lni/cir"}, "did you mean lin?"},
		{exitUsage, []string{"train", "--rule", "cos/lin/cir?taou=2"}, "did you mean tau?"},
		{exitUsage, []string{"train", "--rule", "our"}, "did you mean ours?"},
		{exitUsage, []string{"train", "--loss", "triplt"}, "did you mean triplet?"},
		{exitUsage, []string{"train", "--loss", "ms, miner hrad"}, "did you mean hard?"},
		{exitUsage, []string{"train", "--data", "minicr"}, "did you mean minicar?"},
		{exitUsage, []string{"train", "--arch", "resnet19"}, "did you mean resnet18?"},
		{exitUsage, []string{"train", "--preset", "quik"}, "did you mean quick?"},
		{exitUsage, []string{"train", "--dim", "0"}, "want a positive whole number"},
		{exitUsage, []string{"train", "--set", "size=3"}, "image size is 3"},
		{exitUsage, []string{"data", "verify", "cubb"}, "did you mean CUB?"},
		{exitUsage, []string{"reproduce", "tabel2"}, "did you mean table2?"},
		// What a file or a machine could make right has failed.
		{exitFailed, []string{"train", "--data", "no/folder"}, "no folder no/folder"},
		{exitFailed, []string{"train", "--weights", "none.safetensors"}, "no such file"},
		{exitFailed, []string{"train", "--preset", "paper", "--data", "cub"}, "CUB"},
		{exitFailed, []string{"runs", "show", "0123"}, "0123"},
		{exitFailed, []string{"recall", "--embeddings", "none.npy", "--labels", "none.npy"}, "none.npy"},
		{exitFailed, []string{"recall", "--embeddings", "none.npy"}, "none.npy: no such file"},
	} {
		code, stdout, stderr := invoke(t, c.args...)
		if code != c.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("dmlx %s: code %d, want %d; stdout %q, stderr %q, want …%s…", c.args, code, c.code, stdout, stderr, c.want)
		}
	}
}

// With --json an error is an object on standard output, also if the command line cannot be read.
func TestErrorsAsJSON(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	for _, c := range []struct {
		code int
		kind string
		args []string
	}{
		{exitUsage, "usage", []string{"train", "--bacth", "8", "--json"}},
		{exitUsage, "usage", []string{"--json", "trian"}}, {exitUsage, "usage", []string{"--json"}},
		{exitFailed, "failed", []string{"runs", "show", "0123", "--json=true"}},
	} {
		code, stdout, stderr := invoke(t, c.args...)
		var v map[string]struct {
			Message, Kind string
			ExitCode      int `json:"exit_code"`
		}
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != c.code || len(v) != 1 {
			t.Fatalf("dmlx %s: code %d, %v, %q", c.args, code, err, stdout)
		}
		f := v["error"]
		if f.Kind != c.kind || f.ExitCode != c.code || stderr != "dmlx: "+f.Message+"\n" {
			t.Errorf("dmlx %s: %+v, stderr %q", c.args, f, stderr)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"train", "--preset", "smoke", "--json"}, &stdout, &stderr)
	if code != exitInterrupted || !strings.Contains(stdout.String(), `"kind": "stopped"`) {
		t.Errorf("stopped: code %d, %q, %q", code, stdout.String(), stderr.String())
	}
	// A report that names the failure stands alone: standard output is one object.
	t.Setenv("GOMLX_BACKEND", "abacus")
	code, out, _ := invoke(t, "doctor", "--json")
	var report map[string]any
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitFailed || report["error"] == nil {
		t.Errorf("doctor without a backend: code %d, %v, %q", code, err, out)
	}
}

// A command that is interrupted exits with 130, whatever it is doing.
func TestStoppedCommands(t *testing.T) {
	store := atWork(t)
	t.Setenv("DMLX_STORE", store)
	t.Setenv("DMLX_CACHE", t.TempDir())
	cub := dataFixture(t, "cub")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range [][]string{
		{"train", "--preset", "smoke"}, {"reproduce", "table2", "--preset", "smoke"},
		{"reproduce", "table2", "--preset", "smoke", "--jobs", "2"},
		{"data", "verify", "cub", "--root", cub},
	} {
		var stdout, stderr bytes.Buffer
		code := run(ctx, args, &stdout, &stderr)
		if code != exitInterrupted || !strings.Contains(stderr.String(), "stopped") {
			t.Errorf("dmlx %s: code %d, want %d: %q", args, code, exitInterrupted, stderr.String())
		}
	}
}

// A command that computes names its backend once.
func TestBackendOnce(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	var stderr bytes.Buffer
	a := app.New(t.Context(), io.Discard, &stderr)
	first, err := a.Backend()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := a.Backend(); err != nil || second != first {
		t.Errorf("another backend: %v", err)
	}
	if n := strings.Count(stderr.String(), first.Choice.String()); n != 1 {
		t.Errorf("the backend is named %d times: %q", n, stderr.String())
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
		{"--version", "--json"}, {"runs"}, {}} {
		var stderr bytes.Buffer
		code := run(t.Context(), args, device, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "no space left on device") ||
			strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("dmlx %s onto a full disk: code %d, stderr %q", args, code, stderr.String())
		}
	}
}

// Each command's help has an example, which its flags accept, and prints no empty defaults.
func TestExamples(t *testing.T) {
	newTree := func() *cobra.Command {
		return newRoot(app.New(context.Background(), io.Discard, io.Discard))
	}
	word := regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`) // Of a shell.
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Hidden || cmd.Name() == "completion" { // Cobra's own.
			return
		}
		own := false
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(line, "#")
			words := word.FindAllString(line, -1)
			for i := range words {
				words[i] = strings.NewReplacer(`"`, "", "'", "").Replace(words[i])
			}
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
		if help := cmd.UsageString(); strings.Contains(help, "(default )") || strings.Contains(help, "(default [])") {
			t.Errorf("the help of %s has an empty default: %s", cmd.CommandPath(), help)
		}
		if !own && !cmd.IsAdditionalHelpTopicCommand() {
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
	if _, command, _ := invoke(t, "version"); !strings.HasPrefix(command, "dmlx ") {
		t.Errorf("dmlx version prints %q", command)
	}
	code, stdout, stderr := invoke(t, "--version")
	for _, want := range []string{"dmlx ", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, "backends go"} {
		if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("no %q in %q, code %d, stderr %q", want, stdout, code, stderr)
		}
	}
}

// The help of train and reproduce has at most 30 flags, in groups and on lines of at most 120 columns. Those of Slurm
// are in it where they act.
func TestFlags(t *testing.T) {
	t.Parallel()
	flag := regexp.MustCompile(`(?m)^ +(?:-\w, )?    --?[a-z]`)
	for _, name := range []string{"train", "reproduce"} {
		_, help, _ := invoke(t, name, "--help")
		if n := len(flag.FindAllString(help, -1)); n < 15 || n > 30 {
			t.Errorf("%s has %d flags:\n%s", name, n, help)
		}
		for line := range strings.Lines(help) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 120 {
				t.Errorf("%s: %s", name, line)
			}
		}
		for _, group := range groups {
			if !strings.Contains(help, "\n"+group.title+":\n") && group.title != "Data" {
				t.Errorf("%s has no flags of the group %s:\n%s", name, group.title, help)
			}
		}
		_, there, _ := invoke(t, name, "--on", "slurm", "--help")
		if strings.Contains(help, "   --partition") || !strings.Contains(there, "   --partition") {
			t.Errorf("%s: Slurm's flags: %s", name, there)
		}
	}
}

func TestUsageErrorsWrap(t *testing.T) {
	t.Parallel()
	if cli.Usage(nil) != nil || !errors.Is(cli.Usage(io.EOF), io.EOF) ||
		!cli.IsUsage(fmt.Errorf("x: %w", cli.Usage(io.EOF))) ||
		cli.IsUsage(io.EOF) {
		t.Error("an error of the command line is lost, or made")
	}
}
