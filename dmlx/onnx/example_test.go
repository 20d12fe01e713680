package onnx_test

import (
	"fmt"
	"log"
	"os"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/onnx"
)

// A network that PyTorch has exported computes features of images in a loop of one's own.
func Example() {
	raw, err := os.ReadFile("testdata/vit_tiny.onnx")
	if err != nil {
		log.Fatal(err)
	}
	net, err := onnx.Read(raw)
	if err != nil {
		log.Fatal(err)
	}
	store := model.NewStore()
	if err := net.Init(store, nil); err != nil {
		log.Fatal(err)
	}
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	exec, err := model.NewExec(b, store, func(scope *model.Scope, images *Node) *Node {
		return net.Features(scope, images, backbone.Pass{})
	})
	if err != nil {
		log.Fatal(err)
	}
	images := make([]float32, 2*net.Size[0]*net.Size[1]*3)
	features, err := exec.Call(tensors.FromFlatDataAndDimensions(images, 2, net.Size[0], net.Size[1], 3))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(features[0].Shape(), len(net.Parameters()), net.Parameters()[0].Name)
	// Output: (Float32)[2, 24] 30 cls_token
}
