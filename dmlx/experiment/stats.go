package experiment

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Stat is a mean over seeds with its sample standard deviation (divisor n−1; 0 for a single seed).
type Stat struct {
	Mean, Std float64
	N         int // How many finite runs are in the mean.
	Diverged  int // How many runs diverged and are not in it.
}

// Over is a measure's mean over several seeds' runs. Diverged runs are counted, never averaged.
func Over(runs []*Result, measure func(*Result) float64) Stat {
	var s Stat
	var values []float64
	for _, r := range runs {
		if r.Diverged != "" {
			s.Diverged++
		} else if v := measure(r); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	s.N = len(values)
	switch s.N {
	case 0:
		s.Mean = math.NaN()
	case 1:
		s.Mean = values[0]
	default:
		s.Mean, s.Std = stat.MeanStdDev(values, nil)
	}
	return s
}

// Recall is the mean Recall@K of several seeds' runs, of those that measured it.
func Recall(runs []*Result, k int) Stat {
	return Over(runs, func(r *Result) float64 {
		if v, measured := r.Recall[k]; measured {
			return v
		}
		return math.NaN()
	})
}

// overlapBins is the number of bins on [−1, 1] of the histograms that [Overlap] compares.
const overlapBins = 100

// Overlap is the share that the histograms of two sets of similarities have in common: Σ min(p, q) over 100 bins on
// [−1, 1], 1 for equal and 0 for separate ones. Values that are NaN are left out.
func Overlap(a, b []float32) float64 {
	p, q := histogram(a), histogram(b)
	sum := 0.0
	for i := range p {
		sum += min(p[i], q[i])
	}
	return sum
}

func histogram(similarities []float32) (share [overlapBins]float64) {
	n := 0.0
	for _, s := range similarities {
		if s != s {
			continue
		}
		bin := int(math.Floor((float64(s) + 1) / 2 * overlapBins))
		share[min(max(bin, 0), overlapBins-1)]++
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
