package dmlx

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Batch is what the parts of a rule are functions of: the embeddings of a batch, their similarities, and its triplets.
type Batch struct {
	F        *Node // The L2-normalized embeddings, float32 [B, D].
	S        *Node // S = F Fᵀ, [B, B].
	Triplets Triplets
	Sap, San *Node // S of the triplets' pairs, [T]. Of a triplet that is not valid they are any similarities.
	Options  Options
	// Parameters are [Numbers], by their names, as float32 scalars of the graph, in place of those of Options. A graph
	// that has them as inputs is compiled once and computes a rule for any values; without them a rule's numbers are
	// constants of its graph, as in training. The paper's parts read them; a part of the user's own that calls [Number.In]
	// has that value as a constant.
	Parameters map[string]*Node

	positive, negative *Node // Which pairs are positive and negative, bool [B, B].
	eachAnchorOnce     bool  // Triplet t has anchor t, so rows of anchors are rows of the batch.
	dap, dan           *Node // Distances, once they are asked for.
}

// NewBatch prepares a batch of L2-normalized embeddings f, float32 [B, D], with integer labels [B], and mines one
// triplet an anchor: its nearest positive and its nearest negative (EPHN). No gradient flows through what it computes.
func NewBatch(f, labels *Node, o Options) *Batch {
	return newBatch(f, labels, o).ephn()
}

// ephn mines one triplet an anchor.
func (b *Batch) ephn() *Batch {
	b.Triplets = easyPositiveHardNegative(b.S, b.positive, b.negative)
	b.eachAnchorOnce = true
	b.Sap, b.San = b.pair(b.Triplets.Positive), b.pair(b.Triplets.Negative)
	return b
}

// NewBatchOf prepares a batch like [NewBatch], with the triplets given: any number of them, for any anchors.
func NewBatchOf(f, labels *Node, t Triplets, o Options) *Batch {
	return newBatch(f, labels, o).with(t)
}

func (b *Batch) with(t Triplets) *Batch {
	b.Triplets = t
	b.Sap, b.San = b.pair(t.Positive), b.pair(t.Negative)
	return b
}

func newBatch(f, labels *Node, o Options) *Batch {
	f.AssertRank(2)
	labels.AssertDims(f.Shape().Dimensions[0])
	f = StopGradient(f)
	b := &Batch{F: f, S: MatMul(f, Transpose(f, 0, 1)), Options: o}
	b.positive, b.negative = pairs(b.S, labels, o)
	return b
}

// pair is the similarity of each triplet's anchor with its other member, [T].
func (b *Batch) pair(other *Node) *Node {
	return Gather(b.S, Stack([]*Node{b.Triplets.Anchor, other}, 1))
}

// anchorRows are the rows of x [B, …] of the triplets' anchors, [T, …].
func (b *Batch) anchorRows(x *Node) *Node {
	if b.eachAnchorOnce {
		return x
	}
	return Gather(x, graphs.Column(b.Triplets.Anchor))
}

// members are f_a, f_p and f_n, [T, D] each.
func (b *Batch) members() (fa, fp, fn *Node) {
	return b.anchorRows(b.F), Gather(b.F, graphs.Column(b.Triplets.Positive)), Gather(b.F,
		graphs.Column(b.Triplets.Negative))
}

// Dap is the distance ‖f_a−f_p‖, [T].
func (b *Batch) Dap() *Node { b.distances(); return b.dap }

// Dan is the distance ‖f_a−f_n‖, [T].
func (b *Batch) Dan() *Node { b.distances(); return b.dan }

func (b *Batch) distances() {
	if b.dap != nil {
		return
	}
	if b.F == nil { // Similarities are all there is.
		fromSimilarity := func(s *Node) *Node { return Sqrt(Max(MulScalar(OneMinus(s), 2), ZerosLike(s))) }
		b.dap, b.dan = fromSimilarity(b.Sap), fromSimilarity(b.San)
		return
	}
	fa, fp, fn := b.members()
	distance := func(x, y *Node) *Node { return Sqrt(ReduceSum(Square(Sub(x, y)), 1)) }
	b.dap, b.dan = distance(fa, fp), distance(fa, fn)
}

