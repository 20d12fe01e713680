package notebook

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/checkout"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

func TestOpenedFile(t *testing.T) {
	root := t.TempDir()
	if got, err := openedFile(root, nil); err != nil || got != "notebooks" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.MkdirAll(filepath.Join(root, "notebooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index", "other"} {
		if err := os.WriteFile(filepath.Join(root, "notebooks", name+".ipynb"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := openedFile(root, nil); err != nil || got != "notebooks/index.ipynb" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := openedFile(root, []string{filepath.Join(root, "notebooks", "other.ipynb")}); err != nil ||
		got != "notebooks/other.ipynb" {
		t.Errorf("%q, %v", got, err)
	}
}

// A page's name stands for its file, in the folder that lab shows.
func TestFoundNotebooks(t *testing.T) {
	l := &lab.Lab{Root: t.TempDir(), Folder: t.TempDir()}
	copies, own := copiesOf(l), filepath.Join(t.TempDir(), "own.ipynb")
	if err := os.WriteFile(own, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := found(copies, copies.Dir, []string{"start", "table2.ipynb", own})
	want := []string{filepath.Join(copies.Dir, "start.ipynb"), filepath.Join(copies.Dir, "table2.ipynb"), own}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// Outside a checkout lab shows the working directory, in which it writes the notebooks that the program carries, and
// cells compile what the program was built from: this test's sources.
func TestLabOutsideACheckout(t *testing.T) {
	t.Setenv("DMLX_CACHE", t.TempDir())
	checked, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	var stderr bytes.Buffer
	c := cli.NewConsole(io.Discard, &stderr)
	l, err := Lab(c)
	if buildinfo.Get().Source == "" {
		if err == nil || !strings.Contains(err.Error(), "go install") {
			t.Fatalf("a program without sources: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if root, err := filepath.EvalSymlinks(l.Root); err != nil || root != checked || l.Folder != dir || l.Version != "" {
		t.Errorf("%+v, %v, want the sources in %s", l, err, checked)
	}
	if err := unpack(c, l, copiesOf(l)); err != nil {
		t.Fatal(err)
	}
	if l.Folder != filepath.Join(dir, carried) || !strings.Contains(stderr.String(), "copied ") {
		t.Errorf("notebooks in %s, %q", l.Folder, stderr.String())
	}
	original, err := os.ReadFile(filepath.Join(checked, "notebooks", "index.ipynb"))
	if err != nil {
		t.Fatal(err)
	}
	// A copy names the Go of its program.
	original = regexp.MustCompile(`"go1\.[^"]*"`).ReplaceAll(original, []byte(`"`+runtime.Version()+`"`))
	if got, err := os.ReadFile(filepath.Join(l.Folder, "notebooks", "index.ipynb")); err != nil ||
		!bytes.Equal(got, original) {
		t.Errorf("another notebook: %v", err)
	}
	if open, err := openedFile(l.Folder, nil); err != nil || open != "notebooks/index.ipynb" {
		t.Errorf("%q, %v", open, err)
	}
}

// Outside a checkout page compiles what the program was built from, as lab does.
func TestPageOutsideACheckout(t *testing.T) {
	if testing.Short() || buildinfo.Get().Source == "" {
		t.Skip("compiles the page")
	}
	t.Setenv("DMLX_CACHE", t.TempDir())
	t.Chdir(t.TempDir())
	cmd := NewPage(cli.NewConsole(io.Discard, io.Discard))
	cmd.SetArgs([]string{"--out", "site"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if site, err := filepath.Glob("site/*.wasm.gz"); err != nil || len(site) != 1 {
		t.Error(site, err)
	}
}

// In a checkout lab shows copies of its notebooks, and --restore brings back one that was changed.
func TestLabWorksOnCopies(t *testing.T) {
	root := t.TempDir()
	l := &lab.Lab{Root: root}
	if err := os.MkdirAll(filepath.Join(root, "notebooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	shipped := filepath.Join(root, "notebooks", "index.ipynb")
	if err := os.WriteFile(shipped, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := cli.NewConsole(&stdout, &stderr)
	copies := copiesOf(l)
	if err := unpack(c, l, copies); err != nil {
		t.Fatal(err)
	}
	if open, err := openedFile(l.Folder, nil); err != nil || open != "notebooks/index.ipynb" ||
		l.Folder != filepath.Join(root, carried) || !strings.Contains(stderr.String(), "copied 1 notebooks") {
		t.Errorf("%s in %s, %v, %q", open, l.Folder, err, stderr.String())
	}
	for name, want := range map[string]bool{"index.ipynb": true, "none.ipynb": false, "go.mod": false,
		"../index.ipynb": false} {
		if _, ok := copies.Has(filepath.Dir(shipped), filepath.Join(filepath.Dir(shipped), name)); ok != want {
			t.Errorf("%s is shipped: %v", name, ok)
		}
	}
}
