package paper

import "github.com/gradient-surgery/dml/dmlx/presets"

// table8Study is Table 8: five triplet weights with constant and linear pair weights, each at the learning rates of the
// preset.
func table8Study() Study {
	return Study{
		Name: "table8", Title: "Triplet weights over learning rates: Recall@1", Sweep: true,
		Own: ownSweep(8),
		Cells: func(p presets.Preset) []Cell {
			return rateSweep(p, 8, Rules([]string{"cos"}, []string{"con", "lin"},
				[]string{"con", "cos", "cos+sc1", "cir", "cir+sc2"}))
		},
	}
}
