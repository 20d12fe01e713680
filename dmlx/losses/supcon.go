package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutSupCon = About{
	Name: "sup-con", Title: "Supervised contrastive",
	Source: "Khosla et al.: Supervised contrastive learning, NeurIPS 2020, Eq. 2 (the sum outside the logarithm)",
	Text:   "mean over anchors of the mean over p of −log(exp(S_ap/t) / Σ_k exp(S_ak/t)), k all others",
	Peer:   "SupConLoss",
}

// SupCon is the supervised contrastive loss. The paper sums over anchors; here it is the mean over those with a
// positive and a negative.
type SupCon struct {
	Temperature float64 // t: 0.1.
}

// NewSupCon has the published parameters.
func NewSupCon() *SupCon { return &SupCon{Temperature: 0.1} }

func (l *SupCon) params() []param { return []param{temperature(&l.Temperature)} }

// Of builds the loss.
func (l *SupCon) Of(b *dmlx.LossBatch) *Node {
	s := DivScalar(b.S, l.Temperature)
	all, _ := sumExp(s, LogicalOr(b.Positive, b.Negative))
	positives := number(b.Positive)
	own := over(ReduceSum(Mul(positives, s), 1), ReduceSum(positives, 1))
	return meanOfActive(Sub(all, own), rows(b))
}
