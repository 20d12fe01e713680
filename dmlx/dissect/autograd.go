//go:build !js

// The page takes no gradients from elsewhere, and the linear algebra would make its program larger.

package dissect

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx"
)

// # A gradient from elsewhere
//
// Let g be the gradient that some loss, in any framework, gives the normalized embeddings f [B, D]. If the loss reads
// them through S = f fᵀ, then g = M f with a symmetric M (composeloss.go in package dmlx). M is sought from g.
//
// What g says along f_i does not train, and the diagonal of M acts there alone. So M has a zero diagonal, and M f is
// held against g on the sphere: with P_i the projection across f_i,
//
//	P_i Σ_j M_ij f_j = P_i g_i    M = Mᵀ, M_ii = 0
//
// These are B(r−1) − r(r−1)/2 independent equations, where r is the rank of f: turning the batch as a whole changes no
// similarity, so a loss on S gives no gradient in those r(r−1)/2 ways. M has B(B−1)/2 unknowns. With k = B − r,
//
//	B(B−1)/2 − B(r−1) + r(r−1)/2 = k(k+1)/2
//
// of them stay free. Where B ≤ D and the embeddings are independent, k is 0 and M is unique: nothing is lost from M to
// g. Where B > D, many M give the same g. The one taken here has the least sum of squares, as a pseudo-inverse takes
// it: it spreads a gradient over all pairs that could have given it. Who knows which pairs the loss is about names them
// (Autograd.Pairs), and then there are fewer unknowns; ∂L/∂S itself leaves no question (Autograd.Similarity).
//
// What no symmetric M gives is left over: it has directions that no embedding of the batch has, or it turns the batch.
// It comes from other vectors than the embeddings, as proxies, or from their coordinates themselves.
//
// M is found in closed form. Let f = U Σ Vᵀ. Among the symmetric matrices the best for g is, with K = Uᵀ g V,
//
//	M₀ = U A Uᵀ + Z Uᵀ + U Zᵀ    A_ij = (σ_j K_ij + σ_i K_ji) / (σ_i² + σ_j²)    Z = (I − U Uᵀ) g V Σ⁻¹
//
// and adding λ_i f_i to each g_i adds to it, with the projection Q = U Uᵀ and Λ = diag(λ), ΛQ + QΛ − QΛQ. The λ for
// which the diagonal vanishes solve (2 diag(Q) − Q∘Q) λ = −diag(M₀), which has one solution.

// Autograd is the gradient of a loss at a batch as another framework has computed it.
type Autograd struct {
	// Gradient is ∂L/∂f, the gradient at the normalized embeddings, [N, Dim] row by row. With Raw it is the one at the
	// embeddings as given. May be nil with Similarity.
	Gradient []float32
	Raw      bool
	// Similarity is ∂L/∂S, [N, N] row by row, each entry of S taken for a variable of its own. The rows are the
	// anchors'. It determines M; Gradient then tells what of the loss does not come through S.
	Similarity []float32
	// Pairs are those that the loss is about, [N, N] row by row, rows the anchors' ([MinedPairs]). nil is all of them.
	Pairs []bool
}

// AutogradDissection is what a gradient from elsewhere is made of. Value is 0, since a gradient does not tell the loss.
// M has a zero diagonal. Coordinates is the share of the gradient that no loss on S has at this batch; W is M/2, or of
// a pair that one anchor alone has, all of M in that anchor's row.
type AutogradDissection struct {
	LossDissection
	// Outside is the share of the gradient in directions that no embedding of the batch has: part of Coordinates.
	Outside float64
	// Ambiguity is how many numbers M may be changed by, independently, without a change of the gradient. 0 if M is
	// determined. For Pairs it is a lower bound.
	Ambiguity int
}

