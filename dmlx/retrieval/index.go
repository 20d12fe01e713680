//go:build !js

// A page has no galleries, and no files to keep one in.

package retrieval

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// Index is a gallery that answers queries with its nearest rows, exactly: each query is compared with all rows. Rows
// are kept divided by their length, as float32 or float16, in memory or in a file that is mapped into it. An Index may
// be searched from several goroutines, but not while it is changed.
type Index struct {
	dim    int
	half   bool
	rows   []float32 // [N, dim], of length 1; none if half.
	halves []uint16  // [N, dim], the bits of float16, if half.
	labels []int64   // [N], or nil.
	unmap  func() error
}

// NewIndex returns an empty index of vectors of a dimension. If half, it keeps them as float16, in half of the memory:
// similarities are then to the rounded rows, which changes them by less than 0.0005, and may order rows otherwise that
// are as near to each other.
func NewIndex(dim int, half bool) (*Index, error) {
	if dim < 1 {
		return nil, errs.Invalid(fmt.Errorf("index of %d dimensions: want at least 1", dim))
	}
	return &Index{dim: dim, half: half}, nil
}

// Len is the number of rows, Dim their dimension, and Labels their labels, nil without any.
func (x *Index) Len() int        { return (len(x.rows) + len(x.halves)) / x.dim }
func (x *Index) Dim() int        { return x.dim }
func (x *Index) Labels() []int64 { return x.labels }

// Add adds rows behind those that are there. Either all rows of an index have labels or none has. It fails, and adds
// nothing, if a value is not finite.
func (x *Index) Add(e *Embeddings) error { return x.add(e, 0) }

// add adds rows of which some come before e, for errors.
func (x *Index) add(e *Embeddings, before int) error {
	n := len(e.Values) / x.dim
	switch {
	case e.Dim != x.dim || len(e.Values) != n*x.dim || n == 0:
		return fmt.Errorf("retrieval: %d values of dimension %d: want rows of dimension %d", len(e.Values), e.Dim, x.dim)
	case e.Labels != nil && len(e.Labels) != n:
		return fmt.Errorf("retrieval: %d labels: want %d, one for each row, or none", len(e.Labels), n)
	case x.Len() > 0 && (x.labels == nil) != (e.Labels == nil):
		return errors.New("retrieval: want labels for all rows of an index, or for none")
	}
	if err := errs.Finite("retrieval: ", e.Values, x.dim, before); err != nil {
		return err
	}
	from := x.Len() * x.dim
	x.labels = append(x.labels, e.Labels...)
	if !x.half {
		x.rows = append(x.rows, e.Values...)
		inParallel(n, 256, func(i int) { unitRow(e, i, x.rows[from+i*x.dim:from+(i+1)*x.dim]) })
		return nil
	}
	x.halves = append(x.halves, make([]uint16, len(e.Values))...)
	inParallel((n+255)/256, 1, func(part int) {
		unit := make([]float32, x.dim)
		for i := part * 256; i < min((part+1)*256, n); i++ {
			unitRow(e, i, unit)
			for j, v := range unit {
				x.halves[from+i*x.dim+j] = float16.FromFloat32(v).Bits()
			}
		}
	})
	return nil
}

// some are the rows from one to before another: those of the index, or float16 written to buffer, which has room.
func (x *Index) some(from, to int, buffer []float32) []float32 {
	if !x.half {
		return x.rows[from*x.dim : to*x.dim]
	}
	halves, all := x.halves[from*x.dim:to*x.dim], float32s()
	buffer = buffer[:len(halves)]
	for i, h := range halves {
		buffer[i] = all[h]
	}
	return buffer
}

// float32s are all float16 by their bits: looking them up is several times as fast as unpacking them.
var float32s = sync.OnceValue(func() (all *[1 << 16]float32) {
	all = new([1 << 16]float32)
	for i := range all {
		all[i] = float16.FromBits(uint16(i)).Float32()
	}
	return all
})

// room is a buffer for [Index.some] of n rows.
func (x *Index) room(n int) []float32 {
	if !x.half {
		return nil
	}
	return make([]float32, n*x.dim)
}

