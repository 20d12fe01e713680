package runs

import (
	"cmp"
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

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Files in the directory of a run.
const (
	specFile   = "spec.json"
	resultFile = "result.json"
)

// outputFile matches the names of the files in the directory of a run, with slashes.
var outputFile = regexp.MustCompile(`^(spec\.json|metrics\.jsonl|result\.json|histograms\.json|` +
	`(gallery_)?(embeddings|labels)\.npy|triplets/epoch-[0-9]+\.npy|` +
	`checkpoint/(state\.json|(weights|state)-[0-9]+\.safetensors))$`)

// Store is a folder that has a directory for each run, named by the hash of its spec. Many processes may use it at
// once: only the process that holds the lock of a run writes it, and files are replaced atomically.
type Store struct {
	Dir string
	// DataOptions are used to open data sets. Warn also receives a line for each damaged file that is set aside, and the
	// warnings of [Run] about a data set.
	DataOptions
}

// OpenStore opens a store, and creates its folder if it does not exist. A read-only store can be opened, too.
func OpenStore(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// The umask decides who may write, because a group may share a store.
	if err := os.MkdirAll(filepath.Join(dir, locksDir), 0o777); err != nil {
		readOnly := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
		if info, missing := os.Stat(dir); missing != nil || !info.IsDir() || !readOnly {
			return nil, fmt.Errorf("the run store cannot be created: %w", err)
		}
	}
	return &Store{Dir: dir}, nil
}

// Path returns the directory of a run, which may not exist.
func (s *Store) Path(hash string) string { return filepath.Join(s.Dir, hash) }

func (s *Store) warn(format string, args ...any) {
	if s.Warn != nil {
		s.Warn(fmt.Sprintf(format, args...))
	}
}

// setAside renames a file or directory that cannot be used, so that it is neither used nor lost.
func (s *Store) setAside(path string, why error) error { return durable.SetAside(path, why, s.Warn) }

// Lookup returns the result of a spec from the store, or else the one bundled with the program. A result that is
// damaged or belongs to another spec counts as not found, and its directory is set aside.
func (s *Store) Lookup(spec Spec) (*Result, bool, error) {
	return s.find(spec.Hash(), spec, true)
}

// find returns the result of a spec with a known hash, and reads the bundled ones if it may.
func (s *Store) find(hash string, spec Spec, bundled bool) (*Result, bool, error) {
	r, found, err := s.lookupAs(hash, spec)
	if err != nil || found || !bundled {
		return r, found, err
	}
	all, err := bundledResults()
	if err != nil {
		return nil, false, err
	}
	r, err = all.get(hash)
	return r, r != nil, err
}

// lookupAs is [Store.Lookup] of a spec whose hash is known, without the bundled results. A damaged run that another
// process works on is left alone.
func (s *Store) lookupAs(hash string, spec Spec) (*Result, bool, error) {
	r, err := s.read(hash)
	var bad *unusable
	if !errors.As(err, &bad) {
		return s.resolve(hash, spec, r, err)
	}
	unlock, free, err := s.tryLock(hash)
	if err != nil || !free {
		return nil, false, err
	}
	defer unlock()
	return s.lookupLocked(hash, spec) // Read again, because another process may have replaced it.
}

// lookupLocked is lookupAs for a process that holds the lock of the run.
func (s *Store) lookupLocked(hash string, spec Spec) (*Result, bool, error) {
	r, err := s.read(hash)
	if errors.Is(err, fs.ErrNotExist) { // Another machine may have written it just before it released the lock.
		s.refresh(hash)
		r, err = s.read(hash)
	}
	return s.resolve(hash, spec, r, err)
}

const refreshPrefix = ".refresh-"

// refresh makes files of a run visible that other machines have just written. The client of a network file system
// caches for a while (on NFS for a minute) that a name does not exist, until it changes the folder itself. refresh
// therefore creates and removes a temporary file in the store and in the run's directory. It does nothing where it
// cannot write.
func (s *Store) refresh(hash string) {
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

// resolve turns the outcome of [Store.read] into that of a lookup, and sets damaged runs aside.
func (s *Store) resolve(hash string, spec Spec, r *Result, err error) (*Result, bool, error) {
	var bad *unusable
	switch {
	case err == nil:
		r.Spec.Config = r.Spec.Config.WithValuesOf(spec.Config)
		return r, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case errors.As(err, &bad):
		return nil, false, s.setAside(s.Path(hash), bad)
	}
	return nil, false, err
}

// unusable says why the directory of a run cannot be trusted.
type unusable struct{ error }

// read reads the result of a run and verifies the checksums of its files.
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
			return nil, &unusable{fmt.Errorf("is damaged: wrong checksum of %s", name)}
		}
	}
	return r, nil
}

// listFiles returns the files in the directory of a run, named relative to it with slashes. It returns an [unusable]
// error for symbolic links and special files: with them, anyone who may write to a store could make others read or
// overwrite their own files, or wait forever.
func listFiles(dir string) (map[string]bool, error) {
	files := make(map[string]bool)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path) // Never fails, because path is below dir.
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != ".": // It was removed during the walk.
		case err != nil:
			return err
		case d.Type()&fs.ModeSymlink != 0 && name == ".":
			return &unusable{errors.New("is a symbolic link; links are not followed")}
		case d.Type()&fs.ModeSymlink != 0:
			return &unusable{fmt.Errorf("contains the symbolic link %s; links are not followed", name)}
		case d.Type().IsRegular():
			files[filepath.ToSlash(name)] = true
		case !d.IsDir():
			return &unusable{fmt.Errorf("contains %s, which is neither a file nor a folder", name)}
		}
		return nil
	})
	return files, err
}

