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
		{[]string{"lab", "--execute", "--jobs", "0", "none.ipynb"}, "--jobs 0: want 1 to 64 notebooks"},
		{[]string{"lab", "--jobs", "2"}, "for notebooks that --execute runs"},
		{[]string{"lab", "none.ipynb"}, "none.ipynb"},
		{[]string{"lab", elsewhere}, "the folder that JupyterLab shows"},
		{[]string{"lab", "--no-browser", "--port", port}, "port " + port + " cannot be used: address already in use"},
		{[]string{"lab", "--port", "-1"}, "not between 1 and 65535"},
		{[]string{"lab", "nonesuch"},
			"nonesuch is neither a file nor a notebook of this project; there are appendix, cluster"},
		{[]string{"lab", "tabel2"}, "did you mean table2?"},
		{[]string{"lab", "--install-kernel", "start"}, "takes no other flag"},
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
