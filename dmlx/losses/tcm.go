package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutTCM = About{
	Name: "tcm", Title: "Threshold-consistent margin",
	Source: "Zhang, Xu, Wang, et al.: Threshold-consistent margin loss for open-world deep metric learning, ICLR 2024 " +
		"(arXiv 2307.04047)",
	Text: "λ₊ mean of max(0, m₊ − S_ap) over the positive pairs that have a loss + λ₋ mean of max(0, S_an − m₋) over " +
		"such negative pairs",
	Peer: "ThresholdConsistentMarginLoss",
}

// TCM is the threshold-consistent margin loss: thresholds that are the same for all classes. The paper adds it to
// another loss as a regularizer; here it stands alone.
type TCM struct {
	PositiveMargin float64 // m₊: 0.9.
	NegativeMargin float64 // m₋: 0.5.
	Positive       float64 // λ₊: 1.
	Negative       float64 // λ₋: 1.
}

// NewTCM has the published parameters.
func NewTCM() *TCM { return &TCM{PositiveMargin: 0.9, NegativeMargin: 0.5, Positive: 1, Negative: 1} }

func (l *TCM) params() []param {
	return []param{{name: "positive-margin", at: &l.PositiveMargin}, {name: "negative-margin", at: &l.NegativeMargin},
		{name: "positive", at: &l.Positive}, {name: "negative", at: &l.Negative}}
}

// Of builds the loss.
func (l *TCM) Of(b *dmlx.LossBatch) *Node {
	pull := meanOfActive(hinge(AddScalar(Neg(b.S), l.PositiveMargin)), b.Positive)
	push := meanOfActive(hinge(AddScalar(b.S, -l.NegativeMargin)), b.Negative)
	return Add(MulScalar(pull, l.Positive), MulScalar(push, l.Negative))
}
