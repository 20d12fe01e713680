package runs

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// TripletDensity counts triplets by the similarities of their pairs, S_ap and S_an. All shares are fractions of
// Triplets, and 0 if there are none.
type TripletDensity struct {
	Triplets int `json:"triplets"`
	// Lone is the number of anchors without a triplet: no other image of their class, or none of another class.
	Lone int `json:"lone,omitempty"`

	MedianSap float64 `json:"median_s_ap"`
	MedianSan float64 `json:"median_s_an"`
	// Spread is √(var S_ap + var S_an): how far the triplets scatter around their mean.
	Spread float64 `json:"spread"`
	// Edge is the share with S_ap > 0.9, at the right edge of the triplet diagram. Corner is the share with S_an > 0.9 as
	// well, in its top right corner.
	Edge   float64 `json:"edge"`
	Corner float64 `json:"corner"`
	// Violations is the share with S_an > S_ap, above the diagonal. For a whole test set it is 1 − Recall@1, except for
	// ties.
	Violations float64 `json:"violations"`
	// Overlap is the overlap of the distributions of S_ap and S_an; see [retrieval.Overlap].
	Overlap float64 `json:"overlap"`

	Counts Counts `json:"counts"`
}

// DensityBins is the number of bins for the range [−1, 1] of each similarity in [Counts]: steps of 0.01.
const DensityBins = 200

// Counts are the numbers of triplets in the cells of the triplet diagram, [DensityBins, DensityBins] row by row from
// S_an = −1 upwards; S_ap varies fastest. Similarities that rounding moves beyond 1 are in the last bin. The JSON is
// a list of pairs: the distance to the next nonempty cell, and its count. Counts without triplets are nil.
type Counts []int

// newTripletDensity counts triplets with S_ap [n] and S_an [n]. If one of them is NaN, the anchor is lone.
func newTripletDensity(sap, san []float32) TripletDensity {
	var c TripletDensity
	var p, q []float64
	var p32, q32 []float32
	for i := range sap {
		if sap[i] != sap[i] || san[i] != san[i] {
			c.Lone++
			continue
		}
		p, q = append(p, float64(sap[i])), append(q, float64(san[i]))
		p32, q32 = append(p32, sap[i]), append(q32, san[i])
	}
	c.Triplets = len(p)
	if c.Triplets == 0 {
		return c
	}
	c.Counts = make(Counts, DensityBins*DensityBins)
	for i := range p {
		c.Counts[densityBin(q[i])*DensityBins+densityBin(p[i])]++
		if p32[i] > 0.9 {
			c.Edge++
		}
		if q[i] > p[i] {
			c.Violations++
		}
	}
	n := float64(c.Triplets)
	c.Edge /= n
	c.Violations /= n
	c.Corner = retrieval.Compactness(p32, q32)
	c.Overlap = retrieval.Overlap(p32, q32)
	if n > 1 {
		c.Spread = math.Sqrt(stat.Variance(p, nil) + stat.Variance(q, nil))
	}
	slices.Sort(p)
	slices.Sort(q)
	c.MedianSap, c.MedianSan = stat.Quantile(0.5, stat.Empirical, p, nil), stat.Quantile(0.5, stat.Empirical, q, nil)
	return c
}

func densityBin(similarity float64) int {
	return min(max(int(math.Floor((similarity+1)/2*DensityBins)), 0), DensityBins-1)
}

// Histograms returns the histograms of S_ap and S_an as shares of the triplets, in equal bins on [−1, 1]: as many as a
// divisor of [DensityBins] says. The distributions that Overlap compares have [retrieval.SimilarityBins].
func (c TripletDensity) Histograms(bins int) (positive, negative []float64, err error) {
	if bins < 1 || DensityBins%bins != 0 {
		return nil, nil, fmt.Errorf("%d bins: want a divisor of %d", bins, DensityBins)
	}
	positive, negative = make([]float64, bins), make([]float64, bins)
	for cell, count := range c.Counts {
		share := float64(count) / float64(c.Triplets)
		positive[cell%DensityBins*bins/DensityBins] += share
		negative[cell/DensityBins*bins/DensityBins] += share
	}
	return positive, negative, nil
}

// Above returns the share of triplets in bins at or above sap and san. Multiples of 0.01 are exact: Above(0.95, −1)
// is the share within 0.05 of the right edge.
func (c TripletDensity) Above(sap, san float64) float64 {
	const least = 1e-9 // For decimal fractions such as 0.95, which floats round down.
	found, low, left := 0, densityBin(san+least), densityBin(sap+least)
	for cell, count := range c.Counts {
		if cell/DensityBins >= low && cell%DensityBins >= left {
			found += count
		}
	}
	return float64(found) / float64(max(c.Triplets, 1))
}

// MarshalJSON writes pairs of a distance in cells and a count.
func (c Counts) MarshalJSON() ([]byte, error) {
	pairs, last := []int{}, 0
	for cell, count := range c {
		if count != 0 {
			pairs = append(pairs, cell-last, count)
			last = cell
		}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (c *Counts) UnmarshalJSON(raw []byte) error {
	var pairs []int
	if err := durable.ParseJSON(raw, &pairs); err != nil {
		return err
	}
	if len(pairs) == 0 {
		*c = nil
		return nil
	}
	counts, cell := *c, 0
	if len(counts) == 0 { // A key that is there many times takes memory once.
		counts = make(Counts, DensityBins*DensityBins)
	}
	clear(counts)
	for i := 0; i < len(pairs); i += 2 {
		if i+1 == len(pairs) || pairs[i] < 0 || pairs[i] >= len(counts)-cell || pairs[i+1] < 1 {
			return fmt.Errorf("counts of a triplet diagram: element %d does not begin a pair of a distance and a count", i)
		}
		cell += pairs[i]
		counts[cell] = pairs[i+1]
	}
	*c = counts
	return nil
}

func (c TripletDensity) check() error {
	sum := 0
	for _, count := range c.Counts {
		sum += count
	}
	if sum != c.Triplets {
		return fmt.Errorf("the counts add up to %d triplets, want %d", sum, c.Triplets)
	}
	return nil
}

// Pooled returns the sum of the counts of several runs.
func Pooled(densities []TripletDensity) []int {
	var sum []int
	for _, c := range densities {
		if sum == nil {
			sum = make([]int, len(c.Counts))
		}
		for i, count := range c.Counts {
			sum[i] += count
		}
	}
	return sum
}
