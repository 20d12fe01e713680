package runs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/train"
)

// Stores side by side whose paths are patterns of each other do not mix.
func TestStoresThatLookLikePatterns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	dir := t.TempDir()
	want, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"r1", "r[1]", "*?[a", `\`} {
		s, err := OpenStore(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		spec := tiny()
		if name == "r1" { // The same run in name, with other triplets.
			if err := os.MkdirAll(filepath.Join(s.Path(spec.Hash()), train.TripletsDir), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(s.Path(spec.Hash()), train.TripletsDir, "epoch-009.npy"), []byte("other"),
				0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		runInTwoGoes(t, goBackend(), s, spec)
		sameAsReference(t, s, spec)
		sap, san, err := s.Triplets(spec.Hash())
		total := 0
		if epochs, err := s.Metrics(spec.Hash()); err != nil || len(epochs) != 3 {
			t.Errorf("%s: %+v, %v", name, epochs, err)
		} else {
			total = epochs[0].Triplets + epochs[1].Triplets + epochs[2].Triplets
		}
		if err != nil || len(sap) != total || len(san) != total {
			t.Errorf("%s: %d and %d triplets, %v", name, len(sap), len(san), err)
		}
		if err := s.Verify(spec.Hash()); err != nil || !reflect.DeepEqual(outcome(t, s, spec.Hash()), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run's directory that is a symbolic link, or has one in it, is not followed: it is named, and set aside when the
// run is made.
func TestLinksAreNotFollowed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	hidden := []string{".bashrc", ".keep1", ".spec.json123"}
	for name, link := range map[string]func(s *Store, elsewhere string) error{
		"the run":        func(s *Store, elsewhere string) error { return os.Symlink(elsewhere, s.Path(tiny().Hash())) },
		"its checkpoint": func(s *Store, elsewhere string) error { return inRun(s, train.CheckpointDir, elsewhere) },
		"its triplets":   func(s *Store, elsewhere string) error { return inRun(s, train.TripletsDir, elsewhere) },
		"its result": func(s *Store, elsewhere string) error {
			return inRun(s, resultFile, filepath.Join(elsewhere, resultFile))
		},
		"its metrics": func(s *Store, elsewhere string) error {
			return inRun(s, train.MetricsFile, filepath.Join(elsewhere, train.MetricsFile))
		},
	} {
		t.Run(name, func(t *testing.T) {
			other, _ := testStore(t)
			elsewhere := other.Path(mustRun(t, goBackend(), other, tiny()).Hash)
			for _, f := range hidden {
				if err := os.WriteFile(filepath.Join(elsewhere, f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, elsewhere)
			s, warnings := testStore(t)
			if err := link(s, elsewhere); err != nil {
				t.Fatal(err)
			}
			hash := tiny().Hash()
			if e := s.Entry(hash); !strings.Contains(e.Bad, "links are not followed") {
				t.Errorf("entry %+v", e)
			}
			if entries, err := s.List(); err != nil || len(entries) != 1 || !strings.Contains(entries[0].Bad, "symbolic link") {
				t.Errorf("list %+v, %v", entries, err)
			}
			if err := s.Verify(hash); err == nil || !strings.Contains(err.Error(), "links are not followed") {
				t.Errorf("verified: %v", err)
			}
			mustRun(t, goBackend(), s, tiny())
			sameAsReference(t, s, tiny())
			if len(*warnings) != 1 || !strings.Contains((*warnings)[0], "links are not followed; set aside") {
				t.Errorf("%q", *warnings)
			}
			if err := os.Rename(s.Path(hash), s.Path(hash)+".kept"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(elsewhere, s.Path(hash)); err != nil {
				t.Fatal(err)
			}
			if err := s.Remove(hash); err != nil {
				t.Error(err)
			}
			if after := tree(t, elsewhere); !reflect.DeepEqual(after, before) {
				t.Errorf("behind the link there were %v, and are %v", before, after)
			}
		})
	}
}

// inRun puts a link into a run's directory.
func inRun(s *Store, name, to string) error {
	dir := s.Path(tiny().Hash())
	return errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(to, filepath.Join(dir, name)))
}

// tree lists the files below a folder with what is in them.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	files, err := listFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(raw)
	}
	return out
}

// A pipe in the place of a file is no wait for ever.
func TestPipesAreNotRead(t *testing.T) {
	s, _ := testStore(t)
	dir := s.Path(tiny().Hash())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", filepath.Join(dir, resultFile)).CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	if e := s.Entry(tiny().Hash()); !strings.Contains(e.Bad, "neither a file nor a folder") {
		t.Errorf("%+v", e)
	}
}

// A link in the place of the folder of locks, or of a lock, makes no file elsewhere.
func TestLinkedLocks(t *testing.T) {
	s, _ := testStore(t)
	elsewhere := filepath.Join(t.TempDir(), "made")
	if err := os.Symlink(elsewhere, filepath.Join(s.Dir, locksDir, tiny().Hash())); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), goBackend(), s, tiny(), nil); err == nil ||
		!strings.Contains(err.Error(), "symbolic link") {
		t.Error(err)
	}
	if _, err := os.Lstat(elsewhere); err == nil {
		t.Error("a file was made behind the link")
	}
}

// Of hidden files a run that goes on removes its own, which a kill has left, and no others.
func TestSweep(t *testing.T) {
	s, _ := testStore(t)
	dir := halfway(t, goBackend(), s)
	files := map[string]bool{
		".spec.json123": false, ".refresh-123": false, "checkpoint/.state.json5577006791947779410": false,
		"triplets/.epoch-001.npy1": false,
		".bashrc":                  true, ".notes1": true, "checkpoint/.keep": true, ".nfs000000000123": true,
	}
	for name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, goBackend(), s, tiny())
	for name, want := range files {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}

// A finished run is read where no lock can be had, and where nothing can be written.
func TestFinishedRunsOfStoresThatAreRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	s, warnings := testStore(t)
	want := mustRun(t, goBackend(), s, tiny())
	lock := filepath.Join(s.Dir, locksDir, want.Hash)
	if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o755)); err != nil {
		t.Fatal(err)
	}
	if r, err := Run(t.Context(), nil, s, tiny(), nil); err != nil || r.Sum != want.Sum {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, locksDir)); err != nil {
		t.Fatal(err)
	}
	ro := t.TempDir()
	for _, args := range [][]string{{"--bind", s.Dir, ro}, {"-o", "remount,bind,ro", ro}} {
		if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
			t.Skipf("no file system can be mounted to be read only: %v: %s", err, out)
		}
		defer func() { _ = exec.Command("umount", ro).Run() }() // The second time it is none.
	}
	read, err := OpenStore(ro)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Run(t.Context(), nil, read, tiny(), nil); err != nil || r.Sum != want.Sum {
		t.Errorf("%+v, %v", r, err)
	}
	other := tiny()
	other.Seed = 9
	opened := func() (*train.Trainer, error) { return nil, errors.New("the backend is opened") }
	_, _, all := RunAll(t.Context(), opened, read, []Spec{other}, Options{})
	_, one := Run(t.Context(), goBackend(), read, other, nil)
	for _, err := range []error{all, one} {
		if err == nil || !strings.Contains(err.Error(), "cannot be written") {
			t.Error(err)
		}
	}
	if len(*warnings) > 0 {
		t.Error(*warnings)
	}
}

// What a killed removal has left goes with the next one; what is under way stays.
func TestLeftoversOfKills(t *testing.T) {
	s, _ := testStore(t)
	hash := mustRun(t, goBackend(), s, tiny()).Hash
	killed, locked := s.Path("0123456789aa")+removedSuffix, s.Path("0123456789ab")+removedSuffix
	unlock, err := s.lock(t.Context(), "0123456789ab")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	kept := t.TempDir()
	link := s.Path("0123456789ac") + removedSuffix
	if err := errors.Join(os.Mkdir(killed, 0o755), os.Mkdir(locked, 0o755), os.Symlink(kept, link),
		s.Remove(hash)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{killed: false, locked: true, link: true, kept: true, s.Path(hash): false,
		s.Path(hash) + removedSuffix: false} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
}

// The epochs of an unfinished run are read from a regular file alone: a pipe in its place would never answer.
func TestMetricsOfAPipe(t *testing.T) {
	s, _ := testStore(t)
	hash := tiny().Hash()
	if err := os.MkdirAll(s.Path(hash), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mkfifo", filepath.Join(s.Path(hash), train.MetricsFile)).Run(); err != nil {
		t.Skip("no pipes here:", err)
	}
	if _, err := s.Metrics(hash); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}