// FromAutograd takes apart a gradient that another framework has computed for a loss of a batch: its matrix, the
// implied pair and triplet weights, and what they leave over. It computes on the host, in float64. Values that are not
// finite, shapes that do not fit and embeddings of length zero are errors. Triplets of the batch are not looked at.
func FromAutograd(e Embeddings, a Autograd) (*AutogradDissection, error) {
	if err := a.check(&e); err != nil {
		return nil, err
	}
	n, dim := e.N, e.Dim
	f, lengths := mat.NewDense(n, dim, nil), make([]float64, n)
	for i := range n {
		row := float64s(e.Values[i*dim : (i+1)*dim])
		if lengths[i] = norm(row); lengths[i] < 1e-12 {
			return nil, fmt.Errorf("embeddings: row %d has the length %.3g, so it has no direction", i, lengths[i])
		}
		for j, v := range row {
			f.Set(i, j, v/lengths[i])
		}
	}
	p := &span{f: f, s: new(mat.Dense)}
	p.s.Mul(f, f.T())
	d := &AutogradDissection{LossDissection: LossDissection{N: n, Dim: dim, F: float32s(f), S: float32s(p.s),
		Labels: e.Labels}}

	g := mat.NewDense(n, dim, nil) // On the sphere.
	if a.Gradient != nil {
		d.G, d.Raw = make([]float32, n*dim), make([]float32, n*dim)
		var along, whole float64
		for i := range n {
			given, at := float64s(a.Gradient[i*dim:(i+1)*dim]), f.RawRowView(i)
			radial := dot(given, at)
			along, whole = along+radial*radial, whole+dot(given, given)
			for j, v := range given {
				flat, k := v-radial*at[j], i*dim+j
				if a.Raw {
					flat *= lengths[i]
					d.G[k], d.Raw[k] = float32(flat), float32(v)
				} else {
					d.G[k], d.Raw[k] = float32(v), float32(flat/lengths[i])
				}
				g.Set(i, j, flat)
			}
		}
		if a.Raw && along > 0 {
			d.Lengths = math.Sqrt(along / whole)
		}
	}
	var m *mat.Dense
	switch {
	case a.Similarity != nil:
		d.W = a.Similarity
		m = mat.NewDense(n, n, nil)
		for i := range n {
			for j := range n {
				m.Set(i, j, float64(d.W[i*n+j])+float64(d.W[j*n+i]))
			}
		}
	case a.Pairs != nil:
		m = p.onPairs(g, a.Pairs)
		d.Ambiguity = ambiguity(n, p.rank(), countPairs(a.Pairs, n))
	default:
		m = p.leastSquares(g)
		d.Ambiguity = ambiguity(n, p.rank(), n*(n-1)/2)
	}
	var made mat.Dense
	made.Mul(m, f)
	d.M = float32s(m)
	if a.Similarity == nil {
		d.W = anchored(m, a.Pairs)
	}
	if a.Gradient == nil {
		d.G, d.Raw = float32s(&made), make([]float32, n*dim)
		for i, v := range onSphere(d.F, d.G, dim) {
			d.Raw[i] = float32(v / lengths[i/dim])
		}
	} else if whole := mat.Norm(g, 2); whole > 0 {
		across(&made, f)
		made.Sub(g, &made)
		d.Coordinates = mat.Norm(&made, 2) / whole
		d.Outside = p.outside(&made) / whole
	}
	d.Implied = imply(d.F, d.S, d.W, d.G, d.Labels, dim)
	return d, nil
}

