package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// Inspection is a finished run with its test images and their embeddings.
type Inspection struct {
	Result *Result
	Set    *datasets.Set
	// Queries are the embeddings of Set.Test and Gallery those of Set.Gallery, in the order of the images. Gallery is nil
	// if the test set has none; each image is then ranked against the other test images.
	Queries, Gallery *retrieval.Embeddings
}

// Inspect opens a finished run of the store with its test images. It returns an error, which says what to do, if the
// run is unfinished, has diverged, is only a bundled result, or if the images have changed since.
func (s *Store) Inspect(hash string) (*Inspection, error) {
	r, err := s.finished(hash)
	if err != nil {
		return nil, err
	}
	if r.Bundled {
		return nil, s.onlyBundled(r, "embeddings")
	}
	l := &Inspection{Result: r}
	if l.Queries, l.Gallery, err = s.Embeddings(hash); err != nil {
		return nil, err
	}
	_, gone := os.Stat(r.Spec.Data)
	if r.Spec.DataDigest != "" && !IsPublished(r.Spec.Data) && errors.Is(gone, fs.ErrNotExist) {
		return nil, fmt.Errorf("the images of run %s were in the folder %s, which does not exist: "+
			"restore it, or make it a link to the images", hash, r.Spec.Data)
	}
	if l.Set, err = OpenData(r.Spec, s.DataOptions); err != nil {
		return nil, fmt.Errorf("the images of run %s: %w", hash, err)
	}
	if l.Set.Digest != r.DataDigest {
		return nil, fmt.Errorf("the images of %s have changed since run %s (digest %.12s, then %.12s): restore them, "+
			"or remove the run (dmlx runs remove %s) and train it again", r.Spec.Data, hash, l.Set.Digest, r.DataDigest, hash)
	}
	for _, part := range []struct {
		name       string
		images     *datasets.Images
		embeddings *retrieval.Embeddings
	}{{"test", l.Set.Test, l.Queries}, {"gallery", l.Set.Gallery, l.Gallery}} {
		if (part.images == nil) != (part.embeddings == nil) ||
			part.images != nil && !slices.Equal(part.images.Labels, part.embeddings.Labels) {
			return nil, fmt.Errorf("run %s: the %s embeddings and the images of %s have different labels",
				hash, part.name, r.Spec.Data)
		}
	}
	return l, nil
}

// finished returns the result of a run that has embeddings, from the store or bundled.
func (s *Store) finished(hash string) (*Result, error) {
	if e := s.Entry(hash); e.Result == nil && e.Bad == "" {
		return nil, fmt.Errorf("run %s is not finished: %d of %d epochs are done; the command that began it continues it",
			hash, e.Epoch, e.Spec.Epochs)
	}
	r, err := s.Get(hash)
	if err != nil {
		if _, missing := os.Stat(s.Path(hash)); errors.Is(missing, fs.ErrNotExist) {
			return nil, fmt.Errorf("no run %s in %s", hash, s.Dir)
		}
		return nil, err
	}
	if r.Recall == nil {
		return nil, fmt.Errorf("run %s diverged (%s) and has no embeddings; try a lower learning rate than %g",
			hash, r.Diverged, r.Spec.LR)
	}
	return r, nil
}

func (s *Store) onlyBundled(r *Result, what string) error {
	return fmt.Errorf("run %s is only a result bundled with the program: its %s are not in %s; dmlx train makes them, "+
		"with the settings that dmlx runs show %[1]s prints", r.Hash, what, s.Dir)
}

// Items returns the images that queries are ranked against: the gallery, or the test set itself.
func (l *Inspection) Items() *datasets.Images {
	if l.Set.Gallery != nil {
		return l.Set.Gallery
	}
	return l.Set.Test
}

// Neighbors returns the k nearest items of each query, or all if there are fewer, and its hardest triplet; see
// [retrieval.Nearest].
func (l *Inspection) Neighbors(ctx context.Context, b compute.Backend, k int) ([]retrieval.Neighbors, error) {
	retrievable := l.Items().N
	if l.Gallery == nil {
		retrievable--
	}
	return retrieval.Nearest(ctx, b, l.Queries, l.Gallery, min(k, retrievable))
}

// Found reports whether the nearest item of a query is of its class, as Recall@1 counts. Among equally near items the
// lowest index is the nearest.
func Found(n retrieval.Neighbors) bool {
	switch p, q := n.Positive, n.Negative; {
	case p.Index < 0:
		return false
	case q.Index < 0:
		return true
	default:
		return p.Similarity > q.Similarity || p.Similarity == q.Similarity && p.Index < q.Index
	}
}

// Spread returns the indices of n queries at equal steps through the test set. With missed it picks only from queries
// that have an item of their class, but whose nearest item is of another class.
func Spread(found []retrieval.Neighbors, n int, missed bool) []int {
	var from []int
	for i, f := range found {
		if !missed || f.Positive.Index >= 0 && !Found(f) {
			from = append(from, i)
		}
	}
	n = max(0, min(n, len(from)))
	out := make([]int, n)
	for i := range out {
		out[i] = from[(2*i+1)*len(from)/(2*n)]
	}
	return out
}

// ClassName returns the name of a class of the test set.
func (l *Inspection) ClassName(label int64) string {
	if names := l.Set.Test.Names; label >= 0 && label < int64(len(names)) {
		return names[label]
	}
	return fmt.Sprintf("class %d", label)
}
