package train

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/optim"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Steps by micro-batches end at the weights of a graph that embeds all micro-batches and differentiates through them.
func TestMicroBatchesTrainOnTheWholeBatch(t *testing.T) {
	const size, steps, classes, images, dim = 16, 2, 4, 3, 8
	randomBatch := func(i int) (pixels []uint8, labels []int32) {
		rng := sampling.Stream(1, 77, uint64(i))
		for class := range int32(classes) {
			for range images {
				labels = append(labels, class)
			}
		}
		for range len(labels) * size * size * 3 {
			pixels = append(pixels, uint8(rng.IntN(256)))
		}
		return pixels, labels
	}
	values := make([]float32, settingsSize)
	values[networkRate], values[proxyRate] = .05, .5
	rates := mesh.Value{tensors.FromFlatDataAndDimensions(values, len(values))}
	for _, c := range trainers() {
		for _, objective := range []string{"cos-orth/lin-ms/cir", "loss proxy-anchor"} {
			t.Run(c.Name+" "+objective, func(t *testing.T) {
				t.Parallel()
				colors := samples.Images(&datasets.Set{Mean: [3]float32{.5, .5, .5}, Std: [3]float32{.25, .25, .25}}).Affine()
				var one *mesh.Mesh
				spec := tinyConfig()
				var err error
				if spec, err = spec.by(objectives.Parse(objective)); err != nil {
					t.Fatal(err)
				}
				obj, err := newObjective(spec, classes)
				if err != nil {
					t.Fatal(err)
				}
				start := func() *model.Store {
					store := model.NewStore()
					if err := backbone.Init(store, backbone.Small, dim, 1); err != nil {
						t.Fatal(err)
					}
					if obj.Proxies > 0 {
						proxies := objectives.InitialProxies(obj.Proxies, dim, 1)
						if err := backbone.SetProxies(store, proxies, obj.Proxies, dim); err != nil {
							t.Fatal(err)
						}
					}
					return store
				}
				key := stepKey{backend: c.Backend, arch: backbone.Small, dim: dim, memory: Memory{MicroBatch: 4}}
				e := &compiledStep{key: key, objective: obj, weights: start()}
				if e.microBatches, err = newMicroBatches(e); err != nil {
					t.Fatal(err)
				}
				defer e.free()

				reference := start()
				whole, err := model.NewExec(c.Backend, reference, func(scope *model.Scope, in []*Node) *Node {
					var raw []*Node
					for from := 0; from < in[0].Shape().Dim(0); from += key.memory.MicroBatch {
						part := Slice(in[0], AxisRange(from, from+key.memory.MicroBatch))
						raw = append(raw, key.embed(scope, part, in[1], backbone.Pass{Training: true}))
					}
					inputs := obj.batchInputs(in[2:])
					o := newLossGraph(scope.Store(), obj, Concatenate(raw, 0), inputs)
					variables := backbone.Trainable(scope.Store())
					rates := make([]*Node, len(variables))
					for i := range rates {
						rates[i] = settingAt(inputs.settings, networkRate)
					}
					if o.proxies != nil {
						variables, rates = append(variables, o.proxies), append(rates, settingAt(inputs.settings, proxyRate))
					}
					nodes := nodesOf(variables, in[0])
					gradients := Gradient(o.total, nodes...)
					optim.Optimizer{}.Update(reference, variables, nodes, rates, gradients, nil)
					return Concatenate(append(o.outcome, Reshape(Sqrt(squaredNorm(gradients)), 1)), 0)
				})
				if err != nil {
					t.Fatal(err)
				}
				defer whole.Finalize()

				near := func(what string, got, want []float32) {
					length, apart := 0., 0.
					for i, w := range want {
						length, apart = length+float64(w)*float64(w), apart+math.Pow(float64(got[i]-w), 2)
					}
					// Sums over a batch are rounded in another order, by some 1e-5 of short biases with AVX2.
					if !(math.Sqrt(apart) <= 5e-5*math.Sqrt(length)) || len(got) != len(want) {
						t.Errorf("%s of length %.4g is %.3g apart", what, math.Sqrt(length), math.Sqrt(apart))
					}
				}
				for i := range steps {
					pixels, labels := randomBatch(i)
					images, err := e.upload(batch{samples: pixels, labels: labels}, shapes.Make(dtypes.Uint8, size, size, 3))
					if err != nil {
						t.Fatal(err)
					}
					v := stepValues{images: images, affine: one.Replicate(colors), settings: rates}
					v.labels = one.Replicate(tensors.FromFlatDataAndDimensions(labels, len(labels)))
					got, err := e.run(v)
					if err != nil {
						t.Fatal(err)
					}
					all := tensors.FromFlatDataAndDimensions(pixels, len(labels), size, size, 3)
					in := append([]mesh.Value{one.Replicate(all), v.affine}, v.batchValues(obj)...)
					want, err := one.Call1(whole, in...)
					if err != nil {
						t.Fatal(err)
					}
					near("outcome", tensors.MustCopyFlatData[float32](got), tensors.MustCopyFlatData[float32](want))
				}
				for v := range reference.IterVariables() {
					near(v.Path(), variableOf(t, e.weights, v.Path()), variableOf(t, reference, v.Path()))
				}
			})
		}
	}
}

func TestMemoryIsChecked(t *testing.T) {
	for want, memory := range map[string]Memory{
		`precision "fp8" is unknown: use bf16`: {Precision: "fp8"},
		"micro-batches of 3 images":            {MicroBatch: 3},
		"micro-batches of 1 images":            {MicroBatch: 1},
		"micro-batches of -4 images":           {MicroBatch: -4},
	} {
		spec := tinyConfig()
		spec.Memory = memory
		if err := spec.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want …%s…", memory, err, want)
		}
	}
}