// check names the first thing that is wrong with a batch, see [checkBatch], or with a gradient for it.
func (a Autograd) check(e *Embeddings) error {
	if err := checkBatch(e); err != nil {
		return err
	}
	if a.Gradient == nil && a.Similarity == nil {
		return errors.New("no gradient: want ∂L/∂embeddings, ∂L/∂S or both")
	}
	if a.Similarity != nil && a.Pairs != nil {
		return errors.New("pairs and ∂L/∂S are both given: want one of them, since ∂L/∂S already says which pairs " +
			"have a gradient")
	}
	if a.Pairs != nil && len(a.Pairs) != e.N*e.N {
		return fmt.Errorf("pairs: %d values for %d embeddings; want [%d, %d]", len(a.Pairs), e.N, e.N, e.N)
	}
	for _, x := range []struct {
		what    string
		values  []float32
		columns int
	}{{"gradient", a.Gradient, e.Dim}, {"similarity gradient", a.Similarity, e.N}} {
		if x.values == nil {
			continue
		}
		if len(x.values) != e.N*x.columns {
			return fmt.Errorf("%s: %d values for embeddings [%d, %d]; want [%d, %d]", x.what, len(x.values), e.N, e.Dim, e.N,
				x.columns)
		}
		for i, v := range x.values {
			if !finite(v) {
				return fmt.Errorf("%s: value at row %d, column %d is %v", x.what, i/x.columns, i%x.columns, v)
			}
		}
	}
	return nil
}

// Against holds a composed gradient at the normalized embeddings, g [N, Dim] made by the matrix m [N, N], as of [Rule]
// or [Loss], against this one, both on the sphere. It is an error if one of them is zero.
func (d *AutogradDissection) Against(g, m []float32) (*Agreement, error) {
	if len(g) != d.N*d.Dim || len(m) != d.N*d.N {
		return nil, fmt.Errorf("a gradient of %d values and a matrix of %d; want [%d, %d] and [%d, %d]", len(g), len(m), d.N,
			d.Dim, d.N, d.N)
	}
	a := agreement(onSphere(d.F, g, d.Dim), d.onSphere(d.G), m, d.N)
	if a == nil {
		return nil, errors.New("one of the two gradients is zero")
	}
	return a, nil
}

// MinedPairs returns which pairs of a batch a miner chooses, [N, N] row by row, rows the anchors'. mine is a miner's
// Mine.
func MinedPairs(b compute.Backend, e Embeddings, mine func(*dmlx.LossBatch) *dmlx.LossBatch) ([]bool, error) {
	out, err := runOn(b, e, func(x, labels *Node) []*Node {
		m := mine(dmlx.NewLossBatch(x, labels, nil, nil))
		return []*Node{LogicalOr(m.Positive, m.Negative)}
	})
	if err != nil {
		return nil, err
	}
	return tensors.CopyFlatData[bool](out[0])
}

func float32s(x *mat.Dense) []float32 {
	rows, columns := x.Dims()
	out := make([]float32, 0, rows*columns)
	for i := range rows {
		for _, v := range x.RawRowView(i) {
			out = append(out, float32(v))
		}
	}
	return out
}

// across takes from each row of x its part along the row of f.
func across(x, f *mat.Dense) {
	rows, _ := x.Dims()
	for i := range rows {
		row, at := x.RawRowView(i), f.RawRowView(i)
		along := dot(row, at)
		for j := range row {
			row[j] -= along * at[j]
		}
	}
}

// anchored shares a matrix m out to the rows of the anchors that have each pair: W with W + Wᵀ = M.
func anchored(m *mat.Dense, pairs []bool) []float32 {
	n, _ := m.Dims()
	w := make([]float32, n*n)
	for i := range n {
		for j := range n {
			switch {
			case pairs == nil || pairs[i*n+j] && pairs[j*n+i]:
				w[i*n+j] = float32(m.At(i, j) / 2)
			case pairs[i*n+j]:
				w[i*n+j] = float32(m.At(i, j))
			}
		}
	}
	return w
}

// countPairs counts the pairs, each once.
func countPairs(pairs []bool, n int) (count int) {
	for i := range n {
		for j := range i {
			if pairs[i*n+j] || pairs[j*n+i] {
				count++
			}
		}
	}
	return count
}

// ambiguity is by how many the unknowns of M exceed the independent equations, see above.
func ambiguity(n, rank, unknowns int) int {
	return max(0, unknowns-(n*(rank-1)-rank*(rank-1)/2))
}

