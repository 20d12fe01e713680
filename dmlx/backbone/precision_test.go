package backbone_test

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// Of bfloat16 images, embeddings and weights' gradients point where those of float32 do, and are float32 all the same.
func TestBFloat16Computes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	const n, size, dim = 8, 32, 16
	for name, b := range backends(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results := func(dtype dtypes.DType) [][]float32 {
				store := model.NewStore()
				if err := backbone.Init(store, backbone.Small, dim, 1); err != nil {
					t.Fatal(err)
				}
				exec, err := model.NewExec(b, store, func(scope *model.Scope, images, targets *graph.Node) []*graph.Node {
					e := backbone.Small.Embed(scope, graph.ConvertDType(images, dtype), dim, backbone.Pass{Training: true})
					weights := []*graph.Node{e}
					for _, path := range []string{
						"/conv1/weight", "/layer2/0/conv1/weight", "/layer2/0/downsample/1/weight", "/fc/weight",
					} {
						weights = append(weights, store.GetVariable(path).NodeValue(images))
					}
					loss := graph.ReduceAllMean(graph.Square(graph.Sub(e, targets)))
					return append([]*graph.Node{e}, graph.Gradient(loss, weights...)...)
				})
				if err != nil {
					t.Fatal(err)
				}
				var out [][]float32
				for _, x := range exec.MustCall(noise(1, n, size, size, 3), noise(2, n, dim)) {
					out = append(out, tensors.MustCopyFlatData[float32](x))
				}
				return out
			}
			want, got := results(dtypes.Float32), results(dtypes.BFloat16)
			for i := range want {
				dot, aa, bb, apart := 0., 0., 0., 0.
				for j, x := range want[i] {
					y := got[i][j]
					dot, aa, bb = dot+float64(x)*float64(y), aa+float64(x)*float64(x), bb+float64(y)*float64(y)
					apart += math.Abs(float64(x - y))
				}
				if cosine := dot / math.Sqrt(aa*bb); !(cosine > 0.95) || math.Abs(aa/bb-1) > 0.1 || apart == 0 {
					t.Errorf("result %d: cosine %.4f, lengths %.4g and %.4g", i, cosine, math.Sqrt(aa), math.Sqrt(bb))
				}
			}
		})
	}
}
