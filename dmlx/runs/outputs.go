package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/npy"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Metrics reads a run's epochs: none of a run that has not finished one, or that is not in the store.
func (s *Store) Metrics(hash string) ([]train.Epoch, error) {
	if err := durable.NoLink(s.Dir, filepath.Join(hash, train.MetricsFile)); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(s.Path(hash), train.MetricsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var out []train.Epoch
	for line := range strings.Lines(string(raw)) {
		var e train.Epoch
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("run %s: %s, line %d: %w", hash, train.MetricsFile, len(out)+1, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// Embeddings reads a finished run's embeddings of the test set, of length 1, and those of the gallery, nil if the test set
// is ranked against itself.
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
			return nil, fmt.Errorf("run %s: %s of shape %v does not fit %d labels", hash, embeddings, shape, len(classes))
		}
		return &retrieval.Embeddings{Values: values, Dim: shape[1], Labels: classes}, nil
	}
	if test, err = read(train.EmbeddingsFile, train.LabelsFile); err != nil {
		return nil, nil, err
	}
	if test == nil {
		return nil, nil, fmt.Errorf("run %s has no embeddings: %s", hash, r.Diverged)
	}
	gallery, err = read(train.GalleryEmbeddingsFile, train.GalleryLabelsFile)
	return test, gallery, err
}

// Triplets reads S_ap and S_an of all valid triplets of a finished run's last five epochs, in the order of training:
// of the files that its result rests on. There are none of a run that is not finished.
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
