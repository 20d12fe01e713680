package heads

import (
	"context"
	"math/rand/v2"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
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

// denseOf is a matrix in float64.
func denseOf(m matrix) *mat.Dense {
	out := mat.NewDense(m.rows, m.cols, nil)
	for i, v := range m.values {
		out.RawMatrix().Data[i] = float64(v)
	}
	return out
}

// eye is the identity, with further rows of zeros.
func eye(rows, cols int) *mat.Dense {
	out := mat.NewDense(rows, cols, nil)
	for i := range cols {
		out.Set(i, i, 1)
	}
	return out
}

// algebra multiplies matrices on a backend until ctx is done. Its methods panic where that fails, as GoMLX does;
// exported functions return the error.
type algebra struct {
	ctx          context.Context
	outer, inner *Exec
}

func newAlgebra(ctx context.Context, b compute.Backend) (*algebra, error) {
	outer, err := NewExec(b, func(x, y *Node) *Node { return MatMul(x, Transpose(y, 0, 1)) })
	if err != nil {
		return nil, err
	}
	inner, err := NewExec(b, func(x, y *Node) *Node { return MatMul(Transpose(x, 0, 1), y) })
	if err != nil {
		return nil, err
	}
	return &algebra{ctx, outer.SetMaxCache(-1), inner.SetMaxCache(-1)}, nil
}

func (a *algebra) free() { a.outer.Finalize(); a.inner.Finalize() }

func (a *algebra) call(by *Exec, x, y *tensors.Tensor) *tensors.Tensor {
	if err := a.ctx.Err(); err != nil {
		panic(err)
	}
	return by.MustCall1(x, y)
}

// chunk returns some rows, filled up with zeros.
func (m matrix) chunk(from int) *tensors.Tensor {
	rows := make([]float32, chunkRows*m.cols)
	copy(rows, m.values[from*m.cols:min(from+chunkRows, m.rows)*m.cols])
	return tensors.FromFlatDataAndDimensions(rows, chunkRows, m.cols)
}

// times is x yᵀ.
func (a *algebra) times(x, y matrix) matrix {
	out := newMatrix(x.rows, y.rows)
	right := tensors.FromFlatDataAndDimensions(y.values, y.rows, y.cols)
	for from := 0; from < x.rows; from += chunkRows {
		copy(out.values[from*y.rows:], graphs.Floats(a.call(a.outer, x.chunk(from), right)))
	}
	return out
}

// gram is x xᵀ, of which only the blocks on and above the diagonal are computed.
func (a *algebra) gram(x matrix) matrix {
	out := newMatrix(x.rows, x.rows)
	var chunks []*tensors.Tensor
	for from := 0; from < x.rows; from += chunkRows {
		chunks = append(chunks, x.chunk(from))
	}
	for k, left := range chunks {
		for l, right := range chunks[k:] {
			block := matrix{graphs.Floats(a.call(a.outer, left, right)), chunkRows, chunkRows}
			from, to := k*chunkRows, (k+l)*chunkRows
			for i := range min(chunkRows, x.rows-from) {
				copy(out.row(from + i)[to:], block.row(i))
				if l > 0 {
					for j, v := range block.row(i)[:min(chunkRows, x.rows-to)] {
						out.values[(to+j)*x.rows+from+i] = v
					}
				}
			}
		}
	}
	return out
}

// columns is xᵀ y.
func (a *algebra) columns(x, y matrix) *mat.Dense {
	out := mat.NewDense(x.cols, y.cols, nil)
	sum := out.RawMatrix().Data
	for from := 0; from < x.rows; from += chunkRows {
		for i, v := range graphs.Floats(a.call(a.inner, x.chunk(from), y.chunk(from))) {
			sum[i] += float64(v)
		}
	}
	return out
}

// times64 is x yᵀ of float64.
func (a *algebra) times64(x, y mat.Matrix) *mat.Dense {
	tensor := func(m mat.Matrix) *tensors.Tensor {
		rows, cols := m.Dims()
		return tensors.FromFlatDataAndDimensions(mat.DenseCopyOf(m).RawMatrix().Data, rows, cols)
	}
	r := a.call(a.outer, tensor(x), tensor(y))
	return mat.NewDense(r.Shape().Dim(0), r.Shape().Dim(1), tensors.MustCopyFlatData[float64](r))
}

// inverseRoot returns L⁻¹ of a symmetric p = L Lᵀ [n, n], nil if p is not positive definite. The root of a large one is
// that of its blocks, which are multiplied on the backend: of [A Bᵀ; B C] it is [M 0; −K B Mᵀ M, K] by the root M of A,
// and K of C − (B Mᵀ)(B Mᵀ)ᵀ.
func (a *algebra) inverseRoot(p *mat.Dense) *mat.Dense {
	n, _ := p.Dims()
	if n <= smallMatrix {
		var c mat.Cholesky
		if !c.Factorize(mat.NewSymDense(n, mat.DenseCopyOf(p).RawMatrix().Data)) {
			return nil
		}
		var lower, inverse mat.TriDense
		c.LTo(&lower)
		if err := inverse.InverseTri(&lower); err != nil {
			if _, poor := err.(mat.Condition); !poor {
				return nil
			}
		}
		return mat.DenseCopyOf(&inverse)
	}
	half := (n + 1) / 2
	block := func(m *mat.Dense, i, k, j, l int) *mat.Dense { return m.Slice(i, k, j, l).(*mat.Dense) }
	m := a.inverseRoot(block(p, 0, half, 0, half))
	if m == nil {
		return nil
	}
	left := a.times64(block(p, half, n, 0, half), m) // B Mᵀ
	rest := a.times64(left, left)
	rest.Sub(block(p, half, n, half, n), rest)
	k := a.inverseRoot(rest)
	if k == nil {
		return nil
	}
	below := a.times64(k, a.times64(left, m.T()).T())
	below.Scale(-1, below)
	out := mat.NewDense(n, n, nil)
	block(out, 0, half, 0, half).Copy(m)
	block(out, half, n, 0, half).Copy(below)
	block(out, half, n, half, n).Copy(k)
	return out
}

// leading returns k orthonormal directions [F, k] in which z [N, F] is largest, by subspace iteration.
func leading(a *algebra, z matrix, k int) *mat.Dense {
	rng := rand.New(rand.NewPCG(11, 11))
	v := mat.NewDense(z.cols, k, nil)
	for i := range z.cols {
		for j := range k {
			v.Set(i, j, rng.NormFloat64())
		}
	}
	for range 8 {
		orthonormalize(v)
		v = a.columns(z, a.times(z, float32sOf(v.T())))
	}
	orthonormalize(v)
	return v
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
