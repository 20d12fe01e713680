package train_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// tiny is a config that trains in a second.
var tiny = train.Config{
	Objective: objectives.Objective{Rule: "cos/con/con"}, Arch: "small", Weights: train.Random, Dim: 8,
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

	training := train.Training{Config: tiny, ID: "example", Data: samples.Images(set), Dir: dir}
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
	config := tiny
	var err error
	if config.Objective, err = objectives.ByRule(dmlx.Rule{Direction: dmlx.DirectionCosOrth}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Objective)
	fmt.Printf("%d steps on batches of %d images\n", config.Steps(), config.Batch())
	for epoch := range config.Epochs {
		fmt.Printf("epoch %d: rate %g\n", epoch+1, config.RateAt(epoch*config.StepsPerEpoch))
	}

	if config.Objective, err = objectives.ParseLoss("ms"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Objective, config.Validate())

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

// Features that any network has computed get a linear head, trained by a rule.
func ExampleConfig_WithHead() {
	// Six classes of five points in seven dimensions, each around a corner.
	classes := func(first int64) *samples.Array {
		a := &samples.Array{Dims: []int{7}}
		for c := range int64(6) {
			for i := range 5 {
				for j := range 7 {
					value := float32(i*j%3) / 4
					if (first+c)>>j&1 == 1 {
						value += 2
					}
					a.Values = append(a.Values, value)
				}
				a.Classes = append(a.Classes, first+c)
			}
		}
		return a
	}
	data, err := samples.Features("corners", classes(1), classes(9))
	if err != nil {
		log.Fatal(err)
	}
	config := must(train.Config{Objective: objectives.Objective{Rule: "cos/con/con"}, Dim: 4, ClassesPerBatch: 6,
		ImagesPerClass: 5, LR: 0.3, Epochs: 2, StepsPerEpoch: 30}.WithHead("linear?start=random"))
	trainer, dir := must(train.Open()), must(os.MkdirTemp("", "train"))
	defer os.RemoveAll(dir)
	defer trainer.Close()
	training := train.Training{Config: config, ID: "corners", Data: data, Dir: dir}
	outcome := must(trainer.Train(context.Background(), training))
	fmt.Printf("%s by %s: %d queries, Recall@1 above 0.9: %v\n", config.Head, config.Rule, outcome.Queries,
		outcome.Recall[1] > 0.9)
	// Output: linear by cos/con/con: 30 queries, Recall@1 above 0.9: true
}

// must returns a value, or ends the program with its error.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A network is trained, images that it has not seen are embedded, and one of them asks for the nearest of all.
func ExampleTrainer_Embed() {
	ctx := context.Background()
	trainer := must(train.Open())
	defer trainer.Close()
	set := must(datasets.Open("minicar", datasets.Options{Size: 16, TrainClasses: 4, TestClasses: 3})) // Or a folder.
	data := samples.Images(set)
	dir := must(os.MkdirTemp("", "train"))
	defer os.RemoveAll(dir)
	must(trainer.Train(ctx, train.Training{Config: tiny, ID: "example", Data: data, Dir: dir}))
	weights := must(os.ReadFile(filepath.Join(dir, train.CheckpointDir, must(train.ReadCheckpoint(dir)).Weights)))
	photos := must(trainer.Embed(ctx, tiny, weights, data, data.Test, nil))

	index := must(retrieval.NewIndex(photos))
	found := must(index.Search(ctx, photos.Values[:photos.Dim], 3))
	fmt.Printf("%d images; the nearest of image 0 is %d\n", index.Len(), found[0][0].Index)
	// Output: 30 images; the nearest of image 0 is 0
}

// A network of your own is a function on the graph. It is trained on any samples, here on features.
func ExampleConfig_WithModel() {
	network := train.Model{Name: "two-layers", Input: []int{7},
		Embed: func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
			x = Tanh(layers.Dense(scope.In("hidden"), x, true, 16))
			return layers.Dense(scope.In("embedding"), x, true, 4)
		}}
	config, err := tiny.WithModel(network)
	if err != nil {
		log.Fatal(err)
	}
	name, _, _ := strings.Cut(config.Model, "#") // A digest of the graph follows.
	fmt.Println(name, config.Dim, config.Validate())
	// Output: two-layers 4 <nil>
}

// A loss of your own is a function of the similarities of a batch.
func ExampleByLoss() {
	square := func(b *dmlx.LossBatch) *Node {
		positive := ConvertDType(b.Positive, b.S.DType())
		return Div(ReduceAllSum(Mul(positive, Square(OneMinus(b.S)))), MaxScalar(ReduceAllSum(positive), 1))
	}
	config := tiny
	var err error
	if config.Objective, err = objectives.ByLoss(objectives.LossFunction{Name: "square", Of: square}); err != nil {
		log.Fatal(err)
	}
	objective, _, _ := strings.Cut(config.Objective.String(), "#") // A digest of the graph follows.
	fmt.Println(objective, config.Validate())
	// Output: loss square <nil>
}