// readSummary reads the result of a run, which has its own checksum, and checks that its files exist.
func (s *Store) readSummary(hash string) (*Result, error) {
	files, err := listFiles(s.Path(hash))
	if err != nil {
		return nil, err
	}
	raw, err := durable.ReadAtMost(filepath.Join(s.Path(hash), resultFile), durable.MaxText)
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
			return nil, &unusable{fmt.Errorf("lacks the file %s", name)}
		} else if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Entry describes a run of the store, finished or not.
type Entry struct {
	Hash   string
	Spec   Spec    // The zero spec if the run cannot be used and its spec is not known either.
	Result *Result // nil if the run is unfinished.
	Epoch  int     // Completed epochs of an unfinished run.
	Bad    string  // Why the run cannot be used; "" if it can.
}

var runName = regexp.MustCompile(`^[0-9a-f]{12}$`)

// List returns all runs of the store, the latest result first. It changes nothing. To be fast for a hundred thousand
// runs it does not verify checksums, only that files exist; [Store.Entry] verifies them.
func (s *Store) List() ([]Entry, error) {
	hashes, err := s.Hashes()
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(hashes))
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // More than the processors, because some wait for the disk.
	const share = 256
	for from := 0; from < len(hashes); from += share {
		group.Go(func() error {
			for i := from; i < min(from+share, len(hashes)); i++ {
				out[i] = s.entry(hashes[i], s.readSummary)
			}
			return nil
		})
	}
	_ = group.Wait() // Its functions return no errors.
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

// Hashes returns the hashes of all runs in order. It includes symbolic links, so that they are reported as unusable. A
// store that is not there yet has none.
func (s *Store) Hashes() ([]string, error) {
	dirs, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// Entry describes one run and verifies its checksums. It changes nothing.
func (s *Store) Entry(hash string) Entry { return s.entry(hash, s.read) }

func (s *Store) entry(hash string, read func(hash string) (*Result, error)) Entry {
	r, err := read(hash)
	if err == nil {
		return Entry{Hash: hash, Spec: r.Spec, Result: r}
	}
	spec, bad := checkDirectory(s.Path(hash), hash)
	e := Entry{Hash: hash, Spec: spec}
	if errors.Is(err, fs.ErrNotExist) {
		if err = bad; err == nil && spec.Data == "" {
			err = fmt.Errorf("contains no %s", specFile)
		}
		if c, err := train.ReadCheckpoint(s.Path(hash)); err == nil {
			e.Epoch = c.Epoch
		}
	}
	if err != nil {
		e.Bad = err.Error()
	}
	return e
}

// Find returns the full hash of the run that begins with a prefix. Only if none of the store does, bundled runs count.
// It returns an error if no run or several runs do.
func (s *Store) Find(prefix string) (string, error) {
	if strings.Trim(prefix, "0123456789abcdef") != "" {
		return "", errs.Invalid(fmt.Errorf("no run %.80q: want the first digits, 0 to 9 and a to f, of a run's ID", prefix))
	}
	hashes, err := s.Hashes()
	if err != nil {
		return "", err
	}
	bundled, err := bundledResults()
	if err != nil {
		return "", err
	}
	other := func(hash string) bool { return !strings.HasPrefix(hash, prefix) }
	found := slices.DeleteFunc(hashes, other)
	if len(found) == 0 {
		found = slices.DeleteFunc(slices.Sorted(maps.Keys(bundled)), other)
	}
	switch {
	case prefix == "" || len(found) == 0:
		return "", fmt.Errorf("no run %q in %s", prefix, s.Dir)
	case len(found) > 1:
		return "", fmt.Errorf("the prefix %q fits several runs: %s", prefix, strings.Join(found, ", "))
	}
	return found[0], nil
}

// Get returns the result of a run by its hash, from the store or else from the bundled results.
func (s *Store) Get(hash string) (*Result, error) {
	r, err := s.read(hash)
	if errors.Is(err, fs.ErrNotExist) {
		bundled, err := bundledResults()
		if err != nil {
			return nil, err
		}
		if r, err := bundled.get(hash); r != nil || err != nil {
			return r, err
		}
		if _, err := checkDirectory(s.Path(hash), hash); err != nil {
			return nil, fmt.Errorf("run %s: %w", hash, err)
		}
		return nil, fmt.Errorf("run %s is not finished", hash)
	} else if err != nil {
		return nil, fmt.Errorf("run %s: %w", hash, err)
	}
	return r, nil
}

// Remove deletes a run for good. It returns an error while another process works on the run.
func (s *Store) Remove(hash string) error {
	if !runName.MatchString(hash) {
		return fmt.Errorf("%q is not the hash of a run: want 12 hexadecimal digits", hash)
	}
	unlock, free, err := s.tryLock(hash)
	if err != nil {
		return err
	} else if !free {
		return fmt.Errorf("another process works on run %s", hash)
	}
	defer unlock()
	s.removeLeftovers()
	// Renamed first, so that an interrupted removal leaves no partial run under its name.
	dead := s.Path(hash) + removedSuffix
	if err := os.RemoveAll(dead); err != nil {
		return err
	}
	if err := os.Rename(s.Path(hash), dead); err != nil {
		return err
	}
	return os.RemoveAll(dead)
}

const removedSuffix = ".removed" // Follows the hash of a run that is being removed.

// removeLeftovers removes what killed processes have left of a [Store.Remove]. Leftovers do no harm.
func (s *Store) removeLeftovers() {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		hash, removed := strings.CutSuffix(e.Name(), removedSuffix)
		if !removed || !e.IsDir() || !runName.MatchString(hash) {
			continue
		}
		if unlock, free, err := s.tryLock(hash); err == nil && free {
			_ = os.RemoveAll(s.Path(e.Name()))
			unlock()
		}
	}
}
