package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutLifted = About{
	Name: "lifted", Title: "Lifted structure",
	Source: "Oh Song, Xiang, Jegelka, Savarese: Deep metric learning via lifted structured feature embedding, CVPR " +
		"2016, Eq. 4",
	Text: "mean over positive pairs of ½max(0, log(Σ_k exp(m − D_ik) + Σ_l exp(m − D_jl)) + D_ij)², k and l " +
		"negatives of i and of j",
	Peer: "LiftedStructureLoss",
}

// Lifted is the lifted structure loss: each positive pair against all negatives of both members.
type Lifted struct {
	Margin float64 // m: 1.
}

// NewLifted has the published parameters.
func NewLifted() *Lifted { return &Lifted{Margin: 1} }

func (l *Lifted) params() []param { return []param{{name: "margin", at: &l.Margin}} }

// Of builds the loss.
func (l *Lifted) Of(b *dmlx.LossBatch) *Node {
	d := distance(b.S)
	negatives, any := sumExp(AddScalar(Neg(d), l.Margin), b.Negative)
	negatives = Where(any, negatives, MulScalar(OnesLike(negatives), never))
	wide := func(x *Node) *Node { return BroadcastToDims(x, d.Shape().Dimensions...) }
	i, j, own := wide(graphs.Column(negatives)), wide(InsertAxes(negatives, 0)), wide(graphs.Column(any))
	first, second := Where(own, i, j), Where(own, j, i) // The first is not empty if one of them is not.
	both := Add(first, softplus(Sub(second, first)))    // log(exp i + exp j)
	pair := LogicalAnd(b.Positive, LogicalOr(graphs.Column(any), InsertAxes(any, 0)))
	both = Add(graphs.Only(pair, both), d)
	return mean(MulScalar(Square(hinge(both)), 0.5), pair)
}

var aboutGeneralLifted = About{
	Name: "lifted-general", Title: "Generalized lifted structure",
	Source: "Hermans, Beyer, Leibe: In defense of the triplet loss for person re-identification, 2017, Eq. 10",
	Text:   "mean over anchors of max(0, log Σ_p exp(D_ap) + log Σ_n exp(m − D_an))",
	Peer:   "GeneralizedLiftedStructureLoss, which also gives anchors without a positive or a negative a loss",
}

// GeneralLifted is the generalized lifted structure loss: all positives of an anchor against all of its negatives.
type GeneralLifted struct {
	Margin float64 // m: 1.
}

// NewGeneralLifted has the published form, with the margin of the loss that it generalizes.
func NewGeneralLifted() *GeneralLifted { return &GeneralLifted{Margin: 1} }

func (l *GeneralLifted) params() []param { return []param{{name: "margin", at: &l.Margin}} }

// Of builds the loss.
func (l *GeneralLifted) Of(b *dmlx.LossBatch) *Node {
	d := distance(b.S)
	positives, _ := sumExp(d, b.Positive)
	negatives, _ := sumExp(AddScalar(Neg(d), l.Margin), b.Negative)
	return mean(hinge(Add(positives, negatives)), rows(b))
}
