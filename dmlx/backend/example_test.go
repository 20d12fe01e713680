package backend_test

import (
	"fmt"
	"log"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/backend"
)

// The pure-Go backend starts everywhere. [backend.Open] takes GOMLX_BACKEND, or XLA where it is linked.
func ExampleGo() {
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	sum, err := CallOnce(b, func(x *Node) *Node { return ReduceAllSum(x) }, []float32{1, 2, 3})
	fmt.Println(sum.Value(), err)
	// Output:
	// 6 <nil>
}
