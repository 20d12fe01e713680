package heads

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// newTestAlgebra multiplies on the Go backend until the test ends.
func newTestAlgebra(t *testing.T) *algebra {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAlgebra(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.free)
	return a
}

// The layers of a head are what its block's coordinates and trained weights say, cut or not, with a hidden layer or
// without, also for features that were scaled and shifted.
func TestLayersOfBlock(t *testing.T) {
	t.Parallel()
	a, rng := newTestAlgebra(t), rand.New(rand.NewPCG(1, 2))
	rows := featureRows{newMatrix(108, 70), make([]int64, 108)}
	scale, shift := make([]float32, rows.cols), make([]float32, rows.cols)
	for i := range rows.rows {
		rows.labels[i] = int64(i / 12)
		for j := range rows.cols {
			center, noise := 3+math.Sin(float64(rows.labels[i]+1)*float64(j+1)), 0.6
			if j >= 30 { // Classes differ less in these directions.
				noise = 2
			}
			rows.row(i)[j] = float32(center + noise*rng.NormFloat64())
			scale[j], shift[j] = 2+float32(j%3), -1.5
		}
	}
	m := momentsOf(a, rows)
	for _, o := range []Options{{Dim: 70}, {Dim: 66}, {Dim: 20}, {Dim: 70, Hidden: 9}, {Dim: 66, Hidden: 9},
		{Dim: 64, Hidden: 5}, {Dim: 20, Hidden: 9}} {
		for _, of := range append(starts[:4:4], headStart{Name: plda, Shrinkage: 0.3, Between: 0.03},
			headStart{Name: plda, Shrinkage: 0.1, Between: 1}) {
			start := m.start(a, of)
			block, err := newBlock(a, start, rows, o)
			if err != nil {
				t.Fatal(err)
			}
			trained := block.Initial(3)
			for i := range trained {
				trained[i] += float32(rng.NormFloat64())
			}
			layers := block.Layers(trained, scale, shift)
			inner := func(x [][]float64) (out []float64) {
				for i := range 5 {
					for j := range 5 {
						out = append(out, floats.Dot(x[i], x[j])/floats.Norm(x[i], 2)/floats.Norm(x[j], 2))
					}
				}
				return out
			}
			var direct, byLayers [][]float64
			for i := range 5 {
				z := block.Data.Train.(*samples.Array).Values[i*block.Width : (i+1)*block.Width]
				moved := movedByHand(block, trained, z[:block.K])
				for _, v := range z[block.K:] {
					moved = append(moved, float64(v))
				}
				x := make([]float64, rows.cols)
				for j, v := range rows.row(i) {
					x[j] = float64(v*scale[j] + shift[j])
				}
				out := apply(layers[0], x)
				if o.Hidden > 0 {
					units := apply(layers[1], x)
					for i, v := range units {
						units[i] = max(v, 0)
					}
					floats.Add(out, apply(layers[2], units))
				}
				if len(out) != o.Dim {
					t.Fatalf("%d dimensions, want %d", len(out), o.Dim)
				}
				direct, byLayers = append(direct, moved), append(byLayers, out)
			}
			want := inner(direct)
			for k, v := range inner(byLayers) {
				if math.Abs(v-want[k]) > 2e-4 {
					t.Fatalf("%+v, %+v: cosine %g, want %g", o, of, v, want[k])
				}
			}
		}
	}
}

// apply is a linear layer by hand.
func apply(l onnx.Linear, x []float64) []float64 {
	out := make([]float64, len(l.Bias))
	for i, b := range l.Bias {
		out[i] = float64(b)
		for j, v := range x {
			out[i] += float64(l.Weight[i*len(x)+j]) * v
		}
	}
	return out
}

// movedByHand are the first coordinates behind a block.
func movedByHand(b *Block, weights []float32, x []float32) (out []float64) {
	row := func(w []float32, i, n int, x []float64) (sum float64) {
		for j, v := range x {
			sum += float64(w[i*n+j]) * v
		}
		return sum
	}
	first := make([]float64, len(x))
	for j, v := range x {
		first[j] = float64(v)
	}
	if b.hidden == 0 {
		for i := range b.K {
			out = append(out, row(weights, i, b.K, first))
		}
		return out
	}
	in, bias, last := weights[:b.hidden*b.K], weights[b.hidden*b.K:][:b.hidden], weights[b.hidden*(b.K+1):]
	var units []float64
	for i := range b.hidden {
		units = append(units, max(0, row(in, i, b.K, first)+float64(bias[i])))
	}
	for i := range b.K {
		out = append(out, first[i]+row(last, i, b.hidden, units))
	}
	return out
}

