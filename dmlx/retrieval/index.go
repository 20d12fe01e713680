//go:build !js

// A page has no galleries.

package retrieval

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/gonum"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// Index is a gallery that answers queries with its nearest rows, exactly: each query is compared with all rows.
// Several goroutines may search an Index.
type Index struct {
	dim  int
	rows []float32 // [N, dim], of length 1.
}

// NewIndex returns an index of embeddings in memory. It fails if a value is not finite.
func NewIndex(e *Embeddings) (*Index, error) {
	rows, err := units(e.Values, e.Dim)
	return &Index{dim: e.Dim, rows: rows}, err
}

// Len is the number of rows, and Dim their dimension.
func (x *Index) Len() int { return len(x.rows) / x.dim }
func (x *Index) Dim() int { return x.dim }

// units returns rows of a dimension divided by their lengths; a row of zeros stays as it is. It fails if a value is not
// finite.
func units(values []float32, dim int) ([]float32, error) {
	if dim < 1 || len(values) == 0 || len(values)%dim != 0 {
		return nil, fmt.Errorf("retrieval: %d values: want rows of dimension %d", len(values), dim)
	}
	if err := errs.Finite("retrieval: ", values, dim); err != nil {
		return nil, err
	}
	e, out := &Embeddings{Values: values, Dim: dim}, make([]float32, len(values))
	inParallel(len(values)/dim, 256, func(i int) { unitRow(e, i, out[i*dim:(i+1)*dim]) })
	return out, nil
}

// Search returns the k nearest rows of each query [n, Dim], or all rows if there are fewer, by cosine similarity, the
// nearest first, and of equal ones the lowest index. It needs no backend, and 4 bytes a row beside the rows; thousands
// of queries are quicker by [Nearest], on one.
func (x *Index) Search(ctx context.Context, queries []float32, k int) ([][]Neighbor, error) {
	if k < 1 {
		return nil, errs.Invalid(fmt.Errorf("%d neighbors: want at least 1", k))
	}
	queries, err := units(queries, x.dim)
	if err != nil {
		return nil, err
	}
	m := x.Len()
	k = min(k, m)
	found, scores := make([][]Neighbor, len(queries)/x.dim), make([]float32, m)
	const rows = 4096
	for i := range found {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		unit := queries[i*x.dim : (i+1)*x.dim]
		inParallel((m+rows-1)/rows, 1, func(part int) {
			for j := part * rows; j < min((part+1)*rows, m); j++ { // Not Sgemv, which may round equal rows differently.
				scores[j] = gonum.Implementation{}.Sdot(x.dim, unit, 1, x.rows[j*x.dim:], 1)
			}
		})
		found[i] = make([]Neighbor, 0, k)
		for j, s := range scores {
			if nearer(found[i], s, k) {
				found[i] = insert(found[i], Neighbor{j, s}, k)
			}
		}
	}
	return found, nil
}
