package backbone_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// array is a host tensor in float64, row-major.
type array struct {
	dims   []int
	values []float64
}

func zeros(dims ...int) array {
	size := 1
	for _, d := range dims {
		size *= d
	}
	return array{dims, make([]float64, size)}
}

func random(seed uint64, dims ...int) array {
	a := zeros(dims...)
	for i, x := range normal(seed, dims...) {
		a.values[i] = float64(x)
	}
	return a
}

// at is the element of a rank-4 array; pixels outside the image are given by outside.
func (a array) at(n, h, w, c int, outside float64) float64 {
	if h < 0 || w < 0 || h >= a.dims[1] || w >= a.dims[2] {
		return outside
	}
	return a.values[((n*a.dims[1]+h)*a.dims[2]+w)*a.dims[3]+c]
}

func (a array) tensor() *tensors.Tensor {
	flat := make([]float32, len(a.values))
	for i, x := range a.values {
		flat[i] = float32(x)
	}
	return tensors.FromFlatDataAndDimensions(flat, a.dims...)
}

// layer is a layer twice: as a graph and as a plain loop in float64.
type layer struct {
	name   string
	on     string // The backend that has its operations; all have where this is empty.
	graph  func(in []*graph.Node) *graph.Node
	host   func(in []array) array
	inputs []array
}

// TestLayers compares each layer with its plain loop, and each gradient with the loop's central differences.
func TestLayers(t *testing.T) {
	layers := []layer{
		{"relu", "", func(in []*graph.Node) *graph.Node { return backbone.ReLU(in[0]) }, hostReLU, []array{random(1, 3, 5)}},
		{"average", "", func(in []*graph.Node) *graph.Node { return backbone.GlobalAveragePooling(in[0]) }, hostAverage,
			[]array{random(1, 2, 3, 4, 3)}},
		{"linear", "", func(in []*graph.Node) *graph.Node { return withVariables(backbone.Linear, in, "weight", "bias") },
			hostLinear, []array{random(1, 4, 6), random(2, 3, 6), random(3, 3)}},
		{"batchnorm", "", func(in []*graph.Node) *graph.Node { return withVariables(trainingNorm, in, "weight", "bias") },
			hostBatchNorm, []array{random(1, 3, 2, 2, 4), random(2, 4), random(3, 4)}},
		{"frozen batchnorm", "",
			func(in []*graph.Node) *graph.Node { return withVariables(frozenNorm, in, "weight", "bias") }, hostFrozenNorm,
			[]array{random(1, 3, 2, 2, 4), random(2, 4), random(3, 4)}},
	}
	for _, c := range []struct{ n, h, w, c, kh, kw, o, stride, pad int }{
		{2, 5, 4, 3, 3, 3, 2, 1, 1}, // basic block
		{1, 6, 6, 2, 3, 3, 3, 2, 1}, // strided block, even size
		{1, 7, 5, 2, 3, 3, 2, 2, 1}, // and odd
		{2, 5, 6, 3, 1, 1, 2, 1, 0}, // bottleneck
		{1, 4, 3, 2, 1, 1, 5, 1, 0}, // widening
		{1, 6, 5, 3, 1, 1, 2, 2, 0}, // downsample
		{1, 4, 3, 128, 1, 1, 2, 2, 0},
		{1, 8, 8, 3, 5, 5, 2, 2, 2}, // stem of the small network
		{1, 9, 8, 2, 7, 7, 2, 2, 3}, // stem of a ResNet
		{1, 2, 2, 2, 3, 3, 2, 2, 1}, // smaller than the window
		{3, 2, 2, 2, 3, 3, 2, 1, 1}, // and several images
		{2, 2, 3, 2, 4, 2, 2, 1, 1}, // and even
		{1, 1, 1, 2, 3, 3, 2, 1, 1}, // a single pixel
		{1, 7, 6, 2, 3, 2, 2, 3, 0}, // pixels that no window reads
		{1, 8, 7, 1, 2, 3, 2, 3, 1},
	} {
		name := fmt.Sprintf("conv %dx%d stride %d pad %d of %dx%d", c.kh, c.kw, c.stride, c.pad, c.h, c.w)
		add := func(name, on string, convolution func(x, kernel *graph.Node, stride, pad int) *graph.Node) {
			layers = append(layers, layer{name, on,
				func(in []*graph.Node) *graph.Node { return convolution(in[0], in[1], c.stride, c.pad) },
				func(in []array) array { return hostConvolution(in[0], in[1], c.stride, c.pad) },
				[]array{random(1, c.n, c.h, c.w, c.c), random(2, c.kh, c.kw, c.c, c.o)},
			})
		}
		add(name, "", backbone.Convolution)
		if c.kh%2 == 1 && c.kw%2 == 1 {
			for methods, convolution := range backbone.Methods() {
				add(name+" by "+methods, "xla", convolution)
			}
		}
	}
	for _, c := range []struct{ h, w, size, stride, pad int }{{6, 6, 3, 2, 1}, {5, 7, 3, 2, 1}, {4, 5, 2, 2, 0}} {
		layers = append(layers, layer{
			fmt.Sprintf("maxpool %d stride %d pad %d of %dx%d", c.size, c.stride, c.pad, c.h, c.w), "",
			func(in []*graph.Node) *graph.Node { return backbone.MaxPooling(in[0], c.size, c.stride, c.pad) },
			func(in []array) array { return hostMaxPool(in[0], c.size, c.stride, c.pad) },
			[]array{random(1, 2, c.h, c.w, 2)},
		})
	}
	for backend, b := range backends(t) {
		for _, l := range layers {
			if l.on != "" && l.on != b.Name() {
				continue
			}
			t.Run(backend+"/"+l.name, func(t *testing.T) {
				want := l.host(l.inputs)
				r := random(9, want.dims...) // The loss is Σ r·output.
				args := []any{r.tensor()}
				for _, in := range l.inputs {
					args = append(args, in.tensor())
				}
				exec, err := model.NewExec(b, model.NewStore(), func(_ *model.Scope, in []*graph.Node) []*graph.Node {
					y := l.graph(in[1:])
					return append([]*graph.Node{y}, graph.Gradient(graph.ReduceAllSum(graph.Mul(y, in[0])), in[1:]...)...)
				})
				if err != nil {
					t.Fatal(err)
				}
				out, err := exec.Call(args...)
				if err != nil {
					t.Fatal(err)
				}
				near(t, "output", out[0], want, 1e-5)
				for i := range l.inputs {
					near(t, fmt.Sprintf("gradient of input %d", i), out[i+1], differences(l, i, r), 5e-5)
				}
			})
		}
	}
}