// span is what the embeddings f [N, D] of a batch span, with s = f fᵀ. What it takes is computed once.
type span struct {
	f, s     *mat.Dense
	singular *singular
}

// singular is f = U Σ Vᵀ without what is zero within the rounding of float32: U [N, r], σ [r], V [D, r].
type singular struct {
	u, v  *mat.Dense
	sigma []float64
}

// decompose takes the eigenvectors of the smaller one of fᵀf and f fᵀ: gonum's SVD takes longer.
func (p *span) decompose() *singular {
	if p.singular != nil {
		return p.singular
	}
	n, dim := p.f.Dims()
	gram := p.s
	if dim < n {
		gram = new(mat.Dense)
		gram.Mul(p.f.T(), p.f)
	}
	size := min(n, dim)
	var eigen mat.EigenSym
	if !eigen.Factorize(mat.NewSymDense(size, gram.RawMatrix().Data), true) {
		panic("dissect: the eigenvalues of a finite matrix were not found") // LAPACK's iteration ends in practice.
	}
	values := eigen.Values(nil)             // Ascending.
	least := float64(max(n, dim)) * 0x1p-23 // NumPy's matrix_rank for float32.
	least, from := least*least*values[size-1], 0
	for from < size-1 && values[from] <= least {
		from++
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	kept, other := mat.DenseCopyOf(vectors.Slice(0, size, from, size)), new(mat.Dense)
	p.singular = &singular{sigma: make([]float64, size-from)}
	for i := range p.singular.sigma {
		p.singular.sigma[i] = math.Sqrt(values[from+i])
	}
	if dim < n {
		other.Mul(p.f, kept)
		p.singular.u, p.singular.v = other, kept
	} else {
		other.Mul(p.f.T(), kept)
		p.singular.u, p.singular.v = kept, other
	}
	overColumns(other, p.singular.sigma)
	return p.singular
}

// overColumns divides each column by its number.
func overColumns(x *mat.Dense, by []float64) {
	rows, _ := x.Dims()
	for i := range rows {
		row := x.RawRowView(i)
		for j := range row {
			row[j] /= by[j]
		}
	}
}

func (p *span) rank() int { return len(p.decompose().sigma) }

// outside is the length of the part of the rows of x [N, D] that is in no direction of an embedding.
func (p *span) outside(x *mat.Dense) float64 {
	if _, dim := p.f.Dims(); p.rank() == dim {
		return 0
	}
	var inside, product mat.Dense
	v := p.decompose().v
	product.Mul(x, v)
	inside.Mul(&product, v.T())
	inside.Sub(x, &inside)
	return mat.Norm(&inside, 2)
}

// leastSquares returns the symmetric matrix with a zero diagonal for which M f is nearest to g [N, D] on the sphere,
// the least of them.
func (p *span) leastSquares(g *mat.Dense) *mat.Dense {
	n, _ := p.f.Dims()
	m := mat.NewDense(n, n, nil)
	d := p.decompose()
	r := len(d.sigma)
	var gv, k, z mat.Dense
	gv.Mul(g, d.v)
	k.Mul(d.u.T(), &gv)
	z.Mul(d.u, &k)
	z.Sub(&gv, &z)
	overColumns(&z, d.sigma)
	half := mat.NewDense(r, r, nil) // A/2
	for i, x := range d.sigma {
		for j, y := range d.sigma {
			half.Set(i, j, (y*k.At(i, j)+x*k.At(j, i))/(x*x+y*y)/2)
		}
	}
	var y mat.Dense // M = Y Uᵀ + U Yᵀ
	y.Mul(d.u, half)
	y.Add(&y, &z)
	lambda := flatten(&y, d.u)
	// ΛQ + QΛ − QΛQ in the same form.
	scaled := mat.DenseCopyOf(d.u)
	for i := range n {
		row := scaled.RawRowView(i)
		for j := range row {
			row[j] *= lambda[i]
		}
	}
	var middle, more mat.Dense
	middle.Mul(d.u.T(), scaled)
	more.Mul(d.u, &middle)
	more.Scale(-0.5, &more)
	y.Add(&y, scaled)
	y.Add(&y, &more)
	m.Mul(&y, d.u.T())
	for i := range n {
		for j := range i {
			v := m.At(i, j) + m.At(j, i)
			m.Set(i, j, v)
			m.Set(j, i, v)
		}
		m.Set(i, i, 0)
	}
	return m
}

// flatten returns the λ for which the diagonal of Y Uᵀ + U Yᵀ + ΛQ + QΛ − QΛQ is zero.
func flatten(y, u *mat.Dense) []float64 {
	n, _ := u.Dims()
	var q mat.Dense
	q.Mul(u, u.T())
	h, right := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		for j := range i {
			h.SetSym(i, j, -q.At(i, j)*q.At(i, j))
		}
		h.SetSym(i, i, 2*q.At(i, i)-q.At(i, i)*q.At(i, i))
		right.SetVec(i, -2*dot(y.RawRowView(i), u.RawRowView(i)))
	}
	var c mat.Cholesky
	var lambda mat.VecDense
	// h is diag(Q) and a graph's Laplacian of weights Q∘Q, and no f_i is zero: it is positive definite.
	if !c.Factorize(h) || c.SolveVecTo(&lambda, right) != nil {
		return make([]float64, n)
	}
	return lambda.RawVector().Data
}

