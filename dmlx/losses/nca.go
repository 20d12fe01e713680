package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutNCA = About{
	Name: "nca", Title: "NCA",
	Source: "Goldberger, Roweis, Hinton, Salakhutdinov: Neighbourhood components analysis, NIPS 2004, Eq. 1 and 6 " +
		"(the log form)",
	Text: "mean over anchors of −log(Σ_p exp(−τD_ap²) / Σ_k exp(−τD_ak²)), k all others",
	Peer: "NCALoss",
}

// NCA is the logarithm of the chance that a neighbor, drawn by distance, is of the anchor's class. It is the mean over
// the anchors with a positive.
type NCA struct {
	Tau float64 // What squared distances are multiplied by: 1.
}

// NewNCA has the published parameters.
func NewNCA() *NCA { return &NCA{Tau: 1} }

func (l *NCA) params() []param { return []param{{name: "tau", at: &l.Tau}} }

// Of builds the loss.
func (l *NCA) Of(b *dmlx.LossBatch) *Node {
	x := MulScalar(square(b.S), -l.Tau)
	positives, any := sumExp(x, b.Positive)
	negatives, others := sumExp(x, b.Negative)
	return mean(graphs.Only(others, softplus(Sub(negatives, positives))), any)
}
