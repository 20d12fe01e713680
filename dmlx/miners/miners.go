// Package miners chooses the pairs and triplets of a batch that a loss is about, inside the graph: a miner narrows a
// [dmlx.LossBatch], and the loss sees what is left.
//
//	loss := miners.With(miners.MultiSimilarity{Epsilon: 0.1}, losses.NewMultiSimilarity().Of)
//
// Any number of triplets may come out, none included: those of a loss are then 0, with a zero gradient. Choosing has no
// gradient. Among equals the lowest row is taken. Nothing is allocated that is larger than [B, B].
package miners

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/internal/loop"
)

// Miner chooses from a batch. The types of this package are miners.
type Miner interface {
	Mine(b *dmlx.LossBatch) *dmlx.LossBatch
}

// With is a loss of what a miner chooses.
func With(m Miner, loss dmlx.LossFunc) dmlx.LossFunc {
	return func(b *dmlx.LossBatch) *Node { return loss(m.Mine(b)) }
}

// table lists the miners that need nothing but the batch: name to constructor.
var table = []struct {
	name string
	make func() Miner
}{
	{"all", func() Miner { return All{} }},
	{"hard", func() Miner { return Extreme{Hard, Hard} }},
	{"semi-hard", func() Miner { return SemiHardNegatives{} }},
	{"easy-positive", func() Miner { return Extreme{Easy, Hard} }},
	{"easy-positive/semi-hard", func() Miner { return Extreme{Easy, SemiHard} }},
	{"easy-positive/easy", func() Miner { return Extreme{Easy, Easy} }},
	{"easy-positive/all", func() Miner { return Extreme{Easy, Every} }},
	{"distance", func() Miner { return NewDistanceWeighted() }},
	{"ms", func() Miner { return NewMultiSimilarity() }},
}

// Names lists the names that [Parse] reads.
func Names() []string {
	out := make([]string, len(table))
	for i, t := range table {
		out[i] = t.name
	}
	return out
}

// Parse makes the miner of a name, with the published parameters. "distance" draws with the seed 0.
func Parse(name string) (Miner, error) {
	i := slices.Index(Names(), name)
	if i < 0 {
		return nil, errs.NoSuch(fmt.Sprintf("miner %q: there is none of that name", name), name, Names())
	}
	return table[i].make(), nil
}

// All takes every pair, and every triplet that they make.
type All struct{}

// Mine leaves the batch as it is.
func (All) Mine(b *dmlx.LossBatch) *dmlx.LossBatch { return b }

// Strategy says which of an anchor's positives or negatives are taken.
type Strategy string

// The strategies.
const (
	Easy     Strategy = "easy"      // The nearest positive, or the farthest negative.
	Hard     Strategy = "hard"      // The farthest positive, or the nearest negative.
	SemiHard Strategy = "semi-hard" // The nearest negative that is farther than the chosen positive.
	Every    Strategy = "all"       // All of them.
)

// Extreme takes for each anchor the positive and the negative that its strategies say: {Hard, Hard} is batch hard
// (Hermans, Beyer, Leibe 2017, Eq. 5), {Easy, Hard} and {Easy, SemiHard} are EPHN and EPSHN (Xuan, Stylianou, Pless
// 2020), the first of them what rules mine by. An anchor that lacks one gives no triplet. With Every on one side the
// pairs of the other are one an anchor, and the triplets all that these make.
type Extreme struct {
	Positive Strategy // Easy, Hard or Every.
	Negative Strategy // Easy, Hard, SemiHard or Every; SemiHard wants a positive that is one.
}

// Mine gives one triplet an anchor, or pairs if a strategy is Every.
func (m Extreme) Mine(b *dmlx.LossBatch) *dmlx.LossBatch {
	known := m.Positive == Easy || m.Positive == Hard || m.Positive == Every
	known = known && (m.Negative == Easy || m.Negative == Hard || m.Negative == Every || m.Negative == SemiHard &&
		m.Positive != Every)
	if !known {
		panic(fmt.Errorf("miner: the positive %q and the negative %q do not go together; want easy, hard or all and "+
			"easy, hard, all or, "+
			"with one positive, semi-hard", m.Positive, m.Negative))
	}
	s := StopGradient(b.S)
	positives, negatives := b.Positive, b.Negative
	var positive, negative, hasPositive, hasNegative *Node
	if m.Positive != Every {
		positive, hasPositive = nearest(towards(s, m.Positive == Easy), positives)
		positives = LogicalAnd(positives, chosen(s, positive))
	}
	if m.Negative != Every {
		among := negatives
		if m.Negative == SemiHard {
			own := ReduceSum(graphs.Only(positives, s), 1)
			among = LogicalAnd(among, LessThan(s, InsertAxes(own, -1)))
		}
		negative, hasNegative = nearest(towards(s, m.Negative != Easy), among)
		negatives = LogicalAnd(among, chosen(s, negative))
	}
	if positive == nil || negative == nil {
		return b.MinedPairs(positives, negatives)
	}
	return b.Mined(dmlx.Triplets{Anchor: anchors(s), Positive: positive, Negative: negative,
		Valid: LogicalAnd(hasPositive, hasNegative)})
}

