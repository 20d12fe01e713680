package retrieval

import (
	"math"
)

// SimilarityBins is the number of bins of [SimilarityHistogram].
const SimilarityBins = 100

// Overlap returns the overlap of the histograms of two sets of similarities, Σ min(p, q) over their bins: 1 for equal
// and 0 for disjoint ones. NaN values are left out.
func Overlap(a, b []float32) float64 {
	p, q := SimilarityHistogram(a), SimilarityHistogram(b)
	sum := 0.0
	for i := range p {
		sum += min(p[i], q[i])
	}
	return sum
}

// SimilarityHistogram returns the share of the similarities in each of [SimilarityBins] bins on [−1, 1]. NaN values
// are left out.
func SimilarityHistogram(similarities []float32) (share [SimilarityBins]float64) {
	n := 0.0
	for _, s := range similarities {
		if s != s {
			continue
		}
		bin := int(math.Floor((float64(s) + 1) / 2 * SimilarityBins))
		share[min(max(bin, 0), SimilarityBins-1)]++
		n++
	}
	for i := range share {
		share[i] /= max(n, 1)
	}
	return share
}

// Compactness returns the share of anchors whose similarities to the nearest positive and to the nearest negative
// both exceed 0.9, the upper right corner of Figure 5. It measures how closely the embeddings crowd together.
func Compactness(positive, negative []float32) float64 {
	compact, n := 0.0, 0.0
	for i, p := range positive {
		q := negative[i]
		if p != p || q != q {
			continue
		}
		n++
		if p > 0.9 && q > 0.9 {
			compact++
		}
	}
	return compact / max(n, 1)
}
