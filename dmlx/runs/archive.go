package runs

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// An archive of runs is a tar file, which may be compressed by gzip. Its first file is manifest.json, which says what
// follows: the files of each run, in its folder, with their sizes and sums.
const (
	archiveManifest = "manifest.json"
	archiveFormat   = 1
	// maxManifest bounds what is read before anything is known of an archive: about a kilobyte a run.
	maxManifest = 1 << 28
	// maxTrailer bounds what may follow the archive's end: tar fills up its last block.
	maxTrailer = 1 << 20
)

// DefaultMaxBytes is how much [Store.Import] unpacks of an archive if nothing else is said: 256 GiB, which is room for
// a thousand runs with the checkpoints of a ResNet-50.
const DefaultMaxBytes = 256 << 30

// ImportOptions bound an import.
type ImportOptions struct {
	// MaxBytes is how many bytes the files of an archive may take in the store, together; 0 is [DefaultMaxBytes]. Each
	// file counts as whole blocks of 4096 bytes, and one at least. An archive that lists more is refused before
	// anything is unpacked: a small file can be a large archive compressed.
	MaxBytes int64
}

type archiveIndex struct {
	Format int           `json:"format"`
	Runs   []archivedRun `json:"runs"`
	Sum    string        `json:"sum"` // SHA-256 of all the above.
}

type archivedRun struct {
	Hash  string         `json:"run"`
	Files []archivedFile `json:"files"`
}

type archivedFile struct {
	Name string `json:"name"` // In the run's directory, with slashes.
	Size int64  `json:"size"`
	Sum  string `json:"sum"` // SHA-256.
}

func (x archiveIndex) sum() string {
	x.Sum = ""
	raw, _ := json.Marshal(x) // Strings and whole numbers.
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:])
}

// archivable are the files of a run that an archive may have.
var archivable = regexp.MustCompile(`^(spec\.json|metrics\.jsonl|result\.json|portrait\.json|(gallery_)?(embeddings|labels)\.npy|` +
	`triplets/epoch-[0-9]+\.npy|checkpoint/(state\.json|weights-[0-9]+\.safetensors))$`)

// Moved says what became of each run that was to be taken from one store to another, by their hashes.
type Transfer struct {
	Taken []string `json:"taken"`
	// Had were there, with the same numbers, or as far as those that came or further. A checkpoint and a portrait that they lacked
	// have been added.
	Present []string `json:"had"`
	// Differ were there with other numbers from another backend, as rounding explains: those that were there are kept.
	Differ []string `json:"differ"`
	// Conflicts were there with other numbers from the same backend, which another kind of processor may have made, or a build without SIMD: those that were there are kept.
	Conflicts []string `json:"conflicts"`
	Busy      []string `json:"busy"`     // Another process works on them.
	Unusable  []string `json:"unusable"` // Damaged where they were to be taken from, with the reason.
}

// Export writes an archive of runs: finished ones with all that their results rest on, and their portraits. checkpoints adds
// the last weights, and takes unfinished runs too, as they are at their last checkpoint. No hashes are all runs. Taken
// tells which are in it.
func (s *Store) Export(w io.Writer, hashes []string, checkpoints bool) (*Transfer, error) {
	var moved Transfer
	all := len(hashes) == 0
	if all {
		var err error
		if hashes, err = s.hashes(); err != nil {
			return nil, err
		}
	}
	index := archiveIndex{Format: archiveFormat}
	seen := make(map[string]bool)
	for _, hash := range hashes {
		if seen[hash] {
			continue
		}
		seen[hash] = true
		if _, err := os.Stat(filepath.Join(s.Path(hash), resultFile)); err != nil && checkpoints {
			unlock, free, err := s.tryLock(hash)
			switch {
			case errors.Is(err, fs.ErrNotExist), readOnly(err):
				// Where this process may not write it takes no lock: if a file changes, its sum does not fit on the other side.
			case err != nil:
				return nil, err
			case !free:
				moved.Busy = append(moved.Busy, hash)
				continue
			default:
				defer unlock() // Until all is written: an unfinished run's files may change.
			}
		}
		names, err := s.filesOf(hash, checkpoints)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if !all {
				if shipped, err := Bundled(); err == nil && shipped[hash] != nil {
					return nil, fmt.Errorf("run %s came with the program, without what its result rests on: there is nothing of it in %s", hash, s.Dir)
				}
				return nil, fmt.Errorf("run %s is not finished in %s", hash, s.Dir)
			}
			continue
		case err != nil:
			moved.Unusable = append(moved.Unusable, fmt.Sprintf("%s: %v", hash, err))
			continue
		}
		run := archivedRun{Hash: hash}
		for _, name := range names {
			info, err := os.Stat(filepath.Join(s.Path(hash), name))
			if err != nil {
				return nil, err
			}
			sum, err := durable.FileSum(filepath.Join(s.Path(hash), name))
			if err != nil {
				return nil, err
			}
			run.Files = append(run.Files, archivedFile{filepath.ToSlash(name), info.Size(), sum})
		}
		index.Runs = append(index.Runs, run)
		moved.Taken = append(moved.Taken, hash)
	}
	index.Sum = index.sum()
	raw, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Name: archiveManifest, Size: int64(len(raw)), Mode: 0o644}); err != nil {
		return nil, err
	}
	if _, err := t.Write(raw); err != nil {
		return nil, err
	}
	for _, run := range index.Runs {
		for _, f := range run.Files {
			if err := addFile(t, filepath.Join(s.Path(run.Hash), filepath.FromSlash(f.Name)), path.Join(run.Hash, f.Name), f.Size); err != nil {
				return nil, err
			}
		}
	}
	return &moved, t.Close()
}

