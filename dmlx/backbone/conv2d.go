package backbone

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Window is how a kernel slides over an image.
type Window struct {
	Stride   int
	Pad      [4]int // Zeros above, left of, below and right of the image.
	Dilation int    // Distance of the kernel's places; 1 for neighbors.
	Groups   int    // The channels are divided into so many groups, which are convolved alone.
}

// Conv2D returns PyTorch's conv2d of channels-last images: x [N, H, W, C], kernel [KH, KW, C/Groups, O] → [N, OH, OW,
// O]. It panics where shapes do not fit.
func Conv2D(x, kernel *Node, w Window) *Node {
	x.AssertRank(4)
	kernel.AssertRank(4)
	k, c := kernel.Shape().Dimensions, x.Shape().Dim(3)
	if w.Stride < 1 || w.Dilation < 1 || w.Groups < 1 || slices.Min(w.Pad[:]) < 0 || k[2]*w.Groups != c ||
		k[3]%w.Groups != 0 {
		exceptions.Panicf("backbone: Conv2D of x %s with a kernel %s: %+v does not fit", x.Shape(), kernel.Shape(), w)
	}
	if w.Dilation > 1 {
		kernel = spread(spread(kernel, 0, w.Dilation), 1, w.Dilation)
		k = kernel.Shape().Dimensions
	}
	alone := w.Groups == c && k[3] == c && c > 1
	if alone && !onGPU(x) && x.Shape().Dim(1)*x.Shape().Dim(2) <= smallImage {
		return depthwiseMatrix(x, kernel, w.Stride, w.Pad)
	}
	pad := w.Pad[0]
	if w.Pad != [4]int{pad, pad, pad, pad} || pad >= min(k[0], k[1]) {
		x, pad = Border(x, w.Pad, 0), 0
	}
	switch n, h, width := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2); {
	case alone:
		return depthwiseShifted(x, kernel, w.Stride, pad)
	case w.Groups > 1:
		parts := make([]*Node, w.Groups)
		for i := range parts {
			in, out := AxisRange(i*k[2], (i+1)*k[2]), AxisRange(i*k[3]/w.Groups, (i+1)*k[3]/w.Groups)
			all := AxisRange()
			parts[i] = Convolution(Slice(x, all, all, all, in), Slice(kernel, all, all, all, out), w.Stride, pad)
		}
		return Concatenate(parts, 3)
	case pad == 0 && k[0] == w.Stride && k[1] == w.Stride && w.Stride > 1 && h%w.Stride == 0 && width%w.Stride == 0:
		// Patches that do not overlap, as at the start of a vision transformer.
		s := w.Stride
		patches := TransposeAllAxes(Reshape(x, n, h/s, s, width/s, s, c), 0, 1, 3, 2, 4, 5)
		y := MatMul(Reshape(patches, -1, s*s*c), Reshape(kernel, s*s*c, k[3]))
		return Reshape(y, n, h/s, width/s, k[3])
	}
	return Convolution(x, kernel, w.Stride, pad)
}

// spread puts distance−1 zeros between the places of an axis.
func spread(x *Node, axis, distance int) *Node {
	size := x.Shape().Dim(axis)
	parts := []*Node{x}
	for range distance - 1 {
		parts = append(parts, ZerosLike(x))
	}
	x = interleave(parts, axis)
	specs := slices.Repeat([]SliceAxisSpec{AxisRange()}, x.Rank())
	specs[axis] = AxisRange(0, (size-1)*distance+1)
	return Slice(x, specs...)
}

// Border adds elements of value fill above, left of, below and right of images [N, H, W, C].
func Border(x *Node, pad [4]int, fill float64) *Node {
	return Extend(Extend(x, 1, pad[0], pad[2], fill), 2, pad[1], pad[3], fill)
}

// smallImage is how many pixels an image has at most whose channels are convolved alone by [depthwiseMatrix] on a CPU.
// BenchmarkDepthwise measures that and [depthwiseShifted]. Neither is XLA's own convolution: its gradient in GoMLX
// v0.28.8 is a convolution for each channel, which takes minutes to compile and on a GPU tens of thousands of kernels a
// step.
const smallImage = 64

