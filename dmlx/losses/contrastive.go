package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutContrastive = About{
	Name: "contrastive", Title: "Contrastive",
	Source: "Hadsell, Chopra, LeCun: Dimensionality reduction by learning an invariant mapping, CVPR 2006, Eq. 4",
	Text:   "mean of ½D_ap² over positive pairs + mean of ½max(0, m − D_an)² over negative pairs",
	Peer:   "ContrastiveLoss, whose distances are not squared: power=1",
}

// Contrastive is the contrastive loss. The paper sums over pairs; here both kinds are averaged, each over the pairs
// that have a loss.
type Contrastive struct {
	Margin         float64 // m, up to which negatives are pushed: 1.
	PositiveMargin float64 // Under which positives are not pulled: 0.
	Power          float64 // 2: squares, halved, as published. 1: the distances themselves.
}

// NewContrastive has the published parameters.
func NewContrastive() *Contrastive { return &Contrastive{Margin: 1, Power: 2} }

func (l *Contrastive) params() []param {
	return []param{{name: "margin", at: &l.Margin}, {name: "positive-margin", at: &l.PositiveMargin}, power(&l.Power)}
}

func power(at *float64) param {
	return param{name: "power", at: at, ok: func(v float64) bool { return v == 1 || v == 2 }, want: "1 or 2"}
}

// Of builds the loss.
func (l *Contrastive) Of(b *dmlx.LossBatch) *Node {
	raised := func(x *Node) *Node {
		if l.Power == 2 {
			return MulScalar(Square(x), 0.5)
		}
		return x
	}
	d := distance(b.S)
	pull := raised(hinge(AddScalar(d, -l.PositiveMargin)))
	if l.Power == 2 && l.PositiveMargin == 0 {
		pull = OneMinus(b.S) // ½D², without the root's trouble at 0.
	}
	push := raised(hinge(AddScalar(Neg(d), l.Margin)))
	return Add(meanOfActive(pull, b.Positive), meanOfActive(push, b.Negative))
}
