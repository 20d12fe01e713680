package presets

import (
	"testing"

	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/objectives"
)

func TestLossRates(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		p, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, loss := range losses.Names() {
			s, err := p.ObjectiveSpec(p.FineGrained, lossOf(t, loss), 1)
			if err != nil || !(s.LR > 0) || (s.ProxyLR > 0) != (losses.PerClass(must(losses.Parse(loss))) > 0) {
				t.Errorf("%s, %s: %+v, %v", name, loss, s, err)
			}
		}
	}
	p, _ := Parse("quick")
	// 0.3 · 0.5/10.6 for InfoNCE, 0.75/0.3 of that with a linear pair weight; four times 0.3 · 0.5/19.8.
	for _, c := range []struct {
		loss, exchange string
		lr, proxies    float64
	}{
		{"info-nce", "", 0.014, 0}, {"info-nce", ", direction=cos-orth&triplet=cir", 0.014, 0},
		{"info-nce", ", pair=lin-ms", 0.035, 0}, {"norm-softmax", "", 0.03, 0.03},
	} {
		s, err := p.ObjectiveSpec("minicar", lossOf(t, c.loss+c.exchange), 1)
		if err != nil || s.LR != c.lr || s.ProxyLR != c.proxies {
			t.Errorf("%s %s: rates %g and %g, %v, want %g and %g", c.loss, c.exchange, s.LR, s.ProxyLR, err, c.lr, c.proxies)
		}
	}
}

// lossOf returns a loss as an objective.
func lossOf(t *testing.T, text string) Objective {
	t.Helper()
	o, err := objectives.ParseLoss(text)
	if err != nil {
		t.Fatal(err)
	}
	return Objective{Objective: o}
}

func must[T any](v T, _ error) T { return v }
