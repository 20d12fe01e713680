package backbone

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/gradient-surgery/dml/dmlx/backend"
)

// Convolution returns PyTorch's conv2d of channels-last images: x [N, H, W, C], kernel [KH, KW, C, O], the border
// padded by pad zeros on all four sides → [N, (H+2·pad−KH)/stride+1, (W+2·pad−KW)/stride+1, O]. It panics where shapes
// do not fit.
//
// The padding is explicit: GoMLX's PadSame pads a strided window by (0, 1) where torchvision's networks have (1, 1).
func Convolution(x, kernel *Node, stride, pad int) *Node {
	x.AssertRank(4)
	kernel.AssertRank(4)
	k := kernel.Shape()
	if k.Dim(2) != x.Shape().Dim(3) {
		exceptions.Panicf("backbone: Convolution of x %s with a kernel %s: channels differ", x.Shape(), k)
	}
	checkWindow("Convolution", x, k.Dim(0), k.Dim(1), stride, pad)
	return chooseMethods(deviceOf(x), x.Shape(), k, stride, pad).convolution(x, kernel, stride, pad)
}

// method is how a convolution, or one of its two gradients, is computed.
type method string

const (
	// native is the backend's own convolution.
	native method = "native"
	// unfolded is a matrix product with an unfolded image (im2col). The input gradient unfolds the output's gradient.
	unfolded method = "unfolded"
	// folded is a matrix product whose result is folded into an image (col2im). It is for the input gradient alone.
	folded method = "folded"
)

// methods are those of a convolution, of its input gradient and of its kernel gradient.
type methods struct{ forward, input, kernel method }

// chooseMethods returns the fastest methods for x [N, H, W, C] and a kernel [KH, KW, C, O]. BenchmarkMethods measures
// them all.
//
//   - GoMLX's Go backend convolves at 1 GFLOP/s; by products of matrices a convolution takes a quarter to a twentieth
//     of the time, but for the input gradient of a first layer, which nobody asks for.
//   - XLA on a GPU calls cuDNN for all three.
//   - XLA's CPU convolution is 4 to 60 times as slow as a matrix product where the window is larger than what it slides
//     over: the image forward, the output for the input gradient. A product is also up to twice as fast for a single
//     pixel, and for the input gradient of a 3×3 kernel with a stride.
//
// Tried without gain on XLA's CPU: unfolded kernel gradients (1.4 to 2 times as slow), and Winograd's F(2×2, 3×3),
// which halves a convolution of 256 channels, but takes a few percent at most from a step of ResNet-18, for a sixth
// more memory.
func chooseMethods(on device, x, kernel shapes.Shape, stride, pad int) methods {
	kh, kw := kernel.Dim(0), kernel.Dim(1)
	even := kh%2 == 0 || kw%2 == 0 // GoMLX's gradient of Convolve is wrong for even kernels (v0.28.8).
	if on == goBackend || even {
		return methods{unfolded, unfolded, unfolded}
	}
	chosen := methods{native, native, native}
	if on == xlaGPU {
		return chosen
	}
	if kh == 1 && kw == 1 {
		return methods{unfolded, folded, unfolded}
	}
	if kh > x.Dim(1) || kw > x.Dim(2) {
		chosen.forward = unfolded
	}
	oh, ow := outputSize(x.Dim(1), kh, stride, pad), outputSize(x.Dim(2), kw, stride, pad)
	strided := stride > 1 && kh <= 3 && kw <= 3 && x.Dim(0)*oh*ow*kh*kw*x.Dim(3) <= foldedSize
	if kh > oh || kw > ow || strided {
		chosen.input = folded
	}
	return chosen
}

// foldedSize is how many values (16 MiB of float32) the product of a folded gradient may have where the native one is
// no disaster: it is half as fast as the native one for 128 channels, 8 images and 56 px, of 7.2 million values.
const foldedSize = 1 << 22

// device is where a graph computes, as far as the choice of methods depends on it.
type device int

const (
	goBackend device = iota
	xlaCPU
	xlaGPU // Any accelerator.
)

func deviceOf(x *Node) device {
	switch b := x.Graph().Backend(); {
	case b.Name() != "xla":
		return goBackend
	case backend.Platform(b) == "cpu":
		return xlaCPU
	}
	return xlaGPU
}

func onGPU(x *Node) bool { return deviceOf(x) == xlaGPU }

