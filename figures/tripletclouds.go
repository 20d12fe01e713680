package figures

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Density is how many triplets lie in each square of the triplet diagram over [−1, 1]².
type Density struct {
	// Counts are n×n of them, row by row from S_an = −1 upwards; S_ap runs fastest. Nil is a panel without triplets.
	Counts []int
	// Edge is the share of triplets with S_ap > 0.9, Corner that with S_an > 0.9 as well, in percent over runs.
	Edge, Corner Score
}

// DensityRow is a row of panels, one for each column of the figure.
type DensityRow struct {
	Title  Markup
	Panels []Density
}

// cloudCrowd is the similarity from which on the figure calls two images crowded together.
const cloudCrowd = 0.9

// TripletClouds is Figure 5: triplet diagrams with the triplets of training and of whole sets, a row for each rule and a
// column for each kind. Colour is the share of a panel's triplets in a square, on a logarithmic scale that all panels have in
// common; the darker the more, white is none. The dashed diagonal is S_an = S_ap.
func TripletClouds(provenance string, columns []Markup, rows ...DensityRow) (*Figure, error) {
	if len(rows) == 0 || len(columns) == 0 {
		return nil, fmt.Errorf("figure 5: %d rows of %d columns", len(rows), len(columns))
	}
	words := []string{"Figure 5. Triplets on the diagram of S_ap and S_an."}
	least, most, low := math.Inf(1), 0.0, 1.0
	panels := make([][]densityPanel, len(rows))
	for i, row := range rows {
		if len(row.Panels) != len(columns) {
			return nil, fmt.Errorf("figure 5, %s: %d panels for %d columns", Plain(row.Title), len(row.Panels), len(columns))
		}
		for j, d := range row.Panels {
			p, err := d.panel()
			if err != nil {
				return nil, fmt.Errorf("figure 5, %s, %s: %w", Plain(row.Title), Plain(columns[j]), err)
			}
			for cell, share := range p.shares {
				if share > 0 {
					least, most = min(least, share), max(most, share)
					low = min(low, p.similarity(cell%p.side), p.similarity(cell/p.side))
				}
			}
			panels[i] = append(panels[i], p)
			words = append(words, fmt.Sprintf("%s, %s: S_ap above 0.9 in %s, S_an as well in %s.", Plain(row.Title), Plain(columns[j]), percent(d.Edge), percent(d.Corner)))
		}
	}
	if most == 0 { // No triplet in any panel.
		least, most, low = 0.001, 0.1, 0
	}
	low = max(-1, math.Floor(low*10+1e-9)/10)
	colours := logBar{low: math.Log10(least) - 0.15, high: math.Log10(most)}
	plots := make([][]*plot.Plot, len(rows))
	for i := range rows {
		for j := range columns {
			title := Markup("")
			if i == 0 {
				title = columns[j]
			}
			p := newPlot(title, "$S_{ap}$", "$S_{an}$")
			p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low, 1, low, 1
			p.X.Tick.Marker, p.Y.Tick.Marker = every(0.2, low, 1), every(0.2, low, 1)
			p.X.LineStyle.Width, p.Y.LineStyle.Width = 0, 0 // The panel draws its frame.
			panels[i][j].colours = colours
			p.Add(panels[i][j])
			plots[i] = append(plots[i], p)
		}
	}
	const side, titleRoom, nameRoom = 178.0, 16.0, 20.0 // Of a panel with its labels, the titles, and the rows' names.
	return &Figure{
		Width:  vg.Points(float64(len(columns))*(side+14) + nameRoom + float64(barRoom) + 10),
		Height: vg.Points(float64(len(rows))*side + titleRoom + 14), Alt: strings.Join(words, " "), Provenance: provenance,
		panels: func(c draw.Canvas) {
			height := (c.Max.Y - c.Min.Y - titleRoom) / vg.Length(len(rows))
			after := make([]vg.Length, len(columns))
			for j := range after {
				after[j] = 8
			}
			after[len(after)-1] = barRoom + 4
			top := c.Max.Y
			var first, last draw.Canvas // Data areas at the ends of the last column.
			for i := range rows {
				line := c
				line.Max.Y = top
				line.Min.Y = top - height
				if i == 0 {
					line.Min.Y -= titleRoom
				}
				top = line.Min.Y
				line.Min.X += nameRoom
				parts := squares(line, plots[i], after)
				for j, part := range parts {
					drawPlot(plots[i][j], part)
					last = plots[i][j].DataCanvas(part)
				}
				if i == 0 {
					first = last
				}
				s := aligned(bold(style(titleSize+1, ink)), text.XCenter, text.YCenter)
				s.Rotation = math.Pi / 2
				c.FillText(s, vg.Point{X: c.Min.X + nameRoom/2, Y: last.Center().Y}, rows[i].Title)
			}
			last.Max.Y = first.Max.Y
			colours.draw(last, c)
		},
	}, nil
}

