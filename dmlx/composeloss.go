package dmlx

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// # Any loss as a matrix
//
// Let f be the normalized embeddings and L a loss that reads them through S = f fᵀ alone. With W = ∂L/∂S, each entry of
// S taken for a variable of its own,
//
//	dL = Σ_ij W_ij dS_ij = Σ_ij W_ij (df_i·f_j + f_i·df_j) = Σ_i df_i · Σ_j (W_ij + W_ji) f_j
//
// so ∂L/∂f = M f with M = W + Wᵀ. M is symmetric: what a pair does to one of its members it does to the other. A
// direction that breaks this, as the orthogonal ones do, is the gradient of no loss on S.
//
// A loss that uses other vectors too, proxies or centers p, is one on the rows of f and p together; the blocks of its W
// are ∂L/∂(f fᵀ), ∂L/∂(f pᵀ), ∂L/∂(p fᵀ) and ∂L/∂(p pᵀ). An entry of f pᵀ and its mirror image in p fᵀ are one number;
// which of them a loss reads says who is the anchor, the embedding (Proxy-NCA) or the proxy (Proxy-Anchor).
//
// # What the loss implies
//
// Row a of W is what L does in the name of anchor a: it adds W_aj f_j to the gradient of a and W_aj f_a to that of j.
// For a positive p that is the paper's e_p = −f_a, e_ap = −f_p with T P₊ = −W_ap, for a negative n its e_n = f_a, e_an
// = f_n with T P₋ = W_an. So the direction of every loss on S is e^cos. (e^euc differs from it along f_a alone for e_ap
// and e_an, along f_p and f_n for the others: on the sphere, by a factor.) W knows only products of triplet and pair
// weight. The convention here is that the pair weights of an anchor sum to 2, as P^con's 1 and 1 do:
//
//	T_a = ½ Σ_j |W_aj|    P_ap = −W_ap / T_a    P_an = W_an / T_a
//
// With Σ₊ the sum of P_ap over the positives and Σ₋ that of P_an over the negatives, each triplet (a, p, n) has the
// weight
//
//	T_apn = T_a (P_ap/Σ₊) (P_an/Σ₋)
//
// and the pair weights Σ₊ and Σ₋, since Σ_n T_apn Σ₊ = T_a P_ap and Σ_p T_apn Σ₋ = T_a P_an: the row is the sum of its
// triplets, exactly. A loss whose rows sum to zero (the softmax family) has Σ₊ = Σ₋ = 1, P^con, and all that it does is
// triplet weight.
//
// # What is left over
//
// The rest of the gradient does not fit in that form: what anchors do that have no positive or no negative, and so
// no triplet; what does not come through S. Its share is its length over that of the whole gradient, both on the
// sphere: the part of a gradient along its own f does not train.

// LossBatch is what a loss is a function of: the similarities of a batch and of its proxies, who is what to whom, and,
// for losses that need more, the vectors themselves. Each of these is a leaf of the graph, so that a loss's gradient
// tells what it uses. Rows of S, SP and PS belong to anchors. A miner narrows Positive, Negative and Triplets
// ([LossBatch.Mined]).
type LossBatch struct {
	S        *Node // F Fᵀ, float32 [B, B].
	Labels   *Node // Integers [B].
	Positive *Node // Which pairs are positive, bool [B, B]: the same label, another row.
	Negative *Node // Which pairs are negative, bool [B, B].
	// Triplets are those that a loss of triplets is about; nil for all that Positive and Negative make.
	Triplets *Triplets

	// Of a loss with proxies, else nil.
	SP, PS, PP *Node // F Pᵀ [B, C], P Fᵀ [C, B] for losses whose anchors are the proxies, and P Pᵀ [C, C].
	Classes    *Node // The label of each proxy, integers [C].
	Own        *Node // Which proxies are of the embedding's class, bool [B, C].

	F, P *Node // The normalized embeddings [B, D] and proxies [C, D]. A loss that uses them is not one on S.
	X    *Node // The embeddings as given, [B, D]. A loss that uses them is one on more than the sphere.

	embeddings, proxies *Node // What X and P were made from.
	within              *withinClasses
}

// LossFunc builds a loss, a float32 scalar. For a batch without anything to compare it is 0 and has a zero gradient.
type LossFunc func(b *LossBatch) *Node

