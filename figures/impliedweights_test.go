package figures

import (
	"math"
	"strings"
	"testing"
)

func TestImpliedWeights(t *testing.T) {
	const n = 31
	parts := func(title Markup, p, q func(s float64) float64, w func(x, y float64) float64) ImpliedParts {
		out := ImpliedParts{Title: title}
		at := func(i int) float64 { return float64(Midpoints(n)[i]) }
		for i := range n {
			out.PairPositive, out.PairNegative = append(out.PairPositive, p(at(i))), append(out.PairNegative, q(at(i)))
			for j := range n {
				out.Weight = append(out.Weight, w(at(i), at(j)))
			}
		}
		return out
	}
	cos := func(tau float64) func(x, y float64) float64 {
		return func(x, y float64) float64 { return 1 / (1 + math.Exp(tau*(x-y))) }
	}
	one := func(float64) float64 { return 1 }
	rows := []ImpliedRow{
		{parts("N-pair", one, one, cos(4)), parts("cos/con/cos", one, one, cos(1))},
		{parts("circle", func(s float64) float64 { return 1.4 - s }, func(s float64) float64 { return s + 0.4 }, cos(6)),
			parts("cos/lin/cir", func(s float64) float64 { return 2 - 2*s }, func(s float64) float64 { return 2 * s }, cos(2))},
	}
	f, err := ImpliedWeights("drawn from formulas", rows...)
	checkGolden(t, "impliedweights", f, err)
	if !strings.Contains(f.Alt, "circle beside cos/lin/cir") {
		t.Error(f.Alt)
	}
	if _, err := ImpliedWeights(""); err == nil {
		t.Error("nothing was drawn")
	}
	bad := rows[0]
	bad.Loss.Weight = bad.Loss.Weight[1:]
	if _, err := ImpliedWeights("", bad); err == nil || !strings.Contains(err.Error(), "n×n") {
		t.Errorf("%v", err)
	}
	bad = rows[1]
	bad.Loss.PairPositive = append([]float64{math.NaN()}, bad.Loss.PairPositive[1:]...)
	if _, err := ImpliedWeights("", bad); err == nil || !strings.Contains(err.Error(), "circle") {
		t.Errorf("%v", err)
	}
}
