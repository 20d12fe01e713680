package train

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// # Where a head starts
//
// A random map to fewer dimensions loses much of what frozen features know. A head starts instead with what retrieves
// best by itself, in as many dimensions as there are features: the features as they are, the features less their mean,
// or L⁻¹(x − mean), whitened by the scatter W within classes, shrunk to its mean: L Lᵀ = (1−s) W + s tr(W)/F I. Which
// of them is chosen by MAP@R over classes held out: the classes are dealt out to folds, and those of a fold are ranked
// by a start of which mean and scatter are those of the other classes.

// shrinkages are the s of the starts that are tried.
var shrinkages = []float64{0.01, 0.03, 0.1, 0.3, 0.6, 0.9}

const (
	mostFolds     = 5
	largeFeatures = 768  // From so many features on there are three folds, since a start takes F³ operations for each.
	heldOutRows   = 1200 // Of a fold at most so many rows are ranked, by whole classes.
	chunkRows     = 512  // Rows of a matrix that are multiplied at a time, so that a graph is compiled once.
)

// matrix is a matrix of float32, row by row.
type matrix struct {
	values     []float32
	rows, cols int
}

func newMatrix(rows, cols int) matrix { return matrix{make([]float32, rows*cols), rows, cols} }

func (m matrix) row(i int) []float32 { return m.values[i*m.cols : (i+1)*m.cols] }

// algebra multiplies matrices on a backend.
type algebra struct{ product, inner *Exec }

func newAlgebra(b compute.Backend) (*algebra, error) {
	product, err := NewExec(b, func(x, w *Node) *Node { return MatMul(x, w) })
	if err != nil {
		return nil, err
	}
	inner, err := NewExec(b, func(x, y *Node) *Node { return MatMul(Transpose(x, 0, 1), y) })
	if err != nil {
		return nil, err
	}
	return &algebra{product.SetMaxCache(-1), inner.SetMaxCache(-1)}, nil
}

func (a *algebra) free() { a.product.Finalize(); a.inner.Finalize() }

// chunk returns some rows, filled up with zeros.
func (m matrix) chunk(from int) *tensors.Tensor {
	rows := make([]float32, chunkRows*m.cols)
	copy(rows, m.values[from*m.cols:min(from+chunkRows, m.rows)*m.cols])
	return tensors.FromFlatDataAndDimensions(rows, chunkRows, m.cols)
}

// times is x w.
func (a *algebra) times(x, w matrix) (matrix, error) {
	out := newMatrix(x.rows, w.cols)
	right := tensors.FromFlatDataAndDimensions(w.values, w.rows, w.cols)
	for from := 0; from < x.rows; from += chunkRows {
		r, err := a.product.Call1(x.chunk(from), right)
		if err != nil {
			return out, err
		}
		copy(out.values[from*w.cols:], graphs.Floats(r))
	}
	return out, nil
}

// transposedTimes is xᵀ y.
func (a *algebra) transposedTimes(x, y matrix) (*mat.Dense, error) {
	out := mat.NewDense(x.cols, y.cols, nil)
	sum := out.RawMatrix().Data
	for from := 0; from < x.rows; from += chunkRows {
		r, err := a.inner.Call1(x.chunk(from), y.chunk(from))
		if err != nil {
			return nil, err
		}
		for i, v := range graphs.Floats(r) {
			sum[i] += float64(v)
		}
	}
	return out, nil
}

// featureRows are features with their classes.
type featureRows struct {
	matrix
	labels []int64
}

// readFeatureRows reads those features of a split whose label is not in without.
func readFeatureRows(of Samples, without map[int64]bool) (r featureRows, err error) {
	var which []int
	for i, l := range of.Labels() {
		if !without[l] {
			which, r.labels = append(which, i), append(r.labels, l)
		}
	}
	r.matrix = newMatrix(len(which), of.Shape().Size())
	raw := make([]byte, 4*len(r.values))
	if err := of.Read(raw, which, nil); err != nil {
		return r, err
	}
	for i := range r.values {
		r.values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return r, nil
}

// some are the rows with the given indices.
func (r featureRows) some(which []int) featureRows {
	out := featureRows{matrix: newMatrix(len(which), r.cols)}
	for to, i := range which {
		copy(out.row(to), r.row(i))
		out.labels = append(out.labels, r.labels[i])
	}
	return out
}

// headStart is an affine map of features: weight (x − mean). A nil weight is the identity, a nil mean zero.
type headStart struct {
	Name      string
	Shrinkage float64
	weight    *mat.Dense // [F, F]
	mean      []float64
}

// String is the name of a start with its shrinkage.
func (s headStart) String() string {
	if s.weight == nil {
		return s.Name
	}
	return fmt.Sprintf("%s, shrinkage %g", s.Name, s.Shrinkage)
}

// whitened are the features whitened by a scatter w within classes [F, F], shrunk. It returns false where w is zero.
func whitened(w *mat.Dense, mean []float64, shrinkage float64) (headStart, bool) {
	n, _ := w.Dims()
	average := mat.Trace(w) / float64(n)
	if !(average > 1e-30) || math.IsInf(average, 0) {
		return headStart{}, false
	}
	p := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			v := (1 - shrinkage) * w.At(i, j)
			if i == j {
				v += shrinkage * average
			}
			p.SetSym(i, j, v/average)
		}
	}
	var c mat.Cholesky
	if !c.Factorize(p) {
		return headStart{}, false
	}
	lower, inverse := mat.NewTriDense(n, mat.Lower, nil), mat.NewTriDense(n, mat.Lower, nil)
	c.LTo(lower)
	if err := inverse.InverseTri(lower); err != nil {
		if _, poor := err.(mat.Condition); !poor {
			return headStart{}, false
		}
	}
	return headStart{Name: "whitened", Shrinkage: shrinkage, weight: mat.DenseCopyOf(inverse), mean: mean}, true
}

