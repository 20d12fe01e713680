package figures

import (
	"fmt"
	"image/color"
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
			if len(l.Exchanged) != len(first.Exchanged) {
				return fmt.Errorf("exchanges of %s on %s: %d parts, want %d as for the first loss", l.Loss, s.Data,
					len(l.Exchanged), len(first.Exchanged))
			}
			for i, e := range l.Exchanged {
				if e.Part != first.Exchanged[i].Part {
					return fmt.Errorf("exchanges of %s on %s: part %q, want %q as for the first loss", l.Loss, s.Data, e.Part,
						first.Exchanged[i].Part)
				}
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
	for i, s := range sets {
		for _, l := range s.Losses {
			row := []Cell{Text(s.Data), Text(l.Loss), Scored(l.Published)}
			for _, e := range l.Exchanged {
				c := Tested(e.Gain, e.Gain.Difference.String())
				if e.Score.Diverged > 0 {
					c.Note = Scored(e.Score).Note
					if math.IsNaN(e.Score.Mean) {
						c.Text = e.Score.String()
					}
				}
				row = append(row, c)
			}
			t.Rows = append(t.Rows, row)
		}
		if i+1 < len(sets) {
			t.Rules = append(t.Rules, len(t.Rows))
		}
	}
	t.MarkSignificant()
	return t, nil
}

var (
	exchangeColors = []color.NRGBA{Blue, Vermilion, Green, Purple}
	exchangeShapes = []draw.GlyphDrawer{draw.CircleGlyph{}, diamond{}, draw.TriangleGlyph{}, draw.BoxGlyph{}}
)

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
		low, high := 0.0, 0.0
		most = max(most, len(s.Losses))
		ticks := make(plot.ConstantTicks, len(s.Losses))
		for i, l := range s.Losses {
			ticks[i] = plot.Tick{Value: -float64(i), Label: l.Loss}
			for _, e := range l.Exchanged {
				for _, v := range []float64{e.Gain.Difference.Value, e.Gain.Difference.Low, e.Gain.Difference.High} {
					if !math.IsNaN(v) {
						low, high = min(low, v), max(high, v)
					}
				}
				alt += fmt.Sprintf(" %s, %s, %s: %s.", s.Data, l.Loss, e.Part, e.Gain.Difference)
			}
		}
		p := newPlot(s.Data, "change of Recall@1, points", "")
		p.Y.Tick.Marker, p.Y.Tick.Length = ticks, 0
		p.Y.LineStyle.Width = 0
		p.Y.Min, p.Y.Max = 0.5-float64(len(s.Losses)), 0.5
		room := max(0.05*(high-low), 0.5)
		p.X.Min, p.X.Max = low-room, high+room
		step := roundStep((p.X.Max - p.X.Min) / 5)
		p.X.Tick.Marker = every(step, p.X.Min, p.X.Max)
		p.Add(stripes{len(s.Losses), step}, gridMean(0), exchangeMarks(s))
		panels = append(panels, p)
	}
	var keys []gridLine
	for i, e := range sets[0].Losses[0].Exchanged {
		keys = append(keys, gridLine{e.label(), look{color: exchangeColors[i%len(exchangeColors)],
			shape: exchangeShapes[i%len(exchangeShapes)]}})
	}
	return &Figure{
		Width: vg.Points(300 * float64(len(panels))), Height: vg.Points(70 + 30*float64(most)), Alt: alt,
		Provenance: provenance,
		panels: func(c draw.Canvas) {
			gridKeys(columns(c, 0, 1)[0], keys)
			c.Max.Y -= 20
			for i, part := range columns(c, 14, slices.Repeat([]float64{1}, len(panels))...) {
				drawPlot(panels[i], part)
			}
		},
	}, nil
}

// exchangeMarks draws the changes on a data set. Those of one loss are shifted up and down.
type exchangeMarks ExchangeSet

func (m exchangeMarks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, l := range m.Losses {
		n := len(l.Exchanged)
		for k, e := range l.Exchanged {
			if math.IsNaN(e.Gain.Difference.Value) {
				continue
			}
			at := y(-float64(i) - 0.24*(float64(k)-float64(n-1)/2))
			hue := exchangeColors[k%len(exchangeColors)]
			if !math.IsNaN(e.Gain.Difference.Low) && !math.IsNaN(e.Gain.Difference.High) {
				c.StrokeLine2(stroke(hue, 1.2), x(e.Gain.Difference.Low), at, x(e.Gain.Difference.High), at)
			}
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: hue, Radius: vg.Points(3),
				Shape: exchangeShapes[k%len(exchangeShapes)]}, vg.Point{X: x(e.Gain.Difference.Value), Y: at})
		}
	}
}
