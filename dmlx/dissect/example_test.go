package dissect_test

import (
	"fmt"
	"log"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

// An anchor at 0°, its positive at 60°, a negative at 90°.
func ExampleRule() {
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	rule, err := dmlx.ParseRule("cos/con/con")
	if err != nil {
		log.Fatal(err)
	}
	batch := dissect.Embeddings{N: 3, Dim: 2, Values: []float32{1, 0, 0.5, 0.8660254, 0, 1}, Labels: []int64{0, 0, 1},
		Triplets: []dissect.Triplet{{Anchor: 0, Positive: 1, Negative: 2}}}
	d, err := dissect.Rule(b, batch, rule)
	if err != nil {
		log.Fatal(err)
	}
	for i, name := range []string{"anchor", "positive", "negative"} {
		fmt.Printf("%s %.3f\n", name, d.Row(d.G, d.Dim, i))
	}
	// Output:
	// anchor [-0.250 0.067]
	// positive [-0.500 0.000]
	// negative [0.500 0.000]
}

// The multi-similarity loss of four embeddings: how much each anchor counts, and the pair weights that the loss gives
// it.
func ExampleLoss() {
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	loss, err := losses.Parse("ms?beta=10")
	if err != nil {
		log.Fatal(err)
	}
	batch := dissect.Embeddings{N: 4, Dim: 2, Values: []float32{1, 0, 0.8, 0.6, 0, 1, -0.6, 0.8},
		Labels: []int64{0, 0, 1, 1}}
	d, err := dissect.Loss(b, batch, dissect.Proxies{}, loss.Of)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("loss %.3f, on S: %v\n", d.Value, d.OnS() == nil)
	for _, a := range d.Implied.Anchors {
		fmt.Printf("anchor %d: T %.3f, P₊ %.2f, P₋ %.2f\n", a.Anchor, a.Weight, a.PairPositive, a.PairNegative)
	}
	fmt.Printf("left over: %.1f\n", d.Implied.Residual)
	// Output:
	// loss 0.285, on S: true
	// anchor 0: T 0.045, P₊ 1.96, P₋ 0.04
	// anchor 1: T 0.136, P₊ 0.65, P₋ 1.35
	// anchor 2: T 0.136, P₊ 0.65, P₋ 1.35
	// anchor 3: T 0.045, P₊ 1.96, P₋ 0.04
	// left over: 0.0
}

// The gradient that PyTorch's autograd gives −S_ap + 2 S_an at the normalized embeddings, for an anchor at 0°, its
// positive at 60° and a negative at 90°. Two dimensions are too few to tell what each of three pairs gave, so the pairs
// are named; without the names M is ambiguous.
func ExampleFromAutograd() {
	batch := dissect.Embeddings{N: 3, Dim: 2, Values: []float32{1, 0, 0.5, 0.8660254, 0, 1}, Labels: []int64{0, 0, 1}}
	gradient := []float32{-0.5, 1.1339746, -1, 0, 2, 0}
	d, err := dissect.FromAutograd(batch, dissect.Autograd{Gradient: gradient,
		Pairs: []bool{false, true, true, false, false, false, false, false, false}})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range d.Implied.Anchors {
		fmt.Printf("anchor %d: T P₊ %.2f, T P₋ %.2f\n", a.Anchor, a.Weight*a.PairPositive, a.Weight*a.PairNegative)
	}
	fmt.Printf("left over: %.2f\n", d.Implied.Residual)
	all, err := dissect.FromAutograd(batch, dissect.Autograd{Gradient: gradient})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("free without the pairs:", all.Ambiguity)
	// Output:
	// anchor 0: T P₊ 1.00, T P₋ 2.00
	// left over: 0.00
	// free without the pairs: 1
}

// Check finds that a weight is not finite for some similarity, and names the part at fault.
func ExampleCheck() {
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	rule := dmlx.Rule{Pair: dmlx.PairWeight{Name: "near", Of: func(b *dmlx.Batch) (positive, negative *Node) {
		return Reciprocal(b.Dap()), b.San // Divides by zero.
	}}}
	checked, err := dissect.Check(b, rule)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range checked.Findings {
		if f.Grade == dissect.Bad {
			fmt.Println(f.Check, "-", f.Part)
		}
	}
	// Output:
	// any similarity - pair weight near
}
