package paper

import (
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// table2Study is Table 2: the four gradient directions with constant pair and triplet weights.
func table2Study() Study {
	return Study{
		Name: "table2", Title: "Gradient directions, with P = con and T = con: Recall@1", Expand: across,
		Rows: func(presets.Preset) []Cell {
			return ruleRows(Rules(directions, []string{"con"}, []string{"con"}), scores.Direction)
		},
	}
}
