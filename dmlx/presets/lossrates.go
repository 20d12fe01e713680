package presets

import (
	"fmt"
	"strconv"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// lossSizes are the sums over anchors of T_a that losses imply with their published parameters (see composeloss.go in package dmlx): of the first
// batch of the quick preset, with the network and proxies as they start, the mean of minicar and minishop, which differ by a
// fifth at most. A rule with T^con has 0.5. A loss's temperature decides it, and with it what learning rate it bears.
var lossSizes = map[string]float64{
	"contrastive": 0.57, "triplet": 2, "triplet-soft": 0.5, "n-pair": 0.89, "info-nce": 10.6, "lifted": 6.7, "lifted-general": 1.2, "margin": 0.48,
	"ms": 0.87, "circle": 77, "binomial": 9, "nca": 1.7, "sup-con": 5.8, "proxy-nca": 2, "proxy-nca++": 17.9, "proxy-anchor": 16.7,
	"soft-triple": 26.5, "norm-softmax": 19.8, "arcface": 59.5,
}

const ruleSize = 0.5

// How many times the rate by size losses have, and their proxies by the network's. Chosen once for all losses of a kind, by
// Recall@1 on held-out training classes (one in four of minicar's; 256 images, so an image is 0.4 points), with one seed of
// ten of the quick preset's 24 epochs:
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
// So losses of pairs and triplets keep it, those with proxies have four times it for both. Test classes had no say.
const (
	pairRateFactor     = 1
	proxyRateFactor    = 4
	proxyToNetworkRate = 1
)

// lossRates are the learning rates of a spec's loss and of its proxies, to two digits: the preset's for the rule cos/con/con,
// by the loss's size. With a pair weight of another family in the loss it is more, or less, by what the preset's rate for
// cos/…/con has over that for cos/con/con.
func (p Preset) lossRates(s runs.Spec) (lr, proxyLR float64, err error) {
	l, err := losses.Parse(s.Loss)
	if err != nil {
		return 0, 0, err
	}
	size, known := lossSizes[l.Name]
	if !known {
		return 0, 0, fmt.Errorf("loss %s has no learning rate yet: put its size into lossSizes", l.Name)
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
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64) // It reads what it wrote.
	return v
}
