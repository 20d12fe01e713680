package backbone

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Momentum and Epsilon are PyTorch's defaults of batch normalization; in GoMLX's convention the momentum is 1 − 0.1.
const (
	Momentum = 0.1
	Epsilon  = 1e-5
)

// ReLU is max(x, 0), of any shape; its gradient at 0 is 0, as in PyTorch (GoMLX's own is 1 there).
func ReLU(x *Node) *Node { return relu(x, nil, false) }

// relu is [ReLU]. With a weight, a CPU computes it [once]. If it is kept, a GPU reads it again for the gradient,
// instead of computing it from what it was computed from.
func relu(x, weight *Node, kept bool) *Node {
	var y *Node
	return withGradients(
		func(in []*Node) *Node {
			y = once(MaxScalar(in[0], 0), weight)
			if kept && onGPU(x) {
				y = OptimizationBarrier(y)
			}
			return y
		},
		[]func(*Node) *Node{func(v *Node) *Node {
			zero := ScalarZero(v.Graph(), v.DType())
			return Where(GreaterThan(y, zero), v, zero)
		}}, x)
}

// MaxPooling takes the largest value of each size × size window of x [N, H, W, C], the border padded by pad on all
// sides with the lowest finite float32, which stands for the −∞ of PyTorch's max_pool2d.
func MaxPooling(x *Node, size, stride, pad int) *Node {
	x.AssertRank(4)
	checkWindow("MaxPooling", x, size, size, stride, pad)
	// GoMLX's MaxPool and its gradient take 1.6 times as long on XLA's CPU, and 2.3 times on the Go backend.
	out := [2]int{outputSize(x.Shape().Dim(1), size, stride, pad), outputSize(x.Shape().Dim(2), size, stride, pad)}
	if onGPU(x) && size*size <= math.MaxUint8 {
		return poolingByPlaces(x, size, stride, pad, out)
	}
	return combined(windows(x, [2]int{size, size}, stride, [2]int{pad, pad}, out, -math.MaxFloat32, nil), Max)
}

// poolingByPlaces is [MaxPooling] that keeps for its gradient where in its window each value was found, the first
// place of equal ones, in a byte. That and the phases of [poolingGradient] move a quarter of the memory that the
// maxima and their autodiff do, and less than half of what XLA's select-and-scatter does, which besides adds in any
// order. On a CPU a step of ResNet-18 takes as long either way.
func poolingByPlaces(x *Node, size, stride, pad int, out [2]int) *Node {
	var places *Node
	return withGradients(
		func(in []*Node) *Node {
			views := windows(in[0], [2]int{size, size}, stride, [2]int{pad, pad}, out, -math.MaxFloat32, nil)
			y := views[0]
			places = Zeros(x.Graph(), shapes.Make(dtypes.Uint8, y.Shape().Dimensions...))
			for i, view := range views[1:] {
				places = Where(GreaterThan(view, y), Scalar(x.Graph(), dtypes.Uint8, i+1), places)
				y = Max(y, view)
			}
			both := OptimizationBarriers(y, places) // XLA computes them together.
			y, places = both[0], both[1]
			return y
		},
		[]func(v *Node) *Node{func(v *Node) *Node {
			return poolingGradient(v, places, size, stride, pad, x.Shape().Dim(1), x.Shape().Dim(2))
		}}, x)
}

// poolingGradient is ∂L/∂x [N, H, W, C] of a maximum, from v = ∂L/∂output and the places of its values in their
// windows, both [N, OH, OW, C], by the phases of [unfoldedGradient]: each pixel sums up the windows that have found
// it.
func poolingGradient(v, places *Node, size, stride, pad, h, w int) *Node {
	image := byPhases(v, [2]int{size, size}, stride, pad, [3]int{h, w, v.Shape().Dim(3)}, func(f phase) *Node {
		placed := windows(places, f.taps, 1, f.before, f.out, 0, nil)
		views := windows(v, f.taps, 1, f.before, f.out, 0, nil)
		for i, view := range views {
			row, column := f.first[0]+stride*(f.taps[0]-1-i/f.taps[1]), f.first[1]+stride*(f.taps[1]-1-i%f.taps[1])
			found := Equal(placed[i], Scalar(v.Graph(), dtypes.Uint8, row*size+column))
			views[i] = Where(found, view, ScalarZero(v.Graph(), v.DType()))
		}
		return combined(views, Add)
	})
	return OptimizationBarrier(image) // XLA would split it among the sums behind, and compute it for each.
}

