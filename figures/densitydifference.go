package figures

import (
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

// DensityPair is the triplet densities of two runs, or of two groups of runs.
type DensityPair struct {
	Title         Markup
	First, Second Density
	// Nearer is the share of triplets with S_an > S_ap of the first and of the second, in percent.
	Nearer [2]float64
}

// differenceSquares is the number of squares on each axis over [−1, 1]. With few triplets, finer squares show
// noise.
const differenceSquares = 50

// DensityDifference draws the difference of two triplet densities, as Figure 5 has them, in one panel for each pair.
// The color of a square of 0.04 × 0.04 is the second density's share of triplets less that of the first, in
// percentage points: blue where the first has more, orange where the second has more, white where they are equal.
// Each panel has its own scale. The numbers are the shares of triplets above the diagonal, whose negative is nearer
// than their positive. Counts must be n×n with n a multiple of 50.
func DensityDifference(provenance string, first, second Markup, pairs ...DensityPair) (*Figure, error) {
	if len(pairs) == 0 {
		return nil, fmt.Errorf("difference of densities: no pairs; want at least one")
	}
	alt := fmt.Sprintf("Triplet diagrams of %s less %s, in points per square of S_ap and S_an.",
		Plain(second), Plain(first))
	plots, low := make([]square, len(pairs)), 1.0
	for i, pair := range pairs {
		if !finite(pair.Nearer[0] + pair.Nearer[1]) {
			return nil, fmt.Errorf("difference of densities, %s: the negative is nearer in %v %%; want finite shares",
				Plain(pair.Title), pair.Nearer)
		}
		values := make([]float64, differenceSquares*differenceSquares)
		for k, d := range []Density{pair.First, pair.Second} {
			side, shares, err := d.shares(differenceSquares)
			switch {
			case err != nil:
				return nil, fmt.Errorf("difference of densities, %s: %w", Plain(pair.Title), err)
			case side != differenceSquares:
				return nil, fmt.Errorf("difference of densities, %s: %d counts; want n×n, n a multiple of %d",
					Plain(pair.Title), len(d.Counts), differenceSquares)
			case slices.Max(shares) == 0:
				return nil, fmt.Errorf("difference of densities, %s: a density has no triplets; want at least one",
					Plain(pair.Title))
			}
			for i, share := range shares {
				values[i] += float64(2*k-1) * 100 * share
				if share > 0 {
					low = min(low, -1+2*float64(min(i/side, i%side))/differenceSquares)
				}
			}
		}
		moved, most := 0.0, 0.01
		for _, v := range values {
			most = max(most, math.Abs(v))
			moved += math.Abs(v) / 2
		}
		alt += fmt.Sprintf(" %s: %.0f %% of triplets lie elsewhere; the negative is nearer in %.1f and %.1f %%.",
			Plain(pair.Title), moved, pair.Nearer[0], pair.Nearer[1])
		b := &bar{low: -most, high: most, colors: diverging, label: "points"}
		plots[i] = square{newPlot(pair.Title, "", ""), b, barRoom}
		plots[i].X.LineStyle.Width, plots[i].Y.LineStyle.Width = 0, 0 // The panel draws its own frame.
		plots[i].Add(painter(func(c draw.Canvas, p *plot.Plot, _, _ place) {
			drawSquares(c, p, differenceSquares, func(cell int) color.NRGBA { return b.at(values[cell]) })
			diagonal(c)
			frame(c, c.Rectangle, stroke(ink, 0.6))
			s := aligned(style(noteSize, ink), text.XLeft, text.YTop)
			write(c, s, c.Min.X+5, c.Max.Y-4, "negative nearer:")
			for i, name := range []Markup{first, second} {
				line := fmt.Sprintf("%s %.1f %%", fitted(s, name, (c.Max.X-c.Min.X)/2), pair.Nearer[i])
				write(c, s, c.Min.X+5, c.Max.Y-14-vg.Length(i)*10, strings.TrimSpace(line))
			}
		}))
	}
	low = min(low, 0.8) // Shows at least a few squares.
	for _, p := range plots {
		squareAxes(p.Plot, low, 1, roundStep((1-low)/5))
	}
	return &Figure{
		Width: vg.Length(len(pairs))*vg.Points(282) + 12, Height: vg.Points(268) + noteRoom(provenance), Alt: alt,
		Provenance: provenance,
		panels: func(c draw.Canvas) {
			s := aligned(style(tickSize, ink), text.XLeft, text.YTop)
			x := c.Min.X
			for i, at := range []float64{0.2, 0.8} {
				fill(c, rect(x, c.Max.Y-9, x+9, c.Max.Y), diverging.at(at))
				label := fitted(s, [2]string{"− more of ", "+ more of "}[i]+[2]Markup{first, second}[i], (c.Max.X-c.Min.X)/2-22)
				write(c, s, x+13, c.Max.Y+1, label)
				x += 13 + s.Width(label) + 18
			}
			c.Max.Y -= 16
			squares(c, plots)
		},
	}, nil
}