// Remove takes rows out. Those behind them move up.
func (x *Index) Remove(rows ...int) error {
	out := map[int]bool{}
	for _, i := range rows {
		if i < 0 || i >= x.Len() {
			return errs.Invalid(fmt.Errorf("row %d of an index of %d: want 0 to %d", i, x.Len(), x.Len()-1))
		}
		out[i] = true
	}
	x.rows, x.halves, x.labels = without(x.rows, x.dim, out), without(x.halves, x.dim, out), without(x.labels, 1, out)
	return x.Close()
}

// without are rows of some values each, without those that are to go.
func without[T any](values []T, width int, out map[int]bool) []T {
	if values == nil {
		return nil
	}
	kept := make([]T, 0, len(values))
	for i := range len(values) / width {
		if !out[i] {
			kept = append(kept, values[i*width:(i+1)*width]...)
		}
	}
	return kept
}

// fewQueries are searched without a backend, which is quicker for them.
const fewQueries = 16

// Search returns the k nearest rows of each query [n, Dim], or all rows if there are fewer, by cosine similarity, the
// nearest first, and of equal ones the lowest index. Many queries are compared on the backend b, if it is not nil: of
// rows whose similarities differ by no more than rounding, another may then be the last. Memory beside the rows is
// bounded by some 50 MB, and by 4 bytes a row.
func (x *Index) Search(ctx context.Context, b compute.Backend, queries []float32, k int) (_ [][]Neighbor, err error) {
	defer errs.Catch(&err)
	n, m := len(queries)/x.dim, x.Len()
	switch {
	case n == 0 || len(queries) != n*x.dim:
		return nil, fmt.Errorf("retrieval: %d values as queries: want rows of dimension %d", len(queries), x.dim)
	case k < 1:
		return nil, errs.Invalid(fmt.Errorf("%d neighbors: want at least 1", k))
	case m == 0:
		return nil, errors.New("retrieval: the index is empty")
	}
	if err := errs.Finite("retrieval: ", queries, x.dim, 0); err != nil {
		return nil, err
	}
	e := &Embeddings{Values: queries, Dim: x.dim}
	units, found := make([]float32, len(queries)), make([][]Neighbor, n)
	for i := range n {
		unitRow(e, i, units[i*x.dim:(i+1)*x.dim])
	}
	k = min(k, m)
	if b != nil && n >= fewQueries {
		return found, x.searchOn(ctx, b, units, k, found)
	}
	scores := make([]float32, m)
	const rows = 64 * few
	for i := range found {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		inParallel((m+rows-1)/rows, 1, func(part int) {
			unpacked := x.room(few)
			for from := part * rows; from < min((part+1)*rows, m); from += few {
				to := min(from+few, m)
				x.similarities(units[i*x.dim:], x.some(from, to, unpacked), scores[from:to])
			}
		})
		found[i] = see(make([]Neighbor, 0, k), scores, 0, k)
	}
	return found, nil
}

// few rows of float16 are unpacked together: they stay in the caches.
const few = 64