// apply maps rows.
func (s headStart) apply(a *algebra, x matrix) (matrix, error) {
	out := matrix{slices.Clone(x.values), x.rows, x.cols}
	for i := range x.rows {
		row := out.row(i)
		for j, m := range s.mean {
			row[j] -= float32(m)
		}
	}
	if s.weight == nil {
		return out, nil
	}
	return a.times(out, transposed(s.weight))
}

// transposed is a matrix of float32 for algebra.
func transposed(m *mat.Dense) matrix {
	rows, cols := m.Dims()
	out := newMatrix(cols, rows)
	for i := range rows {
		for j, v := range m.RawRowView(i) {
			out.values[j*rows+i] = float32(v)
		}
	}
	return out
}

// fold is a part of the classes, with what the other classes say about features.
type fold struct {
	train, held featureRows
	starts      []headStart // Of the other classes.
}

// moments are mean and scatter within classes of features.
type moments struct {
	rows    featureRows
	mean    []float64
	scatter *mat.Dense
}

func momentsOf(a *algebra, r featureRows) (*moments, error) {
	classes := numberClasses(r.labels, nil)
	means, count := make([]float64, len(classes)*r.cols), make([]float64, len(classes))
	m := &moments{rows: r, mean: make([]float64, r.cols)}
	for i, l := range r.labels {
		c := int(classes[l])
		count[c]++
		for j, v := range r.row(i) {
			means[c*r.cols+j] += float64(v)
			m.mean[j] += float64(v) / float64(r.rows)
		}
	}
	rest := newMatrix(r.rows, r.cols)
	for i, l := range r.labels {
		c, to := int(classes[l]), rest.row(i)
		for j, v := range r.row(i) {
			to[j] = v - float32(means[c*r.cols+j]/count[c])
		}
	}
	var err error
	m.scatter, err = a.transposedTimes(rest, rest)
	return m, err
}

// starts are all starts of some moments, the features as they are first.
func (m *moments) starts() []headStart {
	out := []headStart{{Name: "features"}, {Name: "features less their mean", mean: m.mean}}
	all := make([]headStart, len(shrinkages))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range shrinkages {
		group.Go(func() error {
			all[i], _ = whitened(m.scatter, m.mean, s)
			return nil
		})
	}
	_ = group.Wait()
	for _, s := range all {
		if s.weight == nil {
			return out
		}
	}
	return append(out, all...)
}

// foldsOf deals the classes of some rows out to folds, with a fixed seed. There is none for fewer than four classes, or
// if no class has two rows.
func foldsOf(a *algebra, m *moments) ([]fold, error) {
	classes := slices.Sorted(maps.Keys(numberClasses(m.rows.labels, nil)))
	if len(classes) < 4 {
		return nil, nil
	}
	of, most := make(map[int64]int), mostFolds
	if m.rows.cols > largeFeatures {
		most = 3
	}
	k := min(most, len(classes)/2)
	for i, c := range rand.New(rand.NewPCG(7, 7)).Perm(len(classes)) {
		of[classes[c]] = i % k
	}
	// The classes of every fold's other rows are as many, so that one graph serves all.
	fewest := len(classes) - (len(classes)+k-1)/k
	var folds []fold
	for f := range k {
		var train, held []int
		count, kept := make(map[int64]int), make(map[int64]bool)
		for _, l := range classes {
			if of[l] != f && len(kept) < fewest {
				kept[l] = true
			}
		}
		for i, l := range m.rows.labels {
			if of[l] == f {
				held = append(held, i)
				count[l]++
			} else if kept[l] {
				train = append(train, i)
			}
		}
		slices.SortStableFunc(held, func(x, y int) int { return int(m.rows.labels[x] - m.rows.labels[y]) })
		for len(held) > heldOutRows && m.rows.labels[held[heldOutRows-1]] != m.rows.labels[held[0]] {
			last := m.rows.labels[held[len(held)-1]]
			held = slices.DeleteFunc(held, func(i int) bool { return m.rows.labels[i] == last })
		}
		ranked := false
		for _, n := range count {
			ranked = ranked || n > 1
		}
		if !ranked {
			continue
		}
		other, err := momentsOf(a, m.rows.some(train))
		if err != nil {
			return nil, err
		}
		folds = append(folds, fold{other.rows, m.rows.some(held), other.starts()})
	}
	return folds, nil
}

