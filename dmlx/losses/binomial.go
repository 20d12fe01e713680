package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutBinomial = About{
	Name: "binomial", Title: "Binomial deviance",
	Source: "Yi, Lei, Liao, Li: Deep metric learning for person re-identification, ICPR 2014; with the cost as in " +
		"Ustinova, Lempitsky: Learning deep embeddings with histogram loss, NIPS 2016, Eq. 11",
	Text: "mean of log(1 + exp(−α(S_ap−λ))) over positive pairs + mean of log(1 + exp(αC(S_an−λ))) over negative pairs",
	Peer: "none; the agreement is with the formula written in PyTorch",
}

// Binomial is the binomial deviance of all pairs.
type Binomial struct {
	Alpha  float64 // 2
	Lambda float64 // 0.5
	Cost   float64 // C, of negative pairs: 25.
}

// NewBinomial has the published parameters.
func NewBinomial() *Binomial { return &Binomial{Alpha: 2, Lambda: 0.5, Cost: 25} }

func (l *Binomial) params() []param {
	return []param{{name: "alpha", at: &l.Alpha}, {name: "lambda", at: &l.Lambda}, {name: "cost", at: &l.Cost}}
}

// Of builds the loss.
func (l *Binomial) Of(b *dmlx.LossBatch) *Node {
	s := MulScalar(AddScalar(b.S, -l.Lambda), l.Alpha)
	return Add(mean(softplus(Neg(s)), b.Positive), mean(softplus(MulScalar(s, l.Cost)), b.Negative))
}
