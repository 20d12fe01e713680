package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Masks are values on a [SimilarityGrid]: 1 where P₊ acts, 0 where a mask sets it to zero. They equal P₊ of a
// rule with pair weight con and the mask. SC2Printed is Eq. 19 as printed; Figure 3 does not show it.
type Masks struct{ SC1, SC2, SC2Printed []float32 }

var (
	sc1 = mask{name: "$T^{sc1}$", color: Vermilion, line: func(u float64) (sap, san float64) { return u, u }, label: 0.36}
	sc2 = mask{name: "$T^{sc2}$", color: Blue, line: func(u float64) (sap, san float64) {
		sin, cos := math.Sincos(math.Pi * (1 - u))
		return 1 + math.Sqrt(0.5)*cos, math.Sqrt(0.5) * sin
	}, label: 0.14, inside: true}
)

// TripletWeights draws Figure 3: the triplet diagrams of T^cos and T^cir on one color scale, whose lines of equal
// weight are straight and circular, and the regions where the masks sc1 and sc2 let P₊ act. The boundaries of the
// regions are closed forms, S_an = S_ap and (1−S_ap)² + S_an² = 0.5. Fields and masks have n×n values.
func TripletWeights(cos, cir Field, masks Masks) (*Figure, error) {
	one, other := cos.extent(), cir.extent()
	var panels []square
	var colors bar
	for _, f := range []Field{cos, cir} { // Both have one scale, so that they can be compared.
		p, b, err := Diagram{Field: f, Low: min(one.low, other.low), High: max(one.high, other.high)}.plot()
		if err != nil {
			return nil, fmt.Errorf("figure 3: %w", err)
		}
		panels, colors = append(panels, square{Plot: p, after: 8}), b
	}
	panels[1].bar, panels[1].after = &colors, barRoom
	low, high := cos.bounds()
	third, err := maskPanel("where $P_+$ acts", low, high, sc1.over(masks.SC1), sc2.over(masks.SC2))
	if err != nil {
		return nil, fmt.Errorf("figure 3: %w", err)
	}
	panels = append(panels, square{Plot: third})
	return &Figure{
		Width: besideWidth, Height: vg.Points(222),
		Alt: "Figure 3. Triplet diagrams over S_ap and S_an. T^cos is equal along straight lines S_ap − S_an = const, " +
			"T^cir along circles about (1, 0). sc1 lets P₊ act below the diagonal, sc2 within a circle of radius √0.5 " +
			"about (1, 0).",
		panels: func(c draw.Canvas) { squares(c, panels) },
	}, nil
}

// mask is the region where P₊ acts, and its boundary as a curve over u in [0, 1].
type mask struct {
	name   Markup
	values []float32
	color  color.NRGBA
	line   func(u float64) (sap, san float64)
	label  float64 // The u of the name.
	inside bool    // Whether the name is to the right of the line.
}

func (m mask) over(values []float32) mask { m.values = values; return m }

// SignOfSC2 draws the region where P₊ acts under sc2 twice: by Figure 3 and the text, and by Eq. 19 as printed,
// whose inequality is reversed.
func SignOfSC2(masks Masks) (*Figure, error) {
	meant, err := maskPanel("sc2 by figure and text", 0, 1, sc2.over(masks.SC2))
	if err != nil {
		return nil, err
	}
	letter := sc2.over(masks.SC2Printed)
	letter.name, letter.color, letter.inside = "Eq. 19", Purple, false
	printed, err := maskPanel("sc2 as printed", 0, 1, letter)
	if err != nil {
		return nil, err
	}
	return &Figure{
		Width: vg.Points(430), Height: vg.Points(222),
		Alt: "Where P₊ acts under sc2: by figure and text within the circle of radius √0.5 about (1, 0), " +
			"by the printed equation outside of it.",
		panels: func(c draw.Canvas) { squares(c, []square{{meant, nil, 12}, {printed, nil, 0}}) },
	}, nil
}

func maskPanel(title Markup, low, high float64, masks ...mask) (*plot.Plot, error) {
	p := newPlot(title, "", "")
	squareAxes(p, low, high, roundStep((high-low)/4))
	for _, m := range masks {
		if err := (Field{Title: m.name, Values: m.values}).check(); err != nil {
			return nil, err
		}
		if len(m.values) != len(masks[0].values) {
			return nil, fmt.Errorf("mask %s: %d values; want %d, as in the first mask", Plain(m.name), len(m.values),
				len(masks[0].values))
		}
		for i, v := range m.values {
			if v != 0 && v != 1 {
				return nil, fmt.Errorf("mask %s: value %d is %v; want 0 or 1", Plain(m.name), i, v)
			}
		}
	}
	p.Add(painter(func(c draw.Canvas, _ *plot.Plot, x, y place) { shade(c, x, y, masks) }))
	return p, nil
}

// shade shades the region of each mask.
func shade(c draw.Canvas, x, y place, masks []mask) {
	at := func(m mask, u float64) vg.Point {
		sap, san := m.line(u)
		return pt(x(sap), y(san))
	}
	n := Field{Values: masks[0].values}.side()
	c.DrawImage(c.Rectangle, raster(n, n, 1, 1, func(column, row int) color.NRGBA {
		k := paper
		for _, m := range masks {
			if m.values[(n-1-row)*n+column] == 1 {
				k = scale{paper, m.color}.at(0.22)
			}
		}
		return k
	}))
	for _, m := range masks {
		const steps = 200
		var points []vg.Point
		for i := range steps + 1 {
			points = append(points, at(m, float64(i)/steps))
		}
		c.StrokeLines(stroke(m.color, 1.7), c.ClipLinesXY(points)...)
	}
	for _, m := range masks {
		s, shift := aligned(style(labelSize, m.color), text.XRight, text.YBottom), pt(-2, 1)
		if m.inside {
			s.XAlign, s.YAlign, shift = text.XLeft, text.YCenter, vg.Point{X: 6}
		}
		c.FillText(s, at(m, m.label).Add(shift), m.name)
	}
}
