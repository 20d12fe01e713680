package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutMultiSimilarity = About{
	Name: "ms", Title: "Multi-similarity",
	Source: "Wang, Han, Huang, Dong, Scott: Multi-similarity loss with general pair weighting for deep metric " +
		"learning, CVPR 2019, Eq. 15",
	Text: "mean over anchors of log(1 + Σ_p exp(−α(S_ap−λ)))/α + log(1 + Σ_n exp(β(S_an−λ)))/β",
	Peer: "MultiSimilarityLoss; β is its. Neither mines by itself: the paper's pairs are chosen by its miner " +
		"(package miners)",
}

// MultiSimilarity is the multi-similarity loss of the pairs that the batch has.
type MultiSimilarity struct {
	Alpha, Beta float64 // 2, 50. (The authors' code has β = 40.)
	Lambda      float64 // 0.5, pytorch-metric-learning's default and the authors' code's, as is α; their paper has 1.
}

// NewMultiSimilarity has the usual parameters.
func NewMultiSimilarity() *MultiSimilarity { return &MultiSimilarity{Alpha: 2, Beta: 50, Lambda: 0.5} }

func (l *MultiSimilarity) params() []param {
	return []param{{name: "alpha", at: &l.Alpha, ok: positive, want: "a positive number"},
		{name: "beta", at: &l.Beta, ok: positive, want: "a positive number"}, {name: "lambda", at: &l.Lambda}}
}

// Of builds the loss.
func (l *MultiSimilarity) Of(b *dmlx.LossBatch) *Node {
	s := AddScalar(b.S, -l.Lambda)
	pull := DivScalar(sumExpOne(MulScalar(s, -l.Alpha), b.Positive), l.Alpha)
	push := DivScalar(sumExpOne(MulScalar(s, l.Beta), b.Negative), l.Beta)
	return ReduceAllMean(Add(pull, push))
}
