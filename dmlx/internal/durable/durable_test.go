package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for _, text := range []string{"one", "two"} {
		if err := WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != text {
			t.Errorf("%q, %v", raw, err)
		}
	}
	// The place of a folder cannot be taken: the error tells where the file was to be renamed from.
	if err := os.MkdirAll(filepath.Join(dir, "b", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	var link *os.LinkError
	if err := WriteFile(filepath.Join(dir, "b"), nil, 0o644); !errors.As(err, &link) || filepath.Dir(link.Old) != dir {
		t.Errorf("%v, want one about a file in %s", err, dir)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
