package runs

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// DefaultMaxBytes is the default limit of [Store.Import]: 256 GiB, enough for a thousand runs with the checkpoints of a
// ResNet-50.
const DefaultMaxBytes = 256 << 30

// ImportOptions limit an import.
type ImportOptions struct {
	// MaxBytes limits the disk space of the unpacked files; 0 is [DefaultMaxBytes]. Each file counts as whole blocks of
	// 4096 bytes, and at least one. An archive whose manifest lists more is rejected before anything is unpacked, because
	// a small file can be a large archive compressed.
	MaxBytes int64
}

// Import copies the runs of an archive that the store does not have. It unpacks and verifies the whole archive in a
// temporary folder first. An archive that is damaged or too large therefore changes nothing, and neither does a context
// that is done before that. Import overwrites no run. An unfinished run that is replaced by a finished one is kept
// under another name.
func (s *Store) Import(ctx context.Context, r io.Reader, o ImportOptions) (*Transfer, error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, locksDir), 0o777); err != nil {
		return nil, fmt.Errorf("the run store cannot be written: %w", err)
	}
	s.removeLeftovers()
	dir, remove, err := s.workFolder()
	if err != nil {
		return nil, fmt.Errorf("the run store cannot be written: %w", err)
	}
	defer remove()
	index, err := unpack(ctx, dir, r, cmp.Or(o.MaxBytes, DefaultMaxBytes))
	if ctx.Err() != nil {
		err = ctx.Err() // Not a fault of the archive.
	}
	if err != nil {
		return nil, fmt.Errorf("nothing was imported: %w", err)
	}
	from := &Store{Dir: dir}
	for _, run := range index.Runs {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("nothing was imported: %w", err)
		}
		if err := from.verify(run.Hash); err != nil {
			return nil, fmt.Errorf("nothing was imported: run %s of the archive %w", run.Hash, err)
		}
	}
	var transfer Transfer
	for _, run := range index.Runs {
		if err := s.take(from, run.Hash, &transfer); err != nil {
			return &transfer, err
		}
	}
	return &transfer, nil
}

const (
	importPrefix  = ".import-"
	putPrefix     = ".put-"
	removedSuffix = ".removed" // Follows the hash of a run that is being removed.
	heldFile      = ".held"    // In the folder of an import; locked while the import runs.
)

// workFolder creates a temporary folder for an import inside the store, and locks it. The system releases the lock when
// the process ends.
func (s *Store) workFolder() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp(s.Dir, importPrefix); err != nil {
		return "", nil, err
	}
	held := filepath.Join(dir, heldFile)
	l := flock.New(held + ".new") // Renamed once it is locked, so that the file under its name is always locked.
	remove = func() {
		removeWorkFolder(dir)
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

// removeWorkFolder removes the folder of an import, its lock last: if this process is killed, what it leaves is found
// by the lock. Leftovers do no harm.
func removeWorkFolder(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != heldFile {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.RemoveAll(dir)
}

// removeLeftovers removes what killed processes have left of an import, a merge, a [Store.Put] or a [Store.Remove].
// Folders without a lock are removed after a day, because they may be in use until then.
func (s *Store) removeLeftovers() {
	entries, _ := os.ReadDir(s.Dir)
	for _, e := range entries {
		if !e.IsDir() { // Symbolic links are not followed.
			continue
		}
		path := filepath.Join(s.Dir, e.Name())
		hash, removed := strings.CutSuffix(e.Name(), removedSuffix)
		imported := strings.HasPrefix(e.Name(), importPrefix)
		l := flock.New(filepath.Join(path, heldFile), flock.SetFlag(os.O_RDWR))
		switch {
		case removed && runName.MatchString(hash):
			if unlock, free, err := s.tryLock(hash); err == nil && free {
				_ = os.RemoveAll(path) // Leftovers do no harm, here and below.
				unlock()
			}
		case !imported && !strings.HasPrefix(e.Name(), putPrefix):
		case imported && durable.NoLink(path, heldFile) == nil && exists(filepath.Join(path, heldFile)):
			if free, err := l.TryLock(); err == nil && free {
				removeWorkFolder(path)
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

// Merge copies the runs of another store that this one does not have, as [Store.Export] and [Store.Import] do.
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
		m, err := other.export(w, nil, checkpoints, other.asStored)
		_ = w.CloseWithError(err) // Never fails.
		exported <- outcome{m, err}
	}()
	// No limit, because the source is a store and not a file of unknown origin.
	transfer, err := s.Import(ctx, r, ImportOptions{MaxBytes: math.MaxInt64})
	_ = r.CloseWithError(err)
	out := <-exported
	if out.error != nil && !errors.Is(out.error, err) { // The export failed first.
		return transfer, out.error
	}
	if out.error == nil && transfer != nil {
		transfer.Busy = append(transfer.Busy, out.Busy...)
		transfer.Unusable = append(transfer.Unusable, out.Unusable...)
	}
	return transfer, err
}

func sameFolder(a, b string) (bool, error) {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	return os.SameFile(x, y), nil
}

// withContext is a reader that ends when its context does, and until then reads a little at a time.
type withContext struct {
	io.Reader
	ctx context.Context
}

func (r withContext) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p[:min(len(p), 1<<16)])
}

// unpack reads an archive into an empty folder: exactly the files in its manifest, if they take at most limit bytes.
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
	if err := index.checkSize(limit); err != nil {
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
			return nil, fmt.Errorf("the archive is damaged: %q does not agree with the manifest", h.Name)
		}
		delete(due, h.Name)
		if err := unpackFile(ctx, root, h.Name, t, f); err != nil {
			return nil, err
		}
	}
	switch n, err := io.CopyN(io.Discard, r, maxTrailer+1); { // Read to the end, where gzip has its checksum.
	case err == nil:
		return nil, fmt.Errorf("the archive is damaged: more than %d bytes follow its end", n-1)
	case err != io.EOF:
		return nil, fmt.Errorf("the archive is damaged: %w", err)
	}
	if len(due) > 0 {
		return nil, fmt.Errorf("the archive is damaged: it lacks %d files of its manifest, among them %s", len(due),
			slices.Min(slices.Collect(maps.Keys(due))))
	}
	return index, nil
}