// convolution is [Convolution] by these methods.
func (m methods) convolution(x, kernel *Node, stride, pad int) *Node {
	if m == (methods{native, native, native}) {
		return nativeConvolution(x, kernel, stride, pad)
	}
	n, h, w := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2)
	kh, kw, c, o := kernel.Shape().Dim(0), kernel.Shape().Dim(1), kernel.Shape().Dim(2), kernel.Shape().Dim(3)
	out := [2]int{outputSize(h, kh, stride, pad), outputSize(w, kw, stride, pad)}
	var image *Node // The unfolded image [N·OH·OW, KH·KW·C], for the convolution and for the kernel gradient.
	unfold := func(x *Node) *Node {
		if image == nil {
			image = columns(x, [2]int{kh, kw}, stride, [2]int{pad, pad}, out)
		}
		return image
	}
	return withGradients(
		func(in []*Node) *Node {
			if m.forward == native {
				return nativeConvolution(in[0], in[1], stride, pad)
			}
			return Reshape(MatMul(unfold(in[0]), Reshape(in[1], kh*kw*c, o)), n, out[0], out[1], o)
		},
		[]func(v *Node) *Node{
			func(v *Node) *Node {
				switch m.input {
				case native:
					return nativeGradient(v, x, kernel, stride, pad, x)
				case folded:
					return foldedGradient(v, kernel, stride, pad, h, w)
				}
				return unfoldedGradient(v, kernel, stride, pad, h, w)
			},
			func(v *Node) *Node {
				if m.kernel == native {
					return nativeGradient(v, x, kernel, stride, pad, kernel)
				}
				// The smaller operand comes first: backends transpose it. The Go backend is slow at a DotGeneral that does.
				pixels, v := unfold(x), Reshape(v, -1, o)
				if kh*kw*c <= o {
					return Reshape(MatMul(Transpose(pixels, 0, 1), v), kh, kw, c, o)
				}
				return Reshape(Transpose(MatMul(Transpose(v, 0, 1), pixels), 0, 1), kh, kw, c, o)
			},
		}, x, kernel)
}

func nativeConvolution(x, kernel *Node, stride, pad int) *Node {
	return Convolve(x, kernel).Strides(stride).PaddingPerDim([][2]int{{pad, pad}, {pad, pad}}).Done()
}

// nativeGradient returns the gradient of a convolution by x or by the kernel, from v = ∂L/∂output. It differentiates a
// second convolution, whose own values nothing uses: the backend drops it.
func nativeGradient(v, x, kernel *Node, stride, pad int, by *Node) *Node {
	if by == x {
		kernel = StopGradient(kernel)
	} else {
		x = StopGradient(x) // It may depend on the kernel.
	}
	y := nativeConvolution(x, kernel, stride, pad)
	return Gradient(ReduceAllSum(Mul(y, StopGradient(v))), by)[0]
}

// unfoldedGradient is ∂L/∂x [N, H, W, C] of a convolution, from v = ∂L/∂output [N, OH, OW, O].
//
// Row h of x is read by output row b through tap k = h + pad − stride·b. Rows h = stride·a + p of one phase p thus meet
// only the taps k = r + stride·t with r = (p + pad) mod stride, and see v as a convolution of stride 1 does. So each
// phase (of rows and columns) is such a convolution with its own taps, reversed, and the phases are interleaved: no
// product with inserted zeros.
func unfoldedGradient(v, kernel *Node, stride, pad, h, w int) *Node {
	n, c := v.Shape().Dim(0), kernel.Shape().Dim(2)
	window := [2]int{kernel.Shape().Dim(0), kernel.Shape().Dim(1)}
	return byPhases(v, window, stride, pad, [3]int{h, w, c}, func(f phase) *Node {
		taps := f.of(kernel, stride)
		taps = Reshape(TransposeAllAxes(taps, 0, 1, 3, 2), -1, c)
		return Reshape(MatMul(columns(v, f.taps, 1, f.before, f.out), taps), n, f.out[0], f.out[1], c)
	})
}

// foldedGradient is [unfoldedGradient] the other way round: v · kernelᵀ is what each output pixel sends through each
// tap, and a pixel of x sums up what it is sent. The Go backend has no Pad.
func foldedGradient(v, kernel *Node, stride, pad, h, w int) *Node {
	n, oh, ow, o := v.Shape().Dim(0), v.Shape().Dim(1), v.Shape().Dim(2), v.Shape().Dim(3)
	kh, kw, c := kernel.Shape().Dim(0), kernel.Shape().Dim(1), kernel.Shape().Dim(2)
	sent := DotGeneral(Reshape(v, -1, o), []int{1}, nil, Reshape(kernel, -1, o), []int{1}, nil)
	sent = Reshape(sent, n, oh, ow, kh*kw*c)
	// Output i goes to index i·stride + tap − pad of an axis, if there is such an index.
	place := func(tap, out, size int) compute.PadAxis {
		first := tap - pad
		last := first + (out-1)*stride
		return compute.PadAxis{Start: first, Interior: stride - 1, End: size - 1 - last}
	}
	zero := ScalarZero(v.Graph(), v.DType())
	var sum *Node
	for i := range kh {
		for j := range kw {
			at := (i*kw + j) * c
			tap := Slice(sent, AxisRange(), AxisRange(), AxisRange(), AxisRange(at, at+c))
			placed := Pad(tap, zero, compute.PadAxis{}, place(i, oh, h), place(j, ow, w), compute.PadAxis{})
			if sum == nil {
				sum = placed
			} else {
				sum = Add(sum, placed)
			}
		}
	}
	return sum
}
