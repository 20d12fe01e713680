package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// SearchEffect is what a parameter of a search does on its own.
type SearchEffect struct {
	Name Markup
	// Share is the part of the variance that is due to it alone.
	Share float64
	// Choices are the names of its values; for a range they are empty, and Low and High are its ends.
	Choices   []string
	Low, High float64
	Log       bool
	// Slice is the mean score, in percent, as it varies.
	Slice []SliceValue
	// Trials are the trials where it counts: its unit value and their scores in percent, NaN of one that diverged.
	Trials [][2]float64
}

// SliceValue is a mean with its band at a unit value: from 0 to 1 in a range, or the number of the choice.
type SliceValue struct{ Unit, Mean, Low, High float64 }

func checkEffects(effects []SearchEffect) error {
	if len(effects) == 0 {
		return fmt.Errorf("what matters in a search: there are no parameters")
	}
	for _, e := range effects {
		if math.IsNaN(e.Share) || math.IsInf(e.Share, 0) || e.Share < 0 || len(e.Slice) == 0 {
			return fmt.Errorf("what matters in a search: %s has a share of %g and %d points", Plain(e.Name), e.Share, len(e.Slice))
		}
		if len(e.Choices) == 0 && (!(e.Low < e.High) || e.Log && e.Low <= 0) {
			return fmt.Errorf("what matters in a search: %s has the range %g to %g", Plain(e.Name), e.Low, e.High)
		}
	}
	return nil
}

// bySize are the effects with the largest first.
func bySize(effects []SearchEffect) []SearchEffect {
	return slices.SortedStableFunc(slices.Values(effects), func(a, b SearchEffect) int { return cmp.Compare(b.Share, a.Share) })
}

// SearchImportance draws how much of the variance each parameter of a search accounts for on its own, the largest first, and what
// is left to several together.
func SearchImportance(title Markup, effects []SearchEffect, provenance string) (*Figure, error) {
	if err := checkEffects(effects); err != nil {
		return nil, err
	}
	sorted := bySize(effects)
	rest := 1.0
	ticks := make(plot.ConstantTicks, 0, len(sorted)+1)
	bars := make(shareBars, 0, len(sorted)+1)
	var words []string
	add := func(name Markup, share float64, c color.NRGBA) {
		ticks = append(ticks, plot.Tick{Value: -float64(len(ticks)), Label: name})
		bars = append(bars, shareBar{share, c})
		words = append(words, fmt.Sprintf("%s %.0f %%", Plain(name), 100*share))
	}
	for _, e := range sorted {
		rest -= e.Share
		add(e.Name, e.Share, Blue)
	}
	add("several together", max(rest, 0), quiet)
	p := newPlot(title, "share of the variance, %", "")
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.LineStyle.Width = ticks, 0, 0
	p.Y.Min, p.Y.Max = 0.5-float64(len(bars)), 0.5
	most := 0.05
	for _, b := range bars {
		most = max(most, b.share)
	}
	p.X.Min, p.X.Max = 0, 115*most
	p.X.Tick.Marker = every(roundStep(115*most/5), 0, 115*most)
	p.Add(bars)
	return &Figure{Width: vg.Points(380), Height: vg.Points(56 + 16*float64(len(bars))), Provenance: provenance,
		Alt:    "Share of the variance of held-out recall that is due to each parameter alone: " + strings.Join(words, ", ") + ".",
		panels: func(c draw.Canvas) { drawPlot(p, c) }}, nil
}

type shareBar struct {
	share  float64
	colour color.NRGBA
}

type shareBars []shareBar

func (b shareBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, bar := range b {
		low, high := y(-float64(i)-0.32), y(-float64(i)+0.32)
		c.FillPolygon(bar.colour, []vg.Point{{X: x(0), Y: low}, {X: x(100 * bar.share), Y: low}, {X: x(100 * bar.share), Y: high}, {X: x(0), Y: high}})
		c.FillText(aligned(style(tickSize, ink), text.XLeft, text.YCenter), vg.Point{X: x(100*bar.share) + 4, Y: y(-float64(i))}, fmt.Sprintf("%.0f", 100*bar.share))
	}
}