func addFile(t *tar.Writer, from, name string, size int64) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	_, err = io.Copy(t, f) // Fails if it is not of the size any more.
	return err
}

// filesOf lists a run's files that are worth moving. The error is fs.ErrNotExist if there is nothing of worth.
func (s *Store) filesOf(hash string, checkpoints bool) ([]string, error) {
	dir := s.Path(hash)
	r, err := s.read(hash)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files, err := contents(dir)
	if err != nil {
		return nil, err
	}
	c, noCheckpoint := train.ReadCheckpoint(dir)
	if r == nil && (!checkpoints || noCheckpoint != nil) {
		return nil, fs.ErrNotExist
	}
	if _, err := os.Stat(filepath.Join(dir, specFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lacks %s", specFile)
	}
	names := []string{specFile}
	if r != nil {
		names = append(names, resultFile)
		names = slices.AppendSeq(names, maps.Keys(r.Files))
		if _, err := os.Stat(filepath.Join(dir, histogramsFile)); err == nil {
			names = append(names, histogramsFile)
		}
	} else {
		names = append(names, train.MetricsFile)
		for name := range files {
			if path.Dir(name) == train.TripletsDir && archivable.MatchString(name) {
				names = append(names, filepath.FromSlash(name))
			}
		}
		if err := s.soundCheckpoint(hash); err != nil { // The other side would refuse all of the archive.
			return nil, err
		}
	}
	if checkpoints && s.soundCheckpoint(hash) == nil {
		names = append(names, filepath.Join(train.CheckpointDir, train.CheckpointFile), filepath.Join(train.CheckpointDir, filepath.Base(c.Weights)))
	}
	slices.Sort(names)
	return names, nil
}

// Import takes the runs of an archive that the store does not have. All of the archive is unpacked beside the runs and
// checked first, so that one that is damaged, or larger than the options allow, changes nothing; the same holds if ctx
// is done before that. No run of the store is overwritten: an unfinished one that gives way to a finished one is kept
// beside it.
func (s *Store) Import(ctx context.Context, r io.Reader, o ImportOptions) (*Transfer, error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, locksDir), 0o777); err != nil {
		return nil, fmt.Errorf("the run store cannot be written: %w", err)
	}
	s.tidy()
	dir, remove, err := s.workFolder()
	if err != nil {
		return nil, fmt.Errorf("the run store cannot be written: %w", err)
	}
	defer remove()
	index, err := unpack(ctx, dir, r, cmp.Or(o.MaxBytes, DefaultMaxBytes))
	if ctx.Err() != nil {
		err = ctx.Err() // And nothing is wrong with the archive.
	}
	if err != nil {
		return nil, fmt.Errorf("nothing was imported: %w", err)
	}
	from := &Store{Dir: dir}
	for _, run := range index.Runs {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("nothing was imported: %w", err)
		}
		if err := from.sound(run.Hash); err != nil {
			return nil, fmt.Errorf("nothing was imported: run %s of the archive %w", run.Hash, err)
		}
	}
	var moved Transfer
	for _, run := range index.Runs {
		if err := s.take(from, run.Hash, &moved); err != nil {
			return &moved, err
		}
	}
	return &moved, nil
}

