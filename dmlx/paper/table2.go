package paper

import (
	"context"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
)

// table2Study is Table 2: the four gradient directions with constant pair and triplet weights.
func table2Study() Study {
	return Study{
		Name: "table2", Title: "Gradient directions, with P = con and T = con: Recall@1",
		Own: ownOnBoth(across),
		Cells: func(p presets.Preset) []Cell {
			return setsAcross(p, directions, func(direction string) string { return direction + "/con/con" })
		},
	}
}

// table2 reads Recall@1 off the runs of [table2Study] and sets it beside the paper's.
func table2(ctx context.Context, q report.Request) (*Report, error) {
	return componentTable(ctx, q, table2Study(), 2)
}
