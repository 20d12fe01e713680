package samples_test

import (
	"fmt"
	"log"

	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Features that another program has computed, two of each class. Without test samples of their own, all are ranked.
func ExampleArrays() {
	features := &samples.Array{Dims: []int{2}, Values: []float32{1, 0, 2, 0.5, 0, 1, 0.5, 3}, Classes: []int64{7, 7, 9, 9}}
	data, err := samples.Arrays("mine", features, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(data.Train.Shape(), data.Train.Labels(), data.HasMatch())

	features.Classes = []int64{7, 7, 7, 7}
	_, err = samples.Arrays("mine", features, nil)
	fmt.Println(err)
	// Output:
	// (Float32)[2] [7 7 9 9] true
	// mine: all 4 training samples are of one class: want at least two classes
}

// One class in two is held out, spread over the labels: what is chosen on it has not seen the test classes.
func ExampleHeldOut() {
	labels := []int64{0, 0, 1, 1, 2, 2, 3, 3}
	without, err := samples.HeldOut(labels, 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(without, samples.NumberClasses(labels, without))
	// Output:
	// map[1:true 3:true] map[0:0 2:1]
}
