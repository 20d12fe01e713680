package figures

import (
	"image/color"
	"strings"
	"testing"
)

func TestTiles(t *testing.T) {
	kinds := []TileKind{{"reproduced", "R", Confirming}, {"undecided", "U", Undecided}, {"contradicted", "C", Opposing},
		{"not run", "", color.NRGBA{}}, {"in part", "P", Divided}}
	many := make([]int, 60)
	for i := range many {
		many[i] = i % 4
	}
	lines := []TileLine{{"Table 2", []int{0, 0, 1, 2}}, {"Claims", many}}
	f, err := Tiles("Verdicts", kinds, lines, "made-up numbers")
	checkGolden(t, "tiles", f, err)
	if !strings.HasPrefix(f.Alt, "Verdicts: 17 reproduced, 16 undecided, 16 contradicted, 15 not run.") {
		t.Error(f.Alt)
	}
	for _, bad := range [][]TileLine{nil, {{"Table 2", []int{5}}}} {
		if _, err := Tiles("", kinds, bad, ""); err == nil {
			t.Errorf("%v was drawn", bad)
		}
	}
}