const (
	importPrefix = ".import-"
	putPrefix    = ".put-"
	removedName  = ".removed" // After a run's hash.
	heldFile     = ".held"    // In a folder of an import: locked while it is under way.
)

// workFolder makes a folder for an import beside the runs. The system frees its lock when the process ends, however it
// does.
func (s *Store) workFolder() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp(s.Dir, importPrefix); err != nil {
		return "", nil, err
	}
	held := filepath.Join(dir, heldFile)
	l := flock.New(held + ".new") // Under its name it is locked from the first moment on.
	remove = func() {
		removeWork(dir)
		_ = l.Unlock()
	}
	if _, err = l.TryLock(); err == nil {
		err = os.Rename(held+".new", held)
	}
	if err != nil {
		remove()
	}
	return dir, remove, err
}

// removeWork removes the folder of an import, its lock last: what is left if this process is killed is found by the
// lock. What stays does no harm.
func removeWork(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != heldFile {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.RemoveAll(dir)
}

// tidy removes what was killed: an import, a merge, a [Store.Put] or a [Store.Remove]. What has no lock to tell may be
// under way for a day.
func (s *Store) tidy() {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		if !e.IsDir() { // A symbolic link is none.
			continue
		}
		path := filepath.Join(s.Dir, e.Name())
		hash, removed := strings.CutSuffix(e.Name(), removedName)
		imported := strings.HasPrefix(e.Name(), importPrefix)
		l := flock.New(filepath.Join(path, heldFile), flock.SetFlag(os.O_RDWR))
		switch {
		case removed && runName.MatchString(hash):
			if unlock, free, err := s.tryLock(hash); err == nil && free {
				_ = os.RemoveAll(path) // What stays does no harm, here and below.
				unlock()
			}
		case !imported && !strings.HasPrefix(e.Name(), putPrefix):
		case imported && durable.NoLink(path, heldFile) == nil && exists(filepath.Join(path, heldFile)):
			if free, err := l.TryLock(); err == nil && free {
				removeWork(path)
				_ = l.Unlock()
			}
		default:
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
				_ = os.RemoveAll(path)
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Merge takes the runs of another store that this one does not have, as [Store.Export] and [Store.Import] do.
func (s *Store) Merge(ctx context.Context, other *Store, checkpoints bool) (*Transfer, error) {
	if same, err := sameFolder(s.Dir, other.Dir); err != nil {
		return nil, err
	} else if same {
		return nil, fmt.Errorf("%s cannot be merged into itself", s.Dir)
	}
	r, w := io.Pipe()
	type outcome struct {
		*Transfer
		error
	}
	exported := make(chan outcome, 1)
	go func() {
		m, err := other.Export(w, nil, checkpoints)
		_ = w.CloseWithError(err) // It does not fail.
		exported <- outcome{m, err}
	}()
	moved, err := s.Import(ctx, r, ImportOptions{MaxBytes: math.MaxInt64}) // As large as the store that it comes from.
	_ = r.CloseWithError(err)
	out := <-exported
	if out.error != nil && !errors.Is(out.error, err) { // It is why the import failed, and not the other way round.
		return moved, out.error
	}
	if out.error == nil && moved != nil {
		moved.Busy = append(moved.Busy, out.Busy...)
		moved.Unusable = append(moved.Unusable, out.Unusable...)
	}
	return moved, err
}

func sameFolder(a, b string) (bool, error) {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}

// withContext is a reader that ends when ctx does.
type withContext struct {
	io.Reader
	ctx context.Context
}

func (r withContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// unpack reads an archive into an empty folder: what its manifest says, no more and no less, if that is at most limit
// bytes.
func unpack(ctx context.Context, dir string, r io.Reader, limit int64) (*archiveIndex, error) {
	buffered := bufio.NewReader(r)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("the archive is damaged: %w", err)
		}
		r = z
	} else {
		r = buffered
	}
	r = withContext{r, ctx}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t := tar.NewReader(r)
	index, err := readIndex(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := index.fits(limit); err != nil {
		return nil, err
	}
	due := make(map[string]archivedFile)
	for _, run := range index.Runs {
		for _, f := range run.Files {
			due[path.Join(run.Hash, f.Name)] = f
		}
	}
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("the archive is damaged: %w", err)
		}
		f, expected := due[h.Name]
		if !expected || h.Typeflag != tar.TypeReg || h.Size != f.Size {
			return nil, fmt.Errorf("the archive is damaged: %q is not as its manifest says", h.Name)
		}
		delete(due, h.Name)
		if err := unpackFile(ctx, root, h.Name, t, f); err != nil {
			return nil, err
		}
	}
	switch n, err := io.CopyN(io.Discard, r, maxTrailer+1); { // To the end, where gzip has its sum.
	case err == nil:
		return nil, fmt.Errorf("the archive is damaged: more than %d bytes follow its end", n-1)
	case err != io.EOF:
		return nil, fmt.Errorf("the archive is damaged: %w", err)
	}
	if len(due) > 0 {
		return nil, fmt.Errorf("the archive is damaged: it lacks %d files that its manifest lists, %s for one", len(due), slices.Min(slices.Collect(maps.Keys(due))))
	}
	return index, nil
}

// fits tells by the manifest whether an archive takes more than limit bytes in the store; see [ImportOptions].
func (x *archiveIndex) fits(limit int64) error {
	const block = 4096
	left := limit
	for _, run := range x.Runs {
		for _, f := range run.Files {
			if left < block || f.Size > left/block*block {
				return fmt.Errorf("the archive's files take more than the %d bytes that are allowed: "+
					"check where it comes from, or allow more", limit)
			}
			left -= max((f.Size-1)/block+1, 1) * block
		}
	}
	return nil
}

func readIndex(ctx context.Context, t *tar.Reader) (*archiveIndex, error) {
	h, err := t.Next()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the file is no archive of runs, or is damaged: %w", err)
	case h.Name != archiveManifest || h.Typeflag != tar.TypeReg || h.Size > maxManifest:
		return nil, fmt.Errorf("the file is no archive of runs: it does not begin with %s", archiveManifest)
	}
	var index archiveIndex
	if err := json.NewDecoder(t).Decode(&index); err != nil {
		return nil, fmt.Errorf("the archive is damaged: %s: %w", archiveManifest, err)
	}
	if index.Format != archiveFormat {
		return nil, fmt.Errorf("the archive has format %d, this program reads format %d", index.Format, archiveFormat)
	}
	if index.Sum != index.sum() {
		return nil, fmt.Errorf("the archive is damaged: the checksum of %s does not fit", archiveManifest)
	}
	seen := make(map[string]bool)
	for _, run := range index.Runs {
		if !runName.MatchString(run.Hash) || seen[run.Hash] {
			return nil, fmt.Errorf("the archive's manifest lists %q, which is no run, or twice", run.Hash)
		}
		seen[run.Hash] = true
		names := make(map[string]bool)
		for _, f := range run.Files {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if !archivable.MatchString(f.Name) || f.Size < 0 || names[f.Name] {
				return nil, fmt.Errorf("the archive's manifest lists %q for run %s, which is no file of a run, or twice", f.Name, run.Hash)
			}
			names[f.Name] = true
		}
	}
	return &index, nil
}

