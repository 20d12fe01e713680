package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// exchanges lays the scores of losses out by data set, and there by loss, their method, and exchanged part. parts are
// those of all, without "" for a loss as published.
func exchanges(ours scores.Table) (sets []ComparedSet, parts []string, err error) {
	parts = slices.DeleteFunc(ours.Values(scores.Exchange.Of), func(part string) bool { return part == "" })
	for _, set := range ours.Group(scores.Data.Of) {
		p, err := set.Rows.Pivot(scores.Method.Of, scores.Exchange.Of)
		if err != nil {
			return nil, nil, fmt.Errorf("exchanges: %w", err)
		}
		sets = append(sets, ComparedSet{Data: set.Key, Ours: p})
	}
	if len(parts) == 0 {
		return nil, nil, fmt.Errorf("exchanges: no loss with an exchanged part, want at least one")
	}
	return sets, parts, nil
}

// exchangeLabel returns an exchanged part, "pair=lin-ms", in the paper's notation.
func exchangeLabel(part string) Markup {
	key, level, _ := strings.Cut(part, "=")
	for _, p := range parts {
		if first, _, _ := strings.Cut(p.name, " "); first == key {
			return p.name + " " + PartLabel(p.column, level)
		}
	}
	return part
}

// Exchanges returns the table of losses as published and of the change by each exchanged part, with Welch's test over
// seeds. It returns an error without an exchanged part, and for two scores of one cell.
func Exchanges(ours scores.Table, notes []Markup, provenance string) (*Table, error) {
	sets, parts, err := exchanges(ours)
	if err != nil {
		return nil, err
	}
	t := &Table{
		Columns: []Column{{Title: "Data", Left: true, Merged: true}, {Title: "Loss", Left: true}, {Title: "as published"}},
		Caption: "Recall@1 in percent of losses as published, and the points that it changes by when one part of a loss " +
			"is exchanged.",
		Notes:      append([]Markup{welchNote}, notes...),
		Provenance: provenance,
	}
	for _, part := range parts {
		t.Columns = append(t.Columns, Column{Group: "change by another", Title: exchangeLabel(part)})
	}
	for _, s := range sets {
		for _, loss := range s.Ours.Rows {
			published := s.Ours.At(loss, "")
			row := Row(s.Data, loss, published.Mean())
			for _, part := range parts {
				score := s.Ours.At(loss, part)
				gain, m := scores.Difference(score, published), score.Mean()
				c := Tested(gain, gain.Difference.String())
				if c.Note = Scored(m).Note; m.Diverged > 0 && math.IsNaN(m.Mean) {
					c.Text = m.String()
				}
				row = append(row, c)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	t.RuleBlocks(1)
	t.MarkSignificant()
	return t, nil
}

// exchangeLooks are the marks of the exchanged parts.
var exchangeLooks = []look{{color: Blue, shape: draw.CircleGlyph{}}, {color: Vermilion, shape: diamond{}},
	{color: Green, shape: draw.TriangleGlyph{}}, {color: Purple, shape: draw.BoxGlyph{}}}

// ExchangeGains draws the change by an exchanged part: a panel for each data set, a row for each loss, and a mark with
// its interval for each part. It returns the errors of [Exchanges].
func ExchangeGains(ours scores.Table, provenance string) (*Figure, error) {
	sets, parts, err := exchanges(ours)
	if err != nil {
		return nil, err
	}
	alt := "Change of Recall@1 in points when a part of a loss is exchanged, with 95 % intervals."
	var panels []*plot.Plot
	most := 1
	for _, s := range sets {
		most = max(most, len(s.Ours.Rows))
		changes := spanOf(0)
		marks := make([]whiskers, len(parts)) // Those of one loss are moved up and down.
		for _, loss := range s.Ours.Rows {
			for k, part := range parts {
				v := scores.Difference(s.Ours.At(loss, part), s.Ours.At(loss, "")).Difference
				changes.addInterval(v)
				marks[k].values = append(marks[k].values, v)
				alt += fmt.Sprintf(" %s, %s, %s: %s.", s.Data, loss, part, v)
			}
		}
		p := dotPlot(s.Data, "change of Recall@1, points", s.Ours.Rows, changes.padded(0.05, 0.5), 5)
		p.Add(meanLine(0))
		for k, w := range marks {
			look := exchangeLooks[k%len(exchangeLooks)]
			w.shift, w.width = -0.24*(float64(k)-float64(len(marks)-1)/2), 1.2
			w.mark = draw.GlyphStyle{Color: look.color, Radius: vg.Points(3), Shape: look.shape}
			p.Add(w)
		}
		panels = append(panels, p)
	}
	var keys []keyed
	for i, part := range parts {
		keys = append(keys, keyed{exchangeLabel(part), exchangeLooks[i%len(exchangeLooks)]})
	}
	return &Figure{
		Width: vg.Points(300 * float64(len(panels))), Height: vg.Points(70 + 30*float64(most)), Alt: alt,
		Provenance: provenance,
		panels: func(c draw.Canvas) {
			gridKeys(&c, keys, 20)
			drawRow(c, panels, 14)
		},
	}, nil
}