// NewLossBatch prepares a batch of embeddings x, float32 [B, D], with labels [B] and, for a loss that has them, proxies
// float32 [C, D] with their labels [C]; nil for none. Differentiate with [ComposeLoss]: no gradient goes through by
// itself.
func NewLossBatch(x, labels, proxies, classes *Node) *LossBatch {
	x.AssertRank(2)
	labels.AssertDims(x.Shape().Dimensions[0])
	product := func(x, y *Node) *Node { return graphs.Leaf(MatMul(x, Transpose(y, 0, 1))) }
	b := &LossBatch{X: graphs.Leaf(x), F: graphs.Leaf(Normalize(x)), Labels: labels, embeddings: x}
	b.S = product(b.F, b.F)
	b.Positive, b.Negative = pairs(b.S, labels, Options{})
	if proxies != nil {
		proxies.AssertDims(-1, x.Shape().Dimensions[1])
		b.P, b.proxies = graphs.Leaf(Normalize(proxies)), proxies
		n, c := x.Shape().Dimensions[0], proxies.Shape().Dimensions[0]
		classes.AssertDims(c)
		b.SP, b.PP, b.Classes = product(b.F, b.P), product(b.P, b.P), classes
		b.PS, b.within = graphs.Leaf(Transpose(b.SP, 0, 1)), &withinClasses{}
		b.Own = Equal(Reshape(b.Labels, n, 1), Reshape(ConvertDType(classes, b.Labels.DType()), 1, c))
	}
	return b
}

// withinClasses is a leaf that a loss may have asked for, shared by all that a batch is narrowed to.
type withinClasses struct{ s *Node } // [C/k, k, k], or nil.

func (w *withinClasses) leaf() *Node {
	if w == nil {
		return nil
	}
	return w.s
}

// Within is the blocks of PP on its diagonal, for a loss with k proxies of each class in consecutive rows:
// their similarities with each other, [C/k, k, k]. It takes the k-th part of PP's product and more of the gradient's.
// What the loss makes of it counts as made of PP.
func (b *LossBatch) Within(k int) *Node {
	m := b.PP.Shape().Dimensions[0] / k
	s := b.within.leaf()
	switch {
	case s != nil && s.Shape().Dimensions[1] == k:
		return s
	case s != nil || b.within == nil: // Of another k, or a batch that is not from NewLossBatch.
		return ReduceSum(graphs.Only(sameBlock(b.PP, m, k), Reshape(b.PP, m, k, m, k)), 2)
	}
	p := Reshape(b.P, m, k, -1)
	b.within.s = graphs.Leaf(Einsum("mid,mjd->mij", p, p))
	return b.within.s
}

// sameBlock is where a matrix of m × m blocks has those on its diagonal, bool [m, k, m, k].
func sameBlock(x *Node, m, k int) *Node {
	like := Reshape(x, m, k, m, k)
	return Equal(graphs.Index(like, 0), graphs.Index(like, 2))
}

// Mined is the batch with these triplets, and of its pairs those alone that are in one of them.
func (b *LossBatch) Mined(t Triplets) *LossBatch {
	t.Valid = StopGradient(t.Valid)
	among := func(other *Node) *Node {
		count := ScatterSum(ZerosLike(b.S), Stack([]*Node{t.Anchor, other}, 1), ConvertDType(t.Valid, b.S.DType()), false,
			false)
		return GreaterThan(count, ZerosLike(count))
	}
	own := b.MinedPairs(among(t.Positive), among(t.Negative))
	own.Triplets = &t
	return own
}

// MinedPairs is the batch with these of its pairs alone, bool [B, B] each.
func (b *LossBatch) MinedPairs(positive, negative *Node) *LossBatch {
	own := *b
	own.Triplets, own.Positive, own.Negative = nil, StopGradient(positive), StopGradient(negative)
	return &own
}

// ComposedLoss is a loss with its gradient, taken apart by what it comes through.
type ComposedLoss struct {
	*LossBatch
	Value *Node // The loss, a scalar.
	// W = ∂L/∂S by blocks: of S [B, B], SP [B, C], PS [C, B] and PP [C, C]. Without proxies the last three are nil.
	W, WSP, WPS, WPP *Node
	// G is the gradient at F, [B, D], and GP that at P, [C, D] or nil. Direct and DirectP are their parts that do not come
	// through similarities, nor does Length, which a loss that uses X has at X beside all that.
	G, GP, Direct, DirectP, Length *Node
}

