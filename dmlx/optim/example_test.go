package optim_test

import (
	"fmt"
	"log"

	"github.com/gradient-surgery/dml/dmlx/optim"
)

// The rates' share in the first step of each of ten epochs of 30 steps.
func ExampleParseSchedule() {
	for _, text := range []string{optim.PaperSchedule, "cosine?warmup=30"} {
		s, err := optim.ParseSchedule(text)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(s, ":")
		for epoch := range 10 {
			fmt.Printf(" %.2f", s.Share(30*epoch, 10, 30))
		}
		fmt.Println()
	}
	// Output:
	// step?at=0.6: 1.00 1.00 1.00 1.00 1.00 1.00 0.10 0.10 0.10 0.10
	// cosine?warmup=30: 0.03 1.00 0.97 0.88 0.75 0.59 0.41 0.25 0.12 0.03
}

func ExampleParseOptimizer() {
	o, err := optim.ParseOptimizer("sgd?momentum=0.9")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(o, o.IsAdaptive(), o.StateNames())
	// Output:
	// sgd?momentum=0.9 false [momentum]
}
