package playground

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Many add rows at once and none is lost; links, devices and bombs are refused.
func TestBoardOfStrangers(t *testing.T) {
	t.Parallel()
	b := board{filepath.Join(t.TempDir(), "tryit", "leaderboard.json")}
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			if err := b.add(tried{Hash: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if rows, err := b.read(); err != nil || len(rows) != 40 {
		t.Errorf("%d rows of 40, %v", len(rows), err)
	}
	target := filepath.Join(t.TempDir(), "target")
	for want, place := range map[string]func(path string) error{
		"symbolic link": func(path string) error { return os.Symlink(target, path) },
		"not a regular": func(path string) error { return os.Mkdir(path, 0o755) },
		"JSON of":       func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("[", 1<<22)), 0o644) },
		"at most":       func(path string) error { return os.WriteFile(path, make([]byte, 65<<20), 0o644) },
	} {
		b := board{filepath.Join(t.TempDir(), "tryit", "leaderboard.json")}
		if err := os.MkdirAll(filepath.Dir(b.path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := place(b.path); err != nil {
			t.Fatal(err)
		}
		if err := b.add(tried{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := os.Lstat(target); err == nil {
			t.Errorf("%s: written through", want)
		}
	}
}
