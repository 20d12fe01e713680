package losses

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// What the losses are made of. Masks are bool, of the shape of what they choose from.

// never is lower than any term of an exponential sum, and finite.
const never = -1e30

func count(mask *Node) *Node { return ReduceAllSum(number(mask)) }

func number(mask *Node) *Node { return ConvertDType(mask, dtypes.Float32) }

// mean of x where the mask is; 0 of nothing.
func mean(x, mask *Node) *Node { return over(ReduceAllSum(graphs.Only(mask, x)), count(mask)) }

// meanOfActive is the mean of x over where it is positive and the mask is.
func meanOfActive(x, mask *Node) *Node {
	return mean(x, LogicalAnd(mask, GreaterThan(x, ZerosLike(x))))
}

// over divides by a count, or by 1 where that is 0.
func over(x, n *Node) *Node {
	n = StopGradient(n)
	return Div(x, Max(n, OnesLike(n)))
}

// square is D² = 2−2S, of normalized vectors.
func square(s *Node) *Node { return MulScalar(OneMinus(s), 2) }

// distance is D = √(2−2S). Where D is under 10⁻³, S has no digits left for it: it is 0 there, and so is its gradient.
func distance(s *Node) *Node {
	d := square(s)
	there := GreaterThan(d, Scalar(d.Graph(), d.DType(), 1e-6))
	return Where(there, Sqrt(Where(there, d, OnesLike(d))), ZerosLike(d))
}

func hinge(x *Node) *Node {
	return graphs.Only(GreaterThan(x, ZerosLike(x)), x)
}

// softplus is log(1+eˣ), for any x without overflow, as [Softplus] is; runs that are shipped were made with the
// rounding of this one.
func softplus(x *Node) *Node {
	top := StopGradient(Max(x, ZerosLike(x)))
	// eˣ is not lost beside 1 where x is far below 0.
	return Add(top, Log1P(Add(Exp(Sub(x, top)), AddScalar(Exp(Neg(top)), -1))))
}

// sumExp is log Σ exp(x) along the last axis over where the mask is, and whether there is anything; it is 0 where there
// is not.
func sumExp(x, mask *Node) (sum, any *Node) {
	masked := Where(mask, x, MulScalar(OnesLike(x), never))
	top := StopGradient(ReduceMax(masked, -1))
	any = LogicalAny(mask, -1)
	top = graphs.Only(any, top)
	total := ReduceSum(Exp(Sub(masked, InsertAxes(top, -1))), -1)
	return graphs.Only(any, Add(top, Log(Where(any, total, OnesLike(total))))), any
}

// sumExpOne is log(1 + Σ exp(x)) along the last axis over where the mask is.
func sumExpOne(x, mask *Node) *Node {
	masked := Where(mask, x, MulScalar(OnesLike(x), never))
	top := StopGradient(ReduceMax(masked, -1))
	top = Max(top, ZerosLike(top))
	total := ReduceSum(Exp(Sub(masked, InsertAxes(top, -1))), -1)
	return Add(top, Log1P(Add(total, AddScalar(Exp(Neg(top)), -1))))
}

// rows are the anchors that have a positive and a negative, bool [B].
func rows(b *dmlx.LossBatch) *Node {
	return LogicalAnd(LogicalAny(b.Positive, 1), LogicalAny(b.Negative, 1))
}

// needProxies panics, to be caught where the graph is run, if a loss with proxies is given none.
func needProxies(b *dmlx.LossBatch, name string, perClass int) {
	if b.SP == nil {
		panic(fmt.Errorf("loss %s needs proxies, %d of each class, and none are given", name, perClass))
	}
	if c := b.SP.Shape().Dimensions[1]; c%perClass != 0 {
		panic(fmt.Errorf("loss %s has %d proxies of each class, and %d are given", name, perClass, c))
	}
}

// at are the entries of x [B, B] at the triplets' anchor and other member, [T].
func at(x *Node, t *dmlx.Triplets, other *Node) *Node {
	return Gather(x, Stack([]*Node{t.Anchor, other}, 1))
}
