package paper

import (
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// table6Study is Table 6: the four gradient directions, each at the learning rates of the preset.
func table6Study() Study {
	return Study{
		Name: "table6", Title: "Gradient directions over learning rates: Recall@1", Sweep: true,
		Expand: atSweepRates(6),
		Rows: func(presets.Preset) []Cell {
			return ruleRows(Rules(directions, []string{"con"}, []string{"con"}), scores.Rule)
		},
	}
}
