package backbone

import (
	"slices"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/gradient-surgery/dml/dmlx/backend"
)

// Convolution is PyTorch's conv2d on channels-last images: x [N, H, W, C], kernel [KH, KW, C, O], the border padded by
// pad zeros on all four sides → [N, (H+2·pad−KH)/stride+1, (W+2·pad−KW)/stride+1, O].
//
// The padding is explicit: GoMLX's PadSame pads a strided window by (0, 1) where torchvision's networks have (1, 1).
//
// XLA convolves natively, but for single pixels. GoMLX's Go backend reaches 0.6 GFLOP/s that way, so there the convolution
// is a matrix product over the unfolded image (im2col), and so are both of its gradients.
//
// Winograd's F(2×2, 3×3), written as XLA operations, was tried: it halves a convolution of 256 channels, but a step of
// ResNet-18 by a few percent at most, for a sixth more memory.
func Convolution(x, kernel *Node, stride, pad int) *Node {
	x.AssertRank(4)
	kernel.AssertRank(4)
	k := kernel.Shape()
	if k.Dim(2) != x.Shape().Dim(3) {
		exceptions.Panicf("backbone: Convolution of x %s with a kernel %s: channels differ", x.Shape(), k)
	}
	checkWindow("Convolution", x, k.Dim(0), k.Dim(1), stride, pad)
	odd := k.Dim(0)%2 == 1 && k.Dim(1)%2 == 1 // GoMLX's gradient of Convolve is wrong for even kernels (v0.28.1).
	switch single := k.Dim(0) == 1 && k.Dim(1) == 1; {
	case native(x) && single && (stride == 1 || k.Dim(2) >= 128) && !onGPU(x): // With fewer channels a strided one is as fast either way.
		return pointwise(x, kernel, stride)
	case native(x) && odd:
		return Convolve(x, kernel).Strides(stride).PaddingPerDim([][2]int{{pad, pad}, {pad, pad}}).Done()
	}
	return unfoldedConvolution(x, kernel, stride, pad)
}

// pointwise is a convolution by a single pixel, as the matrix product that it is: XLA's gradient for such a kernel takes
// twice as long on the CPU, and a step of ResNet-50 a quarter longer.
func pointwise(x, kernel *Node, stride int) *Node {
	c, o := kernel.Shape().Dim(2), kernel.Shape().Dim(3)
	if stride > 1 {
		x = Slice(x, AxisRange(), AxisRange().Stride(stride), AxisRange().Stride(stride))
	}
	dims := slices.Clone(x.Shape().Dimensions)
	dims[3] = o
	pixels, weights := Reshape(x, -1, c), Reshape(kernel, c, o)
	product := withGradients(
		func(in []*Node) *Node { return MatMul(in[0], in[1]) },
		[]func(v *Node) *Node{
			func(v *Node) *Node { return DotGeneral(v, []int{1}, nil, weights, []int{1}, nil) },
			func(v *Node) *Node {
				if c > o { // The left operand is the one that is transposed: the smaller.
					return Transpose(DotGeneral(v, []int{0}, nil, pixels, []int{0}, nil), 0, 1)
				}
				return DotGeneral(pixels, []int{0}, nil, v, []int{0}, nil)
			},
		}, pixels, weights)
	return Reshape(product, dims...)
}

// native tells whether the graph's backend has fast convolutions and their gradients: XLA.
func native(x *Node) bool { return x.Graph().Backend().Name() == "xla" }

// onGPU tells whether the graph's backend computes on something else than the CPU.
func onGPU(x *Node) bool { return native(x) && backend.Platform(x.Graph().Backend()) != "cpu" }

func checkWindow(op string, x *Node, height, width, stride, pad int) {
	h, w := x.Shape().Dim(1)+2*pad, x.Shape().Dim(2)+2*pad
	if stride < 1 || pad < 0 || pad >= height || pad >= width || height > h || width > w {
		exceptions.Panicf("backbone: %s of x %s with a %d×%d window, stride %d, padding %d: want stride ≥ 1, 0 ≤ padding < window ≤ padded image",
			op, x.Shape(), height, width, stride, pad)
	}
}

func outputSize(size, window, stride, pad int) int { return (size+2*pad-window)/stride + 1 }

// unfoldedConvolution computes a convolution as columns(x) · kernel.
func unfoldedConvolution(x, kernel *Node, stride, pad int) *Node {
	n, h, w := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2)
	kh, kw, c, o := kernel.Shape().Dim(0), kernel.Shape().Dim(1), kernel.Shape().Dim(2), kernel.Shape().Dim(3)
	out := [2]int{outputSize(h, kh, stride, pad), outputSize(w, kw, stride, pad)}
	var unfolded *Node // [N·OH·OW, KH·KW·C]: computed once, for the product and for the kernel's gradient.
	return withGradients(
		func(in []*Node) *Node {
			unfolded = columns(in[0], [2]int{kh, kw}, stride, [2]int{pad, pad}, out)
			return Reshape(MatMul(unfolded, Reshape(in[1], kh*kw*c, o)), n, out[0], out[1], o)
		},
		[]func(v *Node) *Node{
			func(v *Node) *Node { return inputGradient(v, kernel, stride, pad, h, w) },
			func(v *Node) *Node {
				// (vᵀ · columns)ᵀ rather than columnsᵀ · v: the Go backend transposes its left operand, and v is smaller.
				byOutput := MatMul(Transpose(Reshape(v, -1, o), 0, 1), unfolded)
				return Reshape(Transpose(byOutput, 0, 1), kh, kw, c, o)
			},
		}, x, kernel)
}

