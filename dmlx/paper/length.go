package paper

import (
	"context"
	"fmt"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

// lengthFactors are the multiples of the preset's epochs that the rules of the study "length" are trained for.
var lengthFactors = []int{1, 2, 4}

// lengthStudy trains the six pair weights with the cosine direction for once, twice and four times the preset's epochs.
func lengthStudy() Study {
	return Study{
		Name: "length", Title: "Pair weights with the cosine direction, trained for longer: Recall@1", Sweep: true,
		Own: func(p presets.Preset, o presets.Objective) ([]Cell, error) {
			var out []Cell
			for _, c := range onBoth(p, Cell{LR: o.LR}) {
				for _, times := range lengthFactors {
					c.Column = fmt.Sprintf("%d×", times)
					c.Adjust = func(s *runs.Spec) { s.Epochs *= times }
					out = append(out, c)
				}
			}
			return out, nil
		},
		Cells: func(p presets.Preset) []Cell {
			var out []Cell
			for _, set := range onBoth(p, Cell{}) {
				for i, w := range dmlx.PairWeights {
					if p.Like("smoke") && i > 1 {
						break // Two do to see that it runs.
					}
					for _, times := range lengthFactors {
						c := set
						c.Row, c.Rule, c.Column = w.Name, "cos/"+w.Name+"/con", fmt.Sprintf("%d×", times)
						c.Adjust = func(s *runs.Spec) { s.Epochs *= times }
						out = append(out, c)
					}
				}
			}
			return out
		},
	}
}

// length shows how the order of the pair weights changes with longer training. The length of the full preset was chosen
// by it.
func length(ctx context.Context, q Request) (*Report, error) {
	return study(ctx, lengthStudy(), q, func(t *Table, provenance string) ([]Part, error) {
		sets, err := lengths(t)
		if err != nil {
			return nil, err
		}
		table, err := figures.LengthTable(sets, provenance)
		if err != nil {
			return nil, err
		}
		picture, err := figures.Lengths(sets, provenance)
		return []Part{{"", table}, {"picture", picture}}, err
	})
}

// lengths sorts a study's cells, which stand by data set, rule and length, and adds the paper's Table 3.
func lengths(t *Table) ([]figures.Length, error) {
	var out []figures.Length
	for _, c := range t.Cells {
		if len(out) == 0 || out[len(out)-1].Data != c.Data {
			out = append(out, figures.Length{Data: c.Data, PaperData: c.PaperData})
		}
		l := &out[len(out)-1]
		rule, printed := c.Rule, figures.Missing
		if c.Objective != nil {
			rule = c.Row
		}
		if len(l.Rules) == 0 || l.Rules[len(l.Rules)-1] != rule {
			if c.Objective == nil {
				parts := strings.Split(rule, "/")
				paper, err := figures.Paper(figures.PaperResult{Table: 3, Dataset: c.PaperData, Direction: parts[0],
					Pair: parts[1], Triplet: parts[2]})
				if err != nil {
					return nil, err
				}
				printed = paper.Score()
			}
			l.Rules, l.Scores, l.Paper = append(l.Rules, rule), append(l.Scores, nil), append(l.Paper, printed)
		}
		last := len(l.Rules) - 1
		l.Scores[last] = append(l.Scores[last], c.Recall(1).Times(100))
		if last == 0 {
			l.Steps = append(l.Steps, c.Specs[0].Steps())
		}
	}
	return out, nil
}
