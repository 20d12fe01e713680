package dmlx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// # A loss with a part of another
//
// Any loss on S is a sum over triplets (see composeloss.go). With the shares that an anchor's pairs have of its pull
// and push,
//
//	q_ap = |W_ap| / Σ_p |W_ap|    r_an = |W_an| / Σ_n |W_an|
//
// which say what triplets there are, as a miner does, and sum to 1 each, its row of W is
//
//	W_ap = −Σ_n T_apn Σ₊ σ_ap    W_an = Σ_p T_apn Σ₋ σ_an    T_apn = T_a q_ap r_an
//
// where σ is 1, and −1 for a pair of the wrong sign. These are the paper's three parts, and each is exchanged by
// itself:
//
//   - The pair weights Σ₊ and Σ₋ of the anchor, for P₊(S_ap) and P₋(S_an) of each pair. 𝒫 and 𝒩 of a relative weight
//     (Eq. 12) are the positives and negatives that the loss compares the anchor with: for a loss with proxies, these.
//   - The triplet weight T_a of the anchor, for κ T(S_ap, S_an) of each triplet. The loss's own size, which its
//     temperature and its mean decide, is kept: κ is such that all T_apn together weigh what they did.
//   - The direction e^cos of all losses on S, for another. An orthogonal one needs the triplet: with u along f_a−f_p,
//     what n does to a is Σ_p T_apn P₋ (f_n − u (u·f_n)) made a unit vector, a sum over the anchor's positives one by
//     one.
//
// So a loss of one triplet an anchor that has P^con, as T^cos's under EPHN mining, turns into the rule with the other
// part, κ times it for a triplet weight. What is no triplet stays as it is: anchors that only pull or only push, as the
// proxies of Proxy-Anchor without an embedding of their class do, and the diagonal of S.
//
// With a part exchanged the gradient is one of no loss any more: it goes to the vectors at once, as G, by the products
// that M is made of. Nothing larger than [B+C, B+C] is allocated.

// Exchange says which parts of a loss are taken from elsewhere; the zero value exchanges nothing.
type Exchange struct {
	Direction Direction     // One of [ExchangeDirections]; zero: the loss's, which is e^cos.
	Pair      PairWeight    // Zero: the loss's.
	Triplet   TripletWeight // Zero: the loss's.
	Options   Options       // Of Pair and Triplet.
	// PerAnchor is how many of an anchor's positives are gone through for an orthogonal direction or a triplet weight, in
	// the order of rows. 0 is all that there could be; but the graph grows with it, so say the most images of a class, or
	// proxies, where that is known, and no less: positives behind it get no triplet weight, and with an orthogonal
	// direction no negative is pushed on their account.
	PerAnchor int
}

// ExchangeDirections lists the directions that a loss can take, those with a formula over all triplets of an anchor.
var ExchangeDirections = []Direction{DirectionEuc, DirectionCos, DirectionEucOrth, DirectionCosOrth}

// ParseExchange reads which parts are exchanged: "pair=lin-ms", "direction=cos-orth", "triplet=cir", or several of them
// with & between; "" for none. Parts are those of [ExchangeDirections], [PairWeights] and [TripletWeights], by name, or
// weights written as formulas, as in [ParseRule], of one pair or triplet: "pair=[1-Sap, San]".
func ParseExchange(text string) (Exchange, error) {
	var e Exchange
	if text == "" {
		return e, nil
	}
	if err := formula.Closed(text); err != nil {
		return e, fmt.Errorf("exchange %q: %w", text, err)
	}
	for _, part := range formula.Split(text, "&") {
		key, name, _ := strings.Cut(part, "=")
		var err error
		twice := false
		switch key {
		case "direction":
			twice = e.Direction.Of != nil
			e.Direction, err = find("direction", name, ExchangeDirections, func(d Direction) string { return d.Name })
		case "pair":
			twice = e.Pair.Of != nil
			e.Pair, err = partNamed("pair weight", name, PairWeights, func(p PairWeight) string { return p.Name }, PairFormula)
			if err == nil && strings.Contains(e.Pair.Name, "mean(") {
				err = fmt.Errorf("pair weight %s: a loss's pairs have no mean over others: want lin-ms or sig-ms by name, or a "+
					"formula of Sap and San", name)
			}
		case "triplet":
			twice = e.Triplet.Of != nil
			e.Triplet, err = partNamed("triplet weight", name, TripletWeights, func(t TripletWeight) string { return t.Name },
				TripletFormula)
		default:
			err = fmt.Errorf("no part %q; want direction=…, pair=… or triplet=…, with & between", key)
		}
		if err == nil && twice {
			err = fmt.Errorf("%s occurs twice", key)
		}
		if err != nil {
			return Exchange{}, fmt.Errorf("exchange %q: %w", text, err)
		}
	}
	return e, nil
}

