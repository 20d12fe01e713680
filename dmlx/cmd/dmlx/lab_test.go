package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
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
		{[]string{"lab", "--execute", "--jobs", "0", "none.ipynb"}, "--jobs 0: want 1 to 64 notebooks"},
		{[]string{"lab", "--jobs", "2"}, "for notebooks that --execute runs"},
		{[]string{"lab", "none.ipynb"}, "none.ipynb"},
		{[]string{"lab", elsewhere}, "the folder that JupyterLab shows"},
		{[]string{"lab", "--no-browser", "--port", port}, "port " + port + " cannot be used: address already in use"},
		{[]string{"lab", "--port", "-1"}, "not between 1 and 65535"},
		{[]string{"lab", "--restore", "--in-place"}, "git restores"},
		{[]string{"lab", "nonesuch"},
			"nonesuch is neither a file nor a notebook of this project; there are appendix, cluster"},
		{[]string{"lab", "tabel2"}, "did you mean table2?"},
		{[]string{"lab", "--install-kernel", "start"}, "take no other flag"},
		{[]string{"lab", "--install-kernel", "--remove-kernel"}, "take no other flag"},
		{[]string{"lab", "--restore", "none"}, "none is not a shipped notebook"},
	} {
		code, stdout, stderr := invoke(t, c.args...)
		if !failed(code) || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("dmlx %s: code %d, stdout %q, stderr %q", c.args, code, stdout, stderr)
		}
	}
	if left, _ := os.ReadDir(os.Getenv("DMLX_CACHE")); len(left) > 0 {
		t.Errorf("bad input has started a set-up: %v", left)
	}
}

// A kernelspec of another program stays.
func TestRemoveKernel(t *testing.T) {
	t.Setenv("JUPYTER_DATA_DIR", t.TempDir())
	path, err := lab.UserKernel()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec string
		code int
	}{{`{"display_name": "Another"}`, 1}, {`{"display_name": "` + lab.KernelTitle + `"}`, 0}} {
		if err := os.WriteFile(path, []byte(c.spec), 0o644); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := invoke(t, "lab", "--remove-kernel")
		if code != c.code || fileExists(path) != (c.code != 0) || !strings.Contains(stdout+stderr, path) {
			t.Errorf("%s: code %d, %s%s", c.spec, code, stdout, stderr)
		}
	}
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