// TestTwoGradients takes gradients of two losses in one graph: neither may see the other's.
func TestTwoGradients(t *testing.T) {
	for name, b := range backends(t) {
		exec, err := model.NewExec(b, model.NewStore(), func(_ *model.Scope, in []*graph.Node) []*graph.Node {
			y := withVariables(trainingNorm, in[:3], "weight", "bias")
			sum := graph.ReduceAllSum(graph.Mul(y, in[3]))
			first := graph.Gradient(sum, in[:3]...)
			return append(first, graph.Gradient(graph.MulScalar(sum, 2), in[:3]...)...)
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Call(noise(1, 6, 4), noise(2, 4), noise(3, 4), noise(4, 6, 4))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			twice := zeros(out[i].Shape().Dimensions...)
			for j, g := range tensors.MustCopyFlatData[float32](out[i]) {
				twice.values[j] = 2 * float64(g)
			}
			near(t, name, out[3+i], twice, 1e-6)
		}
	}
}

// differences are the central differences of Σ r·host(inputs) in input i.
func differences(l layer, i int, r array) array {
	const h = 1e-5
	loss := func() (sum float64) {
		for j, y := range l.host(l.inputs).values {
			sum += r.values[j] * y
		}
		return sum
	}
	x := l.inputs[i].values
	out := zeros(l.inputs[i].dims...)
	for j, was := range x {
		x[j] = was + h
		up := loss()
		x[j] = was - h
		out.values[j] = (up - loss()) / (2 * h)
		x[j] = was
	}
	return out
}

// near fails unless got is want within tolerance · (1 + largest |want|).
func near(t *testing.T, what string, got *tensors.Tensor, want array, tolerance float64) {
	t.Helper()
	if fmt.Sprint(got.Shape().Dimensions) != fmt.Sprint(want.dims) {
		t.Errorf("%s has shape %s, want %v", what, got.Shape(), want.dims)
		return
	}
	scale := 1.0
	for _, w := range want.values {
		scale = max(scale, math.Abs(w))
	}
	for i, g := range tensors.MustCopyFlatData[float32](got) {
		if !(math.Abs(float64(g)-want.values[i]) <= tolerance*scale) {
			t.Errorf("%s: element %d of %v is %g, want %g", what, i, want.dims, g, want.values[i])
			return
		}
	}
}

// withVariables calls a layer that reads its parameters from a scope: variables of those names whose nodes are in[1:].
func withVariables(call func(*model.Scope, *graph.Node) *graph.Node, in []*graph.Node, names ...string) *graph.Node {
	scope := model.GetStore(in[0]).RootScope().At("layer")
	for i, name := range names {
		scope.VariableWithNodeValue(name, in[1+i])
	}
	return call(scope, in[0])
}

// trainingNorm is the layer with running averages of 0 and 1.
func trainingNorm(scope *model.Scope, x *graph.Node) *graph.Node {
	channels := x.Shape().Dim(-1)
	scope.VariableWithValue("running_mean", make([]float32, channels))
	scope.VariableWithValue("running_var", normal(1, channels))
	return backbone.BatchNorm(scope, x, backbone.Pass{Training: true})
}

// frozenNorm is the layer with fixed averages.
func frozenNorm(scope *model.Scope, x *graph.Node) *graph.Node {
	scope.VariableWithValue("running_mean", []float32{0.5, -1, 0, 2})
	scope.VariableWithValue("running_var", []float32{0.25, 1, 2, 4})
	return backbone.BatchNorm(scope, x, backbone.Pass{Training: true, Frozen: true})
}

func hostFrozenNorm(in []array) array {
	y := zeros(in[0].dims...)
	mean, variance := []float64{0.5, -1, 0, 2}, []float64{0.25, 1, 2, 4}
	for i, x := range in[0].values {
		c := i % 4
		y.values[i] = in[1].values[c]*(x-mean[c])/math.Sqrt(variance[c]+1e-5) + in[2].values[c]
	}
	return y
}

func hostReLU(in []array) array {
	y := zeros(in[0].dims...)
	for i, x := range in[0].values {
		y.values[i] = max(x, 0)
	}
	return y
}

func hostAverage(in []array) array {
	x := in[0]
	y := zeros(x.dims[0], x.dims[3])
	for i, v := range x.values {
		image := i / (x.dims[1] * x.dims[2] * x.dims[3])
		y.values[image*x.dims[3]+i%x.dims[3]] += v / float64(x.dims[1]*x.dims[2])
	}
	return y
}

func hostLinear(in []array) array {
	x, w, b := in[0], in[1], in[2]
	y := zeros(x.dims[0], w.dims[0])
	for n := range x.dims[0] {
		for o := range w.dims[0] {
			sum := b.values[o]
			for f := range x.dims[1] {
				sum += x.values[n*x.dims[1]+f] * w.values[o*x.dims[1]+f]
			}
			y.values[n*w.dims[0]+o] = sum
		}
	}
	return y
}

func hostMoments(x array, channel int) (mean, variance float64, count int) {
	channels := x.dims[len(x.dims)-1]
	count = len(x.values) / channels
	for i := channel; i < len(x.values); i += channels {
		mean += x.values[i] / float64(count)
	}
	for i := channel; i < len(x.values); i += channels {
		variance += (x.values[i] - mean) * (x.values[i] - mean) / float64(count)
	}
	return mean, variance, count
}

func hostBatchNorm(in []array) array {
	x, gamma, beta := in[0], in[1].values, in[2].values
	y := zeros(x.dims...)
	for c := range gamma {
		mean, variance, _ := hostMoments(x, c)
		for i := c; i < len(x.values); i += len(gamma) {
			y.values[i] = gamma[c]*(x.values[i]-mean)/math.Sqrt(variance+1e-5) + beta[c]
		}
	}
	return y
}

func hostConvolution(x, k array, stride, pad int) array {
	y := zeros(x.dims[0], (x.dims[1]+2*pad-k.dims[0])/stride+1, (x.dims[2]+2*pad-k.dims[1])/stride+1, k.dims[3])
	i := 0
	for n := range y.dims[0] {
		for h := range y.dims[1] {
			for w := range y.dims[2] {
				for o := range y.dims[3] {
					for a := range k.dims[0] {
						for b := range k.dims[1] {
							for c := range k.dims[2] {
								y.values[i] += x.at(n, h*stride+a-pad, w*stride+b-pad, c, 0) * k.at(a, b, c, o, 0)
							}
						}
					}
					i++
				}
			}
		}
	}
	return y
}

func hostMaxPool(x array, size, stride, pad int) array {
	y := zeros(x.dims[0], (x.dims[1]+2*pad-size)/stride+1, (x.dims[2]+2*pad-size)/stride+1, x.dims[3])
	i := 0
	for n := range y.dims[0] {
		for h := range y.dims[1] {
			for w := range y.dims[2] {
				for c := range y.dims[3] {
					y.values[i] = math.Inf(-1)
					for a := range size {
						for b := range size {
							y.values[i] = max(y.values[i], x.at(n, h*stride+a-pad, w*stride+b-pad, c, math.Inf(-1)))
						}
					}
					i++
				}
			}
		}
	}
	return y
}

// TestBatchNormRunningAverages checks PyTorch's conventions: momentum 0.1, the unbiased variance, and their use at
// evaluation.
func TestBatchNormRunningAverages(t *testing.T) {
	x := random(1, 3, 2, 2, 4)
	for i := range x.values {
		x.values[i] = 3*x.values[i] + 2
	}
	for name, b := range backends(t) {
		t.Run(name, func(t *testing.T) {
			store := model.NewStore()
			scope := store.RootScope().At("bn")
			gamma, beta, mean, variance := normal(2, 4), normal(3, 4), []float32{1, 2, 3, 4}, []float32{4, 3, 2, 1}
			scope.VariableWithValue("weight", gamma)
			scope.VariableWithValue("bias", beta)
			scope.VariableWithValue("running_mean", mean)
			scope.VariableWithValue("running_var", variance)
			call := func(pass backbone.Pass) *tensors.Tensor {
				exec, err := model.NewExec(b, store, func(scope *model.Scope, x *graph.Node) *graph.Node {
					return backbone.BatchNorm(scope.At("bn"), x, pass)
				})
				if err != nil {
					t.Fatal(err)
				}
				return exec.MustCall(x.tensor())[0]
			}
			call(backbone.Pass{Training: true, Again: true})
			got := tensors.MustCopyFlatData[float32](scope.GetVariable("running_mean").MustValue())
			if !slices.Equal(got, mean) {
				t.Errorf("the same images again move the running mean from %v to %v", mean, got)
			}
			call(backbone.Pass{Training: true})
			wantMean, wantVariance := zeros(4), zeros(4)
			for c := range 4 {
				m, v, n := hostMoments(x, c)
				wantMean.values[c] = 0.9*float64(mean[c]) + 0.1*m
				wantVariance.values[c] = 0.9*float64(variance[c]) + 0.1*v*float64(n)/float64(n-1)
			}
			near(t, "running mean", scope.GetVariable("running_mean").MustValue(), wantMean, 1e-6)
			near(t, "running variance", scope.GetVariable("running_var").MustValue(), wantVariance, 1e-6)
			want := zeros(x.dims...)
			for i, v := range x.values {
				c := i % 4
				want.values[i] = float64(gamma[c])*(v-wantMean.values[c])/math.Sqrt(wantVariance.values[c]+1e-5) + float64(beta[c])
			}
			near(t, "evaluation", call(backbone.Pass{}), want, 1e-6)
			near(t, "running mean after evaluation", scope.GetVariable("running_mean").MustValue(), wantMean, 1e-6)
		})
	}
}