// SemiHardNegatives takes for each positive pair the nearest negative that is farther from the anchor than the positive
// (Schroff, Kalenichenko, Philbin 2015, §3.2), with a Margin only one that is less than that less similar.
type SemiHardNegatives struct {
	Margin float64 // Of S; 0 for no limit.
	// PerAnchor is how many of an anchor's positives are looked at, in the order of rows. 0 is all; but the graph grows
	// with it, so say the images of a class less one, where that is known.
	PerAnchor int
}

// Mine gives as many triplets as there are positive pairs with such a negative.
func (m SemiHardNegatives) Mine(b *dmlx.LossBatch) *dmlx.LossBatch {
	s := StopGradient(b.S)
	turns := s.Shape().Dimensions[0] - 1
	if m.PerAnchor > 0 {
		turns = min(turns, m.PerAnchor)
	}
	var positives, negatives, valid []*Node
	left := b.Positive
	for range turns {
		// The next positive is the first that is left.
		positive, any := nearest(ZerosLike(s), left)
		left = LogicalAnd(left, LogicalNot(chosen(s, positive)))
		own := InsertAxes(pair(s, anchors(s), positive), -1)
		among := LogicalAnd(b.Negative, LessThan(s, own))
		if m.Margin > 0 {
			among = LogicalAnd(among, GreaterThan(s, AddScalar(own, -m.Margin)))
		}
		negative, there := nearest(s, among)
		positives, negatives, valid = append(positives, positive), append(negatives, negative), append(valid,
			LogicalAnd(any, there))
	}
	if turns == 0 {
		none := LogicalAnd(b.Positive, LogicalNot(b.Positive))
		return b.MinedPairs(none, none)
	}
	// Stacked by anchor: its first positive, its second one and so on.
	flat := func(x []*Node) *Node { return Reshape(Stack(x, 1), -1) }
	each := make([]*Node, turns)
	for i := range each {
		each[i] = anchors(s)
	}
	return b.Mined(dmlx.Triplets{Anchor: flat(each), Positive: flat(positives), Negative: flat(negatives),
		Valid: flat(valid)})
}

// DistanceWeighted draws for each positive pair a negative with a chance that undoes how often its distance occurs on
// the sphere (Wu, Manmatha, Smola, Krähenbühl 2017, §4.1).
type DistanceWeighted struct {
	Cutoff  float64 // Distances under it count as it: 0.5.
	Largest float64 // Negatives farther away are not drawn: 1.4, where the margin loss ends.
	Seed    int64   // Draws are a function of it.
	// Noise is drawn from instead of by Seed, if it is not nil: uniform in [0, 1), float32 [B, B], a number for each pair.
	// A training step gives its own.
	Noise *Node
}

// NewDistanceWeighted has the published parameters.
func NewDistanceWeighted() DistanceWeighted { return DistanceWeighted{Cutoff: 0.5, Largest: 1.4} }

