package dmlx

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// PairWeight gives the weights P₊ of the anchor-positive and P₋ of the anchor-negative pair (§3.3).
type PairWeight struct {
	Name string
	// Of builds both weights, [T] each.
	Of func(b *Batch) (positive, negative *Node)

	part
}

// Custom tells whether the pair weight is the user's own.
func (p PairWeight) Custom() bool { return p.Of != nil && !p.known }

// The pair weights that have a name.
var (
	// PairCon is P^con (Eq. 8): 1 and 1.
	PairCon = PairWeight{Name: "con", Of: func(b *Batch) (positive, negative *Node) {
		return OnesLike(b.Sap), OnesLike(b.San)
	}, part: means("1, 1")}
	// PairEuc is P^euc (Eq. 9): ‖f_a−f_p‖ and ‖f_a−f_n‖.
	PairEuc = PairWeight{Name: "euc", Of: func(b *Batch) (positive, negative *Node) {
		return b.Dap(), b.Dan()
	}, part: means("Dap, Dan")}
	// PairLin is P^lin (Eq. 10): 1−S_ap and S_an.
	PairLin = PairWeight{Name: "lin", Of: func(b *Batch) (positive, negative *Node) {
		return OneMinus(b.Sap), b.San
	}, part: means("1-Sap, San")}
	// PairLinMS is P^lin-ms (Eq. 14): (1−m₊)(1−S_ap) and (1+m₋)S_an, with m₊ and m₋ the mean of S_ap−R_ap^i over 𝒫 and
	// of S_an−R_an^j over 𝒩; 0 for an empty set.
	PairLinMS = PairWeight{Name: "lin-ms", Of: linMS,
		part: means("(1-mean(Sap-Rap, 0))*(1-Sap), (1+mean(San-Ran, 0))*San")}
	// PairSig is P^sig (Eq. 11): 1/(1+exp(α(S_ap−λ))) and 1/(1+exp(−β(S_an−λ))).
	PairSig = PairWeight{Name: "sig", Of: func(b *Batch) (positive, negative *Node) {
		one := OnesLike(b.Sap)
		return sigmoidal(b, one, one)
	}, part: means("1/(1+exp(alpha*(Sap-lambda))), 1/(1+exp(-beta*(San-lambda)))")}
	// PairSigMS is P^sig-ms (Eq. 13): P^sig with m₊ and m₋ for the 1 in the denominators, the means of
	// exp(α(S_ap−R_ap^i)) over 𝒫 and of exp(−β(S_an−R_an^j)) over 𝒩; 1 for an empty set.
	PairSigMS = PairWeight{Name: "sig-ms", Of: sigMS,
		part: means("1/(mean(exp(alpha*(Sap-Rap)), 1)+exp(alpha*(Sap-lambda))), " +
			"1/(mean(exp(-beta*(San-Ran)), 1)+exp(-beta*(San-lambda)))")}
	// PairWeights lists the pair weights that have a name, those of the paper's Table 3 first.
	PairWeights = []PairWeight{PairCon, PairEuc, PairLin, PairLinMS, PairSig, PairSigMS}
)

func linMS(b *Batch) (positive, negative *Node) {
	positives, negatives := b.relative()
	mPositive := positives.mean(func(r *Node) *Node { return Sub(graphs.Column(b.Sap), r) }, ZerosLike(b.Sap))
	mNegative := negatives.mean(func(r *Node) *Node { return Sub(graphs.Column(b.San), r) }, ZerosLike(b.San))
	return Mul(OneMinus(mPositive), OneMinus(b.Sap)), Mul(OnePlus(mNegative), b.San)
}

func sigMS(b *Batch) (positive, negative *Node) {
	mPositive, mNegative := relativeSimilarity(b)
	return sigmoidal(b, mPositive, mNegative)
}

// relativeSimilarity is m₊^sig and m₋^sig of Eq. 13, [T] each.
func relativeSimilarity(b *Batch) (mPositive, mNegative *Node) {
	positives, negatives := b.relative()
	alpha, beta := b.number(Alpha), b.number(Beta)
	return positives.mean(func(r *Node) *Node { return Exp(alpha.times(Sub(graphs.Column(b.Sap), r))) }, OnesLike(b.Sap)),
		negatives.mean(func(r *Node) *Node { return Exp(beta.neg().times(Sub(graphs.Column(b.San), r))) }, OnesLike(b.San))
}

// sigmoidal is Eq. 13, and Eq. 11 where m₊ = m₋ = 1.
func sigmoidal(b *Batch, mPositive, mNegative *Node) (positive, negative *Node) {
	lambda := b.number(Lambda)
	self := func(s *Node, slope number) *Node { return Exp(slope.times(lambda.neg().plus(s))) }
	return Reciprocal(Add(mPositive, self(b.Sap, b.number(Alpha)))),
		Reciprocal(Add(mNegative, self(b.San, b.number(Beta).neg())))
}

// others is a set 𝒫 or 𝒩 of relative similarities for each triplet: the values R [T, B] and which of them belong.
// The zero value is the empty set for every triplet.
type others struct{ values, belong *Node }

// mean of f(R) over the set, [T]; where the set is empty, its value is empty.
func (o others) mean(f func(r *Node) *Node, empty *Node) *Node {
	if o.values == nil {
		return empty
	}
	values := f(o.values)
	count := ReduceSum(ConvertDType(o.belong, values.DType()), 1)
	// Where and not a product: what does not belong may be infinite.
	sum := ReduceSum(graphs.Only(o.belong, values), 1)
	none := Equal(count, ZerosLike(count))
	return Where(none, empty, Div(sum, Where(none, OnesLike(count), count)))
}

// relative gives 𝒫 and 𝒩 (Eq. 12): the anchor's other positives with R < max{S_an, R_an}+ε and its other negatives
// with R > min{S_ap, R_ap}−ε.
func (b *Batch) relative() (positives, negatives others) {
	if b.S == nil {
		return
	}
	rows := b.anchorRows(b.S)
	positive, negative := b.anchorRows(b.positive), b.anchorRows(b.negative)
	low, high := belowAll(rows), aboveAll(rows)
	hardest := ReduceMax(Where(negative, rows, low), 1)
	farthest := ReduceMin(Where(positive, rows, high), 1)
	epsilon := b.number(Epsilon)
	other := func(chosen *Node) *Node {
		return NotEqual(graphs.Index(rows, 1), graphs.Column(chosen))
	}
	positives = others{rows, LogicalAnd(LogicalAnd(positive, other(b.Triplets.Positive)),
		LessThan(rows, graphs.Column(epsilon.plus(hardest))))}
	negatives = others{rows, LogicalAnd(LogicalAnd(negative, other(b.Triplets.Negative)),
		GreaterThan(rows, graphs.Column(epsilon.neg().plus(farthest))))}
	return positives, negatives
}
