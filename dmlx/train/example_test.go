package train_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// tiny is a config that trains in a second.
var tiny = train.Config{
	Rule: "cos/con/con", Arch: "small", Weights: train.Random, Dim: 8,
	ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 1,
	LR: 0.1, Epochs: 3, StepsPerEpoch: 3, Seed: 1,
}

// A small network is trained on four classes of cars, and evaluated on three others. A second call with the same folder
// would resume from the checkpoint.
func ExampleTrainer() {
	b, err := backend.Go() // Or train.Open for the fastest backend of the machine.
	if err != nil {
		log.Fatal(err)
	}
	trainer := train.New(&backend.Choice{Backend: b, Name: "go"})
	defer trainer.Close()
	set, err := datasets.Open("minicar", datasets.Options{Size: 16, TrainClasses: 4, TestClasses: 3})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "train")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	training := train.Training{Config: tiny, ID: "example", Data: train.Images(set), Dir: dir}
	outcome, err := trainer.Train(context.Background(), training)
	if err != nil {
		log.Fatal(err)
	}
	_, measured := outcome.Recall[1]
	fmt.Printf("%d queries, Recall@1 measured: %v\n", outcome.Queries, measured)

	checkpoint, err := train.ReadCheckpoint(dir)
	if err != nil {
		log.Fatal(err)
	}
	for _, epoch := range checkpoint.Epochs {
		fmt.Printf("epoch %d: learning rate %g, %d triplets\n", epoch.Epoch, epoch.LR, epoch.Triplets)
	}
	fmt.Println(checkpoint.Weights)
	// Output:
	// 30 queries, Recall@1 measured: true
	// epoch 1: learning rate 0.1, 12 triplets
	// epoch 2: learning rate 0.1, 12 triplets
	// epoch 3: learning rate 0.01, 12 triplets
	// weights-003.safetensors
}

// A config says what is trained and for how long. Its learning rate falls to a tenth after 60 % of the epochs.
func ExampleConfig() {
	config, err := tiny.WithRule(dmlx.Rule{Direction: dmlx.DirectionCosOrth})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Objective())
	fmt.Printf("%d steps on batches of %d images\n", config.Steps(), config.Batch())
	for epoch := range config.Epochs {
		fmt.Printf("epoch %d: rate %g\n", epoch+1, config.Rate(epoch))
	}

	if config, err = config.WithLoss("ms", ""); err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Objective(), config.Validate())

	config.ClassesPerBatch = 0
	fmt.Println(config.Validate())
	// Output:
	// cos-orth/con/con
	// 9 steps on batches of 4 images
	// epoch 1: rate 0.1
	// epoch 2: rate 0.1
	// epoch 3: rate 0.01
	// loss ms <nil>
	// classes per batch is 0, must be at least 1
}
