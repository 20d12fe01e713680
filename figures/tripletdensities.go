package figures

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Density is the number of triplets in each square of the triplet diagram over [−1, 1]².
type Density struct {
	// Counts are n×n counts, row by row from S_an = −1 upward, with S_ap along rows. Nil is a panel without triplets.
	Counts []int
	// Edge is the share of triplets with S_ap > 0.9, Corner that with S_an > 0.9 as well, in percent over runs.
	Edge, Corner stats.Mean
}

// DensityRow is a row of panels, one for each column of the figure.
type DensityRow struct {
	Title  Markup
	Panels []Density
}

// crowded is the similarity above which the figure calls two images crowded together.
const crowded = 0.9

// TripletDensities draws Figure 5: the densities of triplets on the triplet diagram, during training and of whole sets,
// with a row for each rule and a column for each kind of triplets. Color is the share of a panel's triplets in a
// square, on a logarithmic scale common to all panels: darker is more, white is none. The dashed diagonal is S_an =
// S_ap; the numbers are shares of triplets in percent.
func TripletDensities(provenance string, columns []Markup, rows ...DensityRow) (*Figure, error) {
	if len(rows) == 0 || len(columns) == 0 {
		return nil, fmt.Errorf("figure 5: %d rows of %d columns; want at least one of each", len(rows), len(columns))
	}
	words := []string{"Figure 5. Triplets on the diagram of S_ap and S_an."}
	least, most, low := math.Inf(1), 0.0, 1.0
	d := densities{columns: columns, rows: make([][]densityPanel, len(rows))}
	for i, row := range rows {
		d.names = append(d.names, row.Title)
		if len(row.Panels) != len(columns) {
			return nil, fmt.Errorf("figure 5, %s: %d panels for %d columns; want one for each", Plain(row.Title),
				len(row.Panels), len(columns))
		}
		for j, of := range row.Panels {
			p := densityPanel{Density: of}
			if of.Counts != nil {
				var err error
				if p.side, p.shares, err = of.shares(100); err != nil {
					return nil, fmt.Errorf("figure 5, %s, %s: %w", Plain(row.Title), Plain(columns[j]), err)
				}
			}
			for cell, share := range p.shares {
				if share > 0 {
					least, most = min(least, share), max(most, share)
					low = min(low, p.similarity(cell%p.side), p.similarity(cell/p.side))
				}
			}
			d.rows[i] = append(d.rows[i], p)
			words = append(words, fmt.Sprintf("%s, %s: S_ap above 0.9 in %s, S_an as well in %s.", Plain(row.Title),
				Plain(columns[j]), percent(of.Edge), percent(of.Corner)))
		}
	}
	if low = max(-1, math.Floor(low*10+1e-9)/10); most > 0 {
		d.colors = logBar{low: math.Floor(math.Log10(least)*logSteps) / logSteps,
			high: math.Floor(math.Log10(most)*logSteps+1) / logSteps}
	} else { // No panel has triplets.
		low = 0
	}
	d.low = low
	// Squares are a whole number of PNG pixels wide, so that their edges are sharp.
	const pixel = vg.Inch / PNGResolution
	squares := math.Round((1 - low) / 2 * 100)
	d.side = pixel * vg.Length(squares*max(1, math.Floor(150/squares/float64(pixel))))
	line := d.side + densityGap
	return &Figure{
		Width:  2*margin + densityName + densityAxis + vg.Length(len(columns))*line + barRoom,
		Height: 2*margin + densityTitle + vg.Length(len(rows))*line - densityGap + densityAxis + noteRoom(provenance),
		Alt:    strings.Join(words, " "), Provenance: provenance, panels: d.draw,
	}, nil
}

// densities are rows of panels that share their axes, with a title above each column and a name beside each row.
type densities struct {
	columns, names []Markup
	rows           [][]densityPanel
	colors         logBar
	low            float64 // The least similarity.
	side           vg.Length
}

const (
	densityGap, densityTitle = vg.Length(9), vg.Length(21)
	densityName, densityAxis = vg.Length(21), vg.Length(36)
)

func (d densities) draw(c draw.Canvas) {
	name := aligned(bold(style(titleSize+1, ink)), text.XCenter, text.YCenter)
	name.Rotation = math.Pi / 2
	data := c
	for i, row := range d.rows {
		for j, panel := range row {
			p := newPlot("", "", "")
			squareAxes(p, d.low, 1, 0.2)
			p.X.LineStyle.Width, p.Y.LineStyle.Width = 0, 0 // The panel draws its own frame.
			if i == 0 {
				p.Title.Text = fitted(p.Title.TextStyle, d.columns[j], d.side)
			}
			if i < len(d.rows)-1 { // Panels share their axes.
				p.X.Label.Text, p.X.Tick.Marker = "", unlabeled(every(0.2, d.low, 1))
			}
			if j > 0 {
				p.Y.Label.Text, p.Y.Tick.Marker = "", unlabeled(every(0.2, d.low, 1))
				if i == len(d.rows)-1 { // The first label would touch the last one of the panel before.
					ticks := every(0.2, d.low, 1)
					p.X.Tick.Marker = append(unlabeled(ticks[:1]), ticks[1:]...)
				}
			}
			p.Add(painter(func(c draw.Canvas, p *plot.Plot, x, y place) { d.panel(c, p, x, y, panel) }))
			data.Min = pt(c.Min.X+densityName+densityAxis+vg.Length(j)*(d.side+densityGap),
				c.Max.Y-densityTitle-vg.Length(i)*(d.side+densityGap)-d.side)
			data.Max = data.Min.Add(pt(d.side, d.side))
			drawPlot(p, around(p, c, data.Rectangle))
		}
		write(c, name, c.Min.X+densityName/2, data.Center().Y, fitted(name, d.names[i], d.side))
	}
	data.Max.Y = c.Max.Y - densityTitle // From the first panel to the last one.
	d.colors.draw(data, c)
}

