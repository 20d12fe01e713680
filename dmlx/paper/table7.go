package paper

import (
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// table7Study is Table 7: the six pair weights with the cosine and the Euclidean direction, each at the learning rates
// of the preset.
func table7Study() Study {
	return Study{
		Name: "table7", Title: "Pair weights over learning rates: Recall@1", Sweep: true,
		Expand: atSweepRates(7),
		Rows: func(presets.Preset) []Cell {
			return ruleRows(Rules([]string{"cos", "euc"}, pairWeights, []string{"con"}), scores.Rule)
		},
	}
}
