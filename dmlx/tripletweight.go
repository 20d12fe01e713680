package dmlx

import . "github.com/gomlx/gomlx/core/graph"

// TripletWeight gives the weight T of a whole triplet (§3.4).
type TripletWeight struct {
	Name string
	// Of builds the weight, [T].
	Of func(b *Batch) *Node

	part
}

// Custom tells whether the triplet weight is the user's own.
func (t TripletWeight) Custom() bool { return t.Of != nil && !t.known }

// The triplet weights that have a name.
var (
	// TripletCon is T^con (Eq. 15): 0.5.
	TripletCon = TripletWeight{Name: "con", Of: func(b *Batch) *Node {
		return MulScalar(OnesLike(b.Sap), 0.5)
	}, part: means("0.5")}
	// TripletCos is T^cos (Eq. 16): 1/(1+exp(τ(S_ap−S_an))).
	TripletCos = TripletWeight{Name: "cos", Of: func(b *Batch) *Node {
		return Reciprocal(OnePlus(Exp(b.number(Tau).times(Sub(b.Sap, b.San)))))
	}, part: means("1/(1+exp(tau*(Sap-San)))")}
	// TripletCir is T^cir (Eq. 17): 1/(1+exp(τ(S_ap(2−S_ap)−S_an²))).
	TripletCir = TripletWeight{Name: "cir", Of: func(b *Batch) *Node {
		return Reciprocal(OnePlus(Exp(b.number(Tau).times(circle(b)))))
	}, part: means("1/(1+exp(tau*(Sap*(2-Sap)-pow(San, 2))))")}
	// TripletWeights lists the triplet weights that have a name, those of the paper's Table 4 first.
	TripletWeights = []TripletWeight{TripletCon, TripletCos, TripletCir}
)

// Mask is a selectively contrastive operator: the triplets whose P₊ it sets to zero, so that only the negative pair is
// pushed apart.
type Mask struct {
	Name string
	// Of builds the condition, bool [T]: true where P₊ becomes zero.
	Of func(b *Batch) *Node

	part
}

// Custom tells whether the mask is the user's own.
func (m Mask) Custom() bool { return m.Of != nil && !m.known }

// The masks that have a name.
var (
	// SC1 is T^sc1 (Eq. 18): no P₊ where S_an > S_ap.
	SC1 = Mask{Name: "sc1", Of: func(b *Batch) *Node { return GreaterThan(b.San, b.Sap) },
		part: means("San > Sap")}
	// SC2 is T^sc2 as Figure 3 and the text have it: no P₊ where S_ap(2−S_ap)−S_an² < 0.5.
	SC2 = Mask{Name: "sc2", Of: func(b *Batch) *Node { return LessThan(circle(b), half(b)) },
		part: means("Sap*(2-Sap)-pow(San, 2) < 0.5")}
	// SC2Printed is T^sc2 as it is printed (Eq. 19), with > for <: no P₊ for the triplets that are well separated.
	SC2Printed = Mask{Name: "sc2-printed", Of: func(b *Batch) *Node { return GreaterThan(circle(b), half(b)) },
		part: means("Sap*(2-Sap)-pow(San, 2) > 0.5")}
	// Masks lists the masks that have a name, by which rules are parsed, completed and searched.
	Masks = []Mask{SC1, SC2, SC2Printed}
)

// circle is S_ap(2−S_ap)−S_an² = 1−((1−S_ap)²+S_an²): constant on circles about (1, 0).
func circle(b *Batch) *Node {
	return Sub(Mul(b.Sap, AddScalar(Neg(b.Sap), 2)), Square(b.San))
}

func half(b *Batch) *Node { return MulScalar(OnesLike(b.Sap), 0.5) }
