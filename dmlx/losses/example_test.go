package losses_test

import (
	"fmt"
	"log"

	"github.com/gradient-surgery/dml/dmlx/losses"
)

// Parameters that a text does not name are the published ones.
func ExampleParse() {
	l, err := losses.Parse("ms?beta=40")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l)
	for _, p := range l.Parameters() {
		fmt.Println(p.Name, p.Value)
	}
	// Output:
	// ms?beta=40
	// alpha 2
	// beta 40
	// lambda 0.5
}
