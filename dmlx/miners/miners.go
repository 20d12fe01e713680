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
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/internal/loop"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Miner chooses from a batch. The types of this package are miners.
type Miner interface {
	Mine(b *dmlx.LossBatch) *dmlx.LossBatch
}

// With is a loss of what a miner chooses.
func With(m Miner, loss dmlx.LossFunc) dmlx.LossFunc {
	return func(b *dmlx.LossBatch) *Node { return loss(m.Mine(b)) }
}

type entry struct {
	name string
	make func() Miner
}

// table lists the miners that need nothing but the batch: name to constructor.
var table = []entry{
	{"all", func() Miner { return All{} }},
	{"hard", func() Miner { return Extreme{Hard, Hard} }},
	{"semi-hard", func() Miner { return &SemiHardNegatives{} }},
	{"easy-positive", func() Miner { return Extreme{Easy, Hard} }},
	{"easy-positive/semi-hard", func() Miner { return Extreme{Easy, SemiHard} }},
	{"easy-positive/easy", func() Miner { return Extreme{Easy, Easy} }},
	{"easy-positive/all", func() Miner { return Extreme{Easy, Every} }},
	{"hard-positive/semi-hard", func() Miner { return Extreme{Hard, SemiHard} }},
	{"hard-positive/easy", func() Miner { return Extreme{Hard, Easy} }},
	{"semi-hard-positive", func() Miner { return Extreme{SemiHard, Hard} }},
	{"semi-hard-positive/easy", func() Miner { return Extreme{SemiHard, Easy} }},
	{"distance", func() Miner { m := NewDistanceWeighted(); return &m }},
	{"ms", func() Miner { m := NewMultiSimilarity(); return &m }},
}

// Names lists the names that [Parse] reads.
func Names() []string { return slice.Map(table, func(e entry) string { return e.name }) }

// Parse makes the miner of a name, with the published parameters or with those behind it: "distance?cutoff=0.4",
// "semi-hard?margin=0.2", "ms?epsilon=0.05". "distance" draws with the seed 0.
func Parse(name string) (Miner, error) {
	m, _, err := parse(name)
	return m, err
}

// Canonical returns the canonical name of a miner: parameters are listed where they are not the published ones.
func Canonical(name string) (string, error) {
	_, canonical, err := parse(name)
	return canonical, err
}

func parse(name string) (m Miner, canonical string, err error) {
	body, text, given := strings.Cut(name, "?")
	i := slices.Index(Names(), body)
	if i < 0 {
		return nil, "", errs.NoSuch(fmt.Sprintf("miner %q: there is none of that name", name), name, Names())
	}
	m = table[i].make()
	parameters := parametersOf(m)
	if given {
		var options []query.Option
		for _, p := range parameters {
			options = append(options, query.Option{Name: p.name, Set: func(v float64) { *p.at = v }})
		}
		if options == nil {
			return nil, "", fmt.Errorf("miner %q: %s has no parameters", name, body)
		}
		if err := query.Read("parameter", text, options); err != nil {
			return nil, "", fmt.Errorf("miner %q: %w", name, err)
		}
	}
	var fields []string
	for k, p := range parameters {
		if !p.ok(*p.at) {
			return nil, "", fmt.Errorf("miner %q: %s is %g; want %s", name, p.name, *p.at, p.want)
		}
		if *p.at != *parametersOf(table[i].make())[k].at {
			fields = append(fields, query.Number(p.name, *p.at))
		}
	}
	return value(m), query.Join(body, fields), nil
}

// parameter is a number of a miner by its name.
type parameter struct {
	name string
	at   *float64
	ok   func(v float64) bool
	want string // What ok asks for.
}

// parametersOf returns the parameters of a miner of the table, in alphabetical order.
func parametersOf(m Miner) []parameter {
	notNegative := func(v float64) bool { return v >= 0 }
	switch m := m.(type) {
	case *SemiHardNegatives:
		return []parameter{{"margin", &m.Margin, notNegative, "a number of at least 0"}}
	case *DistanceWeighted:
		distance := func(v float64) bool { return v > 0 && v <= 2 }
		return []parameter{{"cutoff", &m.Cutoff, distance, "a distance above 0, at most 2"},
			{"largest", &m.Largest, distance, "a distance above 0, at most 2"}}
	case *MultiSimilarity:
		return []parameter{{"epsilon", &m.Epsilon, notNegative, "a number of at least 0"}}
	}
	return nil
}

// value returns the miner itself instead of a pointer to it.
func value(m Miner) Miner {
	switch m := m.(type) {
	case *SemiHardNegatives:
		return *m
	case *DistanceWeighted:
		return *m
	case *MultiSimilarity:
		return *m
	}
	return m
}

