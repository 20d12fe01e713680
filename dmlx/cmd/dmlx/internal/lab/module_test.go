package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

// moduleLab returns a lab of a version, and a go command whose module cache has it with the sum h1:abc, or which fails.
func moduleLab(t *testing.T, goMod, failure string) (l *Lab, goTool, log string) {
	t.Helper()
	source, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go.mod": goMod, "go.sum": "gonum.org/v1/plot v0.17.0 h1:xyz\n"} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	goTool, log = filepath.Join(bin, "go"), filepath.Join(bin, "log")
	script := fmt.Sprintf(`#!/bin/sh
echo "$PWD: $@ $GOFLAGS $GONOSUMDB" >>%s
%s
case "$*" in *-json*) echo '{"Dir": "%s", "Sum": "h1:abc", "GoModSum": "h1:def"}' ;; esac
`, log, failure, source)
	if err := os.WriteFile(goTool, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	l = &Lab{Cache: cache, Version: "v0.2.0", Sum: "h1:abc", Root: ModuleRoot(cache, "v0.2.0")}
	if err := os.MkdirAll(l.dir("tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	return l, goTool, log
}

// Cells of an installed program are compiled in a module that requires the program's version and all that it requires.
func TestSetupModule(t *testing.T) {
	goMod := "module " + buildinfo.Module + "\n\ngo 1.26.5\n\nrequire gonum.org/v1/plot v0.17.0\n\ntool example.com/tool\n"
	l, goTool, log := moduleLab(t, goMod, "")
	if missing := l.Status(t.Context()).Missing; missing != "the Python environment" {
		t.Errorf("missing: %s", missing)
	}
	for range 2 {
		if err := l.setupModule(t.Context(), goTool); err != nil {
			t.Fatal(err)
		}
	}
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	want := "mod download -json " + buildinfo.Module + "@v0.2.0 -mod=mod " + buildinfo.Module + "\n"
	if strings.Count(string(calls), "\n") != 2 || !strings.HasSuffix(string(calls), l.dir("tmp")+": "+want) {
		t.Errorf("go was called with\n%s", calls)
	}
	for name, want := range map[string]string{
		"go.mod": strings.Replace(goMod, "module "+buildinfo.Module+"\n",
			"module dmlx.local/cells\n\nrequire "+buildinfo.Module+" v0.2.0\n", 1),
		"go.sum": "gonum.org/v1/plot v0.17.0 h1:xyz\n" + buildinfo.Module + " v0.2.0 h1:abc\n" + buildinfo.Module +
			" v0.2.0/go.mod h1:def\n",
	} {
		if got, err := os.ReadFile(filepath.Join(l.Root, name)); err != nil || string(got) != want {
			t.Errorf("%s, %v:\n%s\nwant\n%s", name, err, got, want)
		}
	}
	if err := (&Lab{}).setupModule(t.Context(), "/no/go"); err != nil {
		t.Errorf("in a checkout: %v", err)
	}
}

func TestSetupModuleFails(t *testing.T) {
	const ours = "module " + buildinfo.Module + "\n"
	for _, c := range []struct{ goMod, failure, sum, want string }{
		{ours, "echo 'no such host' >&2; exit 1", "h1:abc", "no proxy has given (no such host)"},
		{ours, "", "h1:other", "its sum is h1:abc, not h1:other"},
		{"module example.com/other\n", "", "h1:abc", "not that of " + buildinfo.Module},
	} {
		l, goTool, _ := moduleLab(t, c.goMod, c.failure)
		l.Sum = c.sum
		if err := l.setupModule(t.Context(), goTool); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want …%s…", err, c.want)
		}
		if stamped(l.Root, l.Version) {
			t.Errorf("%s: the module counts as complete", c.want)
		}
	}
}

// Notebooks are copied beside the user's files, and files that are there stay as they are.
func TestCopy(t *testing.T) {
	t.Parallel()
	notebooks := fstest.MapFS{"a.ipynb": {Data: []byte("A")}, "b.ipynb": {Data: []byte("B")}, "go.mod": {}}
	dir := filepath.Join(t.TempDir(), "new")
	if n, err := Copy(notebooks, dir); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.ipynb"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "b.ipynb")); err != nil {
		t.Fatal(err)
	}
	if n, err := Copy(notebooks, dir); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for name, want := range map[string]string{"a.ipynb": "mine", "b.ipynb": "B"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "go.mod")); err == nil {
		t.Error("a file that is no notebook was copied")
	}
}
