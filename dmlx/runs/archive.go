package runs

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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
	files, err := listFiles(dir)
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
		if err := s.verifyCheckpoint(hash); err != nil { // The other side would refuse all of the archive.
			return nil, err
		}
	}
	if checkpoints && s.verifyCheckpoint(hash) == nil {
		names = append(names, filepath.Join(train.CheckpointDir, train.CheckpointFile), filepath.Join(train.CheckpointDir, filepath.Base(c.Weights)))
	}
	slices.Sort(names)
	return names, nil
}

const (
	importPrefix  = ".import-"
	putPrefix     = ".put-"
	removedSuffix = ".removed" // After a run's hash.
	heldFile      = ".held"    // In a folder of an import: locked while it is under way.
)

func (s *Store) verifyCheckpoint(hash string) error {
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
