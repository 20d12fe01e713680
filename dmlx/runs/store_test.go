package runs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A run that cannot be used says why, and shows the spec where it is known.
func TestUnusableEntries(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(tiny())
	if err != nil {
		t.Fatal(err)
	}
	edit := func(old, new string) string { return strings.Replace(string(raw), old, new, 1) }
	for name, c := range map[string]struct {
		spec, result string // The contents of files; "" has none.
		bad          string
		known        bool
	}{
		"unfinished":     {spec: string(raw), known: true},
		"damaged spec":   {spec: "{", bad: "contains a damaged spec.json: unexpected end"},
		"edited spec":    {spec: edit("cos/con", "cos/new"), bad: "does not belong here: its spec has the hash"},
		"newer spec":     {spec: edit("{", `{"warmup":3,`), bad: "spec.json was written by a newer version", known: true},
		"no spec":        {bad: "contains no spec.json"},
		"damaged result": {spec: string(raw), result: "{", bad: "result.json is damaged", known: true},
		"both damaged":   {spec: "[]", result: "{", bad: "result.json is damaged"},
	} {
		s, warnings := testStore(t)
		hash := tiny().Hash()
		if name == "newer spec" { // Its hash is of all its fields.
			hash = "0123456789ab"
		}
		if err := os.Mkdir(s.Path(hash), 0o777); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{specFile: c.spec, resultFile: c.result} {
			if text != "" && os.WriteFile(filepath.Join(s.Path(hash), file), []byte(text), 0o600) != nil {
				t.Fatal(file)
			}
		}
		e := s.Entry(hash)
		if (e.Bad == "") != (c.bad == "") || !strings.Contains(e.Bad, c.bad) {
			t.Errorf("%s: %q, want …%s…", name, e.Bad, c.bad)
		}
		if known := e.Spec.Seed == tiny().Seed && e.Spec.LR == tiny().LR; known != c.known || !known && e.Spec.Data != "" {
			t.Errorf("%s: spec %+v", name, e.Spec)
		}
		if _, err := s.Get(hash); err == nil || !strings.Contains(err.Error(), hash) ||
			!strings.Contains(err.Error(), c.bad) && name != "no spec" {
			t.Errorf("%s: %v", name, err)
		}
		if len(*warnings) > 0 {
			t.Errorf("%s: %q", name, *warnings)
		}
	}
}

func TestLocks(t *testing.T) {
	s, _ := testStore(t)
	unlock, err := s.lock(t.Context(), "slurm")
	if err != nil {
		t.Fatal(err)
	}
	if held, err := s.Locked("slurm"); err != nil || !held {
		t.Errorf("held %v, %v", held, err)
	}
	unlock()
	if held, err := s.Locked("slurm"); err != nil || held {
		t.Errorf("held %v, %v", held, err)
	}
}

// On a full disk a run ends with a word about it, nothing half written counts, and it goes on once there is room.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	dir := t.TempDir()
	mount := func(options string) error {
		out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none", dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := mount("size=200k"); err != nil {
		t.Skip("no small file system can be made here: ", err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	s, err := OpenStore(filepath.Join(dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	s.Warn = func(m string) { said = append(said, m) }
	sizes := []int{0, 40, 80, 120, 160, 180} // Kilobytes that are taken already: it fills up at other files.
	for _, size := range sizes {
		full := filepath.Join(dir, "full")
		if err := os.WriteFile(full, make([]byte, size<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Run(t.Context(), goBackend(), s, tiny(), nil)
		if err == nil {
			t.Fatalf("with %d kB taken: the run fits", size)
		}
		if !strings.Contains(err.Error(), "no space left on device") || strings.Contains(err.Error(), "\n") {
			t.Errorf("with %d kB taken: %v", size, err)
		}
		if _, found, err := s.Lookup(tiny()); found || err != nil {
			t.Errorf("with %d kB taken: found %v, %v", size, found, err)
		}
		if err := os.Remove(full); err != nil {
			t.Fatal(err)
		}
	}
	if err := mount("remount,size=20m"); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), goBackend(), s, tiny(), nil); err != nil {
		t.Fatal(err)
	}
	sameAsReference(t, s, tiny())
	if len(said) > 0 {
		t.Error(said)
	}
}
