package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/checkout"
)

// No command builds or runs code of a folder above the working directory.
func TestNoCodeFromAbove(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	t.Setenv("DMLX_CACHE", t.TempDir())
	t.Setenv("DMLX_STORE", t.TempDir())
	root, bin := t.TempDir(), t.TempDir()
	below, ran := filepath.Join(root, "a"), filepath.Join(bin, "ran")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module "+checkout.Module+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\npwd >>" + ran + "\nexit 1\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	if err := os.Chmod(root, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	for _, args := range [][]string{{"doctor"}, {"lab", "--no-browser"}, {"lab", "--execute", "x.ipynb"},
		{"train", "--preset", "smoke", "--set", "steps=1", "--epochs", "1"}} {
		_, _, stderr := invoke(t, args...)
		if where, err := os.ReadFile(ran); err == nil {
			t.Fatalf("dmlx %s has started Go in %s: %s", args, where, stderr)
		}
	}
}
