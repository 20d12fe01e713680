//go:build !js

// A page has no galleries.

package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
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

// fewQueries are searched without a backend, which is quicker for them.
const fewQueries = 16

// Search returns the k nearest rows of each query [n, Dim], or all rows if there are fewer, by cosine similarity, the
// nearest first, and of equal ones the lowest index. Many queries are compared on the backend b, if it is not nil: of
// rows whose similarities differ by no more than rounding, another may then be the last. Memory beside the rows is
// bounded by some 50 MB, and by 4 bytes a row.
func (x *Index) Search(ctx context.Context, b compute.Backend, queries []float32, k int) (_ [][]Neighbor, err error) {
	defer errs.Catch(&err)
	if k < 1 {
		return nil, errs.Invalid(fmt.Errorf("%d neighbors: want at least 1", k))
	}
	queries, err = units(queries, x.dim)
	if err != nil {
		return nil, err
	}
	n, m := len(queries)/x.dim, x.Len()
	k = min(k, m)
	found := make([][]Neighbor, n)
	if b != nil && n >= fewQueries {
		return found, x.searchOn(ctx, b, queries, k, found)
	}
	scores := make([]float32, m)
	const rows = 4096
	for i := range found {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		inParallel((m+rows-1)/rows, 1, func(part int) {
			x.similarities(queries[i*x.dim:], part*rows, scores[part*rows:min((part+1)*rows, m)])
		})
		found[i] = see(make([]Neighbor, 0, k), scores, 0, k)
	}
	return found, nil
}

// similarities are those of a unit vector to the rows from one on.
func (x *Index) similarities(unit []float32, from int, to []float32) {
	for j := range to { // Not Sgemv, which may round equal rows differently.
		to[j] = gonum.Implementation{}.Sdot(x.dim, unit, 1, x.rows[(from+j)*x.dim:], 1)
	}
}

// searchOn compares blocks of queries with blocks of rows on a backend, the rows in the outer loop.
func (x *Index) searchOn(ctx context.Context, b compute.Backend, units []float32, k int, found [][]Neighbor) error {
	n, m := len(found), x.Len()
	height := min(n, 256)
	width := min(m, max(1, blockSize/4/height)) // Larger blocks take more time and memory.
	p, err := newProduct(b, 1)
	if err != nil {
		return err
	}
	defer p.exec.Finalize()
	block := func(values []float32, rows int) *tensors.Tensor { // Filled up with zeros.
		t := tensors.FromShape(shapes.Make(dtypes.Float32, rows, x.dim))
		tensors.MustMutableFlatData(t, func(to []float32) { clear(to[copy(to, values):]) })
		return t
	}
	for from := 0; from < m; from += width {
		to := min(from+width, m)
		gallery := block(x.rows[from*x.dim:to*x.dim], width)
		err := p.each(ctx, (n+height-1)/height, func(part, device int) (*tensors.Tensor, error) {
			q := block(units[part*height*x.dim:min((part+1)*height, n)*x.dim], height)
			s, err := p.of(device, q, gallery)
			return s, errors.Join(err, q.FinalizeAll())
		}, func(part int, values []float32) {
			first := part * height
			inParallel(min(height, n-first), 8, func(i int) {
				found[first+i] = see(found[first+i], values[i*width:i*width+to-from], from, k)
			})
		})
		if err := errors.Join(err, gallery.FinalizeAll()); err != nil {
			return err
		}
	}
	inParallel(n, 8, func(i int) { // A block may round the same product differently in other columns.
		for j, n := range found[i] {
			one := make([]float32, 1)
			x.similarities(units[i*x.dim:], n.Index, one)
			found[i][j].Similarity = one[0]
		}
		slices.SortFunc(found[i], func(a, b Neighbor) int {
			return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), a.Index-b.Index)
		})
	})
	return nil
}

// see keeps the k nearest of those that are there and of rows from one on, with these similarities.
func see(nearest []Neighbor, similarities []float32, from, k int) []Neighbor {
	for j, s := range similarities {
		if nearer(nearest, s, k) {
			nearest = insert(nearest, Neighbor{from + j, s}, k)
		}
	}
	return nearest
}
