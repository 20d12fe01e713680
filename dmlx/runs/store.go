package runs

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Files of a run's directory.
const (
	specFile = "spec.json"

	resultFile = "result.json"
)

// Store is a folder with a directory for each run, named by the hash of its spec. Any number of processes may use it at
// once: a run is written by the one that holds its lock, and each file appears complete or not at all.
type Store struct {
	Dir string
	// Opening is how [Store.Look] opens a run's data set. Its Warn is also told what was found damaged and set aside, and
	// what [Run] finds to say of a data set, a line each.
	DataOptions
}

// OpenStore opens a store, and makes the folder if it is not there. A store that may only be read can be read.
func OpenStore(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, locksDir), 0o777); err != nil { // As the umask lets: a store may be a group's.
		if info, missing := os.Stat(dir); missing != nil || !info.IsDir() || !readOnly(err) {
			return nil, fmt.Errorf("the run store cannot be made: %w", err)
		}
	}
	return &Store{Dir: dir}, nil
}

// readOnly tells whether an error says that this process may not write where it tried to.
func readOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// Path is the directory of a run, whether or not it is there.
func (s *Store) Path(hash string) string { return filepath.Join(s.Dir, hash) }

func (s *Store) warn(format string, args ...any) {
	if s.Warn != nil {
		s.Warn(fmt.Sprintf(format, args...))
	}
}

// setAside renames a file or directory that cannot be used, so that it is neither used nor lost.
func (s *Store) setAside(path string, why error) error { return durable.SetAside(path, why, s.Warn) }

// Lookup finds the result of a spec: that in the store, else the one shipped with the program. A result that is damaged
// or belongs elsewhere is set aside, with its directory, and not found.
func (s *Store) Lookup(spec Spec) (*Result, bool, error) {
	r, found, err := s.lookup(spec)
	if err != nil || found {
		return r, found, err
	}
	all, err := Bundled()
	if err != nil {
		return nil, false, err
	}
	r, found = all[spec.Hash()]
	return r, found, nil
}

// lookup is Lookup in the store alone. What another process works on is not found: it sets aside what is damaged.
func (s *Store) lookup(spec Spec) (*Result, bool, error) {
	hash := spec.Hash()
	r, err := s.read(hash)
	var bad *unusable
	if !errors.As(err, &bad) {
		return s.resolve(spec, r, err)
	}
	unlock, free, err := s.tryLock(hash)
	if err != nil || !free {
		return nil, false, err
	}
	defer unlock()
	return s.lookupLocked(spec) // Read again: it may be another one by now.
}

// lookupLocked is lookup for the process that holds the run's lock.
func (s *Store) lookupLocked(spec Spec) (*Result, bool, error) {
	hash := spec.Hash()
	r, err := s.read(hash)
	if errors.Is(err, fs.ErrNotExist) { // Another machine may have written it before it let go of the lock.
		s.Refresh(hash)
		r, err = s.read(hash)
	}
	return s.resolve(spec, r, err)
}

const refreshPrefix = ".refresh-"

