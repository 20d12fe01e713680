package runs

import (
	"archive/tar"
	"bytes"
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
	"reflect"
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
	sum, _ := durable.SumOf(x) // Never fails for strings and integers.
	return sum
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
// all runs. Taken of the returned Transfer lists the runs in the archive. Specs are [Spec.Portable] in it.
func (s *Store) Export(w io.Writer, hashes []string, checkpoints bool) (*Transfer, error) {
	return s.export(w, hashes, checkpoints, s.portable)
}

// export is [Store.Export] of files as open gives them with their sizes.
func (s *Store) export(w io.Writer, hashes []string, checkpoints bool,
	open func(hash, name string) (io.ReadCloser, int64, error)) (*Transfer, error) {
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
		run, err := describe(hash, names, open)
		if err != nil {
			transfer.Unusable = append(transfer.Unusable, fmt.Sprintf("%s: %v", hash, err))
			continue
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
			h := &tar.Header{Name: path.Join(run.Hash, f.Name), Size: f.Size, Mode: 0o644}
			if err := t.WriteHeader(h); err != nil {
				return nil, err
			}
			// Fails if the size of the file has changed.
			if _, err := copyFile(t, open, run.Hash, filepath.FromSlash(f.Name)); err != nil {
				return nil, err
			}
		}
	}
	return &transfer, t.Close()
}

// describe lists files of a run as open gives them.
func describe(hash string, names []string, open func(hash, name string) (io.ReadCloser, int64, error)) (archivedRun,
	error) {
	run := archivedRun{Hash: hash}
	for _, name := range names {
		sum := sha256.New()
		size, err := copyFile(sum, open, hash, name)
		if err != nil {
			return run, err
		}
		run.Files = append(run.Files, archivedFile{filepath.ToSlash(name), size, hex.EncodeToString(sum.Sum(nil))})
	}
	return run, nil
}

func copyFile(w io.Writer, open func(hash, name string) (io.ReadCloser, int64, error), hash, name string) (int64,
	error) {
	f, size, err := open(hash, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if n, err := io.Copy(w, f); err != nil || n == size {
		return n, err
	}
	return 0, fmt.Errorf("%s of run %s changes while it is read", name, hash)
}

// asStored opens a file of a run.
func (s *Store) asStored(hash, name string) (io.ReadCloser, int64, error) {
	f, err := durable.Open(filepath.Join(s.Path(hash), name))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// portable opens a file of a run with its spec as [Spec.Portable]. Files without a folder stay as they are, to the bit.
func (s *Store) portable(hash, name string) (io.ReadCloser, int64, error) {
	var of func(raw []byte) (Spec, any, error)
	switch name {
	case specFile:
		of = func(raw []byte) (spec Spec, out any, err error) {
			err = durable.ParseJSON(raw, &spec)
			return spec, spec.Portable(), err
		}
	case resultFile:
		of = func(raw []byte) (Spec, any, error) {
			r, err := parseResult(raw, hash)
			if err != nil {
				return Spec{}, nil, err
			}
			out, err := r.portable()
			return r.Spec, out, err
		}
	case histogramsFile:
		of = func(raw []byte) (Spec, any, error) {
			p, err := parseHistograms(raw)
			if err != nil {
				return Spec{}, nil, err
			}
			spec := p.Result.Spec
			if p.Result, err = p.Result.portable(); err == nil {
				err = p.seal()
			}
			return spec, p, err
		}
	default:
		return s.asStored(hash, name)
	}
	raw, err := durable.ReadAtMost(filepath.Join(s.Path(hash), name), durable.MaxText)
	if err != nil {
		return nil, 0, err
	}
	spec, out, err := of(raw)
	if err == nil && !reflect.DeepEqual(spec, spec.Portable()) {
		if raw, err = json.MarshalIndent(out, "", "  "); err == nil {
			raw = append(raw, '\n')
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s of run %s: %w", name, hash, err)
	}
	return io.NopCloser(bytes.NewReader(raw)), int64(len(raw)), nil
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
		if raw, err := durable.ReadAtMost(filepath.Join(dir, histogramsFile), durable.MaxText); err == nil {
			if _, err := parseHistograms(raw); err == nil { // Others are computed anew.
				names = append(names, histogramsFile)
			}
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
