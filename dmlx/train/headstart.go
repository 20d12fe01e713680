package train

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
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
	chunkRows     = 400  // Rows of a matrix that are multiplied at a time, so that a graph is compiled once.
	smallMatrix   = 256  // Up to so many rows a matrix is inverted by the host alone.
)

// matrix is a matrix of float32, row by row.
type matrix struct {
	values     []float32
	rows, cols int
}

func newMatrix(rows, cols int) matrix { return matrix{make([]float32, rows*cols), rows, cols} }

func (m matrix) row(i int) []float32 { return m.values[i*m.cols : (i+1)*m.cols] }

// float32sOf is a matrix in float32.
func float32sOf(of mat.Matrix) matrix {
	out := newMatrix(of.Dims())
	for i, v := range mat.DenseCopyOf(of).RawMatrix().Data {
		out.values[i] = float32(v)
	}
	return out
}

// algebra multiplies matrices on a backend.
type algebra struct{ outer, inner *Exec }

func newAlgebra(b compute.Backend) (*algebra, error) {
	outer, err := NewExec(b, func(x, y *Node) *Node { return MatMul(x, Transpose(y, 0, 1)) })
	if err != nil {
		return nil, err
	}
	inner, err := NewExec(b, func(x, y *Node) *Node { return MatMul(Transpose(x, 0, 1), y) })
	if err != nil {
		return nil, err
	}
	return &algebra{outer.SetMaxCache(-1), inner.SetMaxCache(-1)}, nil
}

func (a *algebra) free() { a.outer.Finalize(); a.inner.Finalize() }

// chunk returns some rows, filled up with zeros.
func (m matrix) chunk(from int) *tensors.Tensor {
	rows := make([]float32, chunkRows*m.cols)
	copy(rows, m.values[from*m.cols:min(from+chunkRows, m.rows)*m.cols])
	return tensors.FromFlatDataAndDimensions(rows, chunkRows, m.cols)
}

// times is x yᵀ.
func (a *algebra) times(x, y matrix) (matrix, error) {
	out := newMatrix(x.rows, y.rows)
	right := tensors.FromFlatDataAndDimensions(y.values, y.rows, y.cols)
	for from := 0; from < x.rows; from += chunkRows {
		r, err := a.outer.Call1(x.chunk(from), right)
		if err != nil {
			return out, err
		}
		copy(out.values[from*y.rows:], graphs.Floats(r))
	}
	return out, nil
}

