package figures

import (
	"image/color"
	"math"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colors of Okabe and Ito's palette. Readers with any color vision can tell them apart.
var (
	Black     = color.NRGBA{0x00, 0x00, 0x00, 0xff}
	Orange    = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
	SkyBlue   = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}
	Green     = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	Blue      = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	Vermilion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	Purple    = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	ink       = color.NRGBA{0x26, 0x26, 0x26, 0xff}
	quiet     = color.NRGBA{0x6b, 0x6b, 0x6b, 0xff}
	faint     = color.NRGBA{0xd9, 0xd9, 0xd9, 0xff}
	paper     = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// scale is a continuous color scale over [0, 1], piecewise linear between equally spaced colors.
type scale []color.NRGBA

func (s scale) at(x float64) color.NRGBA {
	if !finite(x) {
		return faint
	}
	x = min(max(x, 0), 1) * float64(len(s)-1)
	i := min(int(x), len(s)-2)
	f := x - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a)*(1-f) + float64(b)*f)) }
	return color.NRGBA{mix(s[i].R, s[i+1].R), mix(s[i].G, s[i+1].G), mix(s[i].B, s[i+1].B), 0xff}
}

func hexes(values ...uint32) scale {
	s := make(scale, len(values))
	for i, v := range values {
		s[i] = color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xff}
	}
	return s
}

var (
	// viridis is matplotlib's color map, sampled at every 1/16.
	viridis = hexes(0x440154, 0x481a6c, 0x472f7d, 0x414487, 0x39568c, 0x31688e, 0x2a788e, 0x23888e, 0x1f988b, 0x22a884,
		0x35b779, 0x54c568, 0x7ad151, 0xa5db36, 0xd2e21b, 0xe8e419, 0xfde725)
	// hues are the scales of weights, by [Hue], as on the page: from pale to dark, so that a dark theme can turn them
	// around with the picture.
	hues = map[Hue]scale{
		HueWeight: hexes(0xf6faf8, 0xd2ebe0, 0x9bd3bf, 0x57b197, 0x20876d, 0x0a5743),
		HuePull:   hexes(0xf7fafc, 0xd6e8f5, 0xa3cdea, 0x5fa6d6, 0x2b7cb8, 0x0e4f86),
		HuePush:   hexes(0xfdf9f5, 0xfbe0c8, 0xf7b988, 0xec8a46, 0xcc5f14, 0x8f3a02),
	}
	// diverging runs from blue through white, which is zero, to vermilion.
	diverging = hexes(0x053061, 0x0b5a9c, 0x4393c3, 0xa6cee3, 0xffffff, 0xfdc9a3, 0xf08a4b, 0xc84a00, 0x6b2300)
)

const (
	titleSize = vg.Length(10.5)
	labelSize = vg.Length(10)
	tickSize  = vg.Length(8.5)
	noteSize  = vg.Length(7.5)
)

func style(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: handler()}
}

func aligned(s text.Style, x text.XAlignment, y text.YAlignment) text.Style {
	s.XAlign, s.YAlign = x, y
	return s
}

func bold(s text.Style) text.Style { s.Font.Weight = xfont.WeightBold; return s }

// newPlot returns an empty plot in the style of this package.
func newPlot(title, x, y Markup) *plot.Plot {
	p := plot.New()
	p.TextHandler = handler()
	p.BackgroundColor = nil
	p.Title.Text = title
	p.Title.TextStyle = aligned(bold(style(titleSize, ink)), text.XCenter, text.YTop)
	p.Title.Padding = vg.Points(5)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color = ink
		axis.Width = vg.Points(0.6)
		axis.Padding = 0
		axis.Label.TextStyle.Font = style(labelSize, ink).Font
		axis.Label.TextStyle.Handler = handler()
		axis.Label.TextStyle.Color = ink
		axis.Label.Padding = vg.Points(2)
		axis.Tick.Label.Font = style(tickSize, ink).Font
		axis.Tick.Label.Handler = handler()
		axis.Tick.Label.Color = ink
		axis.Tick.Color = ink
		axis.Tick.Width = vg.Points(0.6)
		axis.Tick.Length = vg.Points(3.5)
	}
	p.X.Tick.Label.YAlign = -1.15 // Keeps labels off the ticks.
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Legend.TextStyle = style(tickSize, ink)
	p.Legend.ThumbnailWidth = vg.Points(18)
	p.Legend.Padding = vg.Points(4)
	p.Legend.YPosition = draw.PosCenter
	return p
}

func stroke(c color.Color, width float64, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: vg.Points(width), Dashes: dashes}
}
