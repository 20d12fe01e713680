package figures

import (
	"math"
	"strings"
	"testing"
)

func TestMSWeights(t *testing.T) {
	var curves []WeightCurve
	for _, delta := range []float64{0, 0.1} {
		sig, lin := WeightCurve{Pair: "sig-ms", Delta: delta}, WeightCurve{Pair: "lin-ms", Delta: delta}
		for i := range 41 {
			s := float64(i) / 40
			sig.S, lin.S = append(sig.S, s), append(lin.S, s)
			sig.Positive = append(sig.Positive, 1/(math.Exp(2*delta)+math.Exp(2*(s-0.5))))
			sig.Negative = append(sig.Negative, 1/(math.Exp(-10*delta)+math.Exp(-10*(s-0.5))))
			lin.Positive, lin.Negative = append(lin.Positive, (1-delta)*(1-s)), append(lin.Negative, (1+delta)*s)
		}
		curves = append(curves, sig, lin)
	}
	f, err := MSWeights(curves...)
	checkGolden(t, "msweights", f, err)
	if _, err := MSWeights(); err == nil {
		t.Error("no curve was drawn")
	}
	curves[1].Negative = curves[1].Negative[1:]
	if _, err := MSWeights(curves...); err == nil || !strings.Contains(err.Error(),
		"lin-ms at ΔS = 0 has 41 similarities, 41 P₊ and 40 P₋") {
		t.Errorf("a weight too few: %v", err)
	}
	curves[0].Positive[3] = math.Inf(1)
	if _, err := MSWeights(curves...); err == nil || !strings.Contains(err.Error(), "Positive[3] is +Inf") {
		t.Errorf("an infinite weight: %v", err)
	}
}

func TestInstability(t *testing.T) {
	set := func(data string, growth float64) NormPanel {
		p := NormPanel{Data: data}
		for k, pair := range []string{"sig-ms", "sig", ""} {
			c := NormCurve{Name: "MS loss as published", Pair: pair}
			if pair != "" {
				c.Name = PairLabel(pair)
			}
			for _, beta := range []float64{2, 5, 10, 20} {
				size := 0.1
				if k == 0 {
					size *= math.Exp(growth * beta)
				}
				c.Beta, c.Norms = append(c.Beta, beta), append(c.Norms,
					[]float64{0.8 * size, size, (1.1 + 0.01*beta*float64(k+1)) * size})
			}
			p.Curves = append(p.Curves, c)
		}
		return p
	}
	f, err := Instability("made-up batches", set("minicar", 0.2), set("minishop", 0.4))
	checkGolden(t, "instability", f, err)
	for want, spoil := range map[string]func(*NormPanel){
		"a norm is NaN":        func(p *NormPanel) { p.Curves[1].Norms[2][0] = math.NaN() },
		"1 norms":              func(p *NormPanel) { p.Curves[0].Norms[0] = []float64{1} },
		"4 β and 3 norms":      func(p *NormPanel) { p.Curves[2].Norms = p.Curves[2].Norms[1:] },
		"have the norm 1":      func(p *NormPanel) { p.Curves[0].Norms[0] = []float64{1, 1} },
		"sig-ms on bad at β =": func(p *NormPanel) { p.Curves[0].Beta[0] = 0 },
	} {
		p := set("bad", 0.1)
		spoil(&p)
		if _, err := Instability("", p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, not %v", want, err)
		}
	}
}
