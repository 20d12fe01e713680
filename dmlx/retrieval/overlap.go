package retrieval

import (
	"math"
)

// overlapBins is the number of bins on [−1, 1] of the histograms that [Overlap] compares.
const SimilarityBins = 100

// Overlap is the share that the histograms of two sets of similarities have in common: Σ min(p, q) over 100 bins on
// [−1, 1], 1 for equal and 0 for separate ones. Values that are NaN are left out.
func Overlap(a, b []float32) float64 {
	p, q := SimilarityHistogram(a), SimilarityHistogram(b)
	sum := 0.0
	for i := range p {
		sum += min(p[i], q[i])
	}
	return sum
}

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

// Compactness is the share of anchors whose nearest positive and nearest negative are both above 0.9: how far the
// embeddings crowd together (the upper right corner of Figure 5).
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
