package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutPFML = About{
	Name: "pfml", Title: "Potential field", Proxies: true,
	Source: "Bhatnagar, Ahuja: Potential field based deep metric learning, CVPR 2025 (arXiv 2405.18560), Eq. 1, 2 " +
		"and 6: the fields and the total potential energy",
	Text: "Σ over all ordered pairs of images and proxies of −1/max(D, δ)^α within a class and 1/min(D, δ)^α between " +
		"classes, over the number of images",
	Peer: "None",
}

// PFML is the energy of images and proxies as charges: attraction weakens with the distance, and repulsion ends at δ.
// The paper sums over images; here it is the mean. The proxies of a class stand together. The fields and the numbers of
// the equations are as two independent implementations quote them; the paper's own text was not compared.
type PFML struct {
	Centers float64 // Proxies of each class: 15, the paper's for CUB and CARS.
	Alpha   float64 // 3, the middle of the paper's search from 0 to 6.
	Delta   float64 // 0.2, the middle of the paper's search from 0.1 to 0.3.
}

// NewPFML has parameters within the paper's range.
func NewPFML() *PFML { return &PFML{Centers: 15, Alpha: 3, Delta: 0.2} }

func (l *PFML) params() []param {
	// Under a distance of 10⁻³ similarities have no digits left; δ is above it.
	return []param{centers(&l.Centers), {name: "alpha", at: &l.Alpha, ok: positive, want: "a positive number"},
		{name: "delta", at: &l.Delta, ok: func(v float64) bool { return v > 1e-3 && v <= 2 },
			want: "a distance, more than 0.001 and at most 2"}}
}

func (l *PFML) perClass() int { return int(l.Centers) }

// Of builds the loss.
func (l *PFML) Of(b *dmlx.LossBatch) *Node {
	needProxies(b, aboutPFML.Name, l.perClass())
	energy := func(s, same, other *Node) *Node {
		bound := func(v float64) *Node { return MulScalar(OnesLike(s), v) }
		power := func(d *Node) *Node { return Exp(MulScalar(Log(d), -l.Alpha/2)) }
		d, edge := square(s), bound(l.Delta*l.Delta)
		pull, push := power(Max(d, edge)), power(Max(Min(d, edge), bound(1e-6)))
		return ReduceAllSum(Sub(graphs.Only(other, push), graphs.Only(same, pull)))
	}
	c := b.Classes.Shape().Dimensions[0]
	same := Equal(Reshape(b.Classes, c, 1), Reshape(b.Classes, 1, c))
	others := NotEqual(graphs.Index(b.PP, 0), graphs.Index(b.PP, 1))
	toImages := Transpose(b.Own, 0, 1)
	total := Add(energy(b.S, b.Positive, b.Negative), energy(b.PP, LogicalAnd(same, others), LogicalNot(same)))
	total = Add(total, Add(energy(b.SP, b.Own, LogicalNot(b.Own)), energy(b.PS, toImages, LogicalNot(toImages))))
	return DivScalar(total, float64(b.S.Shape().Dimensions[0]))
}
