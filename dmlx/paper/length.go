package paper

import (
	"context"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

// lengthFactors are the multiples of the preset's epochs that the rules of the study "length" are trained for.
var lengthFactors = []int{1, 2, 4}

// lengthStudy trains the six pair weights with the cosine direction for once, twice and four times the preset's epochs.
func lengthStudy() Study {
	return Study{
		Name: "length", Title: "Pair weights with the cosine direction, trained for longer: Recall@1", Sweep: true,
		Expand: expanded(func(_ presets.Preset, c Cell) ([]Cell, error) { return Longer(c, lengthFactors...), nil }),
		Rows: func(p presets.Preset) []Cell {
			pairs := pairWeights
			if p.Like("smoke") {
				pairs = pairs[:2] // They do to see that it runs.
			}
			return ruleRows(Rules([]string{"cos"}, pairs, []string{"con"}), scores.Pair)
		},
	}
}

// Longer returns a cell for once, twice, … the preset's epochs. The learning rate falls after the same share of them.
func Longer(c Cell, times ...int) []Cell {
	return slice.Map(times, func(n int) Cell {
		c.Column, c.Times, c.Adjust = fmt.Sprintf("%d×", n), n, func(s *runs.Spec) { s.Epochs *= n }
		return c
	})
}

// length shows how the order of the pair weights changes with longer training. The length of the full preset was chosen
// by it.
func length(ctx context.Context, q report.Request) (*Report, error) {
	return study(ctx, lengthStudy(), q, func(t *Table, provenance string) ([]report.Part, error) {
		sets := t.Sets()
		table, err := figures.LengthTable(sets, scores.Printed().Select(scores.Row{Table: 3}), provenance)
		if err != nil {
			return nil, err
		}
		picture, err := figures.Lengths(provenance, sets...)
		return []report.Part{{Of: table}, {Name: "picture", Of: picture}}, err
	})
}
