package backbone_test

import (
	"fmt"
	"log"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// Two images are embedded with a network that has not been trained.
func ExampleArch_Embed() {
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	store := model.NewStore()
	if err := backbone.Init(store, backbone.Small, 32, 1); err != nil {
		log.Fatal(err)
	}
	embed, err := model.NewExec(b, store, func(scope *model.Scope, images *graph.Node) *graph.Node {
		return backbone.Small.Embed(scope, images, 32, backbone.Pass{})
	})
	if err != nil {
		log.Fatal(err)
	}
	out, err := embed.Call(tensors.FromShape(shapes.Make(dtypes.Float32, 2, 32, 32, 3)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out[0].Shape().Dimensions)
	// Output: [2 32]
}
