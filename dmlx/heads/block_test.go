package heads

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// newTestAlgebra multiplies on the Go backend until the test ends.
func newTestAlgebra(t *testing.T) *algebra {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAlgebra(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.free)
	return a
}

// The linear map of a block is what its coordinates and its trained matrix say, cut or not.
func TestLinearOfBlock(t *testing.T) {
	t.Parallel()
	a, rng := newTestAlgebra(t), rand.New(rand.NewPCG(1, 2))
	rows := featureRows{newMatrix(108, 70), make([]int64, 108)}
	for i := range rows.rows {
		rows.labels[i] = int64(i / 12)
		for j := range rows.cols {
			center, noise := 3+math.Sin(float64(rows.labels[i]+1)*float64(j+1)), 0.6
			if j >= 30 { // Classes differ less in these directions.
				noise = 2
			}
			rows.row(i)[j] = float32(center + noise*rng.NormFloat64())
		}
	}
	m, err := momentsOf(a, rows)
	if err != nil {
		t.Fatal(err)
	}
	for _, dim := range []int{70, 66, 20} {
		for i := range 2 + len(shrinkages) {
			start, err := m.start(a, i)
			if err != nil {
				t.Fatal(err)
			}
			block, err := newBlock(a, start, rows, dim)
			if err != nil {
				t.Fatal(err)
			}
			trained := make([]float32, block.K*block.K)
			for i := range trained {
				trained[i] = float32(rng.NormFloat64())
			}
			weight, bias := block.linear(trained)
			inner := func(x [][]float64) (out []float64) {
				for i := range 5 {
					for j := range 5 {
						out = append(out, floats.Dot(x[i], x[j])/floats.Norm(x[i], 2)/floats.Norm(x[j], 2))
					}
				}
				return out
			}
			var direct, linear [][]float64
			for i := range 5 {
				z := block.Data.Train.(*samples.Array).Values[i*block.Width : (i+1)*block.Width]
				var moved, mapped []float64
				for r := range block.K {
					sum := 0.0
					for j := range block.K {
						sum += float64(trained[r*block.K+j]) * float64(z[j])
					}
					moved = append(moved, sum)
				}
				for _, v := range z[block.K:] {
					moved = append(moved, float64(v))
				}
				for r := range bias {
					sum := bias[r]
					for j, w := range weight.RawRowView(r) {
						sum += w * float64(rows.row(i)[j])
					}
					mapped = append(mapped, sum)
				}
				if len(mapped) != dim {
					t.Fatalf("%d dimensions, want %d", len(mapped), dim)
				}
				direct, linear = append(direct, moved), append(linear, mapped)
			}
			want := inner(direct)
			for k, v := range inner(linear) {
				if math.Abs(v-want[k]) > 2e-4 {
					t.Fatalf("dim %d, start %d: cosine %g, want %g", dim, i, v, want[k])
				}
			}
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
		root, err := a.inverseRoot(p)
		if err != nil || root == nil {
			t.Fatalf("%d: %v, %v", n, root, err)
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
		if root, err := a.inverseRoot(p); root != nil || err != nil {
			t.Errorf("%d, not positive definite: %v, %v", n, root, err)
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
	got, err := rank(s, labels)
	if want := (scores{(0.5 + 1 + 0.25) / 3, 2. / 3}); err != nil || math.Abs(got.mapR-want.mapR) > 1e-12 ||
		got.recall != want.recall {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	s.values[3] = float32(math.NaN())
	if got, err := rank(s, labels); err != nil || got != (scores{}) {
		t.Errorf("with NaN: %+v, %v", got, err)
	}
}
