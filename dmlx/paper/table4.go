package paper

import (
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// table4Study is Table 4: the seven triplet weights with constant and linear pair weights and the cosine direction.
func table4Study() Study {
	return Study{
		Name: "table4", Title: "Triplet weights, with constant and linear pair weights and the cosine direction: Recall@1",
		Expand: byPart(scores.Pair),
		Rows: func(presets.Preset) []Cell {
			return ruleRows(Rules([]string{"cos"}, []string{"con", "lin"}, tripletWeights), scores.Triplet)
		},
	}
}