// depthwiseShifted convolves each channel alone, kernel [KH, KW, 1, C], by sums of shifted images, which XLA fuses. Its
// gradient of x is by phases, as in [unfoldedGradient].
func depthwiseShifted(x, kernel *Node, stride, pad int) *Node {
	checkWindow("Conv2D", x, kernel.Shape().Dim(0), kernel.Shape().Dim(1), stride, pad)
	h, w := x.Shape().Dim(1), x.Shape().Dim(2)
	kh, kw, c := kernel.Shape().Dim(0), kernel.Shape().Dim(1), kernel.Shape().Dim(3)
	sum := func(views []*Node, taps *Node) *Node {
		taps = Reshape(taps, -1, c)
		products := make([]*Node, len(views))
		for i, view := range views {
			products[i] = Mul(view, Reshape(Slice(taps, AxisElem(i)), 1, 1, 1, c))
		}
		return once(combined(products, Add), kernel)
	}
	var shifted []*Node
	return withGradients(
		func(in []*Node) *Node {
			out := [2]int{outputSize(h, kh, stride, pad), outputSize(w, kw, stride, pad)}
			shifted = windows(in[0], [2]int{kh, kw}, stride, [2]int{pad, pad}, out, 0, in[1])
			return sum(shifted, in[1])
		},
		[]func(v *Node) *Node{
			func(v *Node) *Node {
				return byPhases(v, [2]int{kh, kw}, stride, pad, [3]int{h, w, c}, func(f phase) *Node {
					return sum(windows(v, f.taps, 1, f.before, f.out, 0, kernel), f.of(kernel, stride))
				})
			},
			func(v *Node) *Node {
				taps, all := make([]*Node, len(shifted)), inParts(v)
				for i, view := range shifted {
					some := inParts(view)
					for p := range some {
						some[p] = Mul(some[p], all[p])
					}
					taps[i] = Reshape(ReduceSum(combined(some, Add), 0, 1, 2), 1, c)
				}
				return Reshape(Concatenate(taps, 0), kh, kw, 1, c)
			},
		}, x, kernel)
}

// inParts divides a batch of images into up to eight equal parts on XLA's CPU. It adds up rows slowly, and fuses the
// sum of the parts, which leaves fewer. Elsewhere a batch is whole: devices that have some images each would exchange
// them.
func inParts(x *Node) []*Node {
	if deviceOf(x) != xlaCPU {
		return []*Node{x}
	}
	n, parts := x.Shape().Dim(0), 8
	for n%parts != 0 {
		parts--
	}
	out := make([]*Node, parts)
	for p := range out {
		out[p] = Slice(x, AxisRange(p*n/parts, (p+1)*n/parts))
	}
	return out
}

// depthwiseMatrix is [depthwiseShifted] by products of the pixels of each channel, [N, H·W], with a matrix
// [H·W, OH·OW]: the kernel's values at the places that a constant says.
func depthwiseMatrix(x, kernel *Node, stride int, pad [4]int) *Node {
	n, h, w, c := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	kh, kw := kernel.Shape().Dim(0), kernel.Shape().Dim(1)
	if kh > h+pad[0]+pad[2] || kw > w+pad[1]+pad[3] {
		exceptions.Panicf("backbone: Conv2D of x %s padded by %v: the %d×%d window is larger", x.Shape(), pad, kh, kw)
	}
	oh, ow := outputSize(h+pad[0]+pad[2], kh, stride, 0), outputSize(w+pad[1]+pad[3], kw, stride, 0)
	places := make([]float32, kh*kw*h*w*oh*ow)
	for tap := range kh * kw {
		for to := range oh * ow {
			row, column := to/ow*stride+tap/kw-pad[0], to%ow*stride+tap%kw-pad[1]
			if row >= 0 && row < h && column >= 0 && column < w {
				places[(tap*h*w+row*w+column)*oh*ow+to] = 1
			}
		}
	}
	at := ConvertDType(Const(x.Graph(), tensors.FromFlatDataAndDimensions(places, kh*kw, h*w*oh*ow)), x.DType())
	matrices := Reshape(MatMul(Transpose(Reshape(kernel, kh*kw, c), 0, 1), at), c, h*w, oh*ow)
	x = Reshape(x, n, h*w, c)
	more := deviceOf(x) == xlaCPU && n%16 == 0
	if more {
		// An image of zeros: a power of two between the values of two channels leaves a CPU's cache few places for them.
		x = Extend(x, 0, 0, 1, 0)
	}
	y := DotGeneral(TransposeAllAxes(x, 2, 0, 1), []int{2}, []int{0}, matrices, []int{1}, []int{0})
	if more {
		y = Slice(y, AxisRange(), AxisRange(0, n))
	}
	return Reshape(TransposeAllAxes(y, 1, 2, 0), n, oh, ow, c)
}

// SumPooling returns the sums of the size × size windows of x [N, H, W, C].
func SumPooling(x *Node, size, stride int) *Node {
	checkWindow("SumPooling", x, size, size, stride, 0)
	out := [2]int{outputSize(x.Shape().Dim(1), size, stride, 0), outputSize(x.Shape().Dim(2), size, stride, 0)}
	return combined(windows(x, [2]int{size, size}, stride, [2]int{}, out, 0, nil), Add)
}

// combined combines nodes by a function of two.
func combined(all []*Node, f func(a, b *Node) *Node) *Node {
	for _, x := range all[1:] {
		all[0] = f(all[0], x)
	}
	return all[0]
}
