package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutSigLIP = About{
	Name: "siglip", Title: "Sigmoid loss of SigLIP",
	Source: "Zhai, Mustafa, Kolesnikov, Beyer: Sigmoid loss for language image pre-training, ICCV 2023, §3.2 (arXiv " +
		"2303.15343)",
	Text: "mean over anchors of Σ_p log(1 + exp(−tS_ap − b)) + Σ_n log(1 + exp(tS_an + b))",
	Peer: "None",
}

// SigLIP is a logistic regression of whether a pair is of one class, by one slope and one bias for all pairs. The paper
// learns both, with images and texts as members of a pair; here they stay as they begin, and both members are images.
type SigLIP struct {
	T float64 // The slope t: 10.
	B float64 // The bias b: −10.
}

// NewSigLIP has the published initial values.
func NewSigLIP() *SigLIP { return &SigLIP{T: 10, B: -10} }

func (l *SigLIP) params() []param {
	return []param{{name: "t", at: &l.T, ok: positive, want: "a positive number"}, {name: "b", at: &l.B}}
}

// Of builds the loss.
func (l *SigLIP) Of(b *dmlx.LossBatch) *Node {
	x := AddScalar(MulScalar(b.S, l.T), l.B)
	pairs := Add(graphs.Only(b.Positive, softplus(Neg(x))), graphs.Only(b.Negative, softplus(x)))
	return ReduceAllMean(ReduceSum(pairs, 1))
}
