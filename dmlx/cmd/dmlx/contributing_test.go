package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// contributions are the changes that CONTRIBUTING.md links to, each by the name of its file in testdata/contributing.
var contributions = []string{"loss", "direction", "pairweight", "tripletweight", "mask", "dataset", "table"}

// change is what a contribution does to a file.
type change struct {
	file     string
	old, new string // Lines; old is "" for a new file.
	added    int    // Lines of code.
}

// changesOf reads a contribution, in which +++ names the file that the next lines change.
func changesOf(t *testing.T, name string) (out []change) {
	raw, err := os.ReadFile(filepath.Join("testdata", "contributing", name+".diff"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if file, is := strings.CutPrefix(line, "+++ "); is {
			out = append(out, change{file: strings.TrimSpace(file)})
			continue
		}
		c := &out[len(out)-1]
		kind, text := line[0], line[1:]
		if kind != '+' {
			c.old += text
		}
		if kind != '-' {
			c.new += text
		}
		if code := strings.TrimSpace(text); kind == '+' && code != "" && !strings.HasPrefix(code, "//") {
			c.added++
		}
	}
	return out
}

// TestContributing applies the changes that CONTRIBUTING.md links to, to a copy of the repository, builds it once, and
// uses what they add: the new parts, loss, data set and table are there by every door, and the paper's tables stay as
// they are.
func TestContributing(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a changed copy of the repository")
	}
	t.Setenv("GOMLX_BACKEND", "go")
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, ".github/CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, "copy")
	for _, name := range []string{"go.mod", "go.sum", "datasets", "dmlx", "figures", "notebooks"} {
		if err := copyTree(filepath.Join(root, name), filepath.Join(copied, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range contributions {
		if !strings.Contains(string(page), "testdata/contributing/"+name+".diff)") {
			t.Errorf("CONTRIBUTING.md does not link to %s", name)
		}
		lines, files := 0, make(map[string]bool)
		for _, c := range changesOf(t, name) {
			lines += c.added
			files[c.file] = true
			path := filepath.Join(copied, c.file)
			text := c.new
			if c.old != "" {
				raw, err := os.ReadFile(path)
				if n := strings.Count(string(raw), c.old); err != nil || n != 1 {
					t.Fatalf("%s: %s has %d times, %v:\n%s", name, c.file, n, err, c.old)
				}
				text = strings.Replace(string(raw), c.old, c.new, 1)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if name != "dataset" && name != "table" && (len(files) > 3 || lines > 15) {
			t.Errorf("%s: %d lines in %d files: want at most 15 lines in 3 files", name, lines, len(files))
		}
	}

	store, binary := t.TempDir(), filepath.Join(dir, "dmlx")
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = copied
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
		}
		return string(out)
	}
	run("go", "build", "-o", binary, "./dmlx/cmd/dmlx")
	// The gradients of all rules against plain loops, and all rules and losses as the page draws them.
	run("go", "test", "./dmlx/dissect", "-run", "TestEveryRule")
	run("go", "test", "./dmlx/page/internal/engine", "-run", "TestEverySubject|TestLiterals")

	command := func(args ...string) string { t.Helper(); return run(binary, append(args, "--store", store)...) }
	as := []string{"reproduce", "table2", "table3", "table4", "table6", "table7", "table8", "grid",
		"--cached-only", "--preset", "quick", "--store", store}
	for _, as := range [][]string{as, {"ledger", "--store", store}} {
		code, want, stderr := invoke(t, as...)
		if code != 0 {
			t.Fatal(stderr)
		}
		if got := run(binary, as...); got != want {
			t.Errorf("the paper's tables are others:\n%s", firstDifference(got, want))
		}
	}
	for _, c := range []struct {
		want []string
		args []string
	}{
		{[]string{"P^exp"}, []string{"reproduce", "table3", "--cached-only", "--preset", "quick",
			"--add-rule", "cos/exp/con"}},
		{[]string{"Pair weight", "sig-ms"}, []string{"reproduce", "orthogonal", "--cached-only", "--preset", "quick"}},
		{[]string{"half/exp/exp+near", "loss nca-cos"}, []string{"train", "--preset", "smoke", "--data", "minidots",
			"--rule", "half/exp/exp+near", "--loss", "nca-cos", "--epochs", "1", "--set", "steps=2"}},
	} {
		out := command(c.args...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("dmlx %s: no %s in\n%s", strings.Join(c.args, " "), want, out)
			}
		}
	}
	for typed, want := range map[string]string{"half/": "half/exp/con", "half/exp/exp": "half/exp/exp+near"} {
		if out := run(binary, "__complete", "train", "--rule", typed); !slices.Contains(strings.Split(out, "\n"), want) {
			t.Errorf("%s is completed by %s", typed, out)
		}
	}
}

// copyTree copies a file or a folder.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, raw, 0o644)
	})
}

// firstDifference returns the first line of a text that another has not, after the lines that both have.
func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] + "\n" + b[i]
		}
	}
	return "one is longer"
}