// scores are MAP@R and Recall@1, as fractions.
type scores struct{ mapR, recall float64 }

// rank scores rows against each other by the cosines of x, and of the rows themselves to no one.
func rank(ctx context.Context, a *algebra, x matrix, labels []int64) (scores, error) {
	unit := matrix{slices.Clone(x.values), x.rows, x.cols}
	for i := range unit.rows {
		normalizeRow(unit.row(i))
	}
	s, err := a.times(unit, transposedRows(unit))
	if err != nil {
		return scores{}, err
	}
	return rankSimilarities(s, labels), ctx.Err()
}

func transposedRows(x matrix) matrix {
	out := newMatrix(x.cols, x.rows)
	for i := range x.rows {
		for j, v := range x.row(i) {
			out.values[j*x.rows+i] = v
		}
	}
	return out
}

func normalizeRow(row []float32) {
	sum := 0.0
	for _, v := range row {
		sum += float64(v) * float64(v)
	}
	if sum > 1e-24 {
		for j := range row {
			row[j] = float32(float64(row[j]) / math.Sqrt(sum))
		}
	}
}

// rankSimilarities scores each row against all others by its similarities [N, N]. A negative as near as a positive
// comes first. Rows without another of their class count in nothing.
func rankSimilarities(s matrix, labels []int64) (mean scores) {
	var mu sync.Mutex
	var group sync.WaitGroup
	workers, queries := runtime.GOMAXPROCS(0), 0
	for w := range workers {
		group.Go(func() {
			var own scores
			count := 0
			var positives []float32
			for i := w; i < len(labels); i += workers {
				row := s.row(i)
				positives = positives[:0]
				for j, l := range labels {
					if l == labels[i] && j != i {
						positives = append(positives, -row[j]) // Ascending, the most similar first.
					}
				}
				if len(positives) == 0 {
					continue
				}
				slices.Sort(positives)
				ahead := make([]int, len(positives)+1) // Negatives by the first positive that they are ahead of.
				for j, l := range labels {
					if l != labels[i] {
						at, _ := slices.BinarySearch(positives, -row[j])
						ahead[at]++
					}
				}
				count++
				before := 0
				for p := range positives {
					before += ahead[p]
					if place := before + p + 1; place <= len(positives) {
						own.mapR += float64(p+1) / float64(place) / float64(len(positives))
					}
				}
				if ahead[0] == 0 {
					own.recall++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			mean.mapR, mean.recall, queries = mean.mapR+own.mapR, mean.recall+own.recall, queries+count
		})
	}
	group.Wait()
	n := float64(max(queries, 1))
	return scores{mean.mapR / n, mean.recall / n}
}

// leading returns k orthonormal directions [F, k] in which z [N, F] is largest, by subspace iteration.
func leading(a *algebra, z matrix, k int) (*mat.Dense, error) {
	rng := rand.New(rand.NewPCG(11, 11))
	v := mat.NewDense(z.cols, k, nil)
	for i := range z.cols {
		for j := range k {
			v.Set(i, j, rng.NormFloat64())
		}
	}
	for range 8 {
		orthonormalize(v)
		y, err := a.times(z, float32sOf(v))
		if err != nil {
			return nil, err
		}
		if v, err = a.transposedTimes(z, y); err != nil {
			return nil, err
		}
	}
	orthonormalize(v)
	return v, nil
}

// float32sOf is a matrix of float32.
func float32sOf(m *mat.Dense) matrix {
	rows, cols := m.Dims()
	out := newMatrix(rows, cols)
	for i := range rows {
		for j, v := range m.RawRowView(i) {
			out.values[i*cols+j] = float32(v)
		}
	}
	return out
}

// orthonormalize makes the columns of a matrix orthonormal. Where they do not suffice, unit vectors stand in.
func orthonormalize(v *mat.Dense) {
	rows, cols := v.Dims()
	columns := make([][]float64, cols)
	for j := range columns {
		columns[j] = mat.Col(nil, j, v)
		for attempt := 0; ; attempt++ {
			before := norm64(columns[j])
			for range 2 { // Once is not enough in floating point.
				for _, other := range columns[:j] {
					along := dot64(columns[j], other)
					for i := range other {
						columns[j][i] -= along * other[i]
					}
				}
			}
			if length := norm64(columns[j]); length > 1e-6*before && length > 0 {
				for i := range columns[j] {
					columns[j][i] /= length
				}
				break
			}
			clear(columns[j])
			columns[j][(j+attempt)%rows] = 1
		}
		v.SetCol(j, columns[j])
	}
}

func dot64(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func norm64(x []float64) float64 { return math.Sqrt(dot64(x, x)) }
