package figures

import (
	"fmt"
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

// exchangeLooks are the marks of the exchanged parts.
var exchangeLooks = []look{{color: Blue, shape: draw.CircleGlyph{}}, {color: Vermilion, shape: diamond{}},
	{color: Green, shape: draw.TriangleGlyph{}}, {color: Purple, shape: draw.BoxGlyph{}}}

// ExchangeGains draws the change by an exchanged part: a panel for each data set, a row for each loss, and a mark with
// its interval for each part, by Welch's t over seeds. It returns an error without an exchanged
// part, and for two scores of one cell.
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

// gridKeys draws the legend of the lines above a row, in smaller letters where it is narrow, and in several lines where
// it is narrower still. It takes their room from the canvas as [key] does.
func gridKeys(c *draw.Canvas, lines []keyed, room vg.Length) {
	s := aligned(style(labelSize, ink), draw.XLeft, draw.YCenter)
	width := func() (total vg.Length) {
		for _, l := range lines {
			total += 19 + s.Width(l.name)
		}
		return total
	}
	if width()+10*vg.Length(len(lines)-1) > c.Max.X-c.Min.X {
		s.Font.Size = tickSize
	}
	total := width()
	if n := len(lines); n > 1 && total+2*vg.Length(n-1) > c.Max.X-c.Min.X {
		gridKeys(c, lines[:n/2], 12)
		gridKeys(c, lines[n/2:], room)
		return
	}
	gap := min(10, max(2, (c.Max.X-c.Min.X-total)/vg.Length(max(len(lines)-1, 1))))
	x, y := c.Min.X+max(0, (c.Max.X-c.Min.X-total-gap*vg.Length(len(lines)-1))/2), c.Max.Y-7
	for _, l := range lines {
		c.StrokeLines(stroke(l.color, 1.2, l.dashes...), []vg.Point{{X: x, Y: y}, {X: x + 15, Y: y}})
		dot(*c, l.color, vg.Points(2.7), l.shape, x+7.5, y)
		write(*c, s, x+18, y, fitted(s, l.name, c.Max.X-c.Min.X-18))
		x += 19 + s.Width(l.name) + gap
	}
	c.Max.Y -= room
}
