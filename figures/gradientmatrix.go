package figures

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Matrix is the gradient matrix M of a batch of n. The gradient at the embeddings is G = M f.
type Matrix struct {
	Title  Markup
	Values []float32 // [n, n] row by row: entry (i, j) is the coefficient of f_j in the gradient of f_i.
	Labels []int64   // [n]
}

// GradientMatrix draws gradient matrices in rows of two as heat maps on one scale, with white at zero. Rows and columns
// are sorted by class, in the order of the batch within a class, and lines separate the classes. Each matrix is [n,
// n] for n labels; values must be finite. The paper has no such figure.
func GradientMatrix(matrices ...Matrix) (*Figure, error) {
	if len(matrices) == 0 {
		return nil, fmt.Errorf("gradient matrix: no matrices; want at least one")
	}
	top := 0.0
	for _, m := range matrices {
		n := len(m.Labels)
		if n == 0 || len(m.Values) != n*n {
			return nil, fmt.Errorf("gradient matrix %q: %d values for %d labels; want [n, n] values for n labels",
				Plain(m.Title), len(m.Values), n)
		}
		if err := allFinite("gradient matrix "+Plain(m.Title), m.Values); err != nil {
			return nil, err
		}
		top = max(top, float64(slices.Max(m.Values)), -float64(slices.Min(m.Values)))
	}
	top = cmp.Or(top, 1) // A batch without triplets.
	colors := bar{low: -top, high: top, colors: diverging}
	none := plot.ConstantTicks{}
	var panels []square
	for _, m := range matrices {
		p := newPlot(m.Title, "along $\\mathbf{f}_j$", "gradient at $\\mathbf{f}_i$")
		n := float64(len(m.Labels))
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, n, 0, n
		p.X.Tick.Marker, p.Y.Tick.Marker = none, none
		p.X.LineStyle.Width, p.Y.LineStyle.Width = 0, 0
		p.Add(painter(func(c draw.Canvas, _ *plot.Plot, _, _ place) { m.draw(c, colors) }))
		panels = append(panels, square{Plot: p, after: 14})
	}
	across, width, high := min(2, len(panels)), 250.0, 270.0 // A notebook's page has room for two, and three small ones.
	if len(panels) == 3 {
		across, width, high = 3, 190, 210
	}
	rows := slices.Collect(slices.Chunk(panels, across))
	for _, row := range rows {
		row[len(row)-1].bar, row[len(row)-1].after = &colors, barRoom+8
	}
	const gap = vg.Length(12) // Between rows.
	return &Figure{
		Width: vg.Points(width*float64(across) + 50), Height: vg.Points(high*float64(len(rows))) - gap,
		Alt: "The gradient matrix M of a batch, sorted by class: a blue entry (i, j) pulls f_i towards f_j, " +
			"an orange one pushes it away, since the gradient is descended.",
		panels: func(c draw.Canvas) {
			for i, line := range stack(c, gap, len(rows)) {
				line.Max.X -= (c.Max.X - c.Min.X - barRoom) / vg.Length(across) * vg.Length(across-len(rows[i]))
				squares(line, rows[i])
			}
		},
	}, nil
}

// draw draws the matrix with lines between its classes.
func (m Matrix) draw(c draw.Canvas, colors bar) {
	n := len(m.Labels)
	order := sorted(n, func(a, b int) int { return cmp.Compare(m.Labels[a], m.Labels[b]) })
	zoom := max(1, 384/n) // Each cell has several pixels, so that viewers that smooth images blur only its edges.
	c.DrawImage(c.Rectangle, raster(n, n, zoom, zoom, func(column, row int) color.NRGBA {
		return colors.at(float64(m.Values[order[row]*n+order[column]]))
	}))
	labels := make([]int64, n)
	for i, k := range order {
		labels[i] = m.Labels[k]
	}
	classLines(c, labels)
	frame(c, c.Rectangle, stroke(ink, 0.6))
}

// sorted returns the numbers below n in an order, equal ones in their own.
func sorted(n int, order func(a, b int) int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, order)
	return out
}

// classLines draws lines between the classes on the matrix of a batch, which fills a canvas.
func classLines(c draw.Canvas, labels []int64) {
	n := vg.Length(len(labels))
	line := stroke(quiet, 0.35)
	for i := 1; i < len(labels); i++ {
		if labels[i] != labels[i-1] {
			x, y := (c.Max.X-c.Min.X)*vg.Length(i)/n, (c.Max.Y-c.Min.Y)*vg.Length(i)/n
			c.StrokeLine2(line, c.Min.X+x, c.Min.Y, c.Min.X+x, c.Max.Y)
			c.StrokeLine2(line, c.Min.X, c.Max.Y-y, c.Max.X, c.Max.Y-y)
		}
	}
}

// OverLargest divides a matrix by its largest magnitude, so that several matrices can share a color scale. A zero
// matrix stays zero.
func OverLargest(values []float32) []float32 {
	largest := float32(0)
	for _, v := range values {
		largest = max(largest, v, -v)
	}
	out := make([]float32, len(values))
	for i, v := range values {
		if largest > 0 {
			out[i] = v / largest
		}
	}
	return out
}
