package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutSINCERE = About{
	Name: "sincere", Title: "SINCERE",
	Source: "Feeney, Hughes: SINCERE: supervised information noise-contrastive estimation revisited, 2023, the " +
		"objective in Fig. 1 (arXiv 2309.14277v4)",
	Text: "mean over anchors of the mean over p of −log(exp(S_ap/t) / (exp(S_ap/t) + Σ_n exp(S_an/t)))",
	Peer: "None; NTXentLoss is the same but for the mean over all positive pairs at once",
}

// SINCERE is the supervised contrastive loss without the other positives in the denominator, so that none is pushed. It
// is the mean over the anchors with a positive and a negative. The paper compares negatives with p, not with the
// anchor: over all pairs of a class, in both orders, that is the same sum.
type SINCERE struct {
	Temperature float64 // t: 0.07, the authors' code's default.
}

// NewSINCERE has the usual temperature.
func NewSINCERE() *SINCERE { return &SINCERE{Temperature: 0.07} }

func (l *SINCERE) params() []param { return []param{temperature(&l.Temperature)} }

// Of builds the loss.
func (l *SINCERE) Of(b *dmlx.LossBatch) *Node {
	s := DivScalar(b.S, l.Temperature)
	negatives, _ := sumExp(s, b.Negative)
	each := graphs.Only(b.Positive, softplus(Sub(graphs.Column(negatives), s)))
	return mean(over(ReduceSum(each, 1), ReduceSum(number(b.Positive), 1)), rows(b))
}
