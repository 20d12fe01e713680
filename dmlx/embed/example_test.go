package embed_test

import (
	"context"
	"fmt"
	"image"
	"log"
	"os"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/embed"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// tiny is a run of a few seconds on drawn images.
var tiny = runs.Spec{
	Recipe: runs.Recipe, Data: "minicar", Size: 16, TrainClasses: 4, TestClasses: 3,
	Config: train.Config{
		Objective: objectives.Objective{Rule: "cos-orth/con/con"}, Arch: "small", Weights: train.Random, Dim: 8,
		ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 1, LR: 0.1, Epochs: 1, StepsPerEpoch: 2, Seed: 1,
	},
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// nearest returns which picture of a gallery is nearest to a query by the network of a run.
func nearest(ctx context.Context, store *runs.Store, run string, gallery []image.Image, query embed.Image) int {
	network := must(embed.Source{Weights: run, Store: store}.Open())
	defer network.Close()
	b := must(backend.Go())
	embedder := must(embed.New(b, network))
	defer embedder.Close()
	rows := &retrieval.Embeddings{Dim: embedder.Width()}
	for i, picture := range gallery {
		row := must(embedder.Embed(ctx, embed.Picture(picture)))[0]
		rows.Values, rows.Labels = append(rows.Values, row...), append(rows.Labels, int64(i))
	}
	index := must(retrieval.NewIndex(rows))
	return must(index.Search(ctx, must(embedder.Embed(ctx, query))[0], 1))[0][0].Index
}

// A run is trained once; after a restart its network is opened from the store.
func Example() {
	ctx, dir := context.Background(), must(os.MkdirTemp("", "runs"))
	defer os.RemoveAll(dir)
	trainer := train.New(&backend.Choice{Backend: must(backend.Go()), Name: "go"})
	run := must(runs.Run(ctx, trainer, must(runs.OpenStore(dir)), tiny, nil)).Hash
	gallery := []image.Image{picture(0), picture(3), picture(6)}
	for range 2 { // The second time stands for a restart.
		fmt.Println(nearest(ctx, must(runs.OpenStore(dir)), run, gallery, embed.Bytes(encoded(picture(3)))))
	}
	// Output:
	// 1
	// 1
}
