package paper

import "github.com/gradient-surgery/dml/dmlx/presets"

// table6Study is Table 6: the four gradient directions, each at the learning rates of the preset.
func table6Study() Study {
	return Study{
		Name: "table6", Title: "Gradient directions over learning rates: Recall@1", Sweep: true,
		Own: ownSweep(6),
		Cells: func(p presets.Preset) []Cell {
			return rateSweep(p, 6, Rules(directions, []string{"con"}, []string{"con"}))
		},
	}
}
