package figures

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"

	ximage "golang.org/x/image/draw"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Field is a function on a triplet diagram, the square with S_ap to the right and S_an upward.
type Field struct {
	Title Markup
	// Min and Max are the range of both similarities. If both are zero, the range is 0 to 1.
	Min, Max float64
	// Values are n×n values at the points of [SimilarityGrid], in its order. NaN and infinite ones are drawn in gray,
	// which a note says.
	Values []float32
	Hue    Hue
}

// Hue is the color of a weight, as on the page: one quantity has one color.
type Hue int

// What a field shows: a triplet weight, the pull P₊T or the push P₋T.
const (
	HueWeight Hue = iota
	HuePull
	HuePush
)

// notFinite returns the index of the first value that cannot be drawn, −1 without one.
func notFinite[T float32 | float64](values []T) int {
	return slices.IndexFunc(values, func(v T) bool { return !finite(v) })
}

// SimilarityGrid returns the points of a triplet diagram: n×n triplets with S_ap and S_an from low to high in equal
// steps, row by row with S_ap along rows. Weights at these points make a [Field].
func SimilarityGrid(low, high float64, n int) (sap, san []float32) {
	sap, san = make([]float32, n*n), make([]float32, n*n)
	at := func(i int) float32 {
		if n == 1 {
			return float32(low)
		}
		return float32(low + (high-low)*float64(i)/float64(n-1))
	}
	for i := range n * n {
		sap[i], san[i] = at(i%n), at(i/n)
	}
	return sap, san
}

func (f Field) bounds() (low, high float64) {
	if f.Min == 0 && f.Max == 0 {
		return 0, 1
	}
	return f.Min, f.Max
}

func (f Field) side() int { return int(math.Round(math.Sqrt(float64(len(f.Values))))) }

func (f Field) check() error {
	low, high := f.bounds()
	if n := f.side(); n < 2 || n*n != len(f.Values) {
		return fmt.Errorf("triplet diagram %q: %d values; want n×n, n at least 2", Plain(f.Title), len(f.Values))
	}
	if !(low < high) || math.IsInf(low, 0) || math.IsInf(high, 0) {
		return fmt.Errorf("triplet diagram %q: similarities from %v to %v; want a finite, increasing range", Plain(f.Title),
			low, high)
	}
	return nil
}

// gaps says where values are not finite; empty if all are.
func (f Field) gaps() string {
	first, count := notFinite(f.Values), 0
	if first < 0 {
		return ""
	}
	for _, v := range f.Values {
		if !finite(v) {
			count++
		}
	}
	return fmt.Sprintf("Gray: not a finite number at %d of %d points, such as S_ap = %.3g, S_an = %.3g.", count,
		len(f.Values), f.place(first%f.side()), f.place(first/f.side()))
}

// extent returns the range of the finite values, which is empty without any.
func (f Field) extent() span {
	values := spanOf()
	for _, v := range f.Values {
		values.add(float64(v))
	}
	return values
}

// place returns the similarity of a column or a row.
func (f Field) place(i int) float64 {
	low, high := f.bounds()
	return low + (high-low)*float64(i)/float64(f.side()-1)
}

// Triplets are the similarities of a batch's triplets, drawn as points on a diagram. Both slices have the same
// length.
type Triplets struct{ Sap, San []float32 }

// Diagram is the content of a triplet diagram.
type Diagram struct {
	Field Field
	// Low and High are the values at the ends of the color scale. If both are zero, they are the range of the field.
	Low, High float64
	// Levels are the values along which lines are drawn; if nil, five round ones; if empty, none.
	Levels []float64
	// Triplets are drawn over the field.
	Triplets Triplets
}

// TripletDiagram draws a weight of a rule, such as T, P₊T or P₋T, in colors over S_ap × S_an, with lines of
// equal weight, and the triplets of a batch as points. Figure 3 consists of such diagrams. A field with negative
// values has a scale symmetric about zero.
func TripletDiagram(d Diagram) (*Figure, error) {
	panel, colors, err := d.plot()
	if err != nil {
		return nil, err
	}
	gaps := d.Field.gaps()
	return &Figure{
		Width: vg.Points(292), Height: vg.Points(252), Provenance: gaps,
		Alt: strings.TrimSpace(fmt.Sprintf("Triplet diagram: %s over the similarities of the anchor-positive pair, S_ap, "+
			"and of the anchor-negative pair, S_an. %s", Plain(d.Field.Title), gaps)),
		panels: func(c draw.Canvas) { squares(c, []square{{panel, &colors, barRoom}}) },
	}, nil
}