// Refresh makes sure that what other machines have written of a run is seen. The client of a network file system remembers
// for a while, a minute on NFS, that a name is not there, until it changes the folder itself; so this makes a file in it and
// removes it again. What cannot be written is left as it is.
func (s *Store) Refresh(hash string) {
	if durable.NoLink(s.Dir, hash) != nil {
		return
	}
	for _, dir := range []string{s.Dir, s.Path(hash)} {
		if f, err := os.CreateTemp(dir, refreshPrefix); err == nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
}

// found judges what [Store.read] returned.
func (s *Store) resolve(spec Spec, r *Result, err error) (*Result, bool, error) {
	var bad *unusable
	switch {
	case err == nil:
		r.Spec.Config = r.Spec.Config.WithRuleValueOf(spec.Config)
		return r, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case errors.As(err, &bad):
		return nil, false, s.setAside(s.Path(spec.Hash()), bad)
	}
	return nil, false, err
}

// unusable says why a run directory with a result is not to be trusted.
type unusable struct{ error }

// read reads a run's result and checks that its files are whole.
func (s *Store) read(hash string) (*Result, error) {
	r, err := s.readSummary(hash)
	if err != nil {
		return nil, err
	}
	for name, want := range r.Files {
		sum, err := durable.FileSum(filepath.Join(s.Path(hash), name))
		if err != nil {
			return nil, err
		}
		if sum != want {
			return nil, &unusable{fmt.Errorf("is damaged: the checksum of %s does not fit", name)}
		}
	}
	return r, nil
}

// contents lists the files in a run's directory, by their names there with slashes. The error is an [unusable] if the
// directory, or something in it, is a symbolic link or another thing that is no file: who may write to a store could
// make others read or overwrite their own files by it, or wait for ever.
func listFiles(dir string) (map[string]bool, error) {
	files := make(map[string]bool)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path) // It is below dir.
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != ".": // It was removed meanwhile.
		case err != nil:
			return err
		case d.Type()&fs.ModeSymlink != 0 && name == ".":
			return &unusable{errors.New("is a symbolic link, which is not followed")}
		case d.Type()&fs.ModeSymlink != 0:
			return &unusable{fmt.Errorf("has %s, a symbolic link, which is not followed", name)}
		case d.Type().IsRegular():
			files[filepath.ToSlash(name)] = true
		case !d.IsDir():
			return &unusable{fmt.Errorf("has %s, which is neither a file nor a folder", name)}
		}
		return nil
	})
	return files, err
}

// glance reads a run's result, which has its own sum, and checks that its files are there.
func (s *Store) readSummary(hash string) (*Result, error) {
	files, err := listFiles(s.Path(hash))
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(s.Path(hash), resultFile))
	if err != nil {
		return nil, err
	}
	r, err := parseResult(raw, hash)
	if errors.Is(err, errNewer) {
		return nil, fmt.Errorf("%s %w", filepath.Join(s.Path(hash), resultFile), err)
	} else if err != nil {
		return nil, &unusable{fmt.Errorf("%s %w", resultFile, err)}
	}
	for name := range r.Files {
		if files[filepath.ToSlash(name)] {
			continue
		}
		if _, err := os.Lstat(filepath.Join(s.Path(hash), name)); errors.Is(err, fs.ErrNotExist) {
			return nil, &unusable{fmt.Errorf("lacks %s", name)}
		} else if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Entry is a run of the store as [Store.List] sees it.
type Entry struct {
	Hash   string
	Spec   Spec
	Result *Result // nil while the run is not finished.
	Epoch  int     // Epochs done, of an unfinished run.
	Bad    string  // Why it cannot be used, if so.
}

var runName = regexp.MustCompile(`^[0-9a-f]{12}$`)

// List reads all runs, the latest result first. It changes nothing. Of the files that a result rests on it looks only whether
// they are there, since there may be a hundred thousand runs; [Store.Entry] reads them.
func (s *Store) List() ([]Entry, error) {
	hashes, err := s.hashes()
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(hashes))
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // Some wait for the disk.
	const share = 256
	for from := 0; from < len(hashes); from += share {
		group.Go(func() error {
			for i := from; i < min(from+share, len(hashes)); i++ {
				out[i] = s.entry(hashes[i], s.readSummary)
			}
			return nil
		})
	}
	_ = group.Wait() // None fails.
	slices.SortStableFunc(out, func(a, b Entry) int {
		date := func(e Entry) int64 {
			if e.Result == nil {
				return 0
			}
			return e.Result.Date.UnixNano()
		}
		return cmp.Compare(date(b), date(a))
	})
	return out, nil
}

// hashes lists the runs there are, in order. Symbolic links are among them, and found to be unusable.
func (s *Store) hashes() ([]string, error) {
	dirs, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range dirs {
		if (d.IsDir() || d.Type()&fs.ModeSymlink != 0) && runName.MatchString(d.Name()) {
			out = append(out, d.Name())
		}
	}
	return out, nil
}

// Entry looks at one run, finished or not. It changes nothing.
func (s *Store) Entry(hash string) Entry { return s.entry(hash, s.read) }

