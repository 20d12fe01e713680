package presets

import (
	"fmt"
	"strconv"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// lossSizes are the sums of T_a over the anchors that losses imply with their published parameters (see
// composeloss.go in package dmlx). They were measured on the first batch of the quick preset, with the initial
// network and proxies, as the mean of minicar and minishop, which differ by at most a fifth. The size depends mostly
// on the temperature of a loss, and a loss with a larger size needs a smaller learning rate.
var lossSizes = map[string]float64{
	"contrastive": 0.57, "triplet": 2, "triplet-soft": 0.5, "n-pair": 0.89, "info-nce": 10.6, "lifted": 6.7,
	"lifted-general": 1.2, "margin": 0.48, "ms": 0.87, "circle": 77, "binomial": 9, "nca": 1.7, "sup-con": 5.8,
	"proxy-nca": 2, "proxy-nca++": 17.9, "proxy-anchor": 16.7, "soft-triple": 26.5, "norm-softmax": 19.8,
	"arcface": 59.5,
}

// ruleSize is the same sum for a rule with T^con.
const ruleSize = 0.5

// The factors of the learning rates of losses over those by size. They were chosen once for all losses of a kind, by
// Recall@1 on held-out training classes (one in four of minicar's; 256 images, so that one image is 0.4 points), with one
// seed and ten of the 24 epochs of the quick preset:
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
// So losses of pairs and triplets keep the rate by size. Losses with proxies have four times that rate, for the network
// and the proxies alike. Test classes were not used.
const (
	pairRateFactor     = 1
	proxyRateFactor    = 4
	proxyToNetworkRate = 1
)

// lossRates returns the learning rates of a spec with a loss, for the network and the proxies, rounded to two digits.
// The rate is that of the rule cos/con/con, divided by the relative size of the loss. A replaced pair weight changes
// it by the ratio of the rates of cos/…/con and cos/con/con.
func (p Preset) lossRates(s runs.Spec) (lr, proxyLR float64, err error) {
	l, err := losses.Parse(s.Loss)
	if err != nil {
		return 0, 0, err
	}
	size, known := lossSizes[l.Name]
	if !known {
		return 0, 0, fmt.Errorf("loss %s has no learning rate: add its size to lossSizes in package presets", l.Name)
	}
	x, err := dmlx.ParseExchange(s.Exchange)
	if err != nil {
		return 0, 0, err
	}
	pair := "con"
	if x.Pair.Of != nil {
		pair = x.Pair.Name
	}
	bySize := p.Rate(s.Data, "cos/"+pair+"/con") * ruleSize / size
	if losses.PerClass(l) == 0 {
		return twoDigits(pairRateFactor * bySize), 0, nil
	}
	return twoDigits(proxyRateFactor * bySize), twoDigits(proxyToNetworkRate * proxyRateFactor * bySize), nil
}

func twoDigits(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64) // Formatted numbers always parse.
	return v
}
