package paper

import (
	"context"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
)

// table3Study is Table 3: the six pair weights with the Euclidean and the cosine direction.
func table3Study() Study {
	return Study{
		Name: "table3", Title: "Pair weights, with the Euclidean and the cosine direction and T = con: Recall@1",
		Own: ownOnBoth(alone),
		Cells: func(p presets.Preset) []Cell {
			rules := Rules([]string{"euc", "cos"}, pairWeights, []string{"con"})
			return named(OnBothSets(p, rules...), pairPart, directionPart)
		},
	}
}

// table3 reads Recall@1 off the runs of [table3Study] and sets it beside the paper's.
func table3(ctx context.Context, q report.Request) (*Report, error) {
	return componentTable(ctx, q, table3Study(), 3)
}
