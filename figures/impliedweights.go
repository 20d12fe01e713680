package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ImpliedParts are the pair weights and the triplet weight of a loss or of a rule on a grid of n similarities,
// [Midpoints]. (Endpoints are left out: at S = 1 a loss may be zero, or its distance have no derivative.)
type ImpliedParts struct {
	Title Markup
	// PairPositive is P₊ at each S_ap, PairNegative is P₋ at each S_an; both [n].
	PairPositive, PairNegative []float64
	// Weight is T, [n, n]; entry i*n+j belongs to the i-th S_ap and the j-th S_an. It is drawn relative to its largest
	// value.
	Weight []float64
}

// ImpliedRow is a loss and the rule that the paper gives for it, or the nearest rule.
type ImpliedRow struct{ Loss, Rule ImpliedParts }

// ImpliedWeights draws a row for each loss: the pair weights as curves, dashed for the rule, and the triplet weights
// of the loss and of the rule over S_ap × S_an, each relative to its largest value. It extends the paper's Table 1
// to any loss. Weights must be finite.
func ImpliedWeights(provenance string, rows ...ImpliedRow) (*Figure, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("implied weights: no losses; want at least one")
	}
	const height, gap = vg.Length(190), vg.Length(16) // The gap holds a label and a title.
	var panels [][]square
	var colors bar
	alt := "Pair weights and triplet weights of losses, beside those of rules:"
	for i, r := range rows {
		curves := newPlot("$P_+$ and $P_-$ of "+r.Loss.Title, "$S_{ap}$, $S_{an}$", "pair weight")
		setAxis(&curves.X, 0, 1, 0.25)
		curves.Y.Min = 0
		line := []square{{Plot: curves, after: 26}}
		for k, p := range []ImpliedParts{r.Loss, r.Rule} {
			n := len(p.PairPositive)
			if n < 2 || len(p.PairNegative) != n || len(p.Weight) != n*n {
				return nil, fmt.Errorf("implied weights %q: %d and %d pair weights, %d triplet weights; "+
					"want n, n and n×n, n at least 2", Plain(p.Title), n, len(p.PairNegative), len(p.Weight))
			}
			if err := allFinite("implied weights of "+Plain(p.Title), p); err != nil {
				return nil, err
			}
			for side, w := range [][]float64{p.PairPositive, p.PairNegative} {
				points := curve(n, func(j int) (x, y float64) { return (float64(j) + 0.5) / float64(n), w[j] })
				curves.Y.Max = max(curves.Y.Max, 1.6*slices.Max(w)) // Room for the legend.
				name := []Markup{"$P_+$", "$P_-$"}[side]
				// Where the curves coincide, the wide one shows on both sides of the narrow one.
				drawn := path(points, []draw.LineStyle{stroke(SkyBlue, 3.4), stroke(Vermilion, 1.5)}[side])
				if k == 1 {
					name, drawn.LineStyle = "rule", stroke(ink, 0.9, 3, 3)
				}
				if i == 0 && (k == 0 || side == 0) {
					curves.Legend.Add(name, drawn)
				}
				curves.Add(drawn)
			}
		}
		curves.Legend.Top = true
		curves.Y.Max = cmp.Or(curves.Y.Max, 1) // All pair weights are zero.
		span{0, curves.Y.Max}.scaled(&curves.Y, 4)
		for _, p := range []ImpliedParts{r.Loss, r.Rule} {
			panel, b, err := Diagram{Field: impliedField(p), Low: 0, High: 1, Levels: []float64{}}.plot()
			if err != nil {
				return nil, err
			}
			colors = b
			line = append(line, square{Plot: panel, after: 20})
		}
		line[2].bar, line[2].after = &colors, barRoom
		panels = append(panels, line)
		alt += fmt.Sprintf(" %s beside %s;", Plain(r.Loss.Title), Plain(r.Rule.Title))
	}
	return &Figure{
		Width: vg.Points(610), Height: height * vg.Length(len(rows)), Provenance: provenance,
		Alt: alt[:len(alt)-1] + ". Curves: P+ of the loss in light blue, P- in orange; those of the rule are dashed.",
		panels: func(c draw.Canvas) {
			c.Min.Y += gap
			for i, row := range stack(c, gap, len(panels)) {
				squares(row, panels[i])
			}
		},
	}, nil
}

// impliedField returns T relative to its largest value as the field of a triplet diagram, in ten bands. Their edges
// are lines of equal weight, and a picture with few colors makes a small file.
func impliedField(p ImpliedParts) Field {
	const side, bands = 151, 10
	n := len(p.PairPositive)
	largest := 0.0
	for _, v := range p.Weight {
		largest = max(largest, v)
	}
	f := Field{Title: "$T$ of " + p.Title, Values: make([]float32, side*side)}
	// Linear interpolation between grid points.
	at := func(k int) (i int, share float64) {
		x := min(max(float64(k)/(side-1)*float64(n)-0.5, 0), float64(n-1))
		i = min(int(x), n-2)
		return i, x - float64(i)
	}
	for row := range side {
		j, v := at(row)
		for column := range side {
			i, u := at(column)
			w := func(i, j int) float64 { return p.Weight[i*n+j] / cmp.Or(largest, 1) }
			t := (1-u)*((1-v)*w(i, j)+v*w(i, j+1)) + u*((1-v)*w(i+1, j)+v*w(i+1, j+1))
			f.Values[row*side+column] = float32((min(math.Floor(t*bands+1e-6), bands-1) + 0.5) / bands)
		}
	}
	return f
}

// Midpoints returns the centers of n equal parts of [0, 1], in order.
func Midpoints(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = (float32(i) + 0.5) / float32(n)
	}
	return out
}