// CheckTriplets returns an error unless a miner chooses triplets, as rules need, and not pairs.
func CheckTriplets(m Miner) error {
	if choosesTriplets(m) {
		return nil
	}
	var names []string
	for _, t := range table {
		if choosesTriplets(value(t.make())) {
			names = append(names, t.name)
		}
	}
	return fmt.Errorf("it chooses pairs, but a rule is about triplets; miners of triplets are %s",
		strings.Join(names, ", "))
}

func choosesTriplets(m Miner) bool {
	switch m := m.(type) {
	case All, MultiSimilarity:
		return false
	case Extreme:
		return m.Positive != Every && m.Negative != Every
	}
	return true
}

// All takes every pair, and every triplet that they make.
type All struct{}

// Mine leaves the batch as it is.
func (All) Mine(b *dmlx.LossBatch) *dmlx.LossBatch { return b }

// Strategy says which of an anchor's positives or negatives are taken.
type Strategy string

// The strategies.
const (
	Easy Strategy = "easy" // The nearest positive, or the farthest negative.
	Hard Strategy = "hard" // The farthest positive, or the nearest negative.
	// SemiHard is the nearest negative that is farther than the chosen positive, or the farthest positive that is nearer
	// than the chosen negative.
	SemiHard Strategy = "semi-hard"
	Every    Strategy = "all" // All of them.
)

// Extreme takes for each anchor the positive and the negative that its strategies say: {Hard, Hard} is batch hard
// (Hermans, Beyer, Leibe 2017, Eq. 5), {Easy, Hard} and {Easy, SemiHard} are EPHN and EPSHN (Xuan, Stylianou, Pless
// 2020), the first of them what rules mine by. An anchor that lacks one gives no triplet. With Every on one side the
// pairs of the other are one an anchor, and the triplets all that these make.
type Extreme struct {
	Positive Strategy // Easy, Hard, SemiHard or Every.
	Negative Strategy // Easy, Hard, SemiHard or Every. SemiHard on one side wants Easy or Hard on the other.
}