// checkSize returns an error if the files of the manifest take more than limit bytes; see [ImportOptions].
func (x *archiveIndex) checkSize(limit int64) error {
	const block = 4096
	left := limit
	for _, run := range x.Runs {
		for _, f := range run.Files {
			if left < block || f.Size > left/block*block {
				return fmt.Errorf("the files of the archive take more than the allowed %d bytes: "+
					"check its origin, or raise the limit", limit)
			}
			left -= max((f.Size-1)/block+1, 1) * block
		}
	}
	return nil
}

// readIndex reads and verifies the manifest of an archive.
func readIndex(ctx context.Context, t *tar.Reader) (*archiveIndex, error) {
	h, err := t.Next()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the file is not an archive of runs, or it is damaged: %w", err)
	case h.Name != archiveManifest || h.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("the file is not an archive of runs: its first file is not %s", archiveManifest)
	case h.Size > durable.MaxText:
		return nil, fmt.Errorf("%s of the archive has %d bytes: want at most %d", archiveManifest, h.Size, durable.MaxText)
	}
	raw := make([]byte, h.Size)
	if _, err := io.ReadFull(t, raw); err != nil {
		return nil, fmt.Errorf("the archive is damaged: %s: %w", archiveManifest, err)
	}
	var index archiveIndex
	if err := durable.ParseJSON(raw, &index); err != nil {
		return nil, fmt.Errorf("the archive is damaged: %s: %w", archiveManifest, err)
	}
	if index.Format != archiveFormat {
		return nil, fmt.Errorf("the archive has format %d, but this program reads format %d", index.Format, archiveFormat)
	}
	if index.Sum != index.sum() {
		return nil, fmt.Errorf("the archive is damaged: wrong checksum of %s", archiveManifest)
	}
	seen := make(map[string]bool)
	for _, run := range index.Runs {
		if !runName.MatchString(run.Hash) || seen[run.Hash] {
			return nil, fmt.Errorf("the manifest of the archive lists the run %q twice, or it is not a hash", run.Hash)
		}
		seen[run.Hash] = true
		names := make(map[string]bool)
		for _, f := range run.Files {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if strings.Contains(f.Name, ".json") && f.Size > durable.MaxText || f.Size > durable.MaxFile {
				return nil, fmt.Errorf("the archive has %s of run %s with %d bytes: want at most %d of a JSON file, %d of others",
					f.Name, run.Hash, f.Size, durable.MaxText, durable.MaxFile)
			}
			if !archivable.MatchString(f.Name) || f.Size < 0 || names[f.Name] {
				return nil, fmt.Errorf("the manifest of the archive lists %q for run %s twice, or it is not an output file",
					f.Name, run.Hash)
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
		return fmt.Errorf("the archive is damaged: wrong checksum of %s", name)
	}
	return nil
}

// readError remembers the error of the reader, to tell it from one of the writer.
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

// verify returns an error if the spec of an unpacked run does not have its hash, or its result or checkpoint is
// damaged.
func (s *Store) verify(hash string) error {
	if _, err := checkDirectory(s.Path(hash), hash); err != nil {
		return err
	}
	r, err := s.read(hash)
	switch {
	case err == nil && r.Spec.Hash() != hash:
		return fmt.Errorf("contains a result whose spec has the hash %s", r.Spec.Hash())
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return s.verifyCheckpoint(hash)
}

// verifyCheckpoint returns an error if a run has no checkpoint, or a damaged one.
func (s *Store) verifyCheckpoint(hash string) error {
	c, err := train.ReadCheckpoint(s.Path(hash))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("contains neither a result nor a checkpoint")
	case err != nil:
		return err
	case c.Run != hash:
		return fmt.Errorf("contains a checkpoint of run %s", c.Run)
	}
	for _, f := range c.Files() {
		sum, err := durable.FileSum(filepath.Join(s.Path(hash), train.CheckpointDir, f.Name))
		if err != nil || sum != f.Sum {
			return fmt.Errorf("contains a damaged checkpoint: %s is missing or has a wrong checksum", f.Name)
		}
	}
	if err := c.CheckTriplets(s.Path(hash)); err != nil {
		return fmt.Errorf("contains a checkpoint that %w", err)
	}
	return nil
}

// take moves a verified run into the store, if it does not have the run yet.
func (s *Store) take(from *Store, hash string, transfer *Transfer) error {
	unlock, free, err := s.tryLock(hash)
	if err != nil {
		return err
	} else if !free {
		transfer.Busy = append(transfer.Busy, hash)
		return nil
	}
	defer unlock()
	imported, _ := from.read(hash) // nil if it is unfinished.
	present, err := s.read(hash)
	var bad *unusable
	switch {
	case err == nil:
		switch {
		case imported == nil:
			transfer.Present = append(transfer.Present, hash)
		case sameNumbers(present, imported):
			transfer.Present = append(transfer.Present, hash)
			return s.addMissing(from, hash, present.is(imported))
		case present.Backend != imported.Backend:
			transfer.Differ = append(transfer.Differ, hash)
		default:
			transfer.Conflicts = append(transfer.Conflicts, hash)
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
		if imported == nil && epochsDone(from.Path(hash)) <= epochsDone(s.Path(hash)) {
			transfer.Present = append(transfer.Present, hash)
			return nil
		}
		if _, err := durable.MoveAside(s.Path(hash), "unfinished"); err != nil {
			return fmt.Errorf("the run store cannot be written: %w", err)
		}
	}
	if err := os.Rename(from.Path(hash), s.Path(hash)); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	transfer.Taken = append(transfer.Taken, hash)
	return nil
}

// epochsDone returns the epoch of the checkpoint in the directory of a run, or 0 without a usable checkpoint.
func epochsDone(dir string) int {
	c, err := train.ReadCheckpoint(dir)
	if err != nil {
		return 0
	}
	return c.Epoch
}

// addMissing adds to a finished run the checkpoint of another store, if it has none. If both results are the same one,
// it also adds missing histograms.
func (s *Store) addMissing(from *Store, hash string, same bool) error {
	add := func(name, by string) error {
		if _, err := os.Lstat(filepath.Join(s.Path(hash), by)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := os.Lstat(filepath.Join(from.Path(hash), by)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		_ = os.Remove(filepath.Join(s.Path(hash), name)) // An empty folder.
		if err := os.Rename(filepath.Join(from.Path(hash), name), filepath.Join(s.Path(hash), name)); err != nil {
			return fmt.Errorf("the run store cannot be written: %w", err)
		}
		return nil
	}
	if from.verifyCheckpoint(hash) == nil {
		if err := add(train.CheckpointDir, filepath.Join(train.CheckpointDir, train.CheckpointFile)); err != nil {
			return err
		}
	}
	if same { // Histograms belong to one result.
		return add(histogramsFile, histogramsFile)
	}
	return nil
}

// sameNumbers reports whether two results of a run have the same measures and output files.
func sameNumbers(a, b *Result) bool {
	bare := func(r Result) Result {
		return Result{DataDigest: r.DataDigest, Measures: r.Measures, Files: r.Files}
	}
	return reflect.DeepEqual(bare(*a), bare(*b))
}
