package checkout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := find(below); err == nil {
		t.Error("a module was found where there is none")
	}
	for file, module := range map[string]string{filepath.Join(root, "go.mod"): Module,
		filepath.Join(root, "a", "go.mod"): "example.com/other"} {
		if err := os.WriteFile(file, []byte("// A comment.\nmodule "+module+"\n\ngo 1.26\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := find(below); err != nil || got != root {
		t.Errorf("%q, %v", got, err)
	}
}

// Code in a folder above the working directory is used only if nobody else can have put it there.
func TestTrusted(t *testing.T) {
	root := t.TempDir()
	below, goMod := filepath.Join(root, "a"), filepath.Join(root, "go.mod")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goMod, []byte("module "+Module+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check := func(what, want string) {
		t.Helper()
		t.Chdir(below)
		got, err := Trusted()
		if want == "" && (err != nil || got != root) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v, want …%s…", what, got, err, want)
		}
		t.Chdir(root)
		if got, err := Trusted(); err != nil || got != root {
			t.Errorf("%s, in the folder itself: %q, %v", what, got, err)
		}
	}
	chmod := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod(root, 0o755)
	check("a checkout of mine", "")
	chmod(root, 0o777|os.ModeSticky)
	check("a go.mod in a folder like /tmp", "can be written by everybody")
	chmod(root, 0o755)
	chmod(goMod, 0o666)
	check("a go.mod that all can write", "can be written by everybody")
	chmod(goMod, 0o644)
	info, err := os.Lstat(goMod)
	if err != nil {
		t.Fatal(err)
	}
	if why := foreign(info, os.Getuid()); why != "" {
		t.Error(why)
	}
	if os.Getuid() == 0 { // Only root can give a file away.
		if err := os.Chown(goMod, 12345, -1); err != nil {
			t.Skip(err)
		}
		check("a go.mod of another user", "belongs to another user")
	}
}