func (s *Store) entry(hash string, read func(hash string) (*Result, error)) Entry {
	e := Entry{Hash: hash}
	r, err := read(hash)
	switch {
	case err == nil:
		e.Result, e.Spec = r, r.Spec
	case errors.Is(err, fs.ErrNotExist):
		raw, err := os.ReadFile(filepath.Join(s.Path(hash), specFile))
		if err == nil {
			err = json.Unmarshal(raw, &e.Spec)
		}
		if err != nil {
			e.Bad = "no readable " + specFile
		}
		if c, err := train.ReadCheckpoint(s.Path(hash)); err == nil {
			e.Epoch = c.Epoch
		}
	default:
		e.Bad = err.Error()
	}
	return e
}

// Find is the full hash of the one run, of the store or shipped with the program, that begins with the given digits.
func (s *Store) Find(prefix string) (string, error) {
	hashes, err := s.hashes()
	if err != nil {
		return "", err
	}
	shipped, err := Bundled()
	if err != nil {
		return "", err
	}
	var found []string
	for _, hash := range hashes {
		if strings.HasPrefix(hash, prefix) {
			found = append(found, hash)
		}
	}
	for hash := range shipped {
		if strings.HasPrefix(hash, prefix) && !slices.Contains(found, hash) {
			found = append(found, hash)
		}
	}
	slices.Sort(found)
	switch {
	case prefix == "" || len(found) == 0:
		return "", fmt.Errorf("no run %q in %s", prefix, s.Dir)
	case len(found) > 1:
		return "", fmt.Errorf("run %q is not clear: there are %s", prefix, strings.Join(found, ", "))
	}
	return found[0], nil
}

// Get reads a finished run by its hash, or a result that is shipped with the program.
func (s *Store) Get(hash string) (*Result, error) {
	r, err := s.read(hash)
	if errors.Is(err, fs.ErrNotExist) {
		shipped, err := Bundled()
		if err != nil {
			return nil, err
		}
		if r, there := shipped[hash]; there {
			return r, nil
		}
		return nil, fmt.Errorf("run %s is not finished", hash)
	} else if err != nil {
		return nil, fmt.Errorf("run %s: %w", hash, err)
	}
	return r, nil
}

// Put keeps a result that was not made by [Run], with the files that it rests on; their sums, and its own, are filled in. It
// fails if the store has something of that run.
func (s *Store) Put(r *Result, files map[string][]byte) error {
	r.Hash, r.Files = r.Spec.Hash(), make(map[string]string)
	for name, raw := range files {
		if !archivable.MatchString(name) || name == specFile || name == resultFile {
			return fmt.Errorf("%q is no file that a result rests on", name)
		}
		sum := sha256.Sum256(raw)
		r.Files[name] = hex.EncodeToString(sum[:])
	}
	if err := r.seal(); err != nil {
		return err
	}
	all := maps.Clone(files)
	if all == nil {
		all = make(map[string][]byte)
	}
	for name, v := range map[string]any{specFile: r.Spec, resultFile: r} {
		raw, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		all[name] = append(raw, '\n')
	}
	dir := filepath.Join(s.Dir, putPrefix+rand.Text())
	defer os.RemoveAll(dir)
	for name, raw := range all {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			err = durable.WriteFile(path, raw, 0o644)
		}
		if err != nil {
			return fmt.Errorf("the run store cannot be written: %w", err)
		}
	}
	if err := os.Rename(dir, s.Path(r.Hash)); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("something of run %s is in the store already", r.Hash)
	} else if err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	return nil
}

// Remove deletes a run for good. It fails while a process works on it.
func (s *Store) Remove(hash string) error {
	if !runName.MatchString(hash) {
		return fmt.Errorf("%q is no run", hash)
	}
	unlock, free, err := s.tryLock(hash)
	if err != nil {
		return err
	} else if !free {
		return fmt.Errorf("run %s is being worked on", hash)
	}
	defer unlock()
	// Renamed first, so that a removal which is cut short leaves no half a run under its name.
	dead := s.Path(hash) + removedSuffix
	if err := os.RemoveAll(dead); err != nil {
		return err
	}
	if err := os.Rename(s.Path(hash), dead); err != nil {
		return err
	}
	return os.RemoveAll(dead)
}
