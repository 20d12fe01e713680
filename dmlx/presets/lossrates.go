package presets

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
)

// recordedSizes are the sums of T_a over the anchors that losses imply with their published parameters (see
// composeloss.go in package dmlx), as they were measured before the first runs of these losses: on the first batch of
// the quick preset, with the initial network and proxies, as the mean of minicar and minishop, which differ by at most
// a fifth. A loss with a larger size needs a smaller learning rate. The size of any other loss is measured when it is
// specified; it does not belong here.
var recordedSizes = map[string]float64{
	"contrastive": 0.57, "triplet": 2, "triplet-soft": 0.5, "n-pair": 0.89, "info-nce": 10.6, "lifted": 6.7,
	"lifted-general": 1.2, "margin": 0.48, "ms": 0.87, "circle": 77, "binomial": 9, "nca": 1.7, "sup-con": 5.8,
	"proxy-nca": 2, "proxy-nca++": 17.9, "proxy-anchor": 16.7, "soft-triple": 26.5, "norm-softmax": 19.8,
	"arcface": 59.5,
}

// ruleSize is the same sum for the rule cos/con/con.
const ruleSize = 0.5

// The factors of the learning rates of losses over those by size. They were chosen once for all losses of a kind, by
// Recall@1 on held-out training classes (one in four of minicar's; 256 images, so that one image is 0.4 points), with
// one seed and ten of the 24 epochs of the quick preset:
//
//	                    once   4 times
//	contrastive         87.9   87.9
//	triplet, semi-hard  93.4   89.5
//	info-nce            91.8   91.8
//	ms, mined           91.4   91.4
//	circle              92.6   92.6
//
//	proxies' rate:      once   10 times | 4 times: once   10 times
//	proxy-nca++         85.5   86.3                91.4   90.6
//	proxy-anchor        89.1   91.0                90.6   89.1
//	norm-softmax               87.1                89.5   91.0
//
// So losses of pairs and triplets keep the rate by size. Losses with proxies whose size is recorded have four times
// that rate, for the network and the proxies alike. Test classes were not used.
const (
	proxyRateFactor    = 4
	proxyToNetworkRate = 1
)

// rates returns the learning rates of an objective on a data set: of the network and of the loss's proxies.
func (p Preset) rates(data string, o Objective) (lr, proxyLR float64, err error) {
	given := cmp.Or(o.LR, p.LR)
	if o.IsRule() {
		if given == 0 {
			given, err = p.ruleRate(data, o.Objective)
		}
		return given, 0, err
	}
	if given == 0 {
		given = p.Rate(data, o.Objective.String())
	}
	name, _, _ := strings.Cut(o.Loss, "?")
	factor, scale := 1., recordedSizes[name]/ruleSize
	if scale == 0 {
		if scale, err = o.Scale(); err != nil {
			return 0, 0, err
		}
	} else if o.Proxies() > 0 {
		factor = proxyRateFactor
	}
	// A replaced pair weight changes the rate by as much as the rates of cos/…/con and cos/con/con differ.
	x, err := dmlx.ParseExchange(o.Exchange)
	if err != nil {
		return 0, 0, err
	}
	rule, err := objectives.ByRule(dmlx.Rule{Pair: x.Pair})
	if err != nil {
		return 0, 0, err
	}
	base, err := p.ruleRate(data, rule)
	if err != nil {
		return 0, 0, err
	}
	bySize := twoDigits(factor * base / scale)
	if o.Proxies() > 0 {
		proxyLR = twoDigits(proxyToNetworkRate * factor * base / scale)
	}
	return cmp.Or(given, bySize), proxyLR, nil
}

// ruleRate returns the learning rate of a rule on a data set: that of the preset, or that of cos/con/con over the
// length of the rule's gradient.
func (p Preset) ruleRate(data string, o objectives.Objective) (float64, error) {
	if rate := p.Rate(data, o.Rule); rate != 0 {
		return rate, nil
	}
	scale, err := o.Scale()
	if err != nil {
		return 0, err
	}
	return twoDigits(p.Rate(data, dmlx.Rule{}.Name()) / cmp.Or(scale, 1)), nil
}

func twoDigits(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64) // Formatted numbers always parse.
	return v
}