// Composed is the gradient that a rule gives a batch, with what it was composed from.
type Composed struct {
	*Batch
	PairPositive, PairNegative *Node // P₊ (the mask applied) and P₋, [T].
	Weight                     *Node // T, [T].
	Count                      *Node // The number of valid triplets, a float32 scalar.
	M                          *Node // The gradient matrix, of the shape of S.
	G                          *Node // G = M F, the gradient at the batch, [B, D]. Zero if no triplet is valid.
}

// Compose builds the gradient of a rule at a batch (§3.1): G = M F, where M gathers, over all valid triplets, the
// coefficients of T P₊ e_p in row p, of T P₋ e_n in row n and of T (P₊ e_ap + P₋ e_an) in row a, divided by the number
// of valid triplets unless Options.Sum. The rule's options are taken for the batch's, but for SkipDuplicates, by which
// the batch has been mined: it panics if they differ in that.
func Compose(b *Batch, r Rule) *Composed {
	r = r.WithDefaults()
	if r.Options.SkipDuplicates != b.Options.SkipDuplicates {
		exceptions.Panicf("rule %s: SkipDuplicates is %v, and the batch was mined with %v", r.Name(),
			r.Options.SkipDuplicates, b.Options.SkipDuplicates)
	}
	own := *b
	own.Options = r.Options
	b = &own
	c := &Composed{Batch: b}
	c.PairPositive, c.PairNegative, c.Weight = r.Weights(b)
	valid := b.Triplets.Valid
	c.Count = ReduceAllSum(ConvertDType(valid, dtypes.Float32))
	scale := OnesLike(c.Count)
	if !r.Options.Sum {
		scale = Reciprocal(Max(c.Count, scale))
	}
	// Where and not a product: a triplet that is not valid may have any weight.
	strength := func(pair *Node) *Node {
		w := Mul(Mul(c.Weight, pair), scale)
		return graphs.Only(valid, w)
	}
	positive, negative := strength(c.PairPositive), strength(c.PairNegative)
	moves := r.Direction.Of(b)
	var m matrix
	t := b.Triplets
	for _, part := range []struct {
		row      *Node
		move     Combination
		strength *Node
	}{
		{t.Positive, moves.Positive, positive},
		{t.Negative, moves.Negative, negative},
		{t.Anchor, moves.AnchorPositive, positive},
		{t.Anchor, moves.AnchorNegative, negative},
	} {
		m.add(part.row, t.Anchor, part.move.Anchor, part.strength)
		m.add(part.row, t.Positive, part.move.Positive, part.strength)
		m.add(part.row, t.Negative, part.move.Negative, part.strength)
	}
	c.M = m.build(b.S)
	c.G = MatMul(c.M, b.F)
	return c
}

// Weights builds P₊ with the mask applied, P₋ and T of the triplets of a batch, [T] each. It panics, as code that
// builds graphs does, if a part gives another shape or has a name and no function.
func (r Rule) Weights(b *Batch) (positive, negative, triplet *Node) {
	if err := r.Validate(); err != nil {
		panic(err)
	}
	r = r.WithDefaults()
	positive, negative = r.Pair.Of(b)
	triplet = r.Triplet.Of(b)
	if r.Mask.Of != nil {
		positive = Where(r.Mask.Of(b), ZerosLike(positive), positive)
	}
	for _, part := range []struct {
		of    string
		value *Node
	}{
		{"P₊ of the pair weight " + r.Pair.Name, positive}, {"P₋ of the pair weight " + r.Pair.Name, negative},
		{"the triplet weight " + r.Triplet.Name, triplet},
	} {
		if got, want := part.value.Shape(), b.Sap.Shape(); !got.Equal(want) {
			exceptions.Panicf("%s is %s, not %s: want one value a triplet, as b.Sap has", part.of, got, want)
		}
	}
	return positive, negative, triplet
}

// matrix collects entries that are scattered together.
type matrix struct{ rows, columns, values []*Node }