// SearchSlices draws the mean score over a search's space as each parameter varies, the most important first, with the band of the
// trees and the trials themselves. All panels have one vertical scale.
func SearchSlices(effects []SearchEffect, provenance string) (*Figure, error) {
	if err := checkEffects(effects); err != nil {
		return nil, err
	}
	low, high := math.Inf(1), math.Inf(-1)
	var words []string
	for _, e := range effects {
		best := slices.MaxFunc(e.Slice, func(a, b SliceValue) int { return cmp.Compare(a.Mean, b.Mean) })
		words = append(words, fmt.Sprintf("%s is best at %s with a mean of %.1f", Plain(e.Name), e.label(best.Unit), best.Mean))
		for _, s := range e.Slice {
			low, high = min(low, s.Low, s.Mean), max(high, s.High, s.Mean)
		}
		for _, t := range e.Trials {
			if !math.IsNaN(t[1]) {
				low, high = min(low, t[1]), max(high, t[1])
			}
		}
	}
	room := max(0.05*(high-low), 0.5)
	sorted := bySize(effects)
	const across = 4
	rows := (len(sorted) + across - 1) / across
	panels := make([]*plot.Plot, len(sorted))
	for i, e := range sorted {
		label := ""
		if i%across == 0 {
			label = "held-out Recall@1, %"
		}
		p := newPlot(e.Name, "", label)
		p.Y.Min, p.Y.Max = low-room, high+room
		p.Y.Tick.Marker = every(roundStep((p.Y.Max-p.Y.Min)/5), p.Y.Min, p.Y.Max)
		p.X.Min, p.X.Max = -0.04, 1.04
		p.X.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: e.label(0)}, {Value: 0.5, Label: e.label(0.5)}, {Value: 1, Label: e.label(1)}}
		if n := len(e.Choices); n > 0 {
			p.X.Min, p.X.Max = -0.5, float64(n)-0.5
			ticks := make(plot.ConstantTicks, n)
			for k, name := range e.Choices {
				ticks[k] = plot.Tick{Value: float64(k), Label: name}
			}
			p.X.Tick.Marker = ticks
			if n > 4 { // They would run into each other.
				p.X.Tick.Label.Rotation = math.Pi / 4
				p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = text.XRight, text.YTop
			}
		}
		p.Add(slicePlot(e))
		panels[i] = p
	}
	return &Figure{Width: vg.Points(190 * float64(min(across, len(sorted)))), Height: vg.Points(20 + 175*float64(rows)), Provenance: provenance,
		Alt: "Mean held-out Recall@1 in percent over a search's space as each parameter varies. " + strings.Join(words, "; ") + ".",
		panels: func(c draw.Canvas) {
			height := (c.Max.Y - c.Min.Y) / vg.Length(rows)
			for i, p := range panels {
				row := c
				row.Max.Y = c.Max.Y - height*vg.Length(i/across)
				row.Min.Y = row.Max.Y - height + 8
				drawPlot(p, columns(row, 10, slices.Repeat([]float64{1}, min(across, len(panels)))...)[i%across])
			}
		}}, nil
}

// label writes a unit value as the value it stands for.
func (e SearchEffect) label(unit float64) string {
	if n := len(e.Choices); n > 0 {
		return e.Choices[min(max(int(unit), 0), n-1)]
	}
	v := e.Low + unit*(e.High-e.Low)
	if e.Log {
		v = e.Low * math.Pow(e.High/e.Low, unit)
	}
	return fmt.Sprintf("%.2g", v)
}

type slicePlot SearchEffect

func (s slicePlot) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range s.Trials {
		at := vg.Point{X: x(t[0]), Y: y(t[1])}
		if math.IsNaN(t[1]) {
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: Vermilion, Radius: vg.Points(2.4), Shape: draw.CrossGlyph{}}, vg.Point{X: at.X, Y: c.Min.Y + 4})
			continue
		}
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: SkyBlue, Radius: vg.Points(1.5), Shape: draw.CircleGlyph{}}, at)
	}
	if len(s.Choices) > 0 {
		for _, v := range s.Slice {
			c.StrokeLine2(stroke(Blue, 1), x(v.Unit), y(v.Low), x(v.Unit), y(v.High))
			c.StrokeLine2(stroke(Blue, 2.2), x(v.Unit-0.22), y(v.Mean), x(v.Unit+0.22), y(v.Mean))
		}
		return
	}
	var band, line []vg.Point
	for _, v := range s.Slice {
		band, line = append(band, vg.Point{X: x(v.Unit), Y: y(v.High)}), append(line, vg.Point{X: x(v.Unit), Y: y(v.Mean)})
	}
	for _, v := range slices.Backward(s.Slice) {
		band = append(band, vg.Point{X: x(v.Unit), Y: y(v.Low)})
	}
	c.FillPolygon(color.NRGBA{Blue.R, Blue.G, Blue.B, 0x38}, band)
	c.StrokeLines(stroke(Blue, 1.4), line)
}