// Mine gives as many triplets as there are positive pairs of anchors with a negative that can be drawn.
func (m DistanceWeighted) Mine(b *dmlx.LossBatch) *dmlx.LossBatch {
	s := StopGradient(b.S)
	g, n, dim := s.Graph(), s.Shape().Dimensions[1], float64(b.F.Shape().Dimensions[1])
	noise := m.Noise
	if noise == nil {
		_, noise = RandomUniform(RNGStateFromSeedForGraph(g, m.Seed), s.Shape())
	}
	noise.AssertDims(n, n)
	square := MulScalar(OneMinus(s), 2)
	among := LogicalAnd(b.Negative, LessThan(square, Scalar(g, s.DType(), m.Largest*m.Largest)))
	// 1/q(d), q(d) ∝ d^(n−2) (1−d²/4)^((n−3)/2) on the unit sphere in n dimensions, over its largest among the anchor's.
	d := Max(square, Scalar(g, s.DType(), m.Cutoff*m.Cutoff))
	d = Min(d, Scalar(g, s.DType(), 4-1e-3))
	weight := Sub(MulScalar(Log(d), (2-dim)/2), MulScalar(Log1P(MulScalar(d, -0.25)), (dim-3)/2))
	weight = Where(among, weight, MulScalar(OnesLike(weight), -1e30))
	weight = Where(among, Exp(Sub(weight, ReduceAndKeep(weight, ReduceMax, 1))), ZerosLike(weight))
	// A negative is drawn as the first whose weight, with all before it, is more than a share of the whole.
	index := graphs.Index(s, 0)
	upTo := MatMul(weight, ConvertDType(LessOrEqual(index, graphs.Index(s, 1)), s.DType()))
	whole := ReduceMax(upTo, 1)
	last := ReduceMax(Where(among, graphs.Index(s, 1), MulScalar(OnesLike(index), -1)), 1)
	// No draw is behind the last that can be, however the sums are rounded.
	upTo = Where(GreaterOrEqual(graphs.Index(s, 1), InsertAxes(last, -1)), MulScalar(OnesLike(upTo), 2),
		Div(upTo, InsertAxes(Where(
			GreaterThan(whole, ZerosLike(whole)), whole, OnesLike(whole)), -1)))
	places := loop.Positives(b.Positive, []*Node{ZerosLike(s)}, []*Node{upTo, noise}, func(t loop.Step) []*Node {
		upTo, share := t.Fixed[0], t.Sum(Mul(t.Chosen, t.Fixed[1]))
		passed := ConvertDType(LessOrEqual(upTo, share), dtypes.Float32)
		return []*Node{Add(t.Carried[0], Mul(t.Chosen, t.Sum(passed)))}
	})[0]
	flat := func(x *Node) *Node { return Reshape(x, n*n) }
	valid := LogicalAnd(b.Positive, InsertAxes(GreaterOrEqual(last, ZerosLike(last)), -1))
	drawn := ConvertDType(graphs.Only(valid, places), dtypes.Int32)
	return b.Mined(dmlx.Triplets{Anchor: flat(graphs.Index(s, 0)), Positive: flat(graphs.Index(s, 1)),
		Negative: flat(drawn), Valid: flat(valid)})
}

// MultiSimilarity takes the negatives nearer than the farthest positive and the positives farther than the nearest
// negative, with ε to spare (Wang et al. 2019, Eq. 12 and 13).
type MultiSimilarity struct {
	Epsilon float64 // 0.1
}

// NewMultiSimilarity has the published parameters.
func NewMultiSimilarity() MultiSimilarity { return MultiSimilarity{Epsilon: 0.1} }

// Mine gives pairs. An anchor that lacks positives or negatives gives none.
func (m MultiSimilarity) Mine(b *dmlx.LossBatch) *dmlx.LossBatch {
	s := StopGradient(b.S)
	low, high := MulScalar(OnesLike(s), -4), MulScalar(OnesLike(s), 4)
	hardest := ReduceMax(Where(b.Negative, s, low), 1)
	farthest := ReduceMin(Where(b.Positive, s, high), 1)
	positives := LogicalAnd(b.Positive, LessThan(AddScalar(s, -m.Epsilon), InsertAxes(hardest, -1)))
	negatives := LogicalAnd(b.Negative, GreaterThan(AddScalar(s, m.Epsilon), InsertAxes(farthest, -1)))
	return b.MinedPairs(positives, negatives)
}

// pair are the entries of x at rows and columns, [T].
func pair(x, rows, columns *Node) *Node { return Gather(x, Stack([]*Node{rows, columns}, 1)) }

// towards is what the highest is to be sought of: the similarity, or its negative.
func towards(s *Node, near bool) *Node {
	if near {
		return s
	}
	return Neg(s)
}

// nearest is the row's column of the highest score among the candidates, [B], the lowest one of equals, and whether
// there is any. Where there is none it is 0.
func nearest(score, among *Node) (column, any *Node) {
	end := MulScalar(OnesLike(columns(score)), score.Shape().Dimensions[1])
	masked := Where(among, score, MulScalar(OnesLike(score), -4))
	best := LogicalAnd(among, Equal(masked, InsertAxes(ReduceMax(masked, 1), -1)))
	column = ReduceMin(Where(best, columns(score), end), 1)
	any = LogicalAny(among, 1)
	return graphs.Only(any, column), any
}

// chosen marks one column of each row.
func chosen(like, column *Node) *Node { return Equal(columns(like), InsertAxes(column, -1)) }

func columns(x *Node) *Node { return graphs.Index(x, 1) }

func anchors(x *Node) *Node {
	return Iota(x.Graph(), shapes.Make(dtypes.Int32, x.Shape().Dimensions[0]), 0)
}