// columns is xᵀ y.
func (a *algebra) columns(x, y matrix) (*mat.Dense, error) {
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

// times64 is x yᵀ of float64.
func (a *algebra) times64(x, y mat.Matrix) (*mat.Dense, error) {
	tensor := func(m mat.Matrix) *tensors.Tensor {
		rows, cols := m.Dims()
		return tensors.FromFlatDataAndDimensions(mat.DenseCopyOf(m).RawMatrix().Data, rows, cols)
	}
	r, err := a.outer.Call1(tensor(x), tensor(y))
	if err != nil {
		return nil, err
	}
	values, err := tensors.CopyFlatData[float64](r)
	return mat.NewDense(r.Shape().Dim(0), r.Shape().Dim(1), values), err
}

// inverseRoot returns L⁻¹ of a symmetric p = L Lᵀ [n, n], nil if p is not positive definite. The root of a large one is
// that of its blocks, which are multiplied on the backend: of [A Bᵀ; B C] it is [M 0; −K B Mᵀ M, K] by the root M of A,
// and K of C − (B Mᵀ)(B Mᵀ)ᵀ.
func (a *algebra) inverseRoot(p *mat.Dense) (*mat.Dense, error) {
	n, _ := p.Dims()
	if n <= smallMatrix {
		var c mat.Cholesky
		if !c.Factorize(mat.NewSymDense(n, mat.DenseCopyOf(p).RawMatrix().Data)) {
			return nil, nil
		}
		var lower, inverse mat.TriDense
		c.LTo(&lower)
		if err := inverse.InverseTri(&lower); err != nil {
			if _, poor := err.(mat.Condition); !poor {
				return nil, nil
			}
		}
		return mat.DenseCopyOf(&inverse), nil
	}
	half := (n + 1) / 2
	block := func(m *mat.Dense, i, k, j, l int) *mat.Dense { return m.Slice(i, k, j, l).(*mat.Dense) }
	m, err := a.inverseRoot(block(p, 0, half, 0, half))
	if m == nil || err != nil {
		return nil, err
	}
	left, err := a.times64(block(p, half, n, 0, half), m) // B Mᵀ
	if err != nil {
		return nil, err
	}
	rest, err := a.times64(left, left)
	if err != nil {
		return nil, err
	}
	rest.Sub(block(p, half, n, half, n), rest)
	k, err := a.inverseRoot(rest)
	if k == nil || err != nil {
		return nil, err
	}
	below, err := a.times64(left, m.T())
	if err == nil {
		below, err = a.times64(k, below.T())
	}
	if err != nil {
		return nil, err
	}
	below.Scale(-1, below)
	out := mat.NewDense(n, n, nil)
	block(out, 0, half, 0, half).Copy(m)
	block(out, half, n, 0, half).Copy(below)
	block(out, half, n, half, n).Copy(k)
	return out, nil
}

// featureRows are features with their classes.
type featureRows struct {
	matrix
	labels []int64
}

// readFeatureRows reads those features of a split whose label is not in without.
func readFeatureRows(of samples.Split, without map[int64]bool) (r featureRows, err error) {
	var which []int
	for i, l := range of.Labels() {
		if !without[l] {
			which, r.labels = append(which, i), append(r.labels, l)
		}
	}
	values, err := samples.Floats(of, which)
	r.matrix = matrix{values, len(which), of.Shape().Size()}
	return r, err
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
	return a.times(out, float32sOf(s.weight))
}

// moments are mean and scatter within classes of features.
type moments struct {
	rows    featureRows
	mean    []float64
	scatter *mat.Dense
}

func momentsOf(a *algebra, r featureRows) (*moments, error) {
	classes := samples.NumberClasses(r.labels, nil)
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
	m.scatter, err = a.columns(rest, rest)
	return m, err
}

// start is one of the starts that are tried: the features, those less their mean, and whitened by each shrinkage. It is
// the features where these have no scatter within classes.
func (m *moments) start(a *algebra, i int) (headStart, error) {
	switch i {
	case 0:
		return headStart{Name: "features"}, nil
	case 1:
		return headStart{Name: "features less their mean", mean: m.mean}, nil
	}
	return m.whitened(a, shrinkages[i-2])
}

func (m *moments) whitened(a *algebra, shrinkage float64) (headStart, error) {
	plain := headStart{Name: "features"}
	average := mat.Trace(m.scatter) / float64(m.rows.cols)
	if !(average > 1e-30) || math.IsInf(average, 0) {
		return plain, nil
	}
	p := mat.NewDense(m.rows.cols, m.rows.cols, nil)
	p.Scale((1-shrinkage)/average, m.scatter)
	for i := range m.rows.cols {
		p.Set(i, i, p.At(i, i)+shrinkage)
	}
	root, err := a.inverseRoot(p)
	if root == nil || err != nil {
		return plain, err
	}
	return headStart{Name: "whitened", Shrinkage: shrinkage, weight: root, mean: m.mean}, nil
}

// fold is a part of the classes, with what the other classes say about features.
type fold struct {
	train *moments // Of the other classes.
	held  featureRows
}

// foldsOf deals the classes of some rows out to folds, with a fixed seed. There is none for fewer than four classes, or
// if no class has two rows.
func foldsOf(a *algebra, r featureRows) (folds []fold, err error) {
	rows := make(map[int64][]int)
	for i, l := range r.labels {
		rows[l] = append(rows[l], i)
	}
	classes := slices.Sorted(maps.Keys(rows))
	if len(classes) < 4 {
		return nil, nil
	}
	k := min(mostFolds, len(classes)/2)
	if r.cols > largeFeatures {
		k = min(3, k)
	}
	of := make(map[int64]int)
	for i, c := range rand.New(rand.NewPCG(7, 7)).Perm(len(classes)) {
		of[classes[c]] = i % k
	}
	// The classes of every fold's other rows are as many, so that one graph serves all.
	fewest := len(classes) - (len(classes)+k-1)/k
	for f := range k {
		var train, held []int
		others, ranked := 0, false
		for _, l := range classes {
			if of[l] != f && others < fewest {
				others++
				train = append(train, rows[l]...)
			} else if of[l] == f && (len(held) == 0 || len(held)+len(rows[l]) <= heldOutRows) {
				held, ranked = append(held, rows[l]...), ranked || len(rows[l]) > 1
			}
		}
		if !ranked {
			continue
		}
		slices.Sort(train)
		m, err := momentsOf(a, r.some(train))
		if err != nil {
			return nil, err
		}
		folds = append(folds, fold{m, r.some(held)})
	}
	return folds, nil
}

// scores are MAP@R and Recall@1, as fractions.
type scores struct{ mapR, recall float64 }

// rank scores rows against each other by their cosines, given their inner products [N, N]. Where these are not finite
// all is wrong.
func rank(products matrix, labels []int64) (scores, error) {
	lengths := make([]float64, products.rows)
	for i := range lengths {
		lengths[i] = max(math.Sqrt(float64(products.row(i)[i])), 1e-12)
	}
	cosines := newMatrix(products.rows, products.cols)
	for i, length := range lengths {
		to := cosines.row(i)
		for j, v := range products.row(i) {
			if v-v != 0 {
				return scores{}, nil
			}
			to[j] = float32(float64(v) / (length * lengths[j]))
		}
	}
	r, err := retrieval.EvaluateSimilarities(cosines.values, labels)
	if err != nil {
		return scores{}, err
	}
	return scores{r.MAPAtR, r.Recall[1]}, nil
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
		y, err := a.times(z, float32sOf(v.T()))
		if err != nil {
			return nil, err
		}
		if v, err = a.columns(z, y); err != nil {
			return nil, err
		}
	}
	orthonormalize(v)
	return v, nil
}

// orthonormalize makes the columns of a matrix orthonormal. Where they do not suffice, unit vectors stand in.
func orthonormalize(v *mat.Dense) {
	rows, cols := v.Dims()
	columns := make([][]float64, cols)
	for j := range columns {
		columns[j] = mat.Col(nil, j, v)
		for attempt := 0; ; attempt++ {
			before := floats.Norm(columns[j], 2)
			for range 2 { // Once is not enough in floating point.
				for _, other := range columns[:j] {
					floats.AddScaled(columns[j], -floats.Dot(columns[j], other), other)
				}
			}
			if length := floats.Norm(columns[j], 2); length > 1e-6*before && length > 0 {
				floats.Scale(1/length, columns[j])
				break
			}
			clear(columns[j])
			columns[j][(j+attempt)%rows] = 1
		}
		v.SetCol(j, columns[j])
	}
}