// densityPanel is a density as shares in squares of at least 0.02.
type densityPanel struct {
	Density
	side    int
	shares  []float64
	colours logBar
}

func (d Density) panel() (densityPanel, error) {
	p := densityPanel{Density: d}
	if d.Counts == nil {
		return p, nil
	}
	n := int(math.Round(math.Sqrt(float64(len(d.Counts)))))
	if n < 2 || n*n != len(d.Counts) {
		return p, fmt.Errorf("%d counts are no square of at least 2×2", len(d.Counts))
	}
	merge := 1
	if n > 100 && n%100 == 0 { // As large as a reader can see.
		merge = n / 100
	}
	p.side = n / merge
	p.shares = make([]float64, p.side*p.side)
	total := 0
	for i, count := range d.Counts {
		if count < 0 {
			return p, fmt.Errorf("a count of %d", count)
		}
		total += count
		p.shares[i/n/merge*p.side+i%n/merge] += float64(count)
	}
	for i := range p.shares {
		p.shares[i] /= float64(max(total, 1))
	}
	return p, nil
}

// similarity is that of the lower edge of a row or column.
func (d densityPanel) similarity(i int) float64 { return -1 + 2*float64(i)/float64(d.side) }

func (d densityPanel) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	low := p.X.Min
	if d.side > 0 {
		from := int(math.Floor((low+1)/2*float64(d.side) + 1e-9))
		n := d.side - from
		zoom := max(1, 384/n) // Pixels a square: viewers that smooth an image blur a square's edge only.
		img := image.NewNRGBA(image.Rect(0, 0, n*zoom, n*zoom))
		for row := range n * zoom {
			for column := range n * zoom {
				img.SetNRGBA(column, n*zoom-1-row, d.colours.at(d.shares[(from+row/zoom)*d.side+from+column/zoom]))
			}
		}
		at := vg.Point{X: x(d.similarity(from)), Y: y(d.similarity(from))}
		c.DrawImage(vg.Rectangle{Min: at, Max: c.Max}, img)
	}
	c.StrokeLine2(stroke(ink, 0.7, 4, 2.5), x(low), y(low), x(1), y(1))
	edge := stroke(Vermilion, 0.7)
	c.StrokeLine2(edge, x(cloudCrowd), y(low), x(cloudCrowd), y(1))
	c.StrokeLine2(edge, x(cloudCrowd), y(cloudCrowd), x(1), y(cloudCrowd))
	c.StrokeLines(stroke(ink, 0.6), []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}, c.Min})
	// The numbers stand below the diagonal at low S_ap, where a nearest positive is hardly ever so far and a nearest
	// negative farther.
	s := aligned(style(noteSize, ink), text.XRight, text.YCenter)
	for i, line := range []string{"both > 0.9:  " + percent(d.Corner), "$S_{ap}$ > 0.9:  " + percent(d.Edge)} {
		c.FillText(s, vg.Point{X: c.Min.X + 0.76*(c.Max.X-c.Min.X), Y: c.Min.Y + 8 + 11*vg.Length(i)}, line)
	}
}

// logBar is a scale of shares in colours, from log₁₀ low to log₁₀ high: pale to dark, white for none.
type logBar struct{ low, high float64 }

func (b logBar) at(share float64) color.NRGBA {
	if share <= 0 {
		return paper
	}
	return viridis.at(1 - (math.Log10(share)-b.low)/max(b.high-b.low, 1e-9))
}

// draw draws the bar to the right of a data area.
func (b logBar) draw(data, c draw.Canvas) {
	const gap, width, steps = vg.Length(8), vg.Length(9), 128
	r := vg.Rectangle{Min: vg.Point{X: data.Max.X + gap, Y: data.Min.Y}, Max: vg.Point{X: data.Max.X + gap + width, Y: data.Max.Y}}
	img := image.NewNRGBA(image.Rect(0, 0, 1, steps))
	for i := range steps {
		img.SetNRGBA(0, steps-1-i, b.at(math.Pow(10, b.low+(b.high-b.low)*(float64(i)+0.5)/steps)))
	}
	c.DrawImage(r, img)
	s := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	for power := -6; power <= 0; power++ {
		for _, digit := range []float64{1, 3} {
			v := digit * math.Pow10(power)
			at := math.Log10(v)
			if at < b.low || at > b.high {
				continue
			}
			y := r.Min.Y + (r.Max.Y-r.Min.Y)*vg.Length((at-b.low)/(b.high-b.low))
			c.StrokeLine2(stroke(ink, 0.6), r.Max.X, y, r.Max.X+2.5, y)
			c.FillText(s, vg.Point{X: r.Max.X + 4.5, Y: y}, number(100*v)+" %")
		}
	}
}
