package formula_test

import (
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/formula"
)

func ExampleParse() {
	l, err := formula.Parse("sigmoid( k*(San - Sap) ), k = 4.0", []string{"tau"}, formula.IsNumber)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l)
	fmt.Println(l.Exprs[0].Text(formula.LaTeX, nil))
	fmt.Println(l.Bound(nil)[0].Value(0.5, 0.5))
	_, err = formula.Parse("1-Spa", nil, formula.IsNumber)
	fmt.Println(err)
	// Output:
	// sigmoid(k*(San-Sap)), k=4
	// \sigma(k\cdot (S_{an}-S_{ap}))
	// 0.5
	// [1-Spa] at character 3: no variable Spa; did you mean Sap?
}
