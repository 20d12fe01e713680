package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutSoftTriple = About{
	Name: "soft-triple", Title: "SoftTriple", Proxies: true,
	Source: "Qian, Shang, Sun, Hu, Li, Jin: SoftTriple loss, ICCV 2019, Eq. 7 to 10",
	Text: "mean of the cross entropy of λ(S'_ac − δ[c is the class]), S'_ac = Σ_k softmax_k(S_ack/γ) S_ack, " +
		"+ τ Σ_c Σ_{s<t} √(2 − 2w_cs·w_ct) / (C K (K−1))",
	Peer: "SoftTripleLoss, without the regularizer: tau=0",
}

// SoftTriple is the SoftTriple loss: several centers for each class. The proxies of a class stand together.
type SoftTriple struct {
	Centers float64 // K, for each class: 10.
	Lambda  float64 // 20
	Gamma   float64 // 0.1
	Delta   float64 // 0.01
	Tau     float64 // Of the regularizer, which draws the centers of a class together: 0.2.
}

// NewSoftTriple has the published parameters.
func NewSoftTriple() *SoftTriple {
	return &SoftTriple{Centers: 10, Lambda: 20, Gamma: 0.1, Delta: 0.01, Tau: 0.2}
}

func (l *SoftTriple) params() []param {
	return []param{centers(&l.Centers), {name: "lambda", at: &l.Lambda},
		{name: "gamma", at: &l.Gamma, ok: positive, want: "a positive number"}, {name: "delta", at: &l.Delta}, {name: "tau",
			at: &l.Tau}}
}

func whole(v float64) bool { return v >= 1 && v == float64(int(v)) }

func centers(at *float64) param {
	return param{name: "centers", at: at, ok: whole, want: "a whole number, 1 or more"}
}

func (l *SoftTriple) perClass() int { return int(l.Centers) }

// Of builds the loss.
func (l *SoftTriple) Of(b *dmlx.LossBatch) *Node {
	k := l.perClass()
	needProxies(b, aboutSoftTriple.Name, k)
	n, c := b.SP.Shape().Dimensions[0], b.SP.Shape().Dimensions[1]
	s := Reshape(b.SP, n, c/k, k)
	s = ReduceSum(Mul(Softmax(DivScalar(s, l.Gamma), -1), s), -1)
	own := byClass(b.Own, k)
	x := MulScalar(Sub(s, MulScalar(number(own), l.Delta)), l.Lambda)
	loss := crossEntropy(x, own)
	if l.Tau == 0 || k == 1 {
		return loss
	}
	within := b.Within(k)
	itself := Equal(graphs.Index(within, 1), graphs.Index(within, 2))
	spread := ReduceAllSum(graphs.Only(LogicalNot(itself), distance(within))) // Each pair twice.
	return Add(loss, MulScalar(spread, l.Tau/2/float64(c*(k-1))))
}

// byClass is own [B, C] for each class with k proxies, [B, C/k].
func byClass(own *Node, k int) *Node {
	n, c := own.Shape().Dimensions[0], own.Shape().Dimensions[1]
	return Reshape(Slice(Reshape(own, n, c/k, k), AxisRange(), AxisRange(), AxisElem(0)), n, c/k)
}

// crossEntropy of logits x [B, C], of which each row has one that is its own.
func crossEntropy(x, own *Node) *Node {
	mine, any := sumExp(x, own)
	others, some := sumExp(x, LogicalNot(own))
	return mean(graphs.Only(some, softplus(Sub(others, mine))), any)
}