// inputGradient is ∂L/∂x [N, H, W, C] of a convolution, from v = ∂L/∂output [N, OH, OW, O].
//
// Row h of x is read by output row b through tap k = h + pad − stride·b. Rows h = stride·a + p of one phase p thus meet
// only the taps k = r + stride·t with r = (p + pad) mod stride, and see v as a convolution of stride 1 does. So each
// phase (of rows and columns) is such a convolution with its own taps, reversed, and the phases are interleaved: no
// product with inserted zeros.
func inputGradient(v, kernel *Node, stride, pad, h, w int) *Node {
	n, c := v.Shape().Dim(0), kernel.Shape().Dim(2)
	return byPhases(stride, h, w, func(p, q int, out [2]int) *Node {
		firstH, tapsH, padH := phaseTaps(p, kernel.Shape().Dim(0), stride, pad)
		firstW, tapsW, padW := phaseTaps(q, kernel.Shape().Dim(1), stride, pad)
		if tapsH == 0 || tapsW == 0 {
			return Zeros(v.Graph(), shapes.Make(v.DType(), n, out[0], out[1], c))
		}
		taps := kernel
		if stride > 1 {
			taps = Slice(kernel, AxisRangeToEnd(firstH).Stride(stride), AxisRangeToEnd(firstW).Stride(stride))
		}
		if tapsH > 1 || tapsW > 1 {
			taps = Reverse(taps, 0, 1)
		}
		o := taps.Shape().Dim(3)
		taps = Reshape(TransposeAllAxes(taps, 0, 1, 3, 2), tapsH*tapsW*o, c)
		unfolded := columns(v, [2]int{tapsH, tapsW}, 1, [2]int{padH, padW}, out)
		return Reshape(MatMul(unfolded, taps), n, out[0], out[1], c)
	})
}

// byPhases puts an image [N, h, w, C] together from the pixels of each phase, those of rows ≡ p and columns ≡ q (mod stride),
// which of gives as [N, out[0], out[1], C]. What lies beyond h and w is cut off.
func byPhases(stride, h, w int, of func(p, q int, out [2]int) *Node) *Node {
	out := [2]int{(h + stride - 1) / stride, (w + stride - 1) / stride}
	rows := make([]*Node, stride)
	for p := range stride {
		phases := make([]*Node, stride)
		for q := range stride {
			phases[q] = of(p, q, out)
		}
		rows[p] = interleave(phases, 2)
	}
	image := interleave(rows, 1)
	if image.Shape().Dim(1) != h || image.Shape().Dim(2) != w {
		image = Slice(image, AxisRange(), AxisRange(0, h), AxisRange(0, w))
	}
	return image
}

// phaseTaps gives the first tap of a phase, the number of its taps, and the padding in front of v with which row a of
// the phase starts its window at v's row a − pad.
func phaseTaps(phase, kernel, stride, pad int) (first, taps, before int) {
	first = (phase + pad) % stride
	if first < kernel {
		taps = (kernel - first + stride - 1) / stride
	}
	return first, taps, taps - 1 - (phase+pad)/stride
}

// interleave puts the i-th of s equal nodes at the indices ≡ i (mod s) of the axis.
func interleave(nodes []*Node, axis int) *Node {
	if len(nodes) == 1 {
		return nodes[0]
	}
	expanded := make([]*Node, len(nodes))
	for i, x := range nodes {
		expanded[i] = ExpandAxes(x, axis+1)
	}
	dims := slices.Clone(nodes[0].Shape().Dimensions)
	dims[axis] *= len(nodes)
	return Reshape(Concatenate(expanded, axis+1), dims...)
}

// columns unfolds x [N, H, W, C] into one row of window[0]·window[1]·C values per window position: [N·out[0]·out[1], …].
// The first window starts before[0] rows above and before[1] columns left of the image (negative: inside it), which
// is zero outside.
func columns(x *Node, window [2]int, stride int, before, out [2]int) *Node {
	views := windows(x, window, stride, before, out, 0)
	unfolded := views[0]
	if len(views) > 1 {
		unfolded = Concatenate(views, 3)
	}
	return Reshape(unfolded, -1, window[0]*window[1]*x.Shape().Dim(3))
}

// windows gives, for each place in the window (row by row), its value at every window position: [N, out[0], out[1], C].
// Outside the image it is fill.
func windows(x *Node, window [2]int, stride int, before, out [2]int, fill float64) []*Node {
	var start [2]int
	for i := range 2 {
		axis := i + 1
		after := (out[i]-1)*stride + window[i] - before[i] - x.Shape().Dim(axis)
		x = border(x, axis, before[i], after, fill)
		start[i] = max(0, -before[i])
	}
	span := func(axis, offset int) SliceAxisSpec {
		from := start[axis-1] + offset
		return AxisRange(from, from+(out[axis-1]-1)*stride+1).Stride(stride)
	}
	var views []*Node
	for i := range window[0] {
		for j := range window[1] {
			view := x
			if x.Shape().Dim(1) != out[0] || x.Shape().Dim(2) != out[1] {
				view = Slice(x, AxisRange(), span(1, i), span(2, j))
			}
			views = append(views, view)
		}
	}
	return views
}

// border adds before and after (where positive) elements of value fill at the ends of an axis: Pad, with a gradient.
func border(x *Node, axis, before, after int, fill float64) *Node {
	edge := func(size int) *Node {
		dims := slices.Clone(x.Shape().Dimensions)
		dims[axis] = size
		return BroadcastToDims(Scalar(x.Graph(), x.DType(), fill), dims...)
	}
	if before > 0 {
		x = Concatenate([]*Node{edge(before), x}, axis)
	}
	if after > 0 {
		x = Concatenate([]*Node{x, edge(after)}, axis)
	}
	return x
}
