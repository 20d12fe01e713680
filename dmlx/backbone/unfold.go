package backbone

import (
	"slices"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

func checkWindow(op string, x *Node, height, width, stride, pad int) {
	h, w := x.Shape().Dim(1)+2*pad, x.Shape().Dim(2)+2*pad
	if stride < 1 || pad < 0 || pad >= height || pad >= width || height > h || width > w {
		exceptions.Panicf("backbone: %s of x %s with a %d×%d window, stride %d, padding %d: "+
			"want stride ≥ 1, 0 ≤ padding < window ≤ padded image",
			op, x.Shape(), height, width, stride, pad)
	}
}

func outputSize(size, window, stride, pad int) int { return (size+2*pad-window)/stride + 1 }

// phase is the pixels of an image in rows ≡ p and columns ≡ q (mod stride), as a window that slides over the image by
// the stride sees them: through its taps from first on, each stride-th.
type phase struct {
	first, taps [2]int
	before      [2]int // Padding in front of the output, so that the phase's row a starts its window at row a − before.
	out         [2]int // Its rows and columns.
}

// byPhases puts an image [N, of[0], of[1], of[2]] together from the pixels of each phase, which pixels gives from the
// gradient v of what the window gave: [N, out[0], out[1], of[2]]. Phases that no tap meets are zero.
func byPhases(v *Node, window [2]int, stride, pad int, of [3]int, pixels func(f phase) *Node) *Node {
	axis := func(f *phase, i, p int) {
		f.first[i] = (p + pad) % stride
		if f.first[i] < window[i] {
			f.taps[i] = (window[i] - f.first[i] + stride - 1) / stride
		}
		f.before[i] = f.taps[i] - 1 - (p+pad)/stride
		f.out[i] = (of[i] + stride - 1) / stride
	}
	rows := make([]*Node, stride)
	for p := range stride {
		phases := make([]*Node, stride)
		for q := range stride {
			var f phase
			axis(&f, 0, p)
			axis(&f, 1, q)
			if f.taps[0] == 0 || f.taps[1] == 0 {
				phases[q] = Zeros(v.Graph(), shapes.Make(v.DType(), v.Shape().Dim(0), f.out[0], f.out[1], of[2]))
				continue
			}
			phases[q] = pixels(f)
		}
		rows[p] = interleave(phases, 2)
	}
	image := interleave(rows, 1)
	if image.Shape().Dim(1) != of[0] || image.Shape().Dim(2) != of[1] {
		image = Slice(image, AxisRange(), AxisRange(0, of[0]), AxisRange(0, of[1]))
	}
	return image
}

// of returns the phase's taps of a kernel [KH, KW, …], reversed.
func (f phase) of(kernel *Node, stride int) *Node {
	if stride > 1 {
		kernel = Slice(kernel, AxisRangeToEnd(f.first[0]).Stride(stride), AxisRangeToEnd(f.first[1]).Stride(stride))
	}
	if f.taps != [2]int{1, 1} {
		kernel = Reverse(kernel, 0, 1)
	}
	return kernel
}

// interleave puts the i-th of s equal nodes at the indices ≡ i (mod s) of the axis.
func interleave(nodes []*Node, axis int) *Node {
	if len(nodes) == 1 {
		return nodes[0]
	}
	expanded := slice.Map(nodes, func(x *Node) *Node { return ExpandAxes(x, axis+1) })
	dims := slices.Clone(nodes[0].Shape().Dimensions)
	dims[axis] *= len(nodes)
	return Reshape(Concatenate(expanded, axis+1), dims...)
}

// columns unfolds x [N, H, W, C] into one row of window[0]·window[1]·C values per window position: [N·out[0]·out[1],
// …]. The first window starts before[0] rows above and before[1] columns left of the image (negative: inside it),
// which is zero outside.
func columns(x *Node, window [2]int, stride int, before, out [2]int) *Node {
	row := window[0] * window[1] * x.Shape().Dim(3)
	if deviceOf(x) != goBackend && (window[0] > x.Shape().Dim(1) || window[1] > x.Shape().Dim(2)) {
		return Reshape(gatheredWindows(x, window, stride, before, out), -1, row)
	}
	views := windows(x, window, stride, before, out, 0, nil)
	unfolded := views[0]
	if len(views) > 1 {
		unfolded = Concatenate(views, 3)
	}
	return Reshape(unfolded, -1, row)
}

// gatheredWindows is what [windows] gives with zeros outside x, as one value [N, out[0]·out[1]·window[0]·window[1], C].
// It is one kernel, where XLA compiles one for nearly each place in the window. It is for images that are smaller than
// the window: the pixel for each place at each position is a constant of the graph.
func gatheredWindows(x *Node, window [2]int, stride int, before, out [2]int) *Node {
	h, w := x.Shape().Dim(1), x.Shape().Dim(2)
	var pixels []int32
	var inside []bool
	for position := range out[0] * out[1] {
		for place := range window[0] * window[1] {
			row := position/out[1]*stride + place/window[1] - before[0]
			column := position%out[1]*stride + place%window[1] - before[1]
			in := row >= 0 && row < h && column >= 0 && column < w
			pixel := 0
			if in {
				pixel = row*w + column
			}
			pixels, inside = append(pixels, int32(pixel)), append(inside, in)
		}
	}
	// Images are gathered whole, so that devices which have some of them each exchange nothing.
	byPixel := TransposeAllAxes(Reshape(x, x.Shape().Dim(0), h*w, -1), 1, 0, 2)
	gathered := Gather(byPixel, Const(x.Graph(), tensors.FromFlatDataAndDimensions(pixels, len(pixels), 1)))
	gathered = TransposeAllAxes(gathered, 1, 0, 2)
	kept := Const(x.Graph(), tensors.FromFlatDataAndDimensions(inside, 1, len(inside), 1))
	return Where(BroadcastToDims(kept, gathered.Shape().Dimensions...), gathered, ScalarZero(x.Graph(), x.DType()))
}

// windows gives, for each place in the window (row by row), its value at every window position: [N, out[0], out[1], C].
// Outside the image it is fill. With a weight, the image with its border is a value of its own ([once]): in a fused sum
// XLA decides for each place whether it is inside, one number at a time.
func windows(x *Node, window [2]int, stride int, before, out [2]int, fill float64, weight *Node) []*Node {
	var start [2]int
	for i := range 2 {
		axis := i + 1
		after := (out[i]-1)*stride + window[i] - before[i] - x.Shape().Dim(axis)
		x = Extend(x, axis, before[i], after, fill)
		start[i] = max(0, -before[i])
	}
	x = once(x, weight)
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

// Extend adds before and after (where positive) elements of value fill at the ends of an axis: Pad, with a gradient.
func Extend(x *Node, axis, before, after int, fill float64) *Node {
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
