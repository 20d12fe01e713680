package dmlx

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Triplets are rows of a batch: anchor, positive and negative, int32 [T] each, of which those count that are Valid,
// bool [T].
type Triplets struct{ Anchor, Positive, Negative, Valid *Node }

// duplicate is the similarity above which the option SkipDuplicates takes two images for the same.
const duplicate = 0.9999

// pairs tells which pairs of the batch are positive and which negative, bool [B, B] each. Labels are integers [B].
func pairs(s, labels *Node, o Options) (positive, negative *Node) {
	n := labels.Shape().Dimensions[0]
	same := Equal(Reshape(labels, n, 1), Reshape(labels, 1, n))
	negative = LogicalNot(same)
	itself := Equal(graphs.Index(s, 0), graphs.Index(s, 1))
	positive = LogicalAnd(same, LogicalNot(itself))
	if o.SkipDuplicates {
		positive = LogicalAnd(positive, LessOrEqual(s, Scalar(s.Graph(), s.DType(), duplicate)))
	}
	return positive, negative
}

// easyPositiveHardNegative mines by EPHN: one triplet an anchor, of its nearest positive and its nearest negative in
// the batch. Among equals the lowest index is taken. An anchor that lacks either gives a triplet that is not valid.
func easyPositiveHardNegative(s, positive, negative *Node) Triplets {
	g, anchors, n := s.Graph(), s.Shape().Dimensions[0], s.Shape().Dimensions[1]
	index := graphs.Index(s, 1)
	nearest := func(candidates *Node) *Node {
		masked := Where(candidates, s, belowAll(s))
		best := LogicalAnd(candidates, Equal(masked, InsertAxes(ReduceMax(masked, 1), -1)))
		// An anchor without candidates gets row 0; it is not valid, and any row does.
		first := ReduceMin(Where(best, index, MulScalar(OnesLike(index), n)), 1)
		return Where(LessThan(first, MulScalar(OnesLike(first), n)), first, ZerosLike(first))
	}
	return Triplets{
		Anchor:   Iota(g, shapes.Make(dtypes.Int32, anchors), 0),
		Positive: nearest(positive),
		Negative: nearest(negative),
		Valid:    LogicalAnd(LogicalAny(positive, 1), LogicalAny(negative, 1)),
	}
}

// belowAll and aboveAll are lower and higher than any similarity, and finite, so that no arithmetic makes a NaN of
// them.
func belowAll(s *Node) *Node { return MulScalar(OnesLike(s), -4) }
func aboveAll(s *Node) *Node { return MulScalar(OnesLike(s), 4) }