// Mine gives one triplet an anchor, or pairs if a strategy is Every.
func (m Extreme) Mine(b *dmlx.LossBatch) *dmlx.LossBatch {
	extreme := func(s Strategy) bool { return s == Easy || s == Hard }
	known := func(s, other Strategy) bool { return extreme(s) || s == Every || s == SemiHard && extreme(other) }
	if !known(m.Positive, m.Negative) || !known(m.Negative, m.Positive) {
		panic(fmt.Errorf("miner: the positive %q and the negative %q do not go together; want easy, hard or all for "+
			"each, or semi-hard for one and easy or hard for the other", m.Positive, m.Negative))
	}
	s := StopGradient(b.S)
	positives, negatives := b.Positive, b.Negative
	var positive, negative, hasPositive, hasNegative *Node
	choosePositive := func() {
		if m.Positive == Every {
			return
		}
		among := positives
		if m.Positive == SemiHard {
			own := ReduceSum(graphs.Only(negatives, s), 1)
			among = LogicalAnd(among, GreaterThan(s, InsertAxes(own, -1)))
		}
		positive, hasPositive = nearest(towards(s, m.Positive == Easy), among)
		positives = LogicalAnd(among, chosen(s, positive))
	}
	chooseNegative := func() {
		if m.Negative == Every {
			return
		}
		among := negatives
		if m.Negative == SemiHard {
			own := ReduceSum(graphs.Only(positives, s), 1)
			among = LogicalAnd(among, LessThan(s, InsertAxes(own, -1)))
		}
		negative, hasNegative = nearest(towards(s, m.Negative != Easy), among)
		negatives = LogicalAnd(among, chosen(s, negative))
	}
	if m.Positive == SemiHard { // It depends on the negative.
		chooseNegative()
		choosePositive()
	} else {
		choosePositive()
		chooseNegative()
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
	return minedEach(b, s, m.PerAnchor, func(positive *Node) (negative, there *Node) {
		own := InsertAxes(pair(s, anchors(s), positive), -1)
		among := LogicalAnd(b.Negative, LessThan(s, own))
		if m.Margin > 0 {
			among = LogicalAnd(among, GreaterThan(s, AddScalar(own, -m.Margin)))
		}
		return nearest(s, among)
	})
}

// minedEach gives a triplet for each of an anchor's first positives, at most perAnchor of them, or of all if perAnchor
// is 0. choose returns the negative of the anchors [B] with their positives [B], and whether there is one.
func minedEach(b *dmlx.LossBatch, s *Node, perAnchor int,
	choose func(positive *Node) (negative, there *Node)) *dmlx.LossBatch {
	turns := s.Shape().Dimensions[1] - 1
	if perAnchor > 0 {
		turns = min(turns, perAnchor)
	}
	var positives, negatives, valid []*Node
	left := b.Positive
	for range turns {
		// The next positive is the first that is left.
		positive, any := nearest(ZerosLike(s), left)
		left = LogicalAnd(left, LogicalNot(chosen(s, positive)))
		negative, there := choose(positive)
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
	// Noise is drawn from instead of by Seed, if it is not nil: uniform in [0, 1), of the shape of S, a number for each
	// pair. A training step gives its own.
	Noise *Node
	// PerAnchor, if not 0, is how many of an anchor's positives are looked at, in the order of rows. There are then so
	// many triplets an anchor instead of one for each pair, most of which are not valid. The draws are the same.
	PerAnchor int
}

// NewDistanceWeighted has the published parameters.
func NewDistanceWeighted() DistanceWeighted { return DistanceWeighted{Cutoff: 0.5, Largest: 1.4} }

// Mine gives as many triplets as there are positive pairs of anchors with a negative that can be drawn.
func (m DistanceWeighted) Mine(b *dmlx.LossBatch) *dmlx.LossBatch {
	s := StopGradient(b.S)
	g, dim := s.Graph(), float64(b.F.Shape().Dimensions[1])
	noise := m.Noise
	if noise == nil {
		_, noise = RandomUniform(RNGStateFromSeedForGraph(g, m.Seed), s.Shape())
	}
	noise.AssertDims(s.Shape().Dimensions...)
	distance := MulScalar(OneMinus(s), 2) // Squared.
	among := LogicalAnd(b.Negative, LessThan(distance, Scalar(g, s.DType(), m.Largest*m.Largest)))
	// 1/q(d), q(d) ∝ d^(n−2) (1−d²/4)^((n−3)/2) on the unit sphere in n dimensions, over its largest among the anchor's.
	d := Max(distance, Scalar(g, s.DType(), m.Cutoff*m.Cutoff))
	d = Min(d, Scalar(g, s.DType(), 4-1e-3))
	weight := Sub(MulScalar(Log(d), (2-dim)/2), MulScalar(Log1P(MulScalar(d, -0.25)), (dim-3)/2))
	weight = Where(among, weight, MulScalar(OnesLike(weight), -1e30))
	weight = Where(among, Exp(Sub(weight, ReduceAndKeep(weight, ReduceMax, 1))), ZerosLike(weight))
	// A negative is drawn as the first whose weight, with all before it, is more than a share of the whole.
	n := s.Shape().Dimensions[1]
	square := shapes.Make(dtypes.Int32, n, n)
	upTo := MatMul(weight, ConvertDType(LessOrEqual(Iota(g, square, 0), Iota(g, square, 1)), s.DType()))
	whole := ReduceMax(upTo, 1)
	last := ReduceMax(Where(among, graphs.Index(s, 1), MulScalar(OnesLike(columns(s)), -1)), 1)
	// No draw is behind the last that can be, however the sums are rounded.
	upTo = Where(GreaterOrEqual(graphs.Index(s, 1), InsertAxes(last, -1)), MulScalar(OnesLike(upTo), 2),
		Div(upTo, InsertAxes(Where(
			GreaterThan(whole, ZerosLike(whole)), whole, OnesLike(whole)), -1)))
	there := GreaterOrEqual(last, ZerosLike(last))
	if m.PerAnchor > 0 {
		return minedEach(b, s, m.PerAnchor, func(positive *Node) (negative, any *Node) {
			share := InsertAxes(pair(noise, anchors(s), positive), -1)
			passed := ReduceSum(ConvertDType(LessOrEqual(upTo, share), dtypes.Int32), 1)
			return graphs.Only(there, passed), there
		})
	}
	places := loop.Positives(b.Positive, []*Node{ZerosLike(s)}, []*Node{upTo, noise}, func(t loop.Step) []*Node {
		upTo, share := t.Fixed[0], t.Sum(Mul(t.Chosen, t.Fixed[1]))
		passed := ConvertDType(LessOrEqual(upTo, share), dtypes.Float32)
		return []*Node{Add(t.Carried[0], Mul(t.Chosen, t.Sum(passed)))}
	})[0]
	flat := func(x *Node) *Node { return Reshape(x, -1) }
	valid := LogicalAnd(b.Positive, InsertAxes(there, -1))
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
