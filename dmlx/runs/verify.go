package runs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// ErrBusy means that another process works on a run.
var ErrBusy = errors.New("another process works on the run")

// Verify returns an error that says what is wrong with the directory of a run, whoever wrote it or copied it into the
// store: a link or a special file, a file that is too large, a spec that does not have the hash of the directory's
// name, a checksum of the result, its files, the checkpoint or the histograms that does not fit, or measures and
// embeddings that no run has. Checksums show damage, not forgery: anyone can compute them. It changes nothing, and
// returns [ErrBusy] while another process works on the run.
func (s *Store) Verify(hash string) error {
	unlock, free, err := s.tryLock(hash)
	if err == nil && !free {
		return ErrBusy
	} else if err == nil { // A store that may only be read has no locks.
		defer unlock()
	}
	dir := s.Path(hash)
	if err := verifyFiles(dir); err != nil {
		return err
	}
	spec, err := checkDirectory(dir, hash)
	if err != nil {
		return err
	}
	if spec.Data == "" {
		return fmt.Errorf("contains no %s", specFile)
	}
	r, err := s.read(hash)
	if errors.Is(err, fs.ErrNotExist) { // Unfinished.
		return s.verifyCheckpoint(hash)
	} else if err != nil {
		return err
	}
	if r.Spec.Hash() != hash {
		return fmt.Errorf("contains a %s whose spec has the hash %s", resultFile, r.Spec.Hash())
	}
	if err := verifyMeasures(r); err != nil {
		return fmt.Errorf("%s %w", resultFile, err)
	}
	if r.Recall != nil {
		if _, _, err := s.Embeddings(hash); err != nil {
			return err
		}
	}
	raw, err := durable.ReadAtMost(filepath.Join(dir, histogramsFile), durable.MaxText)
	if err == nil {
		_, err = parseHistograms(raw)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %w", histogramsFile, err)
	}
	return s.verifyCheckpoint(hash)
}

// maxRun is the largest size of the directory of a run in bytes, far beyond any with a large network's weights. Sparse
// files take no disk, but would take hours to read.
const maxRun = 64 << 30

// verifyFiles returns an error if a directory has a file that is not a run's, or files of more than [maxRun] bytes.
func verifyFiles(dir string) error {
	files, err := listFiles(dir)
	if err != nil {
		return err
	}
	size := int64(0)
	for name := range files {
		_, killed := durable.Temporary(path.Base(name)) // A killed process has left it; nobody reads it.
		if !outputFile.MatchString(name) && !killed {
			return fmt.Errorf("contains %q, which is not a file of a run: remove it", name)
		}
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if size += info.Size(); info.Size() > maxRun || size > maxRun {
			return fmt.Errorf("has more than %d bytes: no run has", maxRun)
		}
	}
	return nil
}

// verifyMeasures returns an error if a measure is not a fraction. JSON has no NaN.
func verifyMeasures(r *Result) error {
	measures := map[string]float64{"MAP@R": r.MAPAtR, "R-precision": r.RPrecision, "overlap": r.Overlap,
		"compact": r.Compact}
	for k, v := range r.Recall {
		measures[fmt.Sprintf("Recall@%d", k)] = v
	}
	for k, v := range r.HeldOutRecall {
		measures[fmt.Sprintf("Recall@%d of held-out classes", k)] = v
	}
	for name, v := range measures {
		if v < 0 || v > 1+1e-9 {
			return fmt.Errorf("has a %s of %g: want a fraction from 0 to 1", name, v)
		}
	}
	return nil
}

// verifyCheckpoint returns an error if a run has a damaged checkpoint. A run that was stopped in its first epoch has
// none, and neither has one that was copied without its weights, which its result does not need.
func (s *Store) verifyCheckpoint(hash string) error {
	c, err := train.ReadCheckpoint(s.Path(hash))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
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