// GlobalAveragePooling is the mean over the image of x [N, H, W, C] → [N, C].
func GlobalAveragePooling(x *Node) *Node {
	x.AssertRank(4)
	return ReduceMean(x, 1, 2)
}

// Linear is x Wᵀ + b for x [N, F], with variables "weight" [dim, F] and "bias" [dim] of the scope: PyTorch's Linear.
func Linear(scope *model.Scope, x *Node) *Node {
	x.AssertRank(2)
	w, b := variable(scope, "weight").NodeValue(x), variable(scope, "bias").NodeValue(x)
	return Add(DotGeneral(x, []int{1}, nil, w, []int{1}, nil), ExpandAxes(b, 0))
}

// BatchNorm normalizes x [..., C] per channel (Ioffe & Szegedy 2015) with variables "weight", "bias", "running_mean"
// and "running_var", each [C], of the scope. It computes in float32 and returns x's type.
//
// In training it takes mean and (biased) variance of the batch, and its gradient goes through both; unless it is
// Again, the running averages move by [Momentum] towards the batch's mean and unbiased variance when the graph runs.
// At inference, if the pass is Frozen, and where neither weight nor bias is trained, it takes the running averages.
func BatchNorm(scope *model.Scope, x *Node, pass Pass) *Node {
	return batchNorm(scope, ownWeights(x.Graph()), x, pass)
}

func batchNorm(scope *model.Scope, w lookup, x *Node, pass Pass) *Node {
	return BatchNormalization{Weight: w(scope, "weight"), Bias: w(scope, "bias"), Mean: variable(scope, "running_mean"),
		Variance: variable(scope, "running_var"), Epsilon: Epsilon, Momentum: Momentum,
		Trained: variable(scope, "weight").Trainable || variable(scope, "bias").Trainable}.Of(x, pass)
}

// BatchNormalization is a layer of [BatchNorm] whose parameters are wherever they are. Where neither weight nor bias is
// Trained, it takes the running averages.
type BatchNormalization struct {
	Weight, Bias      *Node
	Mean, Variance    *model.Variable
	Epsilon, Momentum float64
	Trained           bool
}

// Of normalizes x [..., C] per channel; see [BatchNorm].
func (b BatchNormalization) Of(x *Node, pass Pass) *Node {
	flat := ConvertDType(Reshape(x, -1, x.Shape().Dim(-1)), dtypes.Float32)
	shaped := func(y *Node) *Node { return Reshape(ConvertDType(y, x.DType()), x.Shape().Dimensions...) }
	rows := flat.Shape().Dim(0)
	if !pass.Training || pass.Frozen || !b.Trained {
		scale := Mul(b.Weight, rsqrt(AddScalar(b.Variance.NodeValue(x), b.Epsilon)))
		shift := Sub(b.Bias, Mul(b.Mean.NodeValue(x), scale))
		return shaped(Add(Mul(flat, ExpandAxes(scale, 0)), ExpandAxes(shift, 0)))
	}
	if rows < 2 {
		exceptions.Panicf("backbone: batch normalization by %s of %s: want more than one value per channel, so a larger "+
			"batch or image", b.Mean.Path(), x.Shape())
	}
	y, m, v := Normalize(flat, b.Weight, b.Bias, b.Epsilon)
	if pass.Again {
		return shaped(y)
	}
	move := func(running *model.Variable, to *Node) {
		from := running.NodeValue(x)
		running.SetNodeValue(Add(MulScalar(from, 1-b.Momentum), MulScalar(to, b.Momentum)))
	}
	move(b.Mean, m)
	move(b.Variance, MulScalar(v, float64(rows)/float64(rows-1)))
	return shaped(y)
}

