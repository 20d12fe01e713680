package notebook

import (
	"bytes"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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

// The address that opens JupyterLab has the token, and all users of a machine can read the arguments of a process.
func TestBrowserGetsNoToken(t *testing.T) {
	const token, url = "0123456789abcdef", "http://127.0.0.1:8888/lab/tree/a&b.ipynb?token=0123456789abcdef"
	l := &lab.Lab{Cache: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(l.Cache, "lab", "tmp"), 0o755); err != nil { // Setup creates it.
		t.Fatal(err)
	}
	bin, said := t.TempDir(), filepath.Join(t.TempDir(), "said")
	for _, name := range []string{"xdg-open", "open"} {
		script := "#!/bin/sh\necho \"$@\" >" + said + ".new && mv " + said + ".new " + said + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	done := openBrowser(l, url)
	var args []byte
	for deadline := time.Now().Add(20 * time.Second); len(args) == 0; time.Sleep(10 * time.Millisecond) {
		if args, _ = os.ReadFile(said); time.Now().After(deadline) {
			t.Fatal("no browser was opened")
		}
	}
	page := strings.TrimSpace(string(args))
	if strings.Contains(page, token) {
		t.Fatalf("the browser's arguments have the token: %s", page)
	}
	info, err := os.Stat(page)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the page: %v, %v", info, err)
	}
	if content, err := os.ReadFile(page); err != nil ||
		!strings.Contains(string(content), "url="+html.EscapeString(url)+`"`) {
		t.Errorf("the page does not lead to the address: %s, %v", content, err)
	}
	if done(); exists(page) {
		t.Error("the page is left behind")
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
	a := cli.New(t.Context(), io.Discard, &stderr)
	l, err := Lab(a)
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
	if err := unpack(a, l, copiesOf(l)); err != nil {
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
	a := cli.New(t.Context(), &stdout, &stderr)
	copies := copiesOf(l)
	if err := unpack(a, l, copies); err != nil {
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

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
