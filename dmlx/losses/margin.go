package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutMargin = About{
	Name: "margin", Title: "Margin",
	Source: "Wu, Manmatha, Smola, Krähenbühl: Sampling matters in deep embedding learning, ICCV 2017, §4.2 (margin " +
		"based loss)",
	Text: "Σ max(0, m + D_ap − β) + max(0, m − D_an + β) over triplets, over the number of these terms that are not 0",
	Peer: "MarginLoss with a β that is not learnt",
}

// Margin is the margin based loss. The paper samples its triplets by distance (package miners); without any, all
// triplets of the batch are taken, which weighs a pair by the number of triplets that it is in.
type Margin struct {
	Margin float64 // m: 0.2.
	Beta   float64 // β, the distance that parts positives from negatives: 1.2. It is not learnt.
}

// NewMargin has the published parameters.
func NewMargin() *Margin { return &Margin{Margin: 0.2, Beta: 1.2} }

func (l *Margin) params() []param {
	return []param{{name: "margin", at: &l.Margin}, {name: "beta", at: &l.Beta}}
}

// Of builds the loss.
func (l *Margin) Of(b *dmlx.LossBatch) *Node {
	d := distance(b.S)
	pull, push := hinge(AddScalar(d, l.Margin-l.Beta)), hinge(AddScalar(Neg(d), l.Margin+l.Beta))
	if t := b.Triplets; t != nil {
		pull, push = at(pull, t, t.Positive), at(push, t, t.Negative)
		return weighted(pull, number(t.Valid), push, number(t.Valid))
	}
	times := func(mask, others *Node) *Node {
		return Mul(number(mask), graphs.Column(ReduceSum(number(others), 1)))
	}
	return weighted(pull, times(b.Positive, b.Negative), push, times(b.Negative, b.Positive))
}

// weighted is the mean over the terms that are positive, each as often as its weight says.
func weighted(pull, pullTimes, push, pushTimes *Node) *Node {
	sum := func(x, times *Node) (total, active *Node) {
		return ReduceAllSum(Mul(x, times)), ReduceAllSum(graphs.Only(GreaterThan(x, ZerosLike(x)), times))
	}
	a, n := sum(pull, pullTimes)
	b, m := sum(push, pushTimes)
	return over(Add(a, b), Add(n, m))
}
