package paper

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
)

// The runs of all studies, and of rules and losses beside them, keep their names: another name is another run, which
// would be trained again.
func TestRunNames(t *testing.T) {
	t.Parallel()
	texts := []string{"cos/lin/cir?tau=2", "cos/lin/cir, miner hard", "cos/lin/con+sc2-printed", "loss n-pair",
		"loss ms?beta=40, miner ms", "loss proxy-anchor, pair=lin-ms", "loss margin, direction=cos-orth&triplet=cir"}
	own := Study{Name: "own", Cells: func(p presets.Preset) []Cell { return OnBothSets(p, texts...) }}
	for name, want := range map[string]string{"smoke": "324 runs, 2c2b7a005083",
		"quick": "1048 runs, 51657230eb2a", "full": "3300 runs, d0a7df6c9db9", "paper": "3710 runs, 64ccdd28cbb9"} {
		p, err := presets.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		list, n := sha256.New(), 0
		for _, s := range []Study{table2Study(), table3Study(), table4Study(), table6Study(), table7Study(), table8Study(),
			gridStudy(), lengthStudy(), lossesStudy(), Table5(), own} {
			var seeds []uint64
			if s.AtMost > 0 { // Also of seeds that the table has not by itself.
				seeds = p.Seeds
			}
			cells, err := s.Specs(p, seeds)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cells {
				for _, spec := range c.Specs {
					if name == "paper" {
						spec.WeightsDigest = "" // It is there on a machine that has the weights.
					}
					fmt.Fprintln(list, spec.Hash())
					n++
				}
			}
		}
		if got := fmt.Sprintf("%d runs, %s", n, hex.EncodeToString(list.Sum(nil))[:12]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
