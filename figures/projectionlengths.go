package figures

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Member is the member of a triplet at which a gradient acts, in the paper's index.
type Member string

// The members whose gradient has only one part.
const (
	PositiveMember Member = "p"
	NegativeMember Member = "n"
)

// Projected is a measurement of a unit gradient at a member of a triplet: its signed length along d_∥, which is the
// member's own embedding, and its length along d_⊥, which is orthogonal to it, with the triplet's similarities.
type Projected struct {
	Direction               string // euc, cos, euc-orth, cos-orth.
	Member                  Member
	Sap, San, Spn           float64
	Parallel, Perpendicular float64
}

// ParallelLength returns e·f, the length along d_∥ of a direction's unit gradient at a member, from the triplet's
// similarities. For euc and cos it follows the paper's appendix, except that the negative of cos has S_an where the
// paper prints S_ap:
//
//	euc  at p: (1−S_ap)/√(2−2S_ap) = √((1−S_ap)/2)    at n: −√((1−S_an)/2)
//	cos  at p: −S_ap                                   at n: S_an
//
// The appendix leaves out the orthogonal directions. They are the same at p, and at n, with
// q = 1−S_ap−S_an+S_pn = (f_a−f_n)·(f_a−f_p):
//
//	euc-orth: (S_an−1 − q(S_an−S_pn)/(2−2S_ap)) / √(2−2S_an − q²/(2−2S_ap))
//	cos-orth: (S_an+S_pn) / √(2+2S_ap)
//
// It returns NaN for an unknown direction, and where a difference or a projection of length zero leaves the direction
// undefined. [PerpendicularLength] is the length along d_⊥.
func ParallelLength(direction string, member Member, sap, san, spn float64) float64 {
	if member == PositiveMember {
		switch direction {
		case "euc", "euc-orth":
			return (1 - sap) / math.Sqrt(2-2*sap)
		case "cos", "cos-orth":
			return -sap
		}
	}
	q := 1 - sap - san + spn
	switch direction {
	case "euc":
		return (san - 1) / math.Sqrt(2-2*san)
	case "cos":
		return san
	case "euc-orth":
		return (san - 1 - q*(san-spn)/(2-2*sap)) / math.Sqrt(2-2*san-q*q/(2-2*sap))
	case "cos-orth":
		return (san + spn) / math.Sqrt(2+2*sap)
	}
	return math.NaN()
}

// PerpendicularLength returns √(1−l²) for a [ParallelLength] l.
func PerpendicularLength(parallel float64) float64 { return math.Sqrt(max(1-parallel*parallel, 0)) }

