package figures

import (
	"fmt"
	"strconv"
)

// ImpliedSummary is the decomposition of a loss at one batch.
type ImpliedSummary struct {
	Title   Markup
	Anchors int // The number of anchors with a gradient.
	// PairPositive and PairNegative are the means over anchors of the sums of their pair weights. Weight is the mean of
	// T.
	PairPositive, PairNegative, Weight float64
	// Residual is the share of the gradient that the decomposition leaves over. Lone is the share of anchors without a
	// triplet.
	Residual, Lone float64
	// Alone is the share of a single triplet's gradient that the paper's form leaves over, on a grid of similarities.
	Alone float64
}

// ImpliedSummaries returns the table of the decompositions of losses at one batch.
func ImpliedSummaries(provenance string, rows []ImpliedSummary) (*Table, error) {
	t := &Table{
		Columns: []Column{{Title: "Loss", Left: true}, {Title: "anchors"}, {Title: "mean $T$"}, {Title: "sum of $P_+$"},
			{Title: "sum of $P_-$"},
			{Group: "left over, %", Title: "of the batch"}, {Group: "left over, %", Title: "without triplets"},
			{Group: "left over, %", Title: "of one triplet"}},
		Caption: "What the losses imply for a batch: triplet weight and pair weights, which sum to 2 where none is " +
			"negative, and the share of the gradient that they do not explain.",
		Provenance: provenance,
	}
	percent := func(v float64) Markup {
		if 100*v < 0.005 {
			return "0.00"
		}
		return strconv.FormatFloat(100*v, 'f', 2, 64)
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, Row(r.Title, r.Anchors, Scientific(r.Weight), fmt.Sprintf("%.2f", r.PairPositive),
			fmt.Sprintf("%.2f", r.PairNegative), percent(r.Residual), percent(r.Lone), percent(r.Alone)))
	}
	return t, allFinite("parts of losses", rows)
}
