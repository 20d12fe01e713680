package scores_test

import (
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/scores"
)

// The paper's Table 2 is a pivot of its printed numbers.
func ExampleTable_Pivot() {
	p, err := scores.Printed().Select(scores.Row{Table: 2}).Pivot(scores.Direction.Of, scores.Data.Of)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, direction := range p.Rows {
		fmt.Println(direction, p.Cells[i][0].Mean(), p.Cells[i][1].Mean())
	}
	fmt.Printf("%.1f\n", scores.Difference(p.At("cos", "CAR"), p.At("euc", "CAR")).Difference.Value)
	// Output:
	// euc 69.5 ± 0.7 83.7 ± 0.1
	// cos 75.5 ± 0.2 85.2 ± 0.3
	// euc-orth 66.9 ± 0.5 84.1 ± 0.1
	// cos-orth 77.0 ± 0.7 86.6 ± 0.2
	// 6.0
}
