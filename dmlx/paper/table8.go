package paper

import (
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// table8Study is Table 8: five triplet weights with constant and linear pair weights, each at the learning rates of the
// preset.
func table8Study() Study {
	return Study{
		Name: "table8", Title: "Triplet weights over learning rates: Recall@1", Sweep: true,
		Expand: atSweepRates(8),
		Rows: func(presets.Preset) []Cell {
			return ruleRows(Rules([]string{"cos"}, []string{"con", "lin"},
				[]string{"con", "cos", "cos+sc1", "cir", "cir+sc2"}), scores.Rule)
		},
	}
}
