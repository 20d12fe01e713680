package paper

import (
	"context"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
)

// table4Study is Table 4: the seven triplet weights with constant and linear pair weights and the cosine direction.
func table4Study() Study {
	return Study{
		Name: "table4", Title: "Triplet weights, with constant and linear pair weights and the cosine direction: Recall@1",
		Own: ownOnBoth(alone),
		Cells: func(p presets.Preset) []Cell {
			rules := Rules([]string{"cos"}, []string{"con", "lin"}, tripletWeights)
			return named(OnBothSets(p, rules...), tripletPart, pairPart)
		},
	}
}

// table4 reads Recall@1 off the runs of [table4Study] and sets it beside the paper's.
func table4(ctx context.Context, q report.Request) (*Report, error) {
	return componentTable(ctx, q, table4Study(), 4)
}
