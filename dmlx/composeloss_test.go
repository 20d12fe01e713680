package dmlx_test

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// A loss of the similarities within classes has the matrix and the gradient that it has as one of PP.
func TestWithinIsTheDiagonalOfPP(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		out, err := graphs.Run(b, func(in []*Node) []*Node {
			const m, k = 2, 3
			blocks := func(b *dmlx.LossBatch) *Node { // By PP alone: this batch has no vectors.
				return (&dmlx.LossBatch{PP: b.PP}).Within(k)
			}
			within := func(b *dmlx.LossBatch) *Node { return b.Within(k) }
			var all []*Node
			for _, of := range []func(b *dmlx.LossBatch) *Node{blocks, within} {
				c := dmlx.ComposeLoss(dmlx.NewLossBatch(in[0], in[1], in[2], in[3]), func(b *dmlx.LossBatch) *Node {
					s := of(b)
					weights := Add(graphs.Index(s, 1), MulScalar(graphs.Index(s, 2), 2)) // Not symmetric.
					return ReduceAllSum(Mul(Exp(s), ConvertDType(weights, s.DType())))
				})
				all = append(all, c.Value, c.WPP, c.GP)
			}
			return all
		}, [][]float32{{1, 2}, {3, -1}}, []int32{0, 1},
			[][]float32{{1, 0}, {2, 1}, {-1, 1}, {0, 1}, {1, -2}, {3, 1}}, []int32{0, 0, 0, 1, 1, 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			want, got := graphs.Floats(out[i]), graphs.Floats(out[3+i])
			moves := false
			for j, v := range want {
				moves = moves || v != 0
				if math.Abs(float64(got[j]-v)) > 1e-4 {
					t.Errorf("result %d, element %d: %g, by PP %g", i, j, got[j], v)
				}
			}
			if !moves {
				t.Errorf("result %d is zero", i)
			}
		}
	})
}
