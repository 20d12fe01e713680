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

// A network is saved as a safetensors file's bytes, and read back without its head.
func ExampleDecodeWeights() {
	store := model.NewStore()
	if err := backbone.Init(store, backbone.Small, 32, 1); err != nil {
		log.Fatal(err)
	}
	data, err := backbone.EncodeWeights(store, backbone.Small, map[string]string{"steps": "720"})
	if err != nil {
		log.Fatal(err)
	}
	options := backbone.LoadOptions{Arch: backbone.Small, WithoutHead: true}
	meta, err := backbone.DecodeWeights(data, model.NewStore(), options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(meta["arch"], meta["steps"])
	// Output: small 720
}

// A weight file's metadata say how its images are prepared.
func ExamplePreprocessingOf() {
	p, found, err := backbone.PreprocessingOf(backbone.ResNet18.Preprocessing().Metadata())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found, p.Resize, p.Crop)
	// Output: true 256 224
}

// A network's tensors have torchvision's names and PyTorch's shapes.
func ExampleArch_Parameters() {
	fmt.Println(backbone.ResNet18.Parameters(0)[0])
	// Output: {conv1.weight [64 3 7 7] true}
}
