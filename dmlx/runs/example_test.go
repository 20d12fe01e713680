package runs_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// tinySpec returns a spec that trains in a second on the Go backend. Package presets has those of the paper's tables.
func tinySpec(seed uint64) runs.Spec {
	return runs.Spec{
		Recipe: runs.Recipe, Data: "minicar", Size: 16, TrainClasses: 4, TestClasses: 3,
		Config: train.Config{
			Objective: objectives.Objective{Rule: "cos-orth/con/con"}, Arch: "small", Weights: train.Random, Dim: 8,
			ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 1, LR: 0.1, Epochs: 1, StepsPerEpoch: 3, Seed: seed,
		},
	}
}

// goTrainer opens the Go backend, which needs no plugin.
func goTrainer() (*train.Trainer, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	return train.New(&backend.Choice{Backend: b, Name: "go"}), nil
}

func tempStore() (*runs.Store, func()) {
	dir, err := os.MkdirTemp("", "runs")
	if err != nil {
		log.Fatal(err)
	}
	store, err := runs.OpenStore(dir)
	if err != nil {
		log.Fatal(err)
	}
	return store, func() { _ = os.RemoveAll(dir) }
}

// A store caches the results of runs: the second Run reads what the first one has trained.
func ExampleStore() {
	store, remove := tempStore()
	defer remove()
	trainer, err := goTrainer()
	if err != nil {
		log.Fatal(err)
	}
	spec := tinySpec(1)
	if _, found, _ := store.Lookup(spec); !found {
		fmt.Println("not in the store")
	}
	first, err := runs.Run(context.Background(), trainer, store, spec, nil)
	if err != nil {
		log.Fatal(err)
	}
	second, err := runs.Run(context.Background(), trainer, store, spec, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("cached:", second.Date.Equal(first.Date) && second.Sum == first.Sum)
	fmt.Println("named by its hash:", first.Hash == spec.Hash())
	// Output:
	// not in the store
	// cached: true
	// named by its hash: true
}

// The hash changes with everything that decides the numbers of a run.
func ExampleSpec_Hash() {
	a, b := tinySpec(1), tinySpec(1)
	fmt.Println(len(a.Hash()), "digits, equal:", a.Hash() == b.Hash())
	b.LR = 0.2
	fmt.Println("with another learning rate:", a.Hash() == b.Hash())
	// Output:
	// 12 digits, equal: true
	// with another learning rate: false
}

// RunAll trains only the specs whose results are missing, each once.
func ExampleRunAll() {
	store, remove := tempStore()
	defer remove()
	specs := []runs.Spec{tinySpec(1), tinySpec(2), tinySpec(1)}
	for range 2 {
		results, ran, err := runs.RunAll(context.Background(), goTrainer, store, specs, runs.Options{})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(results), "results,", ran, "trained")
	}
	// Output:
	// 3 results, 2 trained
	// 3 results, 0 trained
}
