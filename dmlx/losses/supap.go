package losses

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
)

var aboutSupAP = About{
	Name: "sup-ap", Title: "SupAP",
	Source: "Ramzi, Thome, Rambour, Audebert, Bitot: Robust and decomposable average precision for image retrieval, " +
		"NeurIPS 2021 (arXiv 2110.01445, ROADMAP); the authors' HAPPIER (2207.04873) extends it to hierarchies",
	Text: "1 − mean over anchors of the mean over p of R_p/(R_p + Σ_n H(S_an − S_ap)), R_p the rank of p among the " +
		"positives, held fixed; H(x) = σ(x/t) up to 0, σ(x/t) + ½ up to δ, then ρ(x − δ) + σ(δ/t) + ½",
	Peer: "None. The authors' code goes on by ρx + 1.44 beyond δ, which jumps there",
}

// SupAP is an upper bound of one minus the average precision, whose gradient does not vanish where a negative is ranked
// far above a positive. It is the mean over the anchors with a positive.
type SupAP struct {
	Temperature float64 // t: 0.01.
	Rho         float64 // The slope ρ: 100.
	Delta       float64 // From where on: 0.05.
}

// NewSupAP has the published parameters.
func NewSupAP() *SupAP { return &SupAP{Temperature: 0.01, Rho: 100, Delta: 0.05} }

func (l *SupAP) params() []param {
	return []param{temperature(&l.Temperature), {name: "rho", at: &l.Rho, ok: positive, want: "a positive number"},
		{name: "delta", at: &l.Delta, ok: func(v float64) bool { return v >= 0 }, want: "0 or a positive number"}}
}

// Of builds the loss.
func (l *SupAP) Of(b *dmlx.LossBatch) *Node {
	x := lead(b, aboutSupAP.Name)
	zero, one := ZerosLike(x), OnesLike(x)
	smooth := Sigmoid(DivScalar(x, l.Temperature))
	bend := 0.5 + 1/(1+math.Exp(-l.Delta/l.Temperature))
	steep := AddScalar(MulScalar(AddScalar(x, -l.Delta), l.Rho), bend)
	above := Where(GreaterThan(x, zero), AddScalar(smooth, 0.5), smooth)
	above = Where(GreaterThan(x, MulScalar(one, l.Delta)), steep, above)
	return precisionLoss(b.Positive, b.Negative, Where(GreaterOrEqual(x, zero), one, zero), above)
}