func unpackFile(ctx context.Context, root *os.Root, name string, r io.Reader, want archivedFile) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	h := sha256.New()
	source := &readError{Reader: r}
	_, err = io.Copy(io.MultiWriter(f, h), source)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	switch {
	case source.err != nil:
		return fmt.Errorf("the archive is damaged: %s: %w", name, source.err)
	case err != nil:
		return fmt.Errorf("the run store cannot be written: %w", err)
	case hex.EncodeToString(h.Sum(nil)) != want.Sum:
		return fmt.Errorf("the archive is damaged: the checksum of %s does not fit", name)
	}
	return nil
}

// readError remembers what went wrong on the side of the reader.
type readError struct {
	io.Reader
	err error
}

func (r *readError) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// sound tells what is wrong with a run that was unpacked: its spec must have its hash, and its result or checkpoint fit it.
func (s *Store) sound(hash string) error {
	if err := ownDirectory(s.Path(hash), hash); err != nil {
		return err
	}
	r, err := s.read(hash)
	switch {
	case err == nil && r.Spec.Hash() != hash:
		return fmt.Errorf("has a result whose spec has the hash %s", r.Spec.Hash())
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return s.soundCheckpoint(hash)
}

func (s *Store) soundCheckpoint(hash string) error {
	c, err := train.ReadCheckpoint(s.Path(hash))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("has neither a result nor a checkpoint")
	case err != nil:
		return err
	case c.Run != hash:
		return fmt.Errorf("has a checkpoint of run %s", c.Run)
	}
	if sum, err := durable.FileSum(filepath.Join(s.Path(hash), train.CheckpointDir, filepath.Base(c.Weights))); err != nil || sum != c.WeightsSum {
		return fmt.Errorf("has a damaged checkpoint: %s is not there, or its checksum does not fit", c.Weights)
	}
	if err := c.CheckTriplets(s.Path(hash)); err != nil {
		return fmt.Errorf("has a checkpoint that %w", err)
	}
	return nil
}

