package backbone

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

// What is built for a GPU alone is tested on what backends there are.

// TestPoolingByPlaces compares it with the maxima and their autodiff, where no value is twice in a window; where all
// are, the first place has the gradient.
func TestPoolingByPlaces(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for _, c := range []struct{ h, w, size, stride, pad int }{
			{8, 8, 3, 2, 1}, {7, 5, 3, 2, 1}, {6, 9, 2, 2, 0}, {5, 6, 3, 1, 1}, {7, 8, 2, 3, 0}, {2, 2, 3, 2, 1},
		} {
			out := [2]int{outputSize(c.h, c.size, c.stride, c.pad), outputSize(c.w, c.size, c.stride, c.pad)}
			x, v := standardNormal(1, 2, c.h, c.w, 3), standardNormal(2, 2, out[0], out[1], 3)
			got := MustExecOnceN(b, func(x, v *Node) []*Node {
				var results []*Node
				for _, y := range []*Node{
					MaxPooling(x, c.size, c.stride, c.pad), poolingByPlaces(x, c.size, c.stride, c.pad, out),
				} {
					results = append(results, y, Gradient(ReduceAllSum(Mul(y, v)), x)[0])
				}
				return results
			}, x, v)
			for i, what := range []string{"maxima", "gradient"} {
				want, is := tensors.MustCopyFlatData[float32](got[i]), tensors.MustCopyFlatData[float32](got[2+i])
				for j := range want {
					if math.Abs(float64(want[j]-is[j])) > 1e-6 {
						t.Fatalf("%+v: %s: %g at %d, want %g", c, what, is[j], j, want[j])
					}
				}
			}
		}
		// 4 × 4 equal pixels, windows of 2 × 2 beside each other: the upper left pixel of each.
		gradient := MustExecOnce(b, func(x *Node) *Node {
			return Gradient(ReduceAllSum(poolingByPlaces(x, 2, 2, 0, [2]int{2, 2})), x)[0]
		}, tensors.FromFlatDataAndDimensions(make([]float32, 16), 1, 4, 4, 1))
		for i, is := range tensors.MustCopyFlatData[float32](gradient) {
			want := float32(0)
			if i/4%2 == 0 && i%2 == 0 {
				want = 1
			}
			if is != want {
				t.Errorf("equal pixels: gradient %g at %d, want %g", is, i, want)
			}
		}
	})
}

// TestMomentsAtOnce compares them with the definition in float64, of channels far from zero, of a wide one, of one
// whose first row lies far out, and of a constant one.
func TestMomentsAtOnce(t *testing.T) {
	const rows = 5000
	rng := rand.New(rand.NewPCG(1, 1))
	channels := []struct{ mean, deviation, first float64 }{
		{0, 1, 0}, {3000, 1, 0}, {-20, 1e-2, 0}, {5, 400, 0}, {1, 1, 30}, {7, 0, 0},
	}
	values := make([]float32, rows*len(channels))
	for i := range values {
		c := channels[i%len(channels)]
		values[i] = float32(c.mean + c.deviation*rng.NormFloat64())
		if i < len(channels) {
			values[i] += float32(c.first)
		}
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		got := MustExecOnceN(b, func(x *Node) []*Node {
			mean, variance := momentsAtOnce(x)
			return []*Node{mean, variance}
		}, tensors.FromFlatDataAndDimensions(values, rows, len(channels)))
		means, variances := tensors.MustCopyFlatData[float32](got[0]), tensors.MustCopyFlatData[float32](got[1])
		for i, c := range channels {
			mean, variance := 0., 0.
			for row := range rows {
				mean += float64(values[row*len(channels)+i]) / rows
			}
			for row := range rows {
				variance += math.Pow(float64(values[row*len(channels)+i])-mean, 2) / rows
			}
			if math.Abs(float64(means[i])-mean) > 1e-3*c.deviation+1e-6*math.Abs(mean) {
				t.Errorf("channel %+v: mean %g, want %g", c, means[i], mean)
			}
			if math.Abs(float64(variances[i])-variance) > 1e-3*variance+1e-20 {
				t.Errorf("channel %+v: variance %g, want %g", c, variances[i], variance)
			}
		}
	})
}

func standardNormal(seed uint64, dims ...int) *tensors.Tensor {
	rng := rand.New(rand.NewPCG(seed, 0))
	values := make([]float32, shapes.Make(dtypes.Float32, dims...).Size())
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

// TestChooseMethods checks that a GPU convolves natively whatever the shape, and that XLA's CPU does not where it is
// slow.
func TestChooseMethods(t *testing.T) {
	product := methods{unfolded, folded, unfolded}
	for _, c := range []struct {
		batch, pixels, in, kernel, out, stride int
		onCPU                                  methods
	}{
		{64, 16, 16, 3, 16, 1, methods{native, native, native}},
		{64, 4, 64, 3, 128, 2, methods{native, folded, native}},
		{64, 2, 128, 3, 128, 1, methods{unfolded, folded, native}},
		{8, 56, 64, 3, 128, 2, methods{native, folded, native}},
		{8, 56, 128, 3, 128, 2, methods{native, native, native}},
		{64, 16, 16, 1, 32, 2, product},
		{8, 7, 512, 1, 2048, 1, product},
	} {
		x := shapes.Make(dtypes.Float32, c.batch, c.pixels, c.pixels, c.in)
		kernel := shapes.Make(dtypes.Float32, c.kernel, c.kernel, c.in, c.out)
		if got := chooseMethods(xlaCPU, x, kernel, c.stride, c.kernel/2); got != c.onCPU {
			t.Errorf("%+v: %v on the CPU", c, got)
		}
		if got := chooseMethods(xlaGPU, x, kernel, c.stride, c.kernel/2); got != (methods{native, native, native}) {
			t.Errorf("%+v: %v on a GPU", c, got)
		}
	}
}
