package heads

import (
	"context"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Reference is a test set by its features, without a head: what heads are held against.
type Reference struct {
	Name             string                // "features", or "whitened features".
	Queries, Gallery *retrieval.Embeddings // Gallery is nil where queries are ranked against each other.
}

// References returns the test set by its features as they are and, where classes have images that differ, whitened by
// the scatter within the training classes, W + 0.01 tr(W)/F I. Labels in without are no training classes.
func References(ctx context.Context, b compute.Backend, data *samples.Data, without map[int64]bool,
) (out []Reference, err error) {
	err = withRows(ctx, b, data.Train, without, func(a *algebra, rows featureRows) error {
		w := momentsOf(a, rows).start(a, headStart{Name: whitened, Shrinkage: 0.01 / 1.01}) // But for a factor.
		tried := starts[:1:1]
		if w.weight != nil {
			w.Name = "whitened features"
			tried = append(tried, w)
		}
		for _, start := range tried {
			r, err := start.testSet(a, data)
			if err != nil {
				return err
			}
			out = append(out, r)
		}
		return nil
	})
	return out, err
}

// testSet returns the test set behind a start.
func (s headStart) testSet(a *algebra, d *samples.Data) (r Reference, err error) {
	r.Name = s.Name
	if r.Queries, err = s.embeddings(a, d.Test); err == nil && d.Gallery != nil {
		r.Gallery, err = s.embeddings(a, d.Gallery)
	}
	return r, err
}

// embeddings returns the features of a split behind a start.
func (s headStart) embeddings(a *algebra, of samples.Split) (*retrieval.Embeddings, error) {
	rows, err := readFeatureRows(of, nil)
	if err != nil {
		return nil, err
	}
	z := s.apply(a, rows.matrix)
	return &retrieval.Embeddings{Values: z.values, Dim: z.cols, Labels: rows.labels}, err
}
