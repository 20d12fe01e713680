package paper

import "github.com/gradient-surgery/dml/dmlx/presets"

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
