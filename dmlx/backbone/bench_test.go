package backbone_test

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"
)

// BenchmarkStep is one training step of the small network, forward, backward and SGD, on 64 images of 32×32. The Go
// backend wants GOEXPERIMENT=simd.
//
// It is mostly convolutions: without batch statistics a step takes as long. BenchmarkMethods has those one by one.
func BenchmarkStep(b *testing.B) {
	for name, be := range backends(b) {
		b.Run(name, func(b *testing.B) {
			const n, size, dim = 64, 32, 32
			store := model.NewStore()
			if err := backbone.Init(store, backbone.Small, dim, 1); err != nil {
				b.Fatal(err)
			}
			step, err := model.NewExec(be, store, sgd(backbone.Small, dim, 0.01))
			if err != nil {
				b.Fatal(err)
			}
			images, targets := noise(1, n, size, size, 3), noise(2, n, dim)
			step.MustCall(images, targets)
			for b.Loop() {
				loss := step.MustCall(images, targets)[0]
				_ = tensors.ToScalar[float32](loss) // Waits for the device.
			}
		})
	}
}

// sgd is a training step, as a trainer would write it: the mean square distance to targets [N, dim].
func sgd(a backbone.Arch, dim int, lr float64) func(scope *model.Scope, images, targets *graph.Node) *graph.Node {
	return func(scope *model.Scope, images, targets *graph.Node) *graph.Node {
		g := images.Graph()
		embeddings := a.Embed(scope, images, dim, backbone.Pass{Training: true})
		loss := graph.ReduceAllMean(graph.Square(graph.Sub(embeddings, targets)))
		vars := backbone.Trainable(scope.Store())
		nodes := make([]*graph.Node, len(vars))
		for i, v := range vars {
			nodes[i] = v.NodeValue(g)
		}
		for i, gradient := range graph.Gradient(loss, nodes...) {
			vars[i].SetNodeValue(graph.Sub(nodes[i], graph.MulScalar(gradient, lr)))
		}
		return loss
	}
}

// backends are the Go backend and, where it starts, XLA.
func backends(tb testing.TB) map[string]compute.Backend {
	tb.Helper()
	b, err := backend.Go()
	if err != nil {
		tb.Fatal(err)
	}
	out := map[string]compute.Backend{"go": b}
	if c, err := backend.Open(); err == nil && c.Name != "go" {
		out[c.Name] = c.Backend
	}
	return out
}

// noise is a tensor of standard normal values that depend on the seed.
func noise(seed uint64, dims ...int) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(normal(seed, dims...), dims...)
}
