package figures_test

import (
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/figures"
)

// The weights of a rule on a grid of similarities make a triplet diagram.
func ExampleTripletDiagram() {
	sap, san := figures.SimilarityGrid(0, 1, 101)
	weight := make([]float32, len(sap))
	for i := range weight { // T^cos; dissect.Weights gives those of any rule.
		weight[i] = float32(1 / (1 + math.Exp(float64(sap[i]-san[i]))))
	}
	f, err := figures.TripletDiagram(figures.Diagram{Field: figures.Field{Title: "$T^{cos}$", Values: weight}})
	if err != nil {
		fmt.Println(err)
		return
	}
	svg, err := figures.Bytes(f, "svg")
	fmt.Println(len(svg) > 0, err)
	// Output: true <nil>
}
