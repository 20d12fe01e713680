package paper

import (
	"context"
	"strings"

	"github.com/gradient-surgery/dml/figures"
)

// length shows what becomes of the order of the pair weights when they are trained for longer: how the full preset was
// chosen.
func length(ctx context.Context, q Request) (*Report, error) {
	r, err := study(ctx, "length", q)
	if err != nil {
		return nil, err
	}
	sets, err := lengths(r.Table)
	if err != nil {
		return nil, err
	}
	table, err := figures.LengthTable(sets, r.Provenance)
	if err != nil {
		return nil, err
	}
	picture, err := figures.Lengths(sets, r.Provenance)
	r.Parts = []Part{{"", table}, {"picture", picture}}
	return r, err
}

// lengths sorts a study's cells, which stand by data set, rule and length, and sets the paper's Table 3 beside them.
func lengths(t *Table) ([]figures.Length, error) {
	var out []figures.Length
	for _, c := range t.Cells {
		if len(out) == 0 || out[len(out)-1].Data != c.Data {
			out = append(out, figures.Length{Data: c.Data, PaperData: c.PaperData})
		}
		l := &out[len(out)-1]
		if len(l.Rules) == 0 || l.Rules[len(l.Rules)-1] != c.Rule {
			parts := strings.Split(c.Rule, "/")
			paper, err := figures.Paper(figures.PaperResult{Table: 3, Dataset: c.PaperData, Direction: parts[0], Pair: parts[1], Triplet: parts[2]})
			if err != nil {
				return nil, err
			}
			l.Rules, l.Scores, l.Paper = append(l.Rules, c.Rule), append(l.Scores, nil), append(l.Paper, paper.Score())
		}
		last := len(l.Rules) - 1
		l.Scores[last] = append(l.Scores[last], c.Recall(1).Times(100))
		if last == 0 {
			l.Steps = append(l.Steps, c.Specs[0].Steps())
		}
	}
	return out, nil
}
