package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/loop"
)

var aboutTriplet = About{
	Name: "triplet", Title: "Triplet",
	Source: "Schroff, Kalenichenko, Philbin: FaceNet, CVPR 2015, Eq. 3",
	Text:   "mean of max(0, D_ap² − D_an² + m) over the triplets that have a loss",
	Peer:   "TripletMarginLoss, whose distances are not squared and whose margin is 0.05: power=1&margin=0.05",
}

// Triplet is the triplet loss with a hinge, over the batch's triplets, or over all of its positive and negative pairs.
// The paper sums; here it is the mean over the triplets that have a loss.
type Triplet struct {
	Margin float64 // 0.2
	Power  float64 // Of the distances: 2 as published, or 1.
}

// NewTriplet has the published parameters.
func NewTriplet() *Triplet { return &Triplet{Margin: 0.2, Power: 2} }

func (l *Triplet) params() []param { return []param{{name: "margin", at: &l.Margin}, power(&l.Power)} }

// Of builds the loss.
func (l *Triplet) Of(b *dmlx.LossBatch) *Node {
	return triplets(b, powered(b.S, l.Power), l.Margin, hinge, func(t loop.Step, x *Node) (f, slope *Node) {
		zero := t.Value(0)
		return Max(x, zero), number(GreaterThan(x, zero))
	})
}

var aboutSoftTriplet = About{
	Name: "triplet-soft", Title: "Triplet, soft margin",
	Source: "Hermans, Beyer, Leibe: In defense of the triplet loss for person re-identification, 2017, §2 (batch " +
		"all, soft margin)",
	Text: "mean of log(1 + exp(D_ap − D_an + m)), m = 0, over the triplets",
	Peer: "TripletMarginLoss with smooth_loss",
}

// SoftTriplet is the triplet loss with a soft margin.
type SoftTriplet struct {
	Margin float64 // 0
	Power  float64 // Of the distances: 1 as published, or 2.
}

// NewSoftTriplet has the published parameters.
func NewSoftTriplet() *SoftTriplet { return &SoftTriplet{Power: 1} }

func (l *SoftTriplet) params() []param {
	return []param{{name: "margin", at: &l.Margin}, power(&l.Power)}
}

// Of builds the loss.
func (l *SoftTriplet) Of(b *dmlx.LossBatch) *Node {
	return triplets(b, powered(b.S, l.Power), l.Margin, softplus, func(t loop.Step, x *Node) (f, slope *Node) {
		zero, one := t.Value(0), t.Value(1)
		e := Exp(Neg(Abs(x))) // 1/(1+e⁻ˣ) is 1/(1+e) or 1 less that.
		slope = Div(one, Add(one, e))
		return Add(Max(x, zero), Log1P(e)), Where(GreaterOrEqual(x, zero), slope, Sub(one, slope))
	})
}

func powered(s *Node, power float64) *Node {
	if power == 2 {
		return square(s)
	}
	return distance(s)
}

// triplets is the mean of f(d_ap − d_an + margin) over the triplets where it is positive, for distances d [B, B] and a
// convex f. with is f with its slope, built of what a loop allows.
func triplets(b *dmlx.LossBatch, d *Node, margin float64, f func(x *Node) *Node,
	with func(t loop.Step, x *Node) (f, slope *Node)) *Node {
	if t := b.Triplets; t != nil {
		return meanOfActive(f(AddScalar(Sub(at(d, t, t.Positive), at(d, t, t.Negative)), margin)), t.Valid)
	}
	// All triplets of the batch: [B, B] of memory for B³ of them. Along the way the loop gathers the gradient w with
	// respect to d, as loops have no autodiff.
	none := ZerosLike(d)
	out := loop.Positives(b.Positive, []*Node{none, none, none}, []*Node{d, number(b.Negative)},
		func(t loop.Step) []*Node {
			d, among := t.Fixed[0], Mul(t.Fixed[1], t.Any)
			x := Add(Sub(t.Sum(Mul(t.Chosen, d)), d), t.Value(margin))
			loss, slope := with(t, x)
			loss, slope = Mul(among, loss), Mul(among, slope)
			w := Sub(Add(t.Carried[2], Mul(t.Chosen, t.Sum(slope))), slope)
			return []*Node{Add(t.Carried[0], loss), Add(t.Carried[1], number(GreaterThan(loss, t.Value(0)))), w}
		})
	value, active, w := ReduceAllSum(out[0]), ReduceAllSum(out[1]), out[2]
	// d less itself is 0, with the gradient 1.
	return Add(over(value, active), over(ReduceAllSum(Mul(w, Sub(d, StopGradient(d)))), active))
}
