package figures

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ErrorRate is the errors of a threshold of similarity, as fractions: of pairs of different classes above it, and of
// pairs of a class below it.
type ErrorRate struct{ FMR, FNMR float64 }

// ErrorRates draws the errors of thresholds of similarity: the false non-match rate over the false match rate on a
// logarithmic axis. The paper has no such figure.
func ErrorRates(points []ErrorRate, provenance string) (*Figure, error) {
	if len(points) == 0 || points[0].FMR <= 0 {
		return nil, fmt.Errorf("error rates: want points, from a false match rate above 0 on")
	}
	p := newPlot("Errors of one threshold", "false match rate, %", "false non-match rate, %")
	xy := curve(len(points), func(i int) (x, y float64) { return math.Log10(points[i].FMR), 100 * points[i].FNMR })
	p.X.Min, p.X.Max = math.Floor(xy[0].X), 0
	var ticks plot.ConstantTicks
	for k := p.X.Min; k <= 0; k++ {
		ticks = append(ticks, plot.Tick{Value: k, Label: fmt.Sprintf("%.4g", math.Pow(10, k+2))})
	}
	p.X.Tick.Marker = ticks
	setAxis(&p.Y, 0, 100, 20)
	addPath(p, "", xy, stroke(Blue, 1.5))
	first, middle := points[0], points[len(points)/2]
	return &Figure{
		Width: vg.Points(400), Height: vg.Points(260) + noteRoom(provenance), Provenance: provenance,
		Alt: fmt.Sprintf("The false non-match rate over the false match rate: %.3g %% at %.3g %%, %.3g %% at %.3g %%.",
			100*first.FNMR, 100*first.FMR, 100*middle.FNMR, 100*middle.FMR),
		panels: func(c draw.Canvas) { drawPlot(p, c) },
	}, nil
}
