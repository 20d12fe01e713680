package dmlx_test

import (
	"fmt"
	"log"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// Six images of two classes, as four features each: the first two features tell the classes apart, the others do not.
var (
	features = [][]float32{{3, 1, 2, 0}, {3, 2, 0, 2}, {2, 1, -2, 1}, {1, 3, 2, 1}, {2, 3, 1, 2}, {1, 2, -2, 0}}
	labels   = []int64{0, 0, 0, 1, 1, 1}
)

// A linear embedding [4, 2] is trained by a rule in a plain loop of gradient descent. Surgery's result may become any
// scalar, here its sum: what arrives at the embeddings is the rule's gradient.
func ExampleSurgery() {
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	rule, err := dmlx.ParseRule("cos/lin/cir")
	if err != nil {
		log.Fatal(err)
	}
	step, err := NewExec(b, func(w, x, labels *Node) (next, sap, san *Node) {
		f, composed := dmlx.Surgery(MatMul(x, w), labels, rule)
		gradient := Gradient(ReduceAllSum(f), w)[0]
		return Sub(w, MulScalar(gradient, 1)), ReduceAllMean(composed.Sap), ReduceAllMean(composed.San)
	})
	if err != nil {
		log.Fatal(err)
	}
	w := tensors.FromValue([][]float32{{1, 0.1}, {0.1, 1}, {0.5, -0.3}, {-0.2, 0.4}})
	for i := range 201 {
		out, err := step.Call(w, features, labels)
		if err != nil {
			log.Fatal(err)
		}
		w = out[0]
		if i%100 == 0 {
			fmt.Printf("step %3d: mean S_ap %.2f, mean S_an %.2f\n", i, tensors.ToScalar[float32](out[1]),
				tensors.ToScalar[float32](out[2]))
		}
	}
	// Output:
	// step   0: mean S_ap 0.92, mean S_an 0.94
	// step 100: mean S_ap 0.99, mean S_an 0.12
	// step 200: mean S_ap 0.99, mean S_an 0.12
}

// A rule with a pair weight of one's own.
func ExampleRule() {
	rule := dmlx.Rule{
		Direction: dmlx.DirectionCosOrth,
		Pair: dmlx.PairWeight{Name: "square", Of: func(b *dmlx.Batch) (positive, negative *Node) {
			return Square(OneMinus(b.Sap)), Square(b.San)
		}},
		Options: dmlx.Options{Tau: new(2.0)},
	}
	fmt.Println(rule, rule.Custom())
	// Output: cos-orth/square/con?tau=2 true
}

func ExampleParseRule() {
	rule, err := dmlx.ParseRule("table1-circle?tau=2")
	fmt.Println(rule, err)
	// Output: cos/lin/cir?tau=2 <nil>
}

// A rule with weights and a mask written as formulas, and a number of their own.
func ExampleParseRule_formula() {
	rule, err := dmlx.ParseRule("cos/[1-Sap, San]/[max(0, San-Sap+m), m=0.5]+[San>Sap]?m=0.2")
	fmt.Println(rule, err)
	_, err = dmlx.ParseRule("cos/[1-Sap, San]/[max(0, San-Sap+m)]")
	fmt.Println(err != nil)
	// Output:
	// cos/[1-Sap, San]/[max(0, San-Sap+m), m=0.2]+[San > Sap] <nil>
	// true
}

// Rules with a part of one's own, by name.
func ExamplePartsWith() {
	hinge := func(b *dmlx.Batch) *Node { return MaxScalar(AddScalar(Sub(b.San, b.Sap), 0.5), 0) }
	mine := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "hinge", Of: hinge}}
	rule, err := dmlx.PartsWith(mine).Parse("cos-orth/lin/hinge+sc1?tau=2")
	fmt.Println(rule, rule.Custom(), err)
	_, err = dmlx.ParseRule("cos-orth/lin/hinge")
	fmt.Println(err != nil)
	// Output:
	// cos-orth/lin/hinge+sc1?tau=2 true <nil>
	// true
}
