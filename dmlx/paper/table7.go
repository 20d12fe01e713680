package paper

import (
	"context"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
)

// table7Study is Table 7: the six pair weights with the cosine and the Euclidean direction, each at the learning rates
// of the preset.
func table7Study() Study {
	return Study{
		Name: "table7", Title: "Pair weights over learning rates: Recall@1", Sweep: true,
		Own: ownSweep(7),
		Cells: func(p presets.Preset) []Cell {
			return rateSweep(p, 7, Rules([]string{"cos", "euc"}, pairWeights, []string{"con"}))
		},
	}
}

// table7 reads Recall@1 at each rate off the runs of [table7Study] and sets it beside the paper's.
func table7(ctx context.Context, q report.Request) (*Report, error) {
	return sweepTable(ctx, q, table7Study())
}
