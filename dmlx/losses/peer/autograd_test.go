package peer

import (
	_ "embed"
	"encoding/json"
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

//go:embed autograd.json
var autograd []byte

// byHand is the loss that autograd.py writes by hand.
func byHand(b *dmlx.LossBatch) *Node {
	best := func(mask *Node) *Node {
		return ReduceMax(Where(mask, b.S, AddScalar(ZerosLike(b.S), -2)), 1)
	}
	own := ConvertDType(b.Positive, b.S.DType())
	pull := Div(ReduceAllSum(Mul(own, Square(AddScalar(b.S, -0.9)))), ReduceAllSum(own))
	hard := ReduceAllMean(Softplus(MulScalar(Sub(best(b.Negative), best(b.Positive)), 8)))
	return Add(hard, MulScalar(pull, 0.1))
}

// What is found in PyTorch's gradient of a loss, at the embeddings or at the similarities, is what is known here of the
// same loss.
func TestPyTorchGradients(t *testing.T) {
	var fixture struct {
		Labels     []int64
		Dim        int
		Embeddings []float32
		Gradients  []struct {
			Name            string
			Raw, Similarity []float32
		}
	}
	if err := json.Unmarshal(autograd, &fixture); err != nil {
		t.Fatal(err)
	}
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	n := len(fixture.Labels)
	e := dissect.Embeddings{Values: fixture.Embeddings, N: n, Dim: fixture.Dim, Labels: fixture.Labels}
	if len(fixture.Gradients) < 5 {
		t.Fatalf("%d gradients", len(fixture.Gradients))
	}
	for _, g := range fixture.Gradients {
		loss := byHand
		if g.Name != "by hand" {
			l, err := losses.Parse(g.Name)
			if err != nil {
				t.Fatal(err)
			}
			loss = l.Of
		}
		want, err := dissect.Loss(b, e, dissect.Proxies{}, loss)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			want.M[i*n+i] = 0 // Along f: the gradient does not tell it.
		}
		for what, a := range map[string]dissect.Autograd{
			"gradient":            {Gradient: g.Raw, Raw: true},
			"similarity gradient": {Gradient: g.Raw, Raw: true, Similarity: g.Similarity},
		} {
			d, err := dissect.FromAutograd(e, a)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				d.M[i*n+i] = 0
			}
			against, err := d.Against(want.G, want.M)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %s: M %.1g, constant %.1g, gradient %.1g, not through S %.1g", g.Name, what, Off(d.M, want.M),
				against.Constant-1, against.Error, d.Coordinates)
			if off := Off(d.M, want.M); off > 2e-6 || math.Abs(against.Constant-1) > 2e-6 || against.Error > 2e-6 ||
				d.Coordinates > 2e-6 || d.Ambiguity != 0 {
				t.Errorf("%s, %s: M is %g away, %+v, not through S %g", g.Name, what, off, against, d.Coordinates)
			}
			if a.Similarity == nil {
				continue
			}
			largest := 0.0
			for _, anchor := range want.Implied.Anchors {
				largest = max(largest, anchor.Weight)
			}
			for i, anchor := range want.Implied.Anchors {
				got := d.Implied.Anchors[i]
				// In P₊, 1 − p of a softmax near 1 has the rounding of PyTorch's float32.
				if math.Abs(got.Weight-anchor.Weight) > 2e-6*largest ||
					math.Abs(got.PairPositive-anchor.PairPositive) > 1e-5 {
					t.Errorf("%s: anchor %d has T %g and P₊ %g, want %g and %g", g.Name, i, got.Weight, got.PairPositive,
						anchor.Weight, anchor.PairPositive)
				}
			}
		}
	}
}
