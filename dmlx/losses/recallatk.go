package losses

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutRecallAtK = About{
	Name: "recall-at-k", Title: "Recall@k surrogate",
	Source: "Patel, Tolias, Matas: Recall@k surrogate loss with large batches and similarity mixup, CVPR 2022 " +
		"(arXiv 2108.11179)",
	Text: "1 − mean over anchors and k = 1, 2, 4, … of min(k, Σ_p σ((k − r_p)/t₁))/min(k, number of p), r_p = 1 + Σ_j " +
		"σ((S_aj − S_ap)/t₂), j all others",
	Peer: "None. The authors' code has t₁ = k by default, their paper 1",
}

// RecallAtK is one minus the recall among the k most similar images, with sigmoids in place of steps, over several k.
// It is the mean over the anchors with a positive and a negative.
type RecallAtK struct {
	K    float64 // The largest k; the others are the powers of two below: 16.
	Rank float64 // t₂, of similarities: 0.01.
	Step float64 // t₁, of ranks: 1.
}

// NewRecallAtK has the published parameters.
func NewRecallAtK() *RecallAtK { return &RecallAtK{K: 16, Rank: 0.01, Step: 1} }

func (l *RecallAtK) params() []param {
	return []param{{name: "k", at: &l.K, ok: whole, want: "a whole number, 1 or more"},
		{name: "rank-temperature", at: &l.Rank, ok: positive, want: "a positive number"},
		{name: "step-temperature", at: &l.Step, ok: positive, want: "a positive number"}}
}

// Of builds the loss.
func (l *RecallAtK) Of(b *dmlx.LossBatch) *Node {
	above := Sigmoid(DivScalar(lead(b, aboutRecallAtK.Name), l.Rank))
	rank := AddScalar(among(above, LogicalOr(b.Positive, b.Negative)), 1)
	members := ReduceSum(number(b.Positive), 1)
	var missed *Node
	n := 0.
	for k := 1.; k <= l.K; k, n = 2*k, n+1 {
		found := ReduceSum(graphs.Only(b.Positive, Sigmoid(DivScalar(AddScalar(Neg(rank), k), l.Step))), 1)
		most := MulScalar(OnesLike(members), k)
		part := OneMinus(over(Min(found, most), Min(members, most)))
		if missed == nil {
			missed = part
		} else {
			missed = Add(missed, part)
		}
	}
	return mean(DivScalar(missed, n), rows(b))
}
