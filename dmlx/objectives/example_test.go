package objectives_test

import (
	"fmt"
	"log"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
)

// What a training minimizes, as command lines name it.
func ExampleParse() {
	for _, text := range []string{"cos/lin/cir?tau=2", "loss ms", "loss circle, miner hard, pair=con"} {
		o, err := objectives.Parse(text)
		fmt.Println(o, o.IsRule(), err)
	}
	// Output:
	// cos/lin/cir?tau=2 true <nil>
	// loss ms false <nil>
	// loss circle, miner hard, pair=con false <nil>
}

// A loss of one's own is an objective like the others. Its name stands for it in results.
func ExampleByLoss() {
	o, err := objectives.ByLoss(objectives.LossFunction{Name: "squares", Of: func(b *dmlx.LossBatch) *Node {
		apart := Where(b.Positive, OneMinus(b.S), MaxScalar(b.S, 0))
		return ReduceAllMean(Square(apart))
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o.Custom())
	// Output:
	// true
}
