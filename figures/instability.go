package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// NormCurve is the length of the gradient G of each batch under one pair weight, as β grows.
type NormCurve struct {
	Name  Markup
	Pair  string // The pair weight's name in a rule; empty for a loss.
	Beta  []float64
	Norms [][]float64 // [β][batch], the length of G.
}

// NormPanel is the curves of one data set.
type NormPanel struct {
	Data   string
	Curves []NormCurve
}

// Instability draws how pair weights depend on β, in one row for each data set: the length of G (mean and range over
// batches), and its standard deviation relative to its mean. It tests the statement of the paper's appendix C that
// sig-ms is unstable. Lengths must be positive, at least two for each β.
func Instability(provenance string, sets ...NormPanel) (*Figure, error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("instability: no data sets; want at least one")
	}
	titles := []Markup{"length of $G$", "std / mean over batches"}
	rows := make([][]*plot.Plot, len(sets))
	for r, set := range sets {
		for i, y := range []Markup{set.Data, ""} {
			p := newPlot("", "", y)
			p.X.Scale, p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogScale{}, normDecades{}
			if r == 0 {
				p.Title.Text = titles[i]
			}
			if r == len(sets)-1 {
				p.X.Label.Text = "$\\beta$"
			}
			rows[r] = append(rows[r], p)
		}
		var betas []float64
		for k, curve := range set.Curves {
			if len(curve.Beta) < 2 || len(curve.Norms) != len(curve.Beta) {
				return nil, fmt.Errorf("instability: %s on %s has %d β and %d norms; want as many of each, two or more",
					Plain(curve.Name), set.Data, len(curve.Beta), len(curve.Norms))
			}
			var points [2]plotter.XYs
			var ranges plotter.YErrors
			for i, beta := range curve.Beta {
				seriesIndex(&betas, beta)
				s, err := positiveStats(curve.Norms[i])
				if err != nil || !(beta > 0) {
					return nil, fmt.Errorf("instability: %s on %s at β = %g: %v", Plain(curve.Name), set.Data, beta, err)
				}
				// Curves are shifted against each other so that their bars do not overlap.
				x := beta * math.Pow(1.02, float64(k)-float64(len(set.Curves)-1)/2)
				points[0] = append(points[0], plotter.XY{X: x, Y: s.mean})
				ranges = append(ranges, struct{ Low, High float64 }{s.mean - s.low, s.high - s.mean})
				points[1] = append(points[1], plotter.XY{X: beta, Y: s.std / s.mean})
			}
			l := pairSeries(rows[r][0], curve.Pair, points[0], ranges)
			if r == 0 {
				rows[r][0].Legend.Add(curve.Name, l)
			}
			pairSeries(rows[r][1], curve.Pair, points[1], nil)
		}
		for _, p := range rows[r] {
			p.X.Tick.Marker = valueTicks(betas)
			if len(betas) > 0 {
				p.X.Min, p.X.Max = slices.Min(betas)/1.15, slices.Max(betas)*1.15
			}
			p.Add(lightGrid())
		}
		setLegend(rows[r][0], true, true, 4, 0)
	}
	return &Figure{
		Width: vg.Points(570), Height: vg.Points(30 + 135*float64(len(sets))), Provenance: provenance,
		Alt: "The length of a batch's gradient under each pair weight as β grows, and how much it differs between batches. " +
			"Under sig-ms both grow steeply with β; under sig they do not grow; lin and lin-ms have no β.",
		panels: func(c draw.Canvas) { drawRows(draw.Crop(c, 0, 0, 4, 0), rows, 4, 14, 1.1, 1) },
	}, nil
}

type normStats struct{ mean, std, low, high float64 }

// positiveStats returns the statistics of at least two positive numbers, with the sample standard deviation.
func positiveStats(values []float64) (normStats, error) {
	if len(values) < 2 {
		return normStats{}, fmt.Errorf("%d norms; want at least two", len(values))
	}
	for _, v := range values {
		if !(v > 0) || !finite(v) {
			return normStats{}, fmt.Errorf("a norm is %g; want a finite positive number", v)
		}
	}
	m := stats.MeanOf(values)
	if m.Std == 0 {
		return normStats{}, fmt.Errorf("all batches have the norm %g; want norms that differ", m.Mean)
	}
	return normStats{m.Mean, m.Std, slices.Min(values), slices.Max(values)}, nil
}

// valueTicks returns labeled ticks at the given values.
func valueTicks(values []float64) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, v := range values {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return ticks
}

// normDecades labels the powers of ten of a logarithmic axis. If the axis has few of them, it also labels 2 and 5 times
// each.
type normDecades struct{}

func (normDecades) Ticks(low, high float64) []plot.Tick {
	few := high/low < 200
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for m := 1; m < 10; m++ {
			v := float64(m) * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			switch {
			case m == 1 && (v > 999 || v < 0.009):
				t.Label = fmt.Sprintf("$10^{%g}$", e)
			case m == 1 || few && (m == 2 || m == 5):
				t.Label = number(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// pairSeries adds a line with marks in the style of a pair weight, with bars unless they are nil.
func pairSeries(p *plot.Plot, pair string, points plotter.XYs, bars plotter.YErrors) *plotter.Line {
	look := pairLook(pair)
	if bars != nil {
		p.Add(&plotter.YErrorBars{XYs: points, YErrors: bars, LineStyle: stroke(look.color, 0.8), CapWidth: vg.Points(3)})
	}
	l := path(points, stroke(look.color, 1.4, look.dashes...))
	p.Add(l, scatter(points, look.color, 2.2, look.shape))
	return l
}