// String is the canonical text that [ParseExchange] reads.
func (e Exchange) String() string {
	var out []string
	for _, part := range []struct {
		key, name string
		there     bool
	}{{"direction", e.Direction.Name, e.Direction.Of != nil}, {"pair", e.Pair.Name, e.Pair.Of != nil}, {"triplet",
		e.Triplet.Name, e.Triplet.Of != nil}} {
		if part.there {
			out = append(out, part.key+"="+part.name)
		}
	}
	return strings.Join(out, "&")
}

// Exchange is the loss's gradient with parts of another: G and GP are new, the rest is as the loss has it. It panics,
// as code that builds graphs does, for a loss that is not one on S: what does not come through S has no parts.
func (c *ComposedLoss) Exchange(e Exchange) *ComposedLoss {
	used := c.uses(c.Value)
	switch {
	case used[c.X]:
		panic(fmt.Errorf("exchange %s: not a loss on S = f fᵀ: it uses the embeddings before their normalization", e))
	case used[c.F], c.P != nil && used[c.P]:
		panic(fmt.Errorf("exchange %s: not a loss on S = f fᵀ: it uses the coordinates of the vectors themselves", e))
	}
	if d := e.Direction; d.Of != nil && !slices.ContainsFunc(ExchangeDirections,
		func(o Direction) bool { return d.known && o.Name == d.Name }) {
		panic(fmt.Errorf("exchange %s: a loss has no formula for this direction", e))
	}
	out := *c
	var rows []*anchors
	positive, negative := pairs(c.S, c.Labels, Options{}) // Whatever was mined: of the others W is 0.
	if used[c.S] || c.P == nil {
		rows = append(rows, &anchors{s: c.S, w: c.W, positive: positive, negative: negative, f: c.F, others: c.F})
	}
	if c.P != nil {
		if used[c.SP] { // Its positives and negatives are those in S too, if the loss has both.
			r := &anchors{s: c.SP, w: c.WSP, positive: c.Own, negative: LogicalNot(c.Own), f: c.F, others: c.P}
			if used[c.S] {
				r = rows[0].beside(r)
				rows = nil
			}
			rows = append(rows, r)
		}
		usesPP := used[c.PP] || used[c.within.leaf()]
		if used[c.PS] || usesPP {
			own := Transpose(c.Own, 0, 1)
			r := &anchors{s: c.PS, w: c.WPS, positive: own, negative: LogicalNot(own), f: c.P, others: c.F, proxies: true}
			if usesPP {
				positive, negative := pairs(c.PP, c.Classes, Options{})
				r = r.beside(&anchors{s: c.PP, w: c.WPP, positive: positive, negative: negative, others: c.P})
			}
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 { // It depends on nothing.
		return &out
	}
	// The size of all triplet weights is kept, so all are known first.
	var before, after []*Node
	for _, r := range rows {
		r.split(e)
		before, after = append(before, r.total), append(after, r.exchanged)
	}
	kappa := OnesLike(before[0])
	if e.Triplet.Of != nil {
		whole := sum(after, nil)
		there := GreaterThan(whole, ZerosLike(whole))
		kappa = Where(there, Div(sum(before, nil), Where(there, whole, OnesLike(whole))), ZerosLike(whole))
	}
	n := c.F.Shape().Dimensions[0]
	var g, gp []*Node
	for _, r := range rows {
		ga, gk := r.gradient(e, kappa)
		if r.proxies {
			gp = append(gp, ga)
		} else {
			g = append(g, ga)
		}
		// The others are the embeddings, the proxies, or both: for proxies as anchors and with S beside SP, in this order.
		switch k := gk.Shape().Dimensions[0]; {
		case r.others == c.F:
			g = append(g, gk)
		case r.others == c.P:
			gp = append(gp, gk)
		default:
			g, gp = append(g, Slice(gk, AxisRange(0, n))), append(gp, Slice(gk, AxisRange(n, k)))
		}
	}
	out.G = sum(g, c.F)
	if c.P != nil {
		out.GP = sum(gp, c.P)
	}
	return &out
}

// anchors are the rows of W of some anchors, A of them, over what they are compared with, K vectors.
type anchors struct {
	s, w               *Node // [A, K]
	positive, negative *Node // Bool [A, K].
	f, others          *Node // The vectors, [A, D] and [K, D].
	proxies            bool  // Whether the anchors are the proxies.

	// What split finds, [A, K] but for the last: W that is of no triplet; q and r; P₊ σ and P₋ σ; Σ_n r T and Σ_p q T, or
	// T itself where it is not exchanged; and T_a, [A, 1].
	rest, q, r, pull, push, pullWeight, pushWeight, t *Node
	turns                                             []turn
	total, exchanged                                  *Node // The sums of T_apn before and after, the latter without κ.
}

// turn is one positive of each anchor.
type turn struct {
	chosen *Node // 1 at it, [A, K]; nothing for an anchor that has no more.
	share  *Node // Its q, [A, 1].
	weight *Node // T of its triplets, [A, K]; nil where it is the anchor's.
}

// beside are the rows with those of the same anchors over other vectors behind them.
func (a *anchors) beside(b *anchors) *anchors {
	join := func(x, y *Node) *Node { return Concatenate([]*Node{x, y}, 1) }
	return &anchors{s: join(a.s, b.s), w: join(a.w, b.w), positive: join(a.positive, b.positive),
		negative: join(a.negative, b.negative),
		f:        a.f, others: Concatenate([]*Node{a.others, b.others}, 0), proxies: a.proxies}
}

// split finds the parts, those that are exchanged included.
func (a *anchors) split(e Exchange) {
	size := Abs(a.w)
	zero := ZerosLike(a.w)
	share := func(mask *Node) (all, part *Node) {
		own := Where(mask, size, zero)
		all = ReduceAndKeep(own, ReduceSum, 1)
		there := GreaterThan(all, ZerosLike(all))
		return all, Div(own, Where(there, all, OnesLike(all)))
	}
	up, q := share(a.positive)
	down, r := share(a.negative)
	whole := LogicalAnd(GreaterThan(up, ZerosLike(up)), GreaterThan(down, ZerosLike(down)))
	ofTriplets := LogicalAnd(LogicalOr(a.positive, a.negative), whole)
	a.rest = Where(ofTriplets, zero, a.w)
	only := func(x *Node) *Node { return Where(BroadcastToShape(whole, x.Shape()), x, ZerosLike(x)) }
	a.q, a.r = only(q), only(r)
	a.t = only(MulScalar(Add(up, down), 0.5))
	a.total = ReduceAllSum(a.t)
	divisor := Where(whole, a.t, OnesLike(a.t))
	a.pull, a.push = Div(up, divisor), Div(down, divisor) // Σ₊ and Σ₋
	if e.Pair.Of != nil {
		pull, push := a.pairWeights(e) // Of pairs that are in no triplet, too, of which it may be infinite.
		a.pull, a.push = Where(GreaterThan(a.q, zero), pull, zero), Where(GreaterThan(a.r, zero), push, zero)
	}
	sign := Sign(a.w) // 0 where there is no weight to have one.
	a.pull, a.push = Mul(Neg(sign), a.pull), Mul(sign, a.push)
	a.pullWeight, a.pushWeight, a.exchanged = a.t, a.t, a.total
	if e.Triplet.Of == nil && !orthogonalTo(e.Direction) {
		return
	}
	a.takeTurns(e)
	if e.Triplet.Of == nil {
		return
	}
	a.pullWeight, a.pushWeight = zero, zero
	for _, t := range a.turns {
		a.pullWeight = Add(a.pullWeight, Mul(t.chosen, sumRow(Mul(a.r, t.weight))))
		a.pushWeight = Add(a.pushWeight, Mul(t.share, t.weight))
	}
	a.exchanged = ReduceAllSum(Mul(a.q, a.pullWeight))
}

func orthogonalTo(d Direction) bool {
	return d.Name == DirectionEucOrth.Name || d.Name == DirectionCosOrth.Name
}

// takeTurns goes through the anchors' positives.
func (a *anchors) takeTurns(e Exchange) {
	k := a.s.Shape().Dimensions[1]
	times := k
	if e.PerAnchor > 0 {
		times = min(times, e.PerAnchor)
	}
	column := graphs.Index(a.s, 1)
	end := MulScalar(OnesLike(column), k)
	left := GreaterThan(a.q, ZerosLike(a.q))
	for range times {
		first := ReduceAndKeep(Where(left, column, end), ReduceMin, 1)
		chosen := Equal(column, first)
		left = LogicalAnd(left, LogicalNot(chosen))
		t := turn{chosen: ConvertDType(chosen, a.s.DType())}
		t.share = sumRow(Mul(t.chosen, a.q))
		if e.Triplet.Of != nil {
			own := BroadcastToShape(sumRow(Mul(t.chosen, a.s)), a.s.Shape())
			t.weight = each(e.Options, own, a.s, e.Triplet.Of)
		}
		a.turns = append(a.turns, t)
	}
}

// each is a function of triplets at similarities [A, K], which it sees in a row.
func each(o Options, sap, san *Node, of func(b *Batch) *Node) *Node {
	out := of(&Batch{Sap: Reshape(sap, -1), San: Reshape(san, -1), Options: o})
	return Reshape(out, sap.Shape().Dimensions...)
}

// pairWeights are P₊ and P₋ of the exchange at each pair, [A, K].
func (a *anchors) pairWeights(e Exchange) (positive, negative *Node) {
	relative := e.Pair.known && (e.Pair.Name == PairLinMS.Name || e.Pair.Name == PairSigMS.Name)
	if !relative {
		positive = each(e.Options, a.s, a.s, func(b *Batch) *Node { p, _ := e.Pair.Of(b); return p })
		return positive, each(e.Options, a.s, a.s, func(b *Batch) *Node { _, n := e.Pair.Of(b); return n })
	}
	// 𝒫 and 𝒩 of Eq. 12 are the same for all pairs of an anchor, but for the pair itself.
	hardest := ReduceAndKeep(Where(a.negative, a.s, belowAll(a.s)), ReduceMax, 1)
	farthest := ReduceAndKeep(Where(a.positive, a.s, aboveAll(a.s)), ReduceMin, 1)
	epsilon := Epsilon.In(e.Options)
	near := LogicalAnd(a.positive, LessThan(a.s, AddScalar(hardest, epsilon)))
	far := LogicalAnd(a.negative, GreaterThan(a.s, AddScalar(farthest, -epsilon)))
	k := a.s.Shape().Dimensions[1]
	square := shapes.Make(dtypes.Int32, k, k)
	others := ConvertDType(NotEqual(Iota(a.s.Graph(), square, 0), Iota(a.s.Graph(), square, 1)), a.s.DType())
	// mean of x over the set without the pair itself, and empty where that is empty. A product, since a difference would
	// lose digits.
	mean := func(set, x *Node, of func(mean *Node) *Node, empty float64) *Node {
		count := MatMul(ConvertDType(set, x.DType()), others)
		none := Equal(count, ZerosLike(count))
		m := of(Div(MatMul(graphs.Only(set, x), others), Where(none, OnesLike(count), count)))
		return Where(none, AddScalar(ZerosLike(m), empty), m)
	}
	if e.Pair.Name == PairLinMS.Name { // The mean of S_ap − R is S_ap less the mean of R.
		difference := func(set *Node) *Node {
			return mean(set, a.s, func(r *Node) *Node { return Sub(a.s, r) }, 0)
		}
		return Mul(OneMinus(difference(near)), OneMinus(a.s)), Mul(OnePlus(difference(far)), a.s)
	}
	// That of exp(α(S_ap − R)) is exp(αS_ap − m) times the mean of exp(m − αR), with the anchor's least αR for m: no α
	// overflows.
	ratio := func(set *Node, slope float64) *Node {
		scaled := MulScalar(a.s, slope)
		least := ReduceAndKeep(Where(set, scaled, MulScalar(aboveAll(a.s), math.Abs(slope))), ReduceMin, 1)
		return mean(set, Exp(Sub(least, scaled)), func(r *Node) *Node { return Mul(Exp(Sub(scaled, least)), r) }, 1)
	}
	lambda := Lambda.In(e.Options)
	sigmoid := func(m *Node, slope float64) *Node {
		return Reciprocal(Add(m, Exp(MulScalar(AddScalar(a.s, -lambda), slope))))
	}
	alpha, beta := Alpha.In(e.Options), Beta.In(e.Options)
	return sigmoid(ratio(near, alpha), alpha), sigmoid(ratio(far, -beta), -beta)
}

// gradient is what the rows add to the gradient at the anchors' vectors, [A, D], and at the others', [K, D].
func (a *anchors) gradient(e Exchange, kappa *Node) (atAnchors, atOthers *Node) {
	if e.Triplet.Of == nil {
		kappa = nil
	}
	scaled := func(x *Node) *Node {
		if kappa == nil {
			return x
		}
		return Mul(x, kappa)
	}
	pull := scaled(Neg(Mul(Mul(a.q, a.pull), a.pullWeight))) // The positives' W.
	push := scaled(Mul(Mul(a.r, a.push), a.pushWeight))      // The negatives'.
	var g gradients
	g.cosine(a, a.rest)
	switch e.Direction.Name {
	case "", DirectionCos.Name:
		g.cosine(a, Add(pull, push))
	case DirectionEuc.Name:
		g.euclidean(a, Add(pull, push))
	case DirectionCosOrth.Name:
		g.cosine(a, pull)
	case DirectionEucOrth.Name:
		g.euclidean(a, pull)
	}
	if !orthogonalTo(e.Direction) {
		return g.sums()
	}
	ofNegatives := Mul(a.r, a.push) // r P₋ σ
	for _, t := range a.turns {
		weight := t.weight
		if weight == nil {
			weight = a.t
		}
		y := scaled(Mul(Mul(t.share, weight), ofNegatives)) // T_apn P₋
		positive := MatMul(t.chosen, a.others)
		difference := Sub(a.f, positive)
		length := Sqrt(ReduceAndKeep(Square(difference), ReduceSum, 1))
		u := Mul(difference, inverseLength(length, vanishingDistance))
		onAnchor := ReduceAndKeep(Mul(u, a.f), ReduceSum, 1) // u·f_a, [A, 1]
		onOther := MatMul(u, Transpose(a.others, 0, 1))      // u·f_n, [A, K]
		// A vector v of length 1 with u·v = x has the projection v − ux, of length √(1−x²).
		unit := func(x *Node) *Node { return inverseRoot(OneMinus(Square(x))) }
		if e.Direction.Name == DirectionCosOrth.Name {
			own := Sub(a.f, Mul(u, onAnchor)) // e_n, but for its length: the same for all n.
			own = Mul(own, inverseLength(Sqrt(ReduceAndKeep(Square(own), ReduceSum, 1)), vanishingProjection))
			z := Mul(y, unit(onOther))
			g.others = append(g.others, MatMul(Transpose(y, 0, 1), own))
			g.anchors = append(g.anchors, Sub(MatMul(z, a.others), Mul(u, sumRow(Mul(z, onOther)))))
			continue
		}
		// e_n = −e_an is (f_a−f_n)/D_an, projected.
		inverse := inverseRoot(MulScalar(OneMinus(a.s), 2))
		apart := Sub(onAnchor, onOther) // u·(f_a−f_n)
		z := Mul(Mul(y, inverse), unit(Mul(apart, inverse)))
		along := Mul(z, apart)
		g.others = append(g.others, Sub(Sub(MatMul(Transpose(z, 0, 1), a.f), Mul(a.others, sumColumn(z))),
			MatMul(Transpose(along, 0, 1), u)))
		g.anchors = append(g.anchors, Add(Sub(MatMul(z, a.others), Mul(a.f, sumRow(z))), Mul(u, sumRow(along))))
	}
	return g.sums()
}

// gradients are summands at the anchors' vectors and at the others'.
type gradients struct{ anchors, others []*Node }

func (g *gradients) sums() (atAnchors, atOthers *Node) {
	return sum(g.anchors, nil), sum(g.others, nil)
}

// cosine adds what rows w [A, K] do in the direction e^cos.
func (g *gradients) cosine(a *anchors, w *Node) {
	g.anchors = append(g.anchors, MatMul(w, a.others))
	g.others = append(g.others, MatMul(Transpose(w, 0, 1), a.f))
}

// euclidean adds what they do in the direction e^euc: that along f_a−f_j over its length.
func (g *gradients) euclidean(a *anchors, w *Node) {
	w = Mul(w, inverseRoot(MulScalar(OneMinus(a.s), 2)))
	g.cosine(a, w)
	g.anchors = append(g.anchors, Neg(Mul(a.f, sumRow(w))))
	g.others = append(g.others, Neg(Mul(a.others, sumColumn(w))))
}

// inverseRoot is 1/√x of a square of a length up to 2 that was read off similarities: under 10⁻⁶ it has no digits left,
// and 0 stands for it.
func inverseRoot(x *Node) *Node {
	there := GreaterThan(x, Scalar(x.Graph(), x.DType(), 1e-6))
	return Where(there, Reciprocal(Sqrt(Where(there, x, OnesLike(x)))), ZerosLike(x))
}

// sumRow is the sum of each row, [A, 1], and sumColumn that of each column, [K, 1].
func sumRow(x *Node) *Node    { return ReduceAndKeep(x, ReduceSum, 1) }
func sumColumn(x *Node) *Node { return InsertAxes(ReduceSum(x, 0), -1) }