// onPairs is [leastSquares] with a matrix that is zero but at some pairs, by conjugate gradients on the normal
// equations, with the pairs scaled to the length of what they do.
func (p *span) onPairs(g *mat.Dense, pairs []bool) *mat.Dense {
	f, s := p.f, p.s
	n, dim := f.Dims()
	type pair struct {
		i, j  int
		scale float64
	}
	var of []pair
	for i := range n {
		for j := range i {
			// A pair of equal or opposite embeddings does nothing on the sphere.
			if square := 2 * (1 - s.At(i, j)*s.At(i, j)); (pairs[i*n+j] || pairs[j*n+i]) && square > 1e-12 {
				of = append(of, pair{i, j, 1 / math.Sqrt(square)})
			}
		}
	}
	gradient := func(x []float64) *mat.Dense {
		out := mat.NewDense(n, dim, nil)
		for k, q := range of {
			v := x[k] * q.scale
			fi, fj, oi, oj := f.RawRowView(q.i), f.RawRowView(q.j), out.RawRowView(q.i), out.RawRowView(q.j)
			floats.AddScaled(oi, v, fj)
			floats.AddScaled(oj, v, fi)
		}
		across(out, f)
		return out
	}
	transposed := func(r *mat.Dense) []float64 { // r is on the sphere.
		out := make([]float64, len(of))
		for k, q := range of {
			out[k] = q.scale * (floats.Dot(r.RawRowView(q.i), f.RawRowView(q.j)) +
				floats.Dot(r.RawRowView(q.j), f.RawRowView(q.i)))
		}
		return out
	}
	x, rest := make([]float64, len(of)), mat.DenseCopyOf(g)
	z := transposed(rest)
	direction, size := append([]float64(nil), z...), dot(z, z)
	for first, turns := size, 0; turns < 1000 && size > 1e-20*first; turns++ {
		step := gradient(direction)
		length := mat.Norm(step, 2)
		if length == 0 {
			break
		}
		rate := size / (length * length)
		for k := range x {
			x[k] += rate * direction[k]
		}
		step.Scale(rate, step)
		rest.Sub(rest, step)
		z = transposed(rest)
		next := dot(z, z)
		for k := range direction {
			direction[k] = z[k] + next/size*direction[k]
		}
		size = next
	}
	m := mat.NewDense(n, n, nil)
	for k, q := range of {
		m.Set(q.i, q.j, x[k]*q.scale)
		m.Set(q.j, q.i, x[k]*q.scale)
	}
	return m
}
