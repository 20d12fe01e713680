package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

func TestWriteInFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "c")
	if err := WriteInFolder(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v: want a folder that nobody else may enter", info, err)
	}
}

func TestTemporary(t *testing.T) {
	for hidden, want := range map[string]string{
		".spec.json5577006791947779410": "spec.json", ".epoch-001.npy9223372036854775807": "epoch-001.npy",
		".bashrc": "", ".ssh": "", "spec.json123": "", ".123": "", ".x12345678901234567890123": "",
	} {
		if got, ok := Temporary(hidden); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", hidden, got, ok, want)
		}
	}
}

func TestNoLink(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o755), os.Symlink("a", filepath.Join(dir, "l"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"a": false, "a/b": false, "none/l": false, "l": true, "l/b": true, "a/../l": true,
	} {
		var link *LinkError
		if got := errors.As(NoLink(dir, name), &link); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if err := NoLink(filepath.Join(dir, "l"), "b"); err != nil { // The folder itself is the user's own choice.
		t.Error(err)
	}
}

// Create removes what a killed process has left of the same file, and keeps what another process is writing.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.tar")
	first, err := Create(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	killed, others := filepath.Join(dir, ".a.tar123"), filepath.Join(dir, ".b.tar123")
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{killed, others} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{killed, others, first.Name()} {
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	second, err := Create(path, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{killed: false, others: true, first.Name(): true, second.Name(): true} {
		if _, err := os.Lstat(name); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
	if err := errors.Join(second.CloseAtomicallyReplace(), second.Cleanup(), first.Cleanup()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%v, %v, want a.tar and the other file's", left, err)
	}
}

// How many elements a text may have depends on what the largest of them takes.
func TestParseJSONBounds(t *testing.T) {
	t.Parallel()
	type wide struct{ A [1 << 10]byte }
	var lists struct {
		Own    *struct{ Wide []wide }
		Small  []byte `json:"-"`
		hidden []wide
	}
	_ = lists.hidden
	text := func(n int) []byte { return []byte(`{"Own":{"Wide":[` + strings.Repeat("{},", n) + `{}]}}`) }
	if err := ParseJSON(text(100), &lists); err != nil || len(lists.Own.Wide) != 101 {
		t.Error(err)
	}
	if err := ParseJSON(text(40_000), &lists); err == nil || !strings.Contains(err.Error(), "want at most 65536") {
		t.Errorf("wide elements: %v", err)
	}
	var numbers []int
	if err := ParseJSON([]byte("["+strings.Repeat("1,", MaxElements/4)+"1]"), &numbers); err != nil {
		t.Error(err)
	}
	if err := ParseJSON([]byte("["+strings.Repeat("1,", MaxElements)+"1]"), &numbers); err == nil {
		t.Error("no error")
	}
}
