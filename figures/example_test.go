package figures_test

import (
	"fmt"
	"math"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
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

func ExamplePaper() {
	r, err := figures.Paper(figures.PaperResult{Table: 2, Dataset: "CAR", Direction: "cos-orth"})
	fmt.Println(r.Score(), err)
	_, err = figures.Paper(figures.PaperResult{Table: 2, Dataset: "CUB", Direction: "cos-orth"})
	fmt.Println(err)
	// Output:
	// 77.0 ± 0.7 <nil>
	// the paper's table 2 prints 0 numbers for CUB cos-orth R@1
}

func ExampleCompare() {
	c, err := figures.Compare("table2", []figures.Entry{
		{Rule: "euc/con/con", Data: "minicar", Paper: "CAR", Score: stats.Mean{Mean: 65.1, Std: 2.0, N: 3}},
		{Rule: "cos/con/con", Data: "minicar", Paper: "CAR", Score: stats.Mean{Mean: 69.2, Std: 1.5, N: 3}},
	}, "an example")
	if err != nil {
		fmt.Println(err)
		return
	}
	md, err := figures.Bytes(c.Table(), "md")
	rows, _, _ := strings.Cut(string(md), "\n\n")
	fmt.Println(rows, err)
	// Output:
	// | Direction | ours, minicar | the paper's, CAR |
	// | :-- | :-: | :-: |
	// | $\mathbf{e^{euc}}$ | 65.1 ± 2.0 | 69.5 ± 0.7 |
	// | $\mathbf{e^{cos}}$ | 69.2 ± 1.5 | 75.5 ± 0.2 | <nil>
}
