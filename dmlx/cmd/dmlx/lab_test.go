package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestLabBadInput(t *testing.T) {
	t.Setenv("DMLX_CACHE", t.TempDir())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	elsewhere := filepath.Join(t.TempDir(), "a.ipynb")
	if err := os.WriteFile(elsewhere, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"lab", "--execute"}, "name the notebooks"},
		{[]string{"lab", "--execute", "none.ipynb"}, "none.ipynb"},
		{[]string{"lab", "none.ipynb"}, "none.ipynb"},
		{[]string{"lab", elsewhere}, "not in the repository"},
		{[]string{"lab", "--no-browser", "--port", port}, "port " + port + " cannot be used: address already in use"},
		{[]string{"lab", "--port", "-1"}, "not between 1 and 65535"},
	} {
		code, stdout, stderr := invoke(t, c.args...)
		if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("dmlx %s: code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
	if left, _ := os.ReadDir(os.Getenv("DMLX_CACHE")); len(left) > 0 {
		t.Errorf("bad input has started a set-up: %v", left)
	}
}

func TestOpenedFile(t *testing.T) {
	root := t.TempDir()
	if got, err := openedFile(root, nil); err != nil || got != "notebooks" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.MkdirAll(filepath.Join(root, "notebooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"start", "other"} {
		if err := os.WriteFile(filepath.Join(root, "notebooks", name+".ipynb"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := openedFile(root, nil); err != nil || got != "notebooks/start.ipynb" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := openedFile(root, []string{filepath.Join(root, "notebooks", "other.ipynb")}); err != nil || got != "notebooks/other.ipynb" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestFindModule(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := findModule(below); err == nil {
		t.Error("a module was found where there is none")
	}
	for file, module := range map[string]string{filepath.Join(root, "go.mod"): modulePath, filepath.Join(root, "a", "go.mod"): "example.com/other"} {
		if err := os.WriteFile(file, []byte("// A comment.\nmodule "+module+"\n\ngo 1.26\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := findModule(below); err != nil || got != root {
		t.Errorf("%q, %v", got, err)
	}
}
