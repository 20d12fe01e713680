package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// Files of one result are all old or all new; where one cannot be written, all stay as they were.
func TestTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	output := func(name, text string) Output {
		return Output{path(name), func(to string) error { return durable.WriteFile(to, []byte(text), 0o644) }}
	}
	has := func(want map[string]string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(want) {
			t.Errorf("%v, %v; want %v", entries, err, want)
		}
		for name, text := range want {
			if raw, err := os.ReadFile(path(name)); err != nil || string(raw) != text {
				t.Errorf("%s: %q, %v; want %q", name, raw, err, text)
			}
		}
	}
	var said []string
	logf := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	write := func(all ...Output) error { return Together(logf, all, path("names"), path("labels")) }
	if err := write(output("rows", "1"), output("names", "one")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for i := range 3 {
		all := []Output{output("rows", "2"), output("names", "two"), output("labels", "II")}
		all[i].Write = func(to string) error { return errors.Join(broken, os.WriteFile(to, []byte("half"), 0o600)) }
		if err := write(all...); !errors.Is(err, broken) {
			t.Error(err)
		}
		has(map[string]string{"rows": "1", "names": "one"})
	}
	if err := write(output("rows", "2"), output("labels", "II")); err != nil {
		t.Fatal(err)
	}
	has(map[string]string{"rows": "2", "labels": "II", "names.old-1": "one"})
	// A file that cannot go stops what goes after it, so that those before it are whole.
	all := []Output{output("rows", "3"), output("names", "three"), output("labels", "III")}
	if err := errors.Join(os.Remove(path("labels")), os.MkdirAll(path("labels/in"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("names"), []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(all...); err == nil {
		t.Error("a folder is replaced")
	}
	if raw, err := os.ReadFile(path("names")); err != nil || string(raw) != "two" {
		t.Errorf("%s, %v", raw, err)
	}
	if want := []string{path("names") + " was of other rows: it is names.old-1 now"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}