// plot returns the diagram and its color bar.
func (d Diagram) plot() (*plot.Plot, bar, error) {
	if err := d.Field.check(); err != nil {
		return nil, bar{}, err
	}
	if len(d.Triplets.Sap) != len(d.Triplets.San) {
		return nil, bar{}, fmt.Errorf("triplet diagram: %d S_ap but %d S_an; want equally many", len(d.Triplets.Sap),
			len(d.Triplets.San))
	}
	values := span{d.Low, d.High}
	if values == (span{}) {
		values = d.Field.extent()
	}
	var b bar
	if values.low <= values.high {
		b = newBar(values.low, values.high, values.low < 0, hues[d.Field.Hue])
		if b.levels = d.Levels; b.levels == nil {
			b.levels = roundLevels(b.low, b.high)
		}
	}
	low, high := d.Field.bounds()
	p := newPlot(d.Field.Title, "", "")
	squareAxes(p, low, high, roundStep((high-low)/4))
	p.Add(field{d.Field, d.Field.side(), b})
	if len(d.Triplets.Sap) > 0 {
		p.Add(painter(d.Triplets.draw))
	}
	return p, b, nil
}

// field draws the colors and the labeled lines of equal value.
type field struct {
	Field
	n   int // Its side.
	bar bar
}

// at returns the value at a column and a row.
func (f field) at(column, row int) float64 { return float64(f.Values[row*f.n+column]) }

func (f field) Plot(c draw.Canvas, p *plot.Plot) {
	c.DrawImage(c.Rectangle, smooth(raster(f.n, f.n, 1, 1, func(column, row int) color.NRGBA {
		return f.bar.at(f.at(column, f.n-1-row))
	}), 301))
	x, y := p.Transforms(&c)
	s := aligned(style(noteSize, ink), text.XCenter, text.YCenter)
	for _, level := range f.bar.levels {
		line := stroke(f.contrast(level), 0.7)
		for _, s := range f.contour(level) {
			c.StrokeLine2(line, x(s[0]), y(s[1]), x(s[2]), y(s[3]))
		}
		if column, row, ok := f.crossing(level); ok {
			low, high := f.bounds()
			at := pt(x(low+(high-low)*column), y(low+(high-low)*row))
			half := pt(s.Width(number(level))/2+1.5, 4)
			fill(c, vg.Rectangle{Min: at.Sub(half), Max: at.Add(half)}, f.bar.at(level)) // Interrupts the line.
			s.Color = f.contrast(level)
			c.FillText(s, at, number(level))
		}
	}
}

// contour returns the segments x1, y1, x2, y2 of a line of equal value. Where a value is not finite there is none.
func (f field) contour(level float64) (out [][4]float64) {
	corners := [4][2]int{{0, 0}, {1, 0}, {1, 1}, {0, 1}} // Of a cell, around.
	for row := range f.n - 1 {
		for column := range f.n - 1 {
			var cuts [][2]float64
			for k, from := range corners {
				to := corners[(k+1)%4]
				c1, r1, c2, r2 := column+from[0], row+from[1], column+to[0], row+to[1]
				a, b := f.at(c1, r1), f.at(c2, r2)
				if !finite(a) || !finite(b) {
					cuts = nil
					break
				}
				if (a < level) != (b < level) {
					t := (level - a) / (b - a)
					between := func(i, j int) float64 { return f.place(i) + t*(f.place(j)-f.place(i)) }
					cuts = append(cuts, [2]float64{between(c1, c2), between(r1, r2)})
				}
			}
			for ; len(cuts) > 1; cuts = cuts[2:] {
				out = append(out, [4]float64{cuts[0][0], cuts[0][1], cuts[1][0], cuts[1][1]})
			}
		}
	}
	return out
}

// contrast returns the color of text on the color of a value.
func (f field) contrast(value float64) color.NRGBA { return inkOn(f.bar.at(value)) }

// inkOn returns black or white, whichever contrasts more with a color by WCAG's ratio of luminances: 4.5 and more.
func inkOn(k color.NRGBA) color.NRGBA {
	linear := func(v uint8) float64 { return math.Pow(float64(v)/255, 2.2) }
	if (0.2126*linear(k.R)+0.7152*linear(k.G)+0.0722*linear(k.B)+0.05)/0.05 < math.Sqrt(1.05/0.05) {
		return paper
	}
	return color.NRGBA{A: 0xff}
}