// Normalize returns γ (x − m)/√(v + ε) + β for x [M, C], with m and v the mean and the biased variance of its rows.
//
// Its gradient is written by hand: with x̂ = (x − m)/√(v + ε),
//
//	∂L/∂x = γ/√(v + ε) · (g − mean(g) − x̂ mean(g x̂)),  ∂L/∂γ = Σ g x̂,  ∂L/∂β = Σ g
//
// in as few passes over memory as there are, which is what costs on a backend that does not fuse.
func Normalize(x, gamma, beta *Node, epsilon float64) (y, mean, variance *Node) {
	rows := float64(x.Shape().Dim(0))
	row := func(perChannel *Node) *Node { return ExpandAxes(perChannel, 0) }
	var centered, inverse *Node
	// Σ g and Σ g x̂, written down anew for each gradient: backends compute equal nodes once.
	sumG := sumRows
	sumGX := func(g *Node) *Node { return Mul(sumRows(Mul(g, centered)), inverse) }
	y = withGradients(
		func(in []*Node) *Node {
			if onGPU(x) {
				mean, variance = momentsAtOnce(in[0])
				centered = Sub(in[0], row(mean))
			} else {
				mean = DivScalar(sumRows(in[0]), rows)
				centered = Sub(in[0], row(mean))
				variance = DivScalar(sumRows(Square(centered)), rows)
			}
			inverse = rsqrt(AddScalar(variance, epsilon))
			return Add(Mul(centered, row(Mul(in[1], inverse))), row(in[2]))
		},
		[]func(g *Node) *Node{
			func(g *Node) *Node {
				scale := Mul(gamma, inverse)
				dx := Mul(g, row(scale))
				dx = Sub(dx, Mul(centered, row(MulScalar(Mul(Mul(scale, inverse), sumGX(g)), 1/rows))))
				return once(Sub(dx, row(MulScalar(Mul(scale, sumG(g)), 1/rows))), gamma)
			},
			sumGX,
			sumG,
		}, x, gamma, beta)
	return y, mean, variance
}

// once returns x. XLA on a CPU then computes x once, where otherwise it would compute it again in each kernel that
// reads it, from all that x is computed from: also in those that transpose it for a kernel gradient, which read memory
// in the worst order. A training step of the small network takes 0.92 of the time, with the same bits.
//
// XLA duplicates no expensive operation that several others read. So x is divided by a one that XLA does not know as
// such, since it comes from a weight. (An OptimizationBarrier is dropped on a CPU before XLA fuses operations.) Without
// a weight, x is as it was.
func once(x, weight *Node) *Node {
	if weight == nil || deviceOf(x) != xlaCPU {
		return x
	}
	first := ConvertDType(StopGradient(Reshape(Slice(Reshape(weight, -1), AxisRange(0, 1)))), x.DType())
	return Div(x, BroadcastToDims(OnePlus(MulScalar(first, 0)), x.Shape().Dimensions...))
}

// sumRows returns the sum [C] of the rows of x [M, C]. The Go backend multiplies matrices with SIMD, but adds without.
func sumRows(x *Node) *Node {
	if deviceOf(x) != goBackend {
		return ReduceSum(x, 0)
	}
	return Reshape(MatMul(Ones(x.Graph(), shapes.Make(x.DType(), 1, x.Shape().Dim(0))), x), -1)
}

// momentsAtOnce are the mean and the biased variance of the rows of x [M, C], each [C], in one pass over memory, of
// which there are two in the definition: batch normalization is a GPU's memory traffic. They are those of x − p for a
// row p of x, its first, which is some standard deviations from the mean at most where x itself may be thousands: a
// square loses no digits that matter.
func momentsAtOnce(x *Node) (mean, variance *Node) {
	p := Slice(x, AxisElem(0))
	shifted := Sub(x, p)
	mean = ReduceMean(shifted, 0)
	variance = MaxScalar(Sub(ReduceMean(Square(shifted), 0), Square(mean)), 0)
	return Add(mean, Reshape(p, -1)), variance
}

// rsqrt is 1/√x; GoMLX's Rsqrt has no gradient.
func rsqrt(x *Node) *Node { return Reciprocal(Sqrt(x)) }

// withGradients makes an op of several inputs whose gradients are written by hand: gradients[i] takes ∂L/∂output to
// ∂L/∂inputs[i] and is asked only where it is needed.
//
// GoMLX has custom gradients for identities of one input alone. So an identity behind the op notes the gradient that
// comes in, and an identity in front of each input ignores what autodiff hands it and answers from the noted one; what
// autodiff built in between is used by nothing, and is dropped before the graph runs.
func withGradients(op func(inputs []*Node) *Node, gradients []func(v *Node) *Node, inputs ...*Node) *Node {
	var incoming *Node
	front := make([]*Node, len(inputs))
	for i, x := range inputs {
		front[i] = IdentityWithCustomGradient(x, func(_, _ *Node) *Node { return gradients[i](incoming) })
	}
	return IdentityWithCustomGradient(op(front), func(_, v *Node) *Node {
		incoming = v
		return v
	})
}
