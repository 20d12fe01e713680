package dmlx

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/support/exceptions"
)

// LossFn returns a rule as a loss function of GoMLX's trainer (train.NewTrainer in gomlx/ml/train). The model's only
// prediction is the embeddings, float32 [B, D], before any normalization; the only labels are integers, [B] or [B, 1].
// The gradient at the embeddings is the rule's, whatever the trainer does with the loss. The value is the share of the
// batch's triplets whose negative is nearer than their positive, 0 to 1 ([Composed.Violations]): it falls as training
// goes on, though it is not what the gradient is of. [Watch] gives other values as metrics.
//
// Embeddings and labels of other types or shapes panic with what would be right, as code that builds graphs does; the
// trainer returns it as an error.
func LossFn(r Rule) func(labels, predictions []*Node) *Node {
	return func(labels, predictions []*Node) *Node {
		f, c := surgeryOf(r, labels, predictions)
		sum := ReduceAllSum(f)
		return Add(StopGradient(c.Violations()), Sub(sum, StopGradient(sum)))
	}
}

// Watch returns a function for a metric of GoMLX's trainer: a value of what a rule makes of a batch, as
// [Composed.GradientNorm]. It takes labels and predictions like [LossFn].
func Watch(r Rule, value func(c *Composed) *Node) func(labels, predictions []*Node) *Node {
	return func(labels, predictions []*Node) *Node {
		_, c := surgeryOf(r, labels, predictions)
		return StopGradient(value(c))
	}
}

// surgeryOf is [Surgery] of what a trainer hands to a loss.
func surgeryOf(r Rule, labels, predictions []*Node) (f *Node, c *Composed) {
	if len(predictions) != 1 || len(labels) != 1 {
		exceptions.Panicf("rule %s: the model gives %d predictions and the data set %d labels; want one of each, the "+
			"embeddings [B, D] and their labels [B]", r.Name(), len(predictions), len(labels))
	}
	of := labels[0]
	if of.Rank() == 2 && of.Shape().Dim(1) == 1 { // As GoMLX's own losses take them.
		of = Reshape(of, of.Shape().Dim(0))
	}
	return Surgery(predictions[0], of, r)
}

// Violations is the share of the valid triplets whose negative is more similar to the anchor than their positive is, a
// float32 scalar; 0 if no triplet is valid.
func (c *Composed) Violations() *Node {
	violated := LogicalAnd(c.Triplets.Valid, GreaterThan(c.San, c.Sap))
	count := ReduceAllSum(ConvertDType(c.Triplets.Valid, dtypes.Float32))
	return Div(ReduceAllSum(ConvertDType(violated, dtypes.Float32)), Max(count, OnesLike(count)))
}

// GradientNorm is the length of the gradient at the normalized embeddings, all rows taken together, a float32 scalar.
// It is that of its part on the sphere: what goes along an embedding does not train.
func (c *Composed) GradientNorm() *Node {
	along := ReduceAndKeep(Mul(c.G, c.F), ReduceSum, 1)
	return Sqrt(ReduceAllSum(Square(Sub(c.G, Mul(along, c.F)))))
}
