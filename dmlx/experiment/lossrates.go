package experiment

import "github.com/gradient-surgery/dml/dmlx/losses"

// lossRate is a loss's learning rate by that of the rule cos/con/con, and that of its proxies by its own.
type lossRate struct{ times, proxies float64 }

var lossRatesOf = map[string]lossRate{}

// lossRates are the learning rates of a spec's loss and of its proxies.
func (p Preset) lossRates(s Spec) (lr, proxyLR float64, err error) {
	l, err := losses.Parse(s.Loss)
	if err != nil {
		return 0, 0, err
	}
	r, known := lossRatesOf[l.Name]
	if !known {
		r = lossRate{1, 1}
	}
	lr = r.times * p.rate(s.Data, "cos/con/con")
	if losses.PerClass(l) > 0 {
		proxyLR = r.proxies * lr
	}
	return lr, proxyLR, nil
}