func (m *matrix) add(row, column, coefficient, strength *Node) {
	if coefficient == nil {
		return
	}
	m.rows, m.columns = append(m.rows, row), append(m.columns, column)
	m.values = append(m.values, Mul(coefficient, strength))
}

func (m *matrix) build(like *Node) *Node {
	if len(m.values) == 0 {
		return ZerosLike(like)
	}
	indices := Stack([]*Node{Concatenate(m.rows, 0), Concatenate(m.columns, 0)}, 1)
	return ScatterSum(ZerosLike(like), indices, Concatenate(m.values, 0), false, false)
}

// Normalize divides each row of x [B, D] by its L2 norm. A row shorter than 1e-12 becomes zero and gets no gradient:
// it has no direction. So does one longer than 1e19, whose square float32 does not hold.
func Normalize(x *Node) *Node {
	square := ReduceAndKeep(Square(x), ReduceSum, -1)
	there := GreaterThan(square, Scalar(x.Graph(), x.DType(), 1e-24))
	inverse := Reciprocal(Sqrt(Where(there, square, OnesLike(square))))
	return Mul(x, graphs.Only(there, inverse))
}

// Surgery is the op of the paper's implementation section, between f and L (Eq. 1). It takes embeddings, float32 [B,
// D], as the network gives them, and integer labels [B]. Forward it is their L2 normalization, [B, D]. Backward the
// gradient at the normalized embeddings is the rule's composed gradient, whatever gradient arrives; through the
// normalization it goes on as usual. So the gradient of any scalar made of the result, as ReduceAllSum, trains the
// network by the rule. Embeddings and labels of other types or shapes panic with what would be right, as code that
// builds graphs does.
func Surgery(embeddings, labels *Node, r Rule) (f *Node, c *Composed) {
	return SurgeryMined(embeddings, labels, r, nil)
}

// SurgeryMined is [Surgery] of the triplets that mine chooses, as the Mine of a miner does (package miners), in place
// of EPHN's, which are those of nil. It panics, as code that builds graphs does, if mine does not choose triplets.
func SurgeryMined(embeddings, labels *Node, r Rule, mine func(b *LossBatch) *LossBatch) (f *Node, c *Composed) {
	if embeddings.Rank() != 2 || embeddings.DType() != dtypes.Float32 {
		exceptions.Panicf("rule %s: the embeddings are %s; want float32 [B, D]: convert them in the model by "+
			"ConvertDType(x, dtypes.Float32)", r.Name(), embeddings.Shape())
	}
	if rows := embeddings.Shape().Dim(0); !labels.DType().IsInt() || labels.Rank() != 1 || labels.Shape().Dim(0) != rows {
		exceptions.Panicf("rule %s: the labels are %s; want the classes of the %d embeddings as integers, int64 [%d]",
			r.Name(), labels.Shape(), rows, rows)
	}
	f = Normalize(embeddings)
	b := newBatch(f, labels, r.Options)
	if mine == nil {
		b = b.ephn()
	} else {
		from := NewLossBatch(embeddings, labels, nil, nil).MinedPairs(b.positive, b.negative)
		mined := mine(from)
		if mined.Triplets == nil {
			panic("the miner of a rule chose pairs: want one that chooses triplets")
		}
		b = b.with(*mined.Triplets)
	}
	c = Compose(b, r)
	return Inject(f, c.G), c
}

// Inject is the identity on f, whose gradient ∂L/∂f is replaced by g (Eq. 2), of the same shape.
func Inject(f, g *Node) *Node {
	g.AssertDims(f.Shape().Dimensions...)
	return IdentityWithCustomGradient(f, func(_, _ *Node) *Node { return g })
}

// LossMatrix is the gradient matrix of a scalar loss that depends on the embeddings through s = f fᵀ alone:
// M = ∂L/∂S + (∂L/∂S)ᵀ, [B, B], for which ∂L/∂f = M f.
func LossMatrix(loss, s *Node) *Node {
	d := Gradient(loss, s)[0]
	return Add(d, Transpose(d, 0, 1))
}