// similarities are those of a unit vector to rows. Where rows begin in memory may change the rounding.
func (x *Index) similarities(unit, rows, to []float32) {
	for j := range to { // Not Sgemv, which may round equal rows differently.
		to[j] = gonum.Implementation{}.Sdot(x.dim, unit, 1, rows[j*x.dim:], 1)
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
	unpacked := x.room(width)
	for from := 0; from < m; from += width {
		to := min(from+width, m)
		gallery := block(x.some(from, to, unpacked), width)
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
		unpacked, one := x.room(few), make([]float32, 1)
		for j, n := range found[i] {
			at := unpacked[min(n.Index%few*x.dim, len(unpacked)):] // Where a query alone finds the row.
			x.similarities(units[i*x.dim:], x.some(n.Index, n.Index+1, at), one)
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

// The files of an index in its folder: NumPy arrays, float32 or float16 [N, Dim] and int64 [N].
const (
	IndexRows   = "rows.npy"
	IndexLabels = "rows.labels.npy"
)

// Save writes the index into a folder that is there: rows as a NumPy array, which FAISS and hnswlib take, too, and the
// labels if there are any.
func (x *Index) Save(dir string) error {
	return x.save(dir, x.Len(), x.labels, slices.Values([]*Index{x}))
}

// save writes n rows, those that are in x at each turn.
func (x *Index) save(dir string, n int, labels []int64, turns iter.Seq[*Index]) (err error) {
	path, shape := filepath.Join(dir, IndexRows), []int{n, x.dim}
	if x.half {
		err = npy.WriteFloat16Parts(path, shape, chunks(turns, func(x *Index) []uint16 { return x.halves }))
	} else {
		err = npy.WriteFloat32Parts(path, shape, chunks(turns, func(x *Index) []float32 { return x.rows }))
	}
	if err != nil {
		return err
	}
	path = filepath.Join(dir, IndexLabels)
	if labels != nil {
		return npy.WriteInt64(path, labels, n)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // Of an index before.
		return err
	}
	return nil
}

func chunks[T any](turns iter.Seq[*Index], of func(*Index) []T) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for x := range turns {
			for some := range slices.Chunk(of(x), 1<<18) {
				if !yield(some) {
					return
				}
			}
		}
	}
}

// WriteIndex saves an index of n rows that come in parts, each of some rows, of which one is in memory at a time. It
// stops at the first error of a part, and returns it. labels may be nil; half is as for [NewIndex].
func WriteIndex(dir string, n, dim int, half bool, labels []int64, parts iter.Seq2[[]float32, error]) (err error) {
	if n < 1 || dim < 1 || labels != nil && len(labels) != n {
		return fmt.Errorf("retrieval: %d rows of %d values with %d labels: want at least 1 row and value, and a label for "+
			"each row, or none", n, dim, len(labels))
	}
	x, before := &Index{dim: dim, half: half}, 0
	saved := x.save(dir, n, labels, func(yield func(*Index) bool) {
		for part, failed := range parts {
			if err = failed; err == nil {
				x.rows, x.halves = x.rows[:0], x.halves[:0]
				err = x.add(&Embeddings{Values: part, Dim: dim}, before)
				before += len(part) / dim
			}
			if err != nil || !yield(x) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return saved
}

// OpenIndex maps the rows of a saved index into memory. The file must stay as it is until Close.
func OpenIndex(dir string) (*Index, error) {
	path := filepath.Join(dir, IndexRows)
	x := &Index{half: true}
	var shape []int
	var err error
	if x.halves, shape, x.unmap, err = npy.MapFloat16(path); errors.Is(err, npy.ErrType) {
		x.half = false
		x.rows, shape, x.unmap, err = npy.MapFloat32(path)
	}
	if err != nil {
		return nil, err
	}
	if len(shape) != 2 {
		return nil, errors.Join(fmt.Errorf("%s: shape %v, want [N, D]", path, shape), x.Close())
	}
	x.dim = shape[1]
	labels, _, err := npy.ReadInt64(filepath.Join(dir, IndexLabels))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, errors.Join(err, x.Close())
	case len(labels) != x.Len():
		return nil, errors.Join(fmt.Errorf("%s: %d labels, want one for each of %d rows", filepath.Join(dir, IndexLabels),
			len(labels), x.Len()), x.Close())
	default:
		x.labels = labels
	}
	return x, nil
}

// Close frees the file of an index that was opened. Nothing can be searched then.
func (x *Index) Close() error {
	unmap := x.unmap
	if x.unmap = nil; unmap == nil {
		return nil
	}
	return unmap()
}

// WriteFvecs writes the rows as FAISS's .fvecs: the dimension as int32 before each row of float32.
func (x *Index) WriteFvecs(path string) error {
	f, err := durable.Create(path, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }()
	w := bufio.NewWriter(f)
	unpacked := x.room(1)
	for i := range x.Len() {
		if err := errors.Join(binary.Write(w, binary.LittleEndian, int32(x.dim)),
			binary.Write(w, binary.LittleEndian, x.some(i, i+1, unpacked))); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
