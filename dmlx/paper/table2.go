package paper

import "github.com/gradient-surgery/dml/dmlx/presets"

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
