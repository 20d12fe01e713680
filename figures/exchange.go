package figures

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ExchangeSet holds the Recall@1 of losses on a data set, in percent, as published and with one part exchanged.
type ExchangeSet struct {
	Data   string
	Losses []ExchangedLoss
}

// ExchangedLoss is a loss as published and with one part exchanged.
type ExchangedLoss struct {
	Loss      Markup
	Published stats.Mean
	Exchanged []Exchanged
}

// Exchanged is a loss with one part of another.
type Exchanged struct {
	Part  string // "pair=lin-ms"
	Score stats.Mean
	// Gain tests its mean minus that of the loss as published, in points.
	Gain stats.Test
}

// label returns the part in the paper's notation.
func (e Exchanged) label() Markup {
	key, name, _ := strings.Cut(e.Part, "=")
	switch key {
	case "direction":
		return "direction " + DirectionLabel(name)
	case "pair":
		return "pair weight " + PairLabel(name)
	case "triplet":
		return "triplet weight " + TripletLabel(name)
	}
	return e.Part
}

func checkExchanges(sets []ExchangeSet) error {
	if len(sets) == 0 || len(sets[0].Losses) == 0 {
		return fmt.Errorf("exchanges: no losses, want at least one")
	}
	first := sets[0].Losses[0]
	for _, s := range sets {
		for _, l := range s.Losses {
			same := func(a, b Exchanged) bool { return a.Part == b.Part }
			if !slices.EqualFunc(l.Exchanged, first.Exchanged, same) {
				return fmt.Errorf("exchanges of %s on %s: other parts than those of the first loss, want the same in one order",
					l.Loss, s.Data)
			}
		}
	}
	return nil
}

// Exchanges returns the table of losses as published and of the change by each exchanged part. It returns an error
// without losses, and unless all losses have the same exchanged parts.
func Exchanges(sets []ExchangeSet, notes []Markup, provenance string) (*Table, error) {
	if err := checkExchanges(sets); err != nil {
		return nil, err
	}
	t := &Table{
		Columns: []Column{{Title: "Data", Left: true, Merged: true}, {Title: "Loss", Left: true}, {Title: "as published"}},
		Caption: "Recall@1 in percent of losses as published, and the points that it changes by when one part of a loss " +
			"is exchanged.",
		Notes:      append([]Markup{welchNote}, notes...),
		Provenance: provenance,
	}
	for _, e := range sets[0].Losses[0].Exchanged {
		t.Columns = append(t.Columns, Column{Group: "change by another", Title: e.label()})
	}
	for _, s := range sets {
		for _, l := range s.Losses {
			row := Row(s.Data, l.Loss, l.Published)
			for _, e := range l.Exchanged {
				c := Tested(e.Gain, e.Gain.Difference.String())
				if c.Note = Scored(e.Score).Note; e.Score.Diverged > 0 && math.IsNaN(e.Score.Mean) {
					c.Text = e.Score.String()
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
func ExchangeGains(sets []ExchangeSet, provenance string) (*Figure, error) {
	if err := checkExchanges(sets); err != nil {
		return nil, err
	}
	alt := "Change of Recall@1 in points when a part of a loss is exchanged, with 95 % intervals."
	var panels []*plot.Plot
	most := 1
	for _, s := range sets {
		most = max(most, len(s.Losses))
		changes := spanOf(0)
		names := make([]Markup, len(s.Losses))
		marks := make([]whiskers, len(s.Losses[0].Exchanged)) // Those of one loss are moved up and down.
		for i, l := range s.Losses {
			names[i] = l.Loss
			for k, e := range l.Exchanged {
				v := e.Gain.Difference
				changes.addInterval(v)
				marks[k].values = append(marks[k].values, v)
				alt += fmt.Sprintf(" %s, %s, %s: %s.", s.Data, l.Loss, e.Part, v)
			}
		}
		p := dotPlot(s.Data, "change of Recall@1, points", names, changes.padded(0.05, 0.5), 5)
		p.Add(meanLine(0))
		for k, w := range marks {
			look := exchangeLooks[k%len(exchangeLooks)]
			w.shift, w.width = -0.24*(float64(k)-float64(len(marks)-1)/2), 1.2
			w.mark = draw.GlyphStyle{Color: look.color, Radius: vg.Points(3), Shape: look.shape}
			p.Add(w)
		}
		panels = append(panels, p)
	}
	var keys []gridLine
	for i, e := range sets[0].Losses[0].Exchanged {
		keys = append(keys, gridLine{e.label(), exchangeLooks[i%len(exchangeLooks)]})
	}
	return &Figure{
		Width: vg.Points(300 * float64(len(panels))), Height: vg.Points(70 + 30*float64(most)), Alt: alt,
		Provenance: provenance,
		panels: func(c draw.Canvas) {
			gridKeys(columns(c, 0, 1)[0], keys)
			c.Max.Y -= 20
			drawRow(c, panels, 14)
		},
	}, nil
}
