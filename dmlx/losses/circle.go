package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutCircle = About{
	Name: "circle", Title: "Circle",
	Source: "Sun, Cheng, Zhang, Zhang, Zheng, Wang, Wei: Circle loss, CVPR 2020, Eq. 4 to 8",
	Text: "mean over anchors with a positive and a negative of " +
		"log(1 + Σ_n exp(γ[S_an + m]₊(S_an − m)) Σ_p exp(−γ[1 + m − S_ap]₊(S_ap − 1 + m))), the [·]₊ held fixed",
	Peer: "CircleLoss",
}

// Circle is the circle loss with its margin m.
type Circle struct {
	M     float64 // 0.4
	Gamma float64 // 80
}

// NewCircle has the published parameters for fine-grained image retrieval.
func NewCircle() *Circle { return &Circle{M: 0.4, Gamma: 80} }

func (l *Circle) params() []param {
	return []param{{name: "m", at: &l.M}, {name: "gamma", at: &l.Gamma}}
}

// Of builds the loss.
func (l *Circle) Of(b *dmlx.LossBatch) *Node {
	pull := hinge(AddScalar(Neg(StopGradient(b.S)), 1+l.M))
	push := hinge(AddScalar(StopGradient(b.S), l.M))
	positives, _ := sumExp(MulScalar(Mul(pull, AddScalar(b.S, l.M-1)), -l.Gamma), b.Positive)
	negatives, _ := sumExp(MulScalar(Mul(push, AddScalar(b.S, -l.M)), l.Gamma), b.Negative)
	return meanOfActive(softplus(Add(positives, negatives)), rows(b))
}