// ComposeLoss differentiates a loss of a batch from [NewLossBatch]: G = M F, for a loss on S. It takes one product more
// than the similarities themselves.
func ComposeLoss(b *LossBatch, loss LossFunc) *ComposedLoss {
	c := &ComposedLoss{LossBatch: b, Value: loss(b)}
	if c.Value == nil || !c.Value.Shape().IsScalar() {
		panic(fmt.Errorf("the loss is %s, not a scalar; reduce it to one, as by ReduceAllMean", c.Value.Shape()))
	}
	of := []*Node{b.S, b.F, b.X}
	if b.P != nil {
		of = append(of, b.SP, b.PS, b.PP, b.P)
	}
	within := b.within.leaf()
	if within != nil {
		of = append(of, within)
	}
	d := Gradient(c.Value, of...)
	c.W, c.Direct, c.Length = d[0], d[1], d[2]
	// What a loss does not use is not multiplied: products are most of the time.
	used := b.uses(c.Value)
	var g, gp []*Node
	if used[b.S] {
		g = append(g, MatMul(c.M(), b.F))
	}
	if used[b.F] {
		g = append(g, c.Direct)
	}
	if b.P != nil {
		c.WSP, c.WPS, c.WPP, c.DirectP = d[3], d[4], d[5], d[6]
		if used[b.SP] || used[b.PS] {
			cross := Add(c.WSP, Transpose(c.WPS, 0, 1)) // The block of M that takes proxies to embeddings.
			g, gp = append(g, MatMul(cross, b.P)), append(gp, MatMul(Transpose(cross, 0, 1), b.F))
		}
		if used[b.PP] {
			gp = append(gp, MatMul(Add(c.WPP, Transpose(c.WPP, 0, 1)), b.P))
		}
		if within != nil {
			m, k := within.Shape().Dimensions[0], within.Shape().Dimensions[1]
			w := d[7]
			wide := BroadcastToDims(InsertAxes(w, 2), m, k, m, k)
			c.WPP = Add(c.WPP, Reshape(graphs.Only(sameBlock(b.PP, m, k), wide), m*k, m*k))
			gp = append(gp, Reshape(Einsum("mij,mjd->mid", Add(w, Transpose(w, 1, 2)), Reshape(b.P, m, k, -1)), m*k, -1))
		}
		if used[b.P] {
			gp = append(gp, c.DirectP)
		}
		c.GP = sum(gp, b.P)
	}
	c.G = sum(g, b.F)
	return c
}

// sum of parts, zeros like x if there are none.
func sum(parts []*Node, x *Node) *Node {
	if len(parts) == 0 {
		return ZerosLike(x)
	}
	total := parts[0]
	for _, p := range parts[1:] {
		total = Add(total, p)
	}
	return total
}

// uses are the leaves of the batch that a loss is computed from.
func (b *LossBatch) uses(loss *Node) map[*Node]bool {
	leaves := make(map[*Node]bool)
	for _, x := range []*Node{b.S, b.SP, b.PS, b.PP, b.F, b.P, b.X, b.within.leaf()} {
		leaves[x] = x != nil
	}
	used, seen := make(map[*Node]bool), map[*Node]bool{loss: true}
	for left := []*Node{loss}; len(left) > 0; {
		last := left[len(left)-1]
		left = left[:len(left)-1]
		if leaves[last] { // What it was made from is no business of the loss.
			used[last] = true
			continue
		}
		for _, input := range last.Inputs() {
			if !seen[input] {
				seen[input] = true
				left = append(left, input)
			}
		}
	}
	return used
}

// M is the block of the gradient matrix of the embeddings with each other, W + Wᵀ, [B, B].
func (c *ComposedLoss) M() *Node { return Add(c.W, Transpose(c.W, 0, 1)) }

// Raw is the gradient at the embeddings as given, behind the normalization, [B, D], and that at the proxies as given,
// [C, D] or nil: what a network and its proxies are trained by.
func (c *ComposedLoss) Raw() (embeddings, proxies *Node) {
	f, p := c.Surgery()
	embeddings = Gradient(ReduceAllSum(f), c.embeddings)[0]
	if p != nil {
		proxies = Gradient(ReduceAllSum(p), c.proxies)[0]
	}
	return embeddings, proxies
}

// Surgery gives the normalized embeddings [B, D], and proxies [C, D] or nil, as the op [Surgery] gives embeddings by a
// rule: whatever gradient arrives at them, what goes on to the embeddings and proxies as given is the loss's. So the
// gradient of any scalar made of both, as the sum of their sums, trains a network and its proxies by the loss.
func (c *ComposedLoss) Surgery() (f, p *Node) {
	x := c.embeddings
	f = Inject(Normalize(x), c.G)
	if c.uses(c.Value)[c.X] { // Adds 0, and to the gradient what does not come through the normalization.
		f = Add(f, Inject(Sub(x, StopGradient(x)), c.Length))
	}
	if c.proxies != nil {
		p = Inject(Normalize(c.proxies), c.GP)
	}
	return f, p
}
