package backbone_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// A step that computes blocks again has the gradients of one that does not, and moves the running averages once.
func TestRecomputeGivesTheSameStep(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	const n, size, dim = 4, 32, 8
	for name, b := range backends(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := func(recompute, frozen bool) map[string][]float32 {
				store := model.NewStore()
				if err := backbone.Init(store, backbone.Small, dim, 1); err != nil {
					t.Fatal(err)
				}
				exec, err := model.NewExec(b, store, func(scope *model.Scope, images, targets *graph.Node) *graph.Node {
					pass := backbone.Pass{Training: true, Recompute: recompute, Frozen: frozen}
					e := backbone.Small.Embed(scope, images, dim, pass)
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
			for _, frozen := range []bool{false, true} {
				want, got := step(false, frozen), step(true, frozen)
				if !slices.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))) {
					t.Fatal("other variables")
				}
				for path, w := range want {
					length, apart := 0., 0.
					for i, x := range w {
						length += float64(x) * float64(x)
						apart += math.Pow(float64(got[path][i]-x), 2)
					}
					if frozen && strings.Contains(path, "running") {
						start := map[bool]float32{true: 1}[strings.HasSuffix(path, "var")]
						if slices.ContainsFunc(w, func(x float32) bool { return x != start }) {
							t.Errorf("frozen %s has moved", path)
						}
						continue
					}
					if length == 0 || !(math.Sqrt(apart/length) < 1e-5) {
						t.Errorf("frozen %v: %s of length %.3g is %.3g apart", frozen, path, math.Sqrt(length), math.Sqrt(apart))
					}
				}
			}
		})
	}
}

// Of two losses in one graph each has its own gradient.
func TestRecomputeForTwoLosses(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	gradients := func(recompute bool) [2][]float32 {
		store := model.NewStore()
		if err := backbone.Init(store, backbone.Small, 4, 1); err != nil {
			t.Fatal(err)
		}
		exec, err := model.NewExec(b, store, func(scope *model.Scope, images *graph.Node) []*graph.Node {
			e := backbone.Small.Embed(scope, images, 4, backbone.Pass{Training: true, Recompute: recompute})
			kernel := store.RootScope().At("layer1").At("0").At("conv1").GetVariable("weight").NodeValue(images)
			var out []*graph.Node
			for i := range 2 {
				loss := graph.ReduceAllSum(graph.Square(graph.Slice(e, graph.AxisRange(), graph.AxisElem(i))))
				out = append(out, graph.Gradient(loss, kernel)[0])
			}
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Call(noise(1, 4, 32, 32, 3))
		if err != nil {
			t.Fatal(err)
		}
		return [2][]float32{tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1])}
	}
	want, got := gradients(false), gradients(true)
	for k := range want {
		for i, w := range want[k] {
			if math.Abs(float64(got[k][i]-w)) > 1e-3*math.Abs(float64(w))+1e-4 {
				t.Fatalf("loss %d: gradient %d is %g, want %g", k, i, got[k][i], w)
			}
		}
	}
}
