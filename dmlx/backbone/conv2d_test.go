package backbone

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

// TestConv2D compares a convolution and its gradients with plain loops.
func TestConv2D(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for _, c := range []struct {
			size, in, out, kh, kw int
			w                     Window
		}{
			{6, 4, 4, 3, 3, Window{1, [4]int{1, 1, 1, 1}, 1, 4}},    // Depthwise.
			{7, 4, 4, 5, 5, Window{2, [4]int{2, 2, 2, 2}, 1, 4}},    // With a stride.
			{8, 4, 4, 3, 3, Window{2, [4]int{0, 0, 1, 1}, 1, 4}},    // TensorFlow's padding.
			{9, 4, 4, 5, 5, Window{2, [4]int{1, 2, 2, 1}, 1, 4}},    // Any padding, of a larger image.
			{10, 4, 4, 3, 3, Window{1, [4]int{1, 1, 1, 1}, 1, 4}},   // A larger image.
			{7, 4, 6, 3, 3, Window{1, [4]int{1, 1, 1, 1}, 1, 2}},    // Groups.
			{7, 4, 4, 2, 2, Window{1, [4]int{}, 1, 4}},              // An even kernel.
			{9, 2, 3, 3, 3, Window{1, [4]int{2, 2, 2, 2}, 2, 1}},    // Dilated.
			{8, 3, 5, 4, 4, Window{4, [4]int{}, 1, 1}},              // Patches.
			{5, 2, 3, 3, 2, Window{2, [4]int{1, 0, 2, 1}, 1, 1}},    // Any border.
			{4, 16, 16, 3, 3, Window{1, [4]int{1, 1, 1, 1}, 1, 16}}, // As many channels as places.
		} {
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
				const n = 2
				rng := rand.New(rand.NewPCG(1, 1))
				draw := func(dims ...int) ([]float32, *tensors.Tensor) {
					size := 1
					for _, d := range dims {
						size *= d
					}
					v := make([]float32, size)
					for i := range v {
						v[i] = float32(rng.NormFloat64())
					}
					return v, tensors.FromFlatDataAndDimensions(v, dims...)
				}
				group := c.in / c.w.Groups
				length := func(i, k int) int {
					return (c.size+c.w.Pad[i]+c.w.Pad[i+2]-(k-1)*c.w.Dilation-1)/c.w.Stride + 1
				}
				oh, ow := length(0, c.kh), length(1, c.kw)
				x, xt := draw(n, c.size, c.size, c.in)
				k, kt := draw(c.kh, c.kw, group, c.out)
				v, vt := draw(n, oh, ow, c.out)
				out, err := ExecOnceN(b, func(x, k, v *Node) []*Node {
					y := Conv2D(x, k, c.w)
					return append([]*Node{y}, Gradient(ReduceAllSum(Mul(y, v)), x, k)...)
				}, xt, kt, vt)
				if err != nil {
					t.Fatal(err)
				}
				want := [3][]float64{make([]float64, len(v)), make([]float64, len(x)), make([]float64, len(k))}
				for at := range v {
					o, col, row, image := at%c.out, at/c.out%ow, at/c.out/ow%oh, at/c.out/ow/oh
					for i := range c.kh {
						for j := range c.kw {
							h, w := row*c.w.Stride+i*c.w.Dilation-c.w.Pad[0], col*c.w.Stride+j*c.w.Dilation-c.w.Pad[1]
							if h < 0 || w < 0 || h >= c.size || w >= c.size {
								continue
							}
							for ch := range group {
								xi := ((image*c.size+h)*c.size+w)*c.in + o/(c.out/c.w.Groups)*group + ch
								ki := ((i*c.kw+j)*group+ch)*c.out + o
								want[0][at] += float64(x[xi]) * float64(k[ki])
								want[1][xi] += float64(v[at]) * float64(k[ki])
								want[2][ki] += float64(v[at]) * float64(x[xi])
							}
						}
					}
				}
				for i, what := range []string{"values", "gradient of x", "gradient of the kernel"} {
					for j, got := range tensors.MustCopyFlatData[float32](out[i]) {
						if math.Abs(float64(got)-want[i][j]) > 2e-5*(1+math.Abs(want[i][j])) {
							t.Fatalf("%s: %g at %d, want %g", what, got, j, want[i][j])
						}
					}
				}
			})
		}
	})
}

// BenchmarkDepthwise measures a depthwise convolution with its two gradients on the default backend.
func BenchmarkDepthwise(b *testing.B) {
	c, err := backend.Open()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range []struct{ pixels, channels, kernel, stride int }{
		{4, 1152, 5, 1}, {8, 672, 5, 1}, {8, 480, 3, 1}, {11, 672, 5, 2}, {12, 480, 3, 1}, {16, 240, 3, 1},
		{17, 240, 3, 2}, {32, 144, 5, 2},
	} {
		for name, f := range map[string]func(x, kernel *Node, stride, pad int) *Node{
			"matrix": func(x, kernel *Node, stride, pad int) *Node {
				return depthwiseMatrix(x, kernel, stride, [4]int{pad, pad, pad, pad})
			},
			"shifted": depthwiseShifted,
		} {
			if name == "matrix" && s.pixels > 17 {
				continue
			}
			title := fmt.Sprintf("%dx%dx%d/%d:%d/%s", s.pixels, s.pixels, s.channels, s.kernel, s.stride, name)
			b.Run(title, func(b *testing.B) {
				exec, err := NewExec(c.Backend, func(x, kernel *Node) []*Node {
					y := f(x, kernel, s.stride, s.kernel/2)
					return Gradient(ReduceAllSum(Mul(y, y)), x, kernel)
				})
				if err != nil {
					b.Fatal(err)
				}
				x := tensors.FromShape(shapes.Make(dtypes.Float32, 64, s.pixels, s.pixels, s.channels))
				k := tensors.FromShape(shapes.Make(dtypes.Float32, s.kernel, s.kernel, 1, s.channels))
				call := func() {
					out, err := exec.Call(x, k)
					if err != nil {
						b.Fatal(err)
					}
					_ = tensors.MustCopyFlatData[float32](out[1])
				}
				call() // Compiles.
				for b.Loop() {
					call()
				}
			})
		}
	}
}
