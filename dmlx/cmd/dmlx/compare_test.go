package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompareRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	store := atWork(t)
	train := append(smallRun, "--store", store)
	var runs []string
	for _, rule := range []string{"euc/con/con", "cos/con/con"} {
		for _, seed := range []string{"1", "2"} {
			runs = append(runs, object(t, append(train, "--rule", rule, "--seeds", seed)...)["run"].(string))
		}
	}
	out := t.TempDir()
	onnx := filepath.Join(out, "net.onnx")
	if v := object(t, "weights", "onnx", runs[2][:8], "--out", onnx, "--store", store); v["arch"] != "small" {
		t.Errorf("weights onnx: %v", v)
	}
	files := []any{onnx}
	compare := object(t, append([]string{"runs", "compare", "--out", out, "--store", store}, runs...)...)
	files = append(files, compare["files"].([]any)...)
	for _, f := range files {
		if info, err := os.Stat(f.(string)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", f, err)
		}
	}
	for _, name := range []string{"compare-curves.pdf", "compare-tests.tex"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	code, stdout, stderr := invoke(t, append([]string{"runs", "compare", "--store", store}, runs...)...)
	if code != 0 || !strings.Contains(stdout, "paired by seed, 2 pairs") || strings.Contains(stdout+stderr, "not shown") {
		t.Errorf("compare over seeds: %d\n%s%s", code, stdout, stderr)
	}
	// Without --out no pictures are computed, and groups of one seed are not tested.
	if code, stdout, _ = invoke(t, "runs", "compare", runs[0], runs[2], "--store", store); code != 0 ||
		strings.Contains(stdout, "tested over seeds") {
		t.Errorf("compare: %d\n%s", code, stdout)
	}
	file := filepath.Join(store, runs[2], "spec.json")
	if code, stdout, stderr := invoke(t, "runs", "compare", runs[0], runs[2], "--out", file, "--store",
		store); code != exitFailed ||
		stdout != "" || stderr != "dmlx: "+file+" cannot be a folder: "+file+" is a file\n" {
		t.Errorf("into a file: code %d, %s %s", code, stdout, stderr)
	}
}