// unlabeled removes the labels of ticks.
func unlabeled(ticks plot.ConstantTicks) plot.ConstantTicks {
	for i := range ticks {
		ticks[i].Label = " " // An empty label makes a short tick.
	}
	return ticks
}

// densityPanel is a density as shares.
type densityPanel struct {
	Density
	side   int
	shares []float64
}

// shares returns the number of squares on a side and the share of triplets in each, row by row. Squares that are too
// small to see are merged: to as many as fine on a side, if that divides the side of the counts.
func (d Density) shares(fine int) (side int, shares []float64, err error) {
	n := int(math.Round(math.Sqrt(float64(len(d.Counts)))))
	if n < 2 || n*n != len(d.Counts) {
		return 0, nil, fmt.Errorf("%d counts; want n×n, n at least 2", len(d.Counts))
	}
	if side = n; n%fine == 0 {
		side = fine
	}
	shares = make([]float64, side*side)
	total := 0
	for i, count := range d.Counts {
		if count < 0 {
			return 0, nil, fmt.Errorf("a count is %d; want 0 or more", count)
		}
		total += count
		shares[i/n*side/n*side+i%n*side/n] += float64(count)
	}
	for i := range shares {
		shares[i] /= float64(max(total, 1))
	}
	return side, shares, nil
}

// similarity returns the lower edge of a row or column.
func (d densityPanel) similarity(i int) float64 { return -1 + 2*float64(i)/float64(d.side) }

func (d densities) panel(c draw.Canvas, p *plot.Plot, x, y place, of densityPanel) {
	if of.side > 0 {
		drawSquares(c, p, of.side, func(cell int) color.NRGBA { return d.colors.at(of.shares[cell]) })
	}
	diagonal(c)
	edge := stroke(Vermilion, 0.7)
	c.StrokeLine2(edge, x(crowded), y(d.low), x(crowded), y(1))
	c.StrokeLine2(edge, x(crowded), y(crowded), x(1), y(crowded))
	frame(c, c.Rectangle, stroke(ink, 0.6))
	// The numbers are below the diagonal at low S_ap, where triplets are rare.
	s := aligned(style(noteSize, ink), text.XRight, text.YCenter)
	for i, line := range []string{"both > 0.9:  " + percent(of.Corner), "$S_{ap}$ > 0.9:  " + percent(of.Edge)} {
		write(c, s, c.Min.X+0.76*(c.Max.X-c.Min.X), c.Min.Y+8+11*vg.Length(i), line)
	}
}

// diagonal draws a line at equal similarities on a triplet diagram.
func diagonal(c draw.Canvas) {
	c.StrokeLine2(stroke(ink, 0.7, 4, 2.5), c.Min.X, c.Min.Y, c.Max.X, c.Max.Y)
}

// drawSquares draws the part of a triplet diagram over [−1, 1]², of side² squares, that a plot shows. of returns the
// color of a square, row by row from S_an = −1 upward.
func drawSquares(c draw.Canvas, p *plot.Plot, side int, of func(cell int) color.NRGBA) {
	x, y := p.Transforms(&c)
	from := int(math.Floor((p.X.Min+1)/2*float64(side) + 1e-9))
	low, n := -1+2*float64(from)/float64(side), side-from
	const pixels = 7
	img := raster(n, n, pixels, pixels, func(column, row int) color.NRGBA { return of((side-1-row)*side + from + column) })
	c.DrawImage(vg.Rectangle{Min: pt(x(low), y(low)), Max: c.Max}, img)
}

// logBar is a color scale of shares from log₁₀ low to log₁₀ high, pale to dark in steps, with white for zero.
// Steps can be read off the bar, and few colors make a small file. The zero value draws nothing.
type logBar struct{ low, high float64 }

// logSteps is the number of steps per power of ten.
const logSteps = 4

func (b logBar) at(share float64) color.NRGBA {
	if share <= 0 {
		return paper
	}
	step := math.Floor((math.Log10(share)-b.low)*logSteps + 1e-9)
	return viridis.at(1 - (step+0.5)/((b.high-b.low)*logSteps))
}

// draw draws the bar at the right of a data area.
func (b logBar) draw(data, c draw.Canvas) {
	if b == (logBar{}) {
		return
	}
	var ticks []plot.Tick
	for power := -6; power <= 0; power++ {
		for _, digit := range []float64{1, 3} {
			v := digit * math.Pow10(power)
			ticks = append(ticks, plot.Tick{Value: (math.Log10(v) - b.low) / (b.high - b.low), Label: number(100*v) + " %"})
		}
	}
	r := drawBar(data, c, ticks, func(f float64) color.NRGBA { return b.at(math.Pow(10, b.low+(b.high-b.low)*f)) })
	for i, line := range []string{"per square", "of triplets"} {
		write(c, aligned(style(noteSize, ink), text.XCenter, text.YBottom), r.Max.X+8, r.Max.Y+5+9*vg.Length(i), line)
	}
}