// crossing returns the point where a level crosses the diagonal from the top left to the bottom right. Coordinates are
// fractions of the range; points near the frame do not count, and jumps, where all levels meet, neither.
func (f field) crossing(level float64) (x, y float64, ok bool) {
	jump := math.Inf(1)
	if l := f.bar.levels; len(l) > 1 {
		jump = 2 * (l[1] - l[0])
	}
	for column := range f.n - 1 {
		row := f.n - 1 - column
		a, b := f.at(column, row), f.at(column+1, row-1)
		if a == b || (a-level)*(b-level) > 0 || !finite(a+b) || math.Abs(a-b) > jump {
			continue
		}
		share := (a - level) / (a - b)
		x, y = (float64(column)+share)/float64(f.n-1), (float64(row)-share)/float64(f.n-1)
		if min(x, y) > 0.04 && max(x, y) < 0.96 {
			return x, y, true
		}
	}
	return 0, 0, false
}

// smooth enlarges an image by bilinear interpolation to the given width, since viewers do not interpolate.
func smooth(img image.Image, width int) image.Image {
	if img.Bounds().Dx() >= width {
		return img
	}
	out := image.NewNRGBA(image.Rect(0, 0, width, width))
	ximage.BiLinear.Scale(out, out.Rect, img, img.Bounds(), ximage.Src, nil)
	return out
}

// draw draws the triplets of a batch that lie on the diagram.
func (t Triplets) draw(c draw.Canvas, _ *plot.Plot, x, y place) {
	glyph := draw.GlyphStyle{Color: Vermilion, Radius: vg.Points(1.9), Shape: ringed{draw.CircleGlyph{}}}
	for i := range t.Sap {
		at := pt(x(float64(t.Sap[i])), y(float64(t.San[i])))
		if c.Contains(at) {
			c.DrawGlyphNoClip(glyph, at)
		}
	}
}

// bar is a color scale of values. The zero value is that of none, and draws nothing.
type bar struct {
	low, high float64
	colors    scale
	levels    []float64
	label     Markup
}

// newBar returns a scale from low to high; that of signed values is symmetric about zero.
func newBar(low, high float64, signed bool, colors scale) bar {
	if signed {
		high = max(high, -low)
		low, colors = -high, diverging
	}
	if !(low < high) { // A constant has the middle color.
		low, high = low-0.5, high+0.5
	}
	return bar{low: low, high: high, colors: colors}
}

func (b bar) at(v float64) color.NRGBA { return b.colors.at((v - b.low) / (b.high - b.low)) }

// barRoom is the width of a bar with its gap and its numbers.
const barRoom = vg.Length(42)

// draw draws the bar at the right of a panel's data area.
func (b bar) draw(data, panel draw.Canvas) {
	if b.colors == nil {
		return
	}
	var ticks []plot.Tick
	for _, v := range roundLevels(b.low, b.high) {
		ticks = append(ticks, plot.Tick{Value: (v - b.low) / (b.high - b.low), Label: number(v)})
	}
	r := drawBar(data, panel, ticks, b.colors.at)
	write(panel, aligned(style(tickSize, ink), text.XCenter, text.YBottom), center(r).X, r.Max.Y+4, b.label)
}

// drawBar draws a color bar at the right of a panel's data area, and returns its place. Colors and the places of ticks
// are by the share of its length; ticks outside 0 to 1 are left out.
func drawBar(data, panel draw.Canvas, ticks []plot.Tick, colors func(float64) color.NRGBA) vg.Rectangle {
	const gap, width, steps = vg.Length(8), vg.Length(9), 128
	r := rect(data.Max.X+gap, data.Min.Y, data.Max.X+gap+width, data.Max.Y)
	panel.DrawImage(r, raster(1, steps, 1, 1, func(_, row int) color.NRGBA {
		return colors((float64(steps-1-row) + 0.5) / steps)
	}))
	s, last := aligned(style(tickSize, ink), text.XLeft, text.YCenter), vg.Length(math.Inf(-1))
	for _, t := range ticks {
		if t.Value < 0 || t.Value > 1 {
			continue
		}
		y := r.Min.Y + (r.Max.Y-r.Min.Y)*vg.Length(t.Value)
		panel.StrokeLine2(stroke(ink, 0.6), r.Max.X, y, r.Max.X+2.5, y)
		if y-last >= tickSize { // A low bar has no room for all labels.
			write(panel, s, r.Max.X+4.5, y, t.Label)
			last = y
		}
	}
	return r
}

// roundStep returns the least number not below x that is 1, 2, 2.5 or 5 times a power of ten.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// roundLevels returns about five round values strictly between low and high.
func roundLevels(low, high float64) []float64 {
	step := roundStep((high - low) / 6)
	var out []float64
	for i := math.Floor(low/step) + 1; i*step < high-1e-9*(high-low); i++ {
		if v := i * step; v > low+1e-9*(high-low) {
			out = append(out, v)
		}
	}
	return out
}

// number writes a value in three digits with a typographic minus sign.
func number(v float64) string {
	s := fmt.Sprintf("%.3g", math.Abs(v))
	if v < 0 && s != "0" {
		return "−" + s
	}
	return s
}
