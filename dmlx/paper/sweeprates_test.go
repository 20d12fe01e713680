package paper

import (
	"slices"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/presets"
)

// The sweeps try four rates for each of the paper's configurations; at the paper preset they are those it prints.
func TestSweepRates(t *testing.T) {
	for _, c := range []struct {
		preset, study, rule, data string
		want                      []float64
	}{
		{"quick", "table6", "cos-orth/con/con", "minicar", []float64{0.075, 0.15, 0.3, 0.6}},
		{"quick", "table7", "euc/sig-ms/con", "minishop", []float64{0.1, 0.2, 0.4, 0.8}},
		{"paper", "table6", "euc/con/con", "CAR", []float64{0.025, 0.05, 0.1, 0.2}},
		{"paper", "table7", "cos/lin/con", "CAR", []float64{0.05, 0.1, 0.2, 0.4}},
		{"paper", "table8", "cos/lin/cir+sc2", "CAR", []float64{0.2, 0.4, 0.6, 0.8}},
		{"paper", "table8", "cos/con/cir", "In-shop", []float64{0.5, 1, 2, 4}},
	} {
		preset, err := presets.Parse(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		study, err := ParseStudy(c.study)
		if err != nil {
			t.Fatal(err)
		}
		cells, err := study.Specs(preset, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, cell := range cells {
			if cell.Rule == c.rule && cell.Data == c.data {
				got = append(got, cell.Specs[0].LR)
				if held := cell.Specs[0].HeldOut; (held != 0) != (c.preset == "quick") ||
					len(cell.Specs) != len(preset.SweepSeeds) {
					t.Errorf("%s %s: held out %d, %d seeds", c.preset, c.study, held, len(cell.Specs))
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s of %s on %s: rates %v, want %v", c.preset, c.study, c.rule, c.data, got, c.want)
		}
	}
}
