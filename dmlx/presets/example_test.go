package presets_test

import (
	"context"
	"fmt"
	"log"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
)

// A preset decides what is trained for a table. The error of an unknown name lists the presets.
func ExampleParse() {
	fmt.Println(presets.Names())
	preset, err := presets.Parse("paper")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s and %s, %d seeds\n", preset.FineGrained, preset.CoarseGrained, len(preset.Seeds))
	_, err = presets.Parse("huge")
	fmt.Println(err)
	// Output:
	// [smoke quick full paper]
	// CAR and In-shop, 5 seeds
	// no preset "huge"; there are smoke, quick, full, paper
}

// The spec of a rule has all settings of its training. The spec of the same rule with another seed differs in its hash.
func ExamplePreset_Spec() {
	preset, err := presets.Parse("quick")
	if err != nil {
		log.Fatal(err)
	}
	rule, err := dmlx.ParseRule("cos/lin/cir")
	if err != nil {
		log.Fatal(err)
	}
	spec, err := preset.Spec("minicar", rule, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s on %s, %d × %d images per batch\n", spec.Rule, spec.Data, spec.ClassesPerBatch, spec.ImagesPerClass)
	fmt.Printf("%d epochs of %d steps at rate %g\n", spec.Epochs, spec.StepsPerEpoch, spec.LR)

	other, err := preset.Spec("minicar", rule, 2)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("same run:", spec.Hash() == other.Hash())
	// Output:
	// cos/lin/cir on minicar, 8 × 8 images per batch
	// 24 epochs of 30 steps at rate 0.75
	// same run: false
}

// The settings of a preset are changed for all runs, and the preset says what was changed.
func ExamplePreset_With() {
	quick, err := presets.Parse("quick")
	if err != nil {
		log.Fatal(err)
	}
	mine, err := quick.With(presets.Settings{RuleOptions: "tau=2", Batch: 32, Seeds: []uint64{1, 2, 3, 4, 5}})
	if err != nil {
		log.Fatal(err)
	}
	objective, err := objectives.Parse("cos/lin/cir")
	if err != nil {
		log.Fatal(err)
	}
	spec, err := mine.ObjectiveSpec("minicar", presets.Objective{Objective: objective}, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mine)
	fmt.Printf("%s, %d × %d images per batch\n", spec.Rule, spec.ClassesPerBatch, spec.ImagesPerClass)
	// Output:
	// quick with seeds 1, 2, 3, 4, 5, batches of 32, tau=2
	// cos/lin/cir?tau=2, 4 × 8 images per batch
}

// A rule of your own is trained in one call, and read from the store by the next.
func ExampleTrain() {
	hinge := func(b *dmlx.Batch) *Node { return MaxScalar(AddScalar(Sub(b.San, b.Sap), 0.5), 0) }
	rule := dmlx.Rule{Direction: dmlx.DirectionCosOrth, Triplet: dmlx.TripletWeight{Name: "hinge", Of: hinge}}
	result, err := presets.Train(context.Background(), "minicar", rule)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: Recall@1 %.1f %%\n", rule, 100*result.Recall[1])
}