// take moves a run that was unpacked and is sound into its place, if that is free.
func (s *Store) take(from *Store, hash string, moved *Transfer) error {
	unlock, free, err := s.tryLock(hash)
	if err != nil {
		return err
	} else if !free {
		moved.Busy = append(moved.Busy, hash)
		return nil
	}
	defer unlock()
	theirs, _ := from.read(hash) // nil of an unfinished one.
	ours, err := s.read(hash)
	var bad *unusable
	switch {
	case err == nil:
		switch {
		case theirs == nil:
			moved.Present = append(moved.Present, hash)
		case sameNumbers(ours, theirs):
			moved.Present = append(moved.Present, hash)
			return s.complete(from, hash, ours.Sum == theirs.Sum)
		case ours.Backend != theirs.Backend:
			moved.Differ = append(moved.Differ, hash)
		default:
			moved.Conflicts = append(moved.Conflicts, hash)
		}
		return nil
	case errors.As(err, &bad):
		if err := s.setAside(s.Path(hash), bad); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if _, err := os.Lstat(s.Path(hash)); err == nil {
		if theirs == nil && epochsDone(from.Path(hash)) <= epochsDone(s.Path(hash)) {
			moved.Present = append(moved.Present, hash)
			return nil
		}
		if _, err := durable.MoveAside(s.Path(hash), "unfinished"); err != nil {
			return fmt.Errorf("the run store cannot be written: %w", err)
		}
	}
	if err := os.Rename(from.Path(hash), s.Path(hash)); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	moved.Taken = append(moved.Taken, hash)
	return nil
}

// epochsDone is how far the checkpoint in a run's directory is; 0 without one that can be used.
func epochsDone(dir string) int {
	c, err := train.ReadCheckpoint(dir)
	if err != nil {
		return 0
	}
	return c.Epoch
}

// complete adds to a finished run a checkpoint and, if the results are one and the same, a portrait that it lacks and another store has.
func (s *Store) complete(from *Store, hash string, same bool) error {
	add := func(name, by string) error {
		if _, err := os.Lstat(filepath.Join(s.Path(hash), by)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := os.Lstat(filepath.Join(from.Path(hash), by)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		_ = os.Remove(filepath.Join(s.Path(hash), name)) // A folder with nothing in it.
		if err := os.Rename(filepath.Join(from.Path(hash), name), filepath.Join(s.Path(hash), name)); err != nil {
			return fmt.Errorf("the run store cannot be written: %w", err)
		}
		return nil
	}
	if from.soundCheckpoint(hash) == nil {
		if err := add(train.CheckpointDir, filepath.Join(train.CheckpointDir, train.CheckpointFile)); err != nil {
			return err
		}
	}
	if same { // A portrait is of one result.
		return add(histogramsFile, histogramsFile)
	}
	return nil
}

// sameNumbers tells whether two results of a run say the same, wherever and whenever they were made.
func sameNumbers(a, b *Result) bool {
	bare := func(r Result) Result {
		return Result{DataDigest: r.DataDigest, Measures: r.Measures, Files: r.Files}
	}
	return reflect.DeepEqual(bare(*a), bare(*b))
}

// String sums it up for people, a line for each kind; runs are named where there is something to be done about them.
func (m *Transfer) String() string {
	lines := []string{fmt.Sprintf("%d runs taken, %d were there already", len(m.Taken), len(m.Present))}
	for _, kind := range []struct {
		says string
		runs []string
	}{
		{"there with other numbers from another backend, and kept", m.Differ},
		{"in conflict: there with other numbers from the same backend, and kept", m.Conflicts},
		{"left out, since another process works on them", m.Busy},
		{"left out, since they are damaged", m.Unusable},
	} {
		if len(kind.runs) > 0 {
			lines = append(lines, fmt.Sprintf("%d %s: %s", len(kind.runs), kind.says, strings.Join(kind.runs, ", ")))
		}
	}
	return strings.Join(lines, "\n")
}
