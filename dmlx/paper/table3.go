package paper

import (
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// table3Study is Table 3: the six pair weights with the Euclidean and the cosine direction.
func table3Study() Study {
	return Study{
		Name: "table3", Title: "Pair weights, with the Euclidean and the cosine direction and T = con: Recall@1",
		Expand: byPart(scores.Direction),
		Rows: func(presets.Preset) []Cell {
			return ruleRows(Rules([]string{"euc", "cos"}, pairWeights, []string{"con"}), scores.Pair)
		},
	}
}
