package backbone_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// A step that computes blocks again has the gradients of one that does not, and moves the running averages once.
func TestRecomputeGivesTheSameStep(t *testing.T) {
	const n, size, dim = 4, 32, 8
	for name, b := range backends(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := func(recompute bool) map[string][]float32 {
				store := model.NewStore()
				if err := backbone.Init(store, backbone.Small, dim, 1); err != nil {
					t.Fatal(err)
				}
				exec, err := model.NewExec(b, store, func(scope *model.Scope, images, targets *graph.Node) *graph.Node {
					e := backbone.Small.Embed(scope, images, dim, backbone.Pass{Training: true, Recompute: recompute})
					loss := graph.ReduceAllMean(graph.Square(graph.Sub(e, targets)))
					variables := backbone.Trainable(store)
					nodes := make([]*graph.Node, len(variables))
					for i, v := range variables {
						nodes[i] = v.NodeValue(images)
					}
					for i, gradient := range graph.Gradient(loss, nodes...) {
						variables[i].SetNodeValue(gradient) // To be read: nothing is trained on.
					}
					return loss
				})
				if err != nil {
					t.Fatal(err)
				}
				exec.MustCall(noise(1, n, size, size, 3), noise(2, n, dim))
				out := make(map[string][]float32)
				for v := range store.IterVariables() {
					out[v.Path()] = tensors.MustCopyFlatData[float32](v.MustValue())
				}
				return out
			}
			want, got := step(false), step(true)
			if !slices.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))) {
				t.Fatal("other variables")
			}
			for path, w := range want {
				length, apart := 0., 0.
				for i, x := range w {
					length += float64(x) * float64(x)
					apart += math.Pow(float64(got[path][i]-x), 2)
				}
				if length == 0 || !(math.Sqrt(apart/length) < 1e-5) {
					t.Errorf("%s of length %.3g is %.3g apart", path, math.Sqrt(length), math.Sqrt(apart))
				}
			}
		})
	}
}
