package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutNPair = About{
	Name: "n-pair", Title: "N-pair",
	Source: "Sohn: Improved deep metric learning with multi-class N-pair loss objective, NIPS 2016, Eq. 6 (N-pair-mc)",
	Text: "mean of log(1 + Σ_j exp(τ(S_aj − S_ap))): a and p are the first two of a class, the j the second ones " +
		"of the others",
	Peer: "NPairsLoss. Both normalize, where the paper regularizes the length",
}

// NPair is the multi-class N-pair loss: one anchor and one positive of each class, the positives of the others as
// negatives.
type NPair struct {
	Tau float64 // What similarities are multiplied by: 1.
}

// NewNPair has the published parameters.
func NewNPair() *NPair { return &NPair{Tau: 1} }

func (l *NPair) params() []param { return []param{{name: "tau", at: &l.Tau}} }

// Of builds the loss.
func (l *NPair) Of(b *dmlx.LossBatch) *Node {
	n := b.S.Shape().Dimensions[0]
	same := Equal(Reshape(b.Labels, n, 1), Reshape(b.Labels, 1, n))
	earlier := LogicalAnd(same, LessThan(graphs.Index(b.S, 1), graphs.Index(b.S, 0)))
	rank := ReduceSum(number(earlier), 1) // How many of its class come before.
	first, second := Equal(rank, ZerosLike(rank)), Reshape(Equal(rank, OnesLike(rank)), 1, n)
	s := MulScalar(b.S, l.Tau)
	positive := LogicalAnd(b.Positive, second)
	others, any := sumExp(s, LogicalAnd(b.Negative, second))
	own := ReduceSum(graphs.Only(positive, s), 1)
	paired := LogicalAnd(LogicalAnd(first, any), LogicalAny(positive, 1))
	return mean(softplus(Sub(others, own)), paired)
}

var aboutInfoNCE = About{
	Name: "info-nce", Title: "InfoNCE",
	Source: "van den Oord, Li, Vinyals: Representation learning with contrastive predictive coding, 2018, Eq. 4; " +
		"with labels, as NT-Xent",
	Text: "mean of −log(exp(S_ap/t) / (exp(S_ap/t) + Σ_n exp(S_an/t))) over positive pairs",
	Peer: "NTXentLoss, which adds 10⁻⁷ under the logarithm and so stops at a loss of 16; the temperature is its",
}

// InfoNCE is the loss of each positive pair against all negatives of its anchor.
type InfoNCE struct {
	Temperature float64 // t: 0.07.
}

// NewInfoNCE has the usual temperature.
func NewInfoNCE() *InfoNCE { return &InfoNCE{Temperature: 0.07} }

func (l *InfoNCE) params() []param { return []param{temperature(&l.Temperature)} }

func temperature(at *float64) param {
	return param{name: "temperature", at: at, ok: positive, want: "a positive number"}
}

// Of builds the loss.
func (l *InfoNCE) Of(b *dmlx.LossBatch) *Node {
	s := DivScalar(b.S, l.Temperature)
	negatives, any := sumExp(s, b.Negative)
	return mean(softplus(Sub(graphs.Column(negatives), s)), LogicalAnd(b.Positive, graphs.Column(any)))
}
