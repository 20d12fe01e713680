package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bundled runs are shown without training.
func TestReproduceShipped(t *testing.T) {
	v := object(t, "reproduce", "table2", "--store", atWork(t))
	table := v["tables"].([]any)[0].(map[string]any)
	if table["ran"] != 0.0 || table["runs"] != 24.0 || len(table["cells"].([]any)) != 8 {
		t.Errorf("%v", table)
	}
}

// Output that cannot be written is an error before any run.
func TestReproduceOut(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, path, want string }{
		{"--out", filepath.Join(file, "a", "b"), "cannot be a folder: " + file + " is a file"},
		{"--write-bundled", filepath.Join(dir, "none", "a.json"), "cannot be written: no such file or directory"},
		{"--write-bundled", dir, dir + " is a folder: want the name of a file"},
	} {
		code, stdout, stderr := invoke(t, "reproduce", "table3", "--preset", "smoke", "--no-bundled", "--store",
			filepath.Join(dir, "store"), c.flag, c.path)
		if !failed(code) || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s %s: code %d, %q, want …%s…", c.flag, c.path, code, stderr, c.want)
		}
	}
}

// A table on the user's own data sets instead of the paper's.
func TestReproduceOwnData(t *testing.T) {
	store := atWork(t)
	v := object(t, "reproduce", "table2", "--preset", "smoke", "--no-bundled", "--store", store,
		"--set", "fine_grained=minishop", "--set", "coarse_grained=minicar", "--cached-only")
	cells := v["tables"].([]any)[0].(map[string]any)["cells"].([]any)
	if len(cells) != 8 || cells[0].(map[string]any)["data"] != "minishop" ||
		cells[4].(map[string]any)["data"] != "minicar" {
		t.Errorf("%v", cells)
	}
	none := filepath.Join(t.TempDir(), "none")
	code, _, stderr := invoke(t, "reproduce", "table2", "--preset", "smoke", "--set", "coarse_grained="+none)
	if code != 1 ||
		!strings.Contains(stderr, none) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("code %d, %q", code, stderr)
	}
}