// A block is the identity at first, also with a hidden layer; its graph and its gradients are those by hand on both
// backends, and what ranks held-out rows is the same.
func TestBlockEmbeds(t *testing.T) {
	t.Parallel()
	a, rng := newTestAlgebra(t), rand.New(rand.NewPCG(5, 6))
	x := newMatrix(3, 6)
	for i := range x.values {
		x.values[i] = float32(rng.NormFloat64())
	}
	backends := []*backend.Choice{}
	for _, open := range []func() (*backend.Choice, error){backend.Open, backend.OpenLight} {
		b, err := open()
		if err != nil {
			t.Fatal(err)
		}
		backends = append(backends, b)
	}
	for _, b := range backends {
		for _, hidden := range []int{0, 5} {
			block := &Block{K: 4, Width: 6, hidden: hidden}
			store := model.NewStore()
			exec, err := model.NewExec(b.Backend, store, func(scope *model.Scope, x *Node) []*Node {
				y := block.Embed(scope, x)
				var w []*Node
				for _, v := range block.Weights() {
					w = append(w, store.GetVariable("/block/"+v.Name).NodeValue(x))
				}
				return append([]*Node{y}, Gradient(ReduceAllSum(Sin(y)), w...)...)
			})
			if err != nil {
				t.Fatal(err)
			}
			embed := func(weights []float32) (y []float32, gradient []float32) {
				rest := weights
				for _, v := range block.Weights() {
					n := 1
					for _, d := range v.Dims {
						n *= d
					}
					value := tensors.FromFlatDataAndDimensions(rest[:n:n], v.Dims...)
					if old := store.GetVariable("/block/" + v.Name); old == nil {
						store.VariableWithValue("/block/"+v.Name, value)
					} else if err := old.SetValue(value); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				out, err := exec.Call(tensors.FromFlatDataAndDimensions(x.values, 3, 6))
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range out[1:] {
					gradient = append(gradient, tensors.MustCopyFlatData[float32](g)...)
				}
				return tensors.MustCopyFlatData[float32](out[0]), gradient
			}
			weights := block.Initial(3)
			first, _ := embed(weights)
			for i, v := range first {
				if math.Abs(float64(v-x.values[i])) > 1e-6 {
					t.Fatalf("%s, %d units: value %d is %g at first, want %g", b.Name, hidden, i, v, x.values[i])
				}
			}
			for i := range weights {
				weights[i] += float32(rng.NormFloat64())
			}
			sum := func(weights []float32) (sum float64) {
				for i := range 3 {
					for _, v := range movedByHand(block, weights, x.row(i)[:4]) {
						sum += math.Sin(v)
					}
				}
				return sum
			}
			got, gradient := embed(weights)
			firstColumns := newMatrix(3, 4)
			for i := range 3 {
				copy(firstColumns.row(i), x.row(i))
			}
			moved := block.moved(a, firstColumns, weights)
			for i := range 3 {
				for j, want := range movedByHand(block, weights, x.row(i)[:4]) {
					if g, m := got[i*6+j], moved.row(i)[j]; math.Abs(float64(g)-want) > 1e-5 || math.Abs(float64(m)-want) > 1e-5 {
						t.Errorf("%s, %d units: (%d, %d) is %g in the graph and %g elsewhere, want %g", b.Name, hidden, i, j, g, m,
							want)
					}
				}
			}
			const h = 1e-3
			for i := range weights {
				up, down := slices.Clone(weights), slices.Clone(weights)
				up[i] += h
				down[i] -= h
				want := (sum(up) - sum(down)) / float64(up[i]-down[i])
				if math.Abs(float64(gradient[i])-want) > 2e-3*max(1, math.Abs(want)) {
					t.Errorf("%s, %d units: gradient %d is %g, want %g", b.Name, hidden, i, gradient[i], want)
				}
			}
			exec.Finalize()
			store.Finalize()
		}
	}
}

// The root of a large matrix by blocks inverts its Cholesky factor; one that is not positive definite has none.
func TestInverseRoot(t *testing.T) {
	t.Parallel()
	a, rng := newTestAlgebra(t), rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 256, 257, 531} {
		x, p := mat.NewDense(n, 2*n, nil), mat.NewDense(n, n, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		p.Mul(x, x.T())
		root := a.inverseRoot(p)
		if root == nil {
			t.Fatalf("%d: no root", n)
		}
		var left, one mat.Dense
		left.Mul(root, p)
		one.Mul(&left, root.T())
		for i := range n {
			for j := range n {
				want := 0.
				if i == j {
					want = 1
				}
				if math.Abs(one.At(i, j)-want) > 1e-9 || j > i && root.At(i, j) != 0 {
					t.Fatalf("%d: (%d, %d) of L⁻¹ P L⁻ᵀ is %g; L⁻¹ has %g there", n, i, j, one.At(i, j), root.At(i, j))
				}
			}
		}
		p.Set(n-1, n-1, -1)
		if root := a.inverseRoot(p); root != nil {
			t.Errorf("%d, not positive definite: %v", n, root)
		}
	}
}

// MAP@R and Recall@1 by inner products worked out by hand; where they are not finite all is wrong.
func TestRank(t *testing.T) {
	t.Parallel()
	s := matrix{[]float32{
		4, 1.8, 1, 1.6, // Positives 1 and 2 at places 1 and 3: MAP@R (1/1 + 0)/2.
		1.8, 1, 0.9, 0.1, // Places 1 and 2: 1.
		1, 0.9, 1, 0.95, // The negative 3 comes first, then 1: places 2 and 3, (1/2 + 0)/2.
		1.6, 0.1, 0.95, 1, // No positive.
	}, 4, 4}
	labels := []int64{1, 1, 1, 2}
	got := rank(s, labels)
	if want := (scores{(0.5 + 1 + 0.25) / 3, 2. / 3}); math.Abs(got.mapR-want.mapR) > 1e-12 || got.recall != want.recall {
		t.Errorf("%+v, want %+v", got, want)
	}
	s.values[3] = float32(math.NaN())
	if got := rank(s, labels); got != (scores{}) {
		t.Errorf("with NaN: %+v", got)
	}
}

// Inner products by blocks are those of all rows, and the moments of all classes less some are those of the others.
func TestSharedSums(t *testing.T) {
	t.Parallel()
	a, rng := newTestAlgebra(t), rand.New(rand.NewPCG(7, 8))
	x := featureRows{newMatrix(2*chunkRows+50, 3), nil}
	var some, others []int
	for i := range x.values {
		x.values[i] = float32(rng.NormFloat64())
	}
	for i := range x.rows {
		x.labels = append(x.labels, int64(i%5))
		if i%5 == 3 {
			some = append(some, i)
		} else {
			others = append(others, i)
		}
	}
	got := a.gram(x.matrix)
	want := a.times(x.matrix, x.matrix)
	for i, v := range want.values {
		if math.Abs(float64(v-got.values[i])) > 1e-5 {
			t.Fatalf("product %d of row %d is %g, want %g", i%x.rows, i/x.rows, got.values[i], v)
		}
	}
	of := func(r featureRows) *moments {
		m := momentsOf(a, r)
		return m
	}
	rest, direct := of(x).less(of(x.some(some))), of(x.some(others))
	if !mat.EqualApprox(rest.scatter, direct.scatter, 1e-5) || !floats.EqualApprox(rest.mean, direct.mean, 1e-9) ||
		!slices.Equal(rest.means.values, direct.means.values) || !slices.Equal(rest.sizes, direct.sizes) {
		t.Errorf("%+v, want %+v", rest, direct)
	}
}

// Starts by PLDA weigh directions as worked out by hand where means and scatter are known: means at ±a e, images at
// ±s e about them, for all unit vectors e.
func TestPLDA(t *testing.T) {
	t.Parallel()
	a := newTestAlgebra(t)
	means, noise := []float64{40, 9, 2, 0.1}, []float64{1, 2, 3, 1.5}
	f := len(means)
	rows := featureRows{newMatrix(4*f*f, f), make([]int64, 4*f*f)}
	for i := range rows.rows {
		class, image := i/(2*f), i%(2*f)
		rows.labels[i] = int64(class)
		rows.row(i)[class/2] += float32(means[class/2]) * float32(1-2*(class%2))
		rows.row(i)[image/2] += float32(noise[image/2]) * float32(1-2*(image%2))
		rows.row(i)[1] += 5
	}
	m := momentsOf(a, rows)
	average, all := 0., 0.
	for j, s := range noise {
		average += s * s / float64(f*f)
		all += means[j] * means[j] / float64(f*f)
	}
	const s = 0.2
	for _, between := range []float64{0.3, 1} {
		b, sum := make([]float64, f), 0.
		within := make([]float64, f)
		for j := range b {
			w := noise[j] * noise[j] / float64(f) / average
			within[j] = (1-s)*w + s
			b[j] = max(means[j]*means[j]/float64(f)/average-w/float64(2*f), 0) / within[j]
			sum += b[j] / float64(f)
		}
		start := m.start(a, headStart{Name: plda, Shrinkage: s, Between: between})
		var got mat.Dense
		got.Mul(start.weight.T(), start.weight)
		for j := range b {
			b[j] = (1-between)*b[j] + between*sum
			if between == 1 {
				b[j] = 3 * (all/average - 1/float64(2*f)) / within[j]
			}
			want := b[j] / (2*b[j] + 1) / within[j]
			for i := range b {
				if w := map[bool]float64{true: want}[i == j]; math.Abs(got.At(i, j)-w) > 1e-5 {
					t.Errorf("shrinkage %g: (%d, %d) is %g, want %g", between, i, j, got.At(i, j), w)
				}
			}
		}
	}
}