// ProjectionLengths draws the parts of the unit gradients along d_∥ (above) and d_⊥ (below) over the similarity
// of the pair, as the paper's appendix derives them: at the positive, at the negative, and at the negative under the
// orthogonal directions. The last panel has negatives with S_pn = S_an and one curve for each S_ap of the
// measurements, at most three. Lines are closed forms, points are measurements.
func ProjectionLengths(measured []Projected) (*Figure, error) {
	if err := allFinite("projection lengths", measured); err != nil {
		return nil, err
	}
	var saps []float64
	for i, m := range measured {
		if max(math.Abs(m.Sap), math.Abs(m.San), math.Abs(m.Spn)) > 1+1e-6 {
			return nil, fmt.Errorf("projection lengths: measurement %d is %+v; want similarities in [-1, 1]", i, m)
		}
		if strings.HasSuffix(m.Direction, "-orth") {
			seriesIndex(&saps, math.Round(m.Sap*1000)/1000)
		}
	}
	slices.Sort(saps)
	slices.Reverse(saps)
	if len(saps) > len(seriesDashes) {
		return nil, fmt.Errorf("projection lengths: orthogonal directions at %d S_ap; want at most %d",
			len(saps), len(seriesDashes))
	}
	colors := map[string]color.NRGBA{"euc": Vermilion, "cos": Blue, "euc-orth": Vermilion, "cos-orth": Blue}
	var rows [2][]*plot.Plot
	for column, panel := range []struct {
		title, x   Markup
		member     Member
		directions []string
		saps       []float64
	}{
		{"at the positive", "$S_{ap}$", PositiveMember, []string{"euc", "cos"}, []float64{math.NaN()}},
		{"at the negative", "$S_{an}$", NegativeMember, []string{"euc", "cos"}, []float64{math.NaN()}},
		{"at the negative, orthogonal", "$S_{an}$ = $S_{pn}$", NegativeMember, []string{"euc-orth", "cos-orth"}, saps},
	} {
		for row := range 2 {
			p := newPlot(panel.title, "", "along $d_\\parallel$")
			p.Y.Min, p.Y.Max = -1.05, 1.05
			if row == 1 {
				p = newPlot("", panel.x, "along $d_\\perp$")
				p.Y.Min, p.Y.Max = 0, 1.05
			}
			if column > 0 {
				p.Y.Label.Text = ""
			}
			setAxis(&p.X, -1, 1, 0.5)
			p.Y.Tick.Marker = every(0.5, p.Y.Min, 1)
			p.Add(lightGrid())
			for k, direction := range panel.directions {
				for d, sap := range panel.saps {
					l := path(projectionLine(direction, panel.member, sap, row == 1),
						stroke(colors[direction], 1.4, seriesDashes[d]...))
					p.Add(l)
					switch {
					case row == 0 && column == 0: // The colors are the same in all panels.
						p.Legend.Add(fmt.Sprintf(`$\mathbf{e}^{%s}$`, direction), l)
					case row == 0 && column == 2 && k == 0:
						dash := *l
						dash.Color = ink
						p.Legend.Add("$S_{ap}$ = "+number(sap), &dash)
					}
				}
				var points plotter.XYs
				for _, m := range measured {
					if m.Direction != direction || m.Member != panel.member {
						continue
					}
					at := plotter.XY{X: m.San, Y: m.Parallel}
					if panel.member == PositiveMember {
						at.X = m.Sap
					}
					if row == 1 {
						at.Y = m.Perpendicular
					}
					points = append(points, at)
				}
				p.Add(scatter(points, colors[direction], 1.9, ringed{measuredDots[k].Shape}))
			}
			if row == 0 && column == 0 && len(measured) > 0 {
				p.Legend.Add("measured", measuredDots)
			}
			setLegend(p, column == 2, true, 4, []float64{5, 5, 0}[column])
			rows[row] = append(rows[row], p)
		}
	}
	return &Figure{
		Width: vg.Points(560), Height: vg.Points(290),
		Alt: "Parts of the unit gradients along the member's own embedding, d_∥, and orthogonal to it, d_⊥, " +
			"over the similarity of the pair. At the positive and the negative, the cosine direction has no part along d_⊥ " +
			"at S = ±1, and the Euclidean one grows with S. The orthogonal directions have none at a negative that lies " +
			"between anchor and positive.",
		panels: func(c draw.Canvas) { drawRows(draw.Crop(c, 0, 0, 4, 0), rows[:], 4, 10, 1.1, 1, 1) },
	}, nil
}

// projectionLine returns a closed form over its whole range. For an orthogonal direction, sap is its S_ap and S_pn =
// S_an, which the length of (f_a+f_p)/2 bounds; for any other direction sap is NaN.
func projectionLine(direction string, member Member, sap float64, perpendicular bool) plotter.XYs {
	reach := 1.0
	if !math.IsNaN(sap) {
		reach = math.Sqrt((1 + sap) / 2)
	}
	const steps = 90
	var line plotter.XYs
	for i := range steps + 1 {
		// Equal steps of the angle rather than of S, since the curves are steep at their ends. At the ends themselves
		// they may not be defined.
		s := reach * math.Cos(math.Pi*(1-(float64(i)+1e-4)/(steps+2e-4)))
		l := ParallelLength(direction, member, s, s, s)
		if !math.IsNaN(sap) {
			l = ParallelLength(direction, member, sap, s, s)
		}
		if perpendicular {
			l = PerpendicularLength(l)
		}
		if !math.IsNaN(l) {
			line = append(line, plotter.XY{X: s, Y: l})
		}
	}
	return line
}
