package paper

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// The runs of all studies, and of rules and losses beside them, keep their names: another name is another run, which
// would be trained again.
func TestRunNames(t *testing.T) {
	t.Parallel()
	texts := []string{"cos/lin/cir?tau=2", "cos/lin/cir, miner hard", "cos/lin/con+sc2-printed", "loss n-pair",
		"loss ms?beta=40, miner ms", "loss proxy-anchor, pair=lin-ms", "loss margin, direction=cos-orth&triplet=cir"}
	rows := make([]Cell, len(texts))
	for i, text := range texts {
		rows[i].Objective = presets.Named(text)
	}
	for name, want := range map[string]string{"smoke": "324 runs, b399a981a4f2",
		"quick": "1048 runs, 76bd8df6a0e0", "full": "3300 runs, 61fefcd7f42e", "paper": "3710 runs, 2cb2dc19bf85"} {
		p, err := presets.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		var list []string // The order of a table's cells is no name.
		for _, s := range []Study{table2Study(), table3Study(), table4Study(), table6Study(), table7Study(), table8Study(),
			gridStudy(), lengthened(), exchanged(), Table5(), listed(rows...)} {
			s.Present = false // Also on images that are not here.
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
					list = append(list, spec.Hash())
				}
			}
		}
		slices.Sort(list)
		sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
		if got := fmt.Sprintf("%d runs, %s", len(list), hex.EncodeToString(sum[:])[:12]); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// lengthened has the bundled runs of notebooks/length.ipynb.
func lengthened() Study {
	return Study{Name: "length", Sweep: true,
		Expand: expanded(func(_ presets.Preset, c Cell) ([]Cell, error) { return Longer(c, 1, 2, 4), nil }),
		Rows: func(p presets.Preset) []Cell {
			pairs := pairWeights
			if p.Like("smoke") {
				pairs = pairs[:2]
			}
			return ruleRows(Rules([]string{"cos"}, pairs, []string{"con"}), scores.Pair)
		}}
}

// exchanged has the bundled runs of notebooks/exchange.ipynb.
func exchanged() Study {
	return Study{Name: "losses",
		Rows: func(p presets.Preset) (out []Cell) {
			for _, loss := range []string{"contrastive", "triplet, miner semi-hard", "info-nce", "ms, miner ms", "circle",
				"proxy-nca++", "proxy-anchor", "norm-softmax"} {
				c := Cell{Row: loss, Objective: presets.Named("loss " + loss)}
				if !p.Like("smoke") || c.Loss == "ms" || c.Loss == "proxy-nca++" {
					out = append(out, c)
				}
			}
			return out
		},
		Expand: expanded(func(p presets.Preset, c Cell) ([]Cell, error) {
			if p.Like("smoke") {
				return WithExchanges(c, "pair=lin-ms"), nil
			}
			return WithExchanges(c, "direction=cos-orth", "pair=lin-ms", "triplet=cir"), nil
		})}
}
