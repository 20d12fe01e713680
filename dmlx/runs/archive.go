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

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// An archive of runs is a tar file, which may be compressed with gzip. Its first file, manifest.json, lists the files
// of each run with their sizes and checksums. The files follow, those of a run in a folder named by its hash.
const (
	archiveManifest = "manifest.json"
	archiveFormat   = 1
	// maxTrailer limits the bytes after the end of the archive: tar fills up its last block.
	maxTrailer = 1 << 20
)

type archiveIndex struct {
	Format int           `json:"format"`
	Runs   []archivedRun `json:"runs"`
	Sum    string        `json:"sum"` // SHA-256 of the fields above.
}

type archivedRun struct {
	Hash  string         `json:"run"`
	Files []archivedFile `json:"files"`
}

type archivedFile struct {
	Name string `json:"name"` // Relative to the directory of the run, with slashes.
	Size int64  `json:"size"`
	Sum  string `json:"sum"` // SHA-256.
}

func (x archiveIndex) sum() string {
	x.Sum = ""
	raw, _ := json.Marshal(x) // Never fails for strings and integers.
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:])
}

// archivable matches the output files of a run that an archive may contain.
var archivable = regexp.MustCompile(`^(spec\.json|metrics\.jsonl|result\.json|histograms\.json|` +
	`(gallery_)?(embeddings|labels)\.npy|triplets/epoch-[0-9]+\.npy|` +
	`checkpoint/(state\.json|(weights|state)-[0-9]+\.safetensors))$`)

// Transfer lists what happened to each run that was to be copied from one store to another, by hash.
type Transfer struct {
	// Taken were copied.
	Taken []string `json:"taken"`
	// Present were in the destination with the same numbers, or at the same epoch or a later one. If they lacked a
	// checkpoint or histograms, these were added.
	Present []string `json:"had"`
	// Differ were in the destination with other numbers from another backend, which rounding explains. They were kept.
	Differ []string `json:"differ"`
	// Conflicts were in the destination with other numbers from the same backend: another kind of processor, or a build
	// without SIMD, may have computed them. They were kept.
	Conflicts []string `json:"conflicts"`
	Busy      []string `json:"busy"`     // Not copied, because another process works on them.
	Unusable  []string `json:"unusable"` // Damaged in the source, with the reason.
}

// Export writes an archive of runs: finished runs with the files their results depend on, and their histograms. With
// checkpoints it adds the last weights, and exports unfinished runs at their last checkpoint. Without hashes it exports
// all runs. Taken of the returned Transfer lists the runs in the archive.
func (s *Store) Export(w io.Writer, hashes []string, checkpoints bool) (*Transfer, error) {
	var transfer Transfer
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
				// A read-only store has no locks. If a file changes meanwhile, the import finds a wrong checksum.
			case err != nil:
				return nil, err
			case !free:
				transfer.Busy = append(transfer.Busy, hash)
				continue
			default:
				defer unlock() // Held until the archive is written, because the files of an unfinished run may change.
			}
		}
		names, err := s.filesOf(hash, checkpoints)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if !all {
				if bundled, err := Bundled(); err == nil && bundled[hash] != nil {
					return nil, fmt.Errorf("run %s is only a result bundled with the program: its files are not in %s",
						hash, s.Dir)
				}
				return nil, fmt.Errorf("run %s is not finished in %s", hash, s.Dir)
			}
			continue
		case err != nil:
			transfer.Unusable = append(transfer.Unusable, fmt.Sprintf("%s: %v", hash, err))
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
		transfer.Taken = append(transfer.Taken, hash)
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
			from := filepath.Join(s.Path(run.Hash), filepath.FromSlash(f.Name))
			if err := addFile(t, from, path.Join(run.Hash, f.Name), f.Size); err != nil {
				return nil, err
			}
		}
	}
	return &transfer, t.Close()
}

func addFile(t *tar.Writer, from, name string, size int64) error {
	f, err := durable.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	_, err = io.Copy(t, f) // Fails if the size of the file has changed.
	return err
}

// filesOf lists the files of a run that an archive contains. The error is fs.ErrNotExist if there is nothing to export.
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
		if err := s.verifyCheckpoint(hash); err != nil { // Otherwise the import would reject the whole archive.
			return nil, err
		}
	}
	if checkpoints && s.verifyCheckpoint(hash) == nil {
		names = append(names, filepath.Join(train.CheckpointDir, train.CheckpointFile))
		for _, f := range c.Files() {
			names = append(names, filepath.Join(train.CheckpointDir, f.Name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// String returns a line for each kind of outcome. It names the runs that need attention.
func (t *Transfer) String() string {
	lines := []string{fmt.Sprintf("%d runs taken, %d were there already", len(t.Taken), len(t.Present))}
	for _, kind := range []struct {
		says string
		runs []string
	}{
		{"there with other numbers from another backend, and kept", t.Differ},
		{"in conflict: there with other numbers from the same backend, and kept", t.Conflicts},
		{"left out, since another process works on them", t.Busy},
		{"left out, since they are damaged", t.Unusable},
	} {
		if len(kind.runs) > 0 {
			lines = append(lines, fmt.Sprintf("%d %s: %s", len(kind.runs), kind.says, strings.Join(kind.runs, ", ")))
		}
	}
	return strings.Join(lines, "\n")
}
