package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Metrics returns the metrics of the completed epochs of a run. There are none if the run is not in the store.
func (s *Store) Metrics(hash string) ([]train.Epoch, error) {
	raw, err := durable.ReadBelow(s.Dir, filepath.Join(hash, train.MetricsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	out, err := durable.ParseLines[train.Epoch](raw)
	if err != nil {
		return nil, fmt.Errorf("run %s: %s, %w", hash, train.MetricsFile, err)
	}
	return out, nil
}

// Embeddings returns the unit-length embeddings of the test set of a finished run, and those of the gallery. The
// gallery is nil if the test set is ranked against itself.
func (s *Store) Embeddings(hash string) (test, gallery *retrieval.Embeddings, err error) {
	r, err := s.Get(hash)
	if err != nil {
		return nil, nil, err
	}
	read := func(embeddings, labels string) (*retrieval.Embeddings, error) {
		if r.Files[embeddings] == "" {
			return nil, nil
		}
		values, shape, err := npy.ReadFloat32(filepath.Join(s.Path(hash), embeddings))
		if err != nil {
			return nil, err
		}
		classes, _, err := npy.ReadInt64(filepath.Join(s.Path(hash), labels))
		if err != nil {
			return nil, err
		}
		if len(shape) != 2 || shape[0] != len(classes) {
			return nil, fmt.Errorf("run %s: %s has the shape %v, but there are %d labels", hash, embeddings, shape, len(classes))
		}
		if err := errs.Finite(fmt.Sprintf("run %s: %s: ", hash, embeddings), values, shape[1]); err != nil {
			return nil, err
		}
		return &retrieval.Embeddings{Values: values, Dim: shape[1], Labels: classes}, nil
	}
	if test, err = read(train.EmbeddingsFile, train.LabelsFile); err != nil {
		return nil, nil, err
	}
	if test == nil {
		return nil, nil, fmt.Errorf("run %s has no embeddings: %s", hash, cmp.Or(r.Diverged, "its result lists none"))
	}
	gallery, err = read(train.GalleryEmbeddingsFile, train.GalleryLabelsFile)
	return test, gallery, err
}

// Triplets returns S_ap [n] and S_an [n] of all valid triplets in the last five epochs of a finished run, in the order
// of training. There are none if the run is unfinished.
func (s *Store) Triplets(hash string) (sap, san []float32, err error) {
	r, err := s.read(hash)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("run %s: %w", hash, err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if filepath.Dir(name) != train.TripletsDir {
			continue
		}
		pairs, _, err := npy.ReadFloat32(filepath.Join(s.Path(hash), name))
		if err != nil {
			return nil, nil, err
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			sap, san = append(sap, pairs[i]), append(san, pairs[i+1])
		}
	}
	return sap, san, nil
}
