//go:build !js

// A page has no thresholds.

package retrieval

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/gomlx/compute"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Threshold is a similarity from which on a query and an item count as a match, and the errors that this makes.
type Threshold struct {
	Similarity float64 `json:"threshold"` // More than 1 where no pair may count as a match.
	FMR        float64 `json:"fmr"`       // False match rate: the share of pairs that do not match and count as a match.
	FNMR       float64 `json:"fnmr"`      // False non-match rate: the share of pairs that match and do not count as one.
}

// ClassErrors are the errors of one threshold for all classes, at an FMR that was asked for.
type ClassErrors struct {
	Threshold
	Asked float64 `json:"fmr_asked"`
	// Deviations over the queries' classes that have pairs of both kinds, with their number in the denominator, and the
	// class that misses most of its matches. All are 0 if there are fewer than two.
	FMRDeviation  float64 `json:"fmr_deviation"`
	FNMRDeviation float64 `json:"fnmr_deviation"`
	HighestFNMR   float64 `json:"highest_fnmr"`
	HighestClass  int64   `json:"highest_fnmr_class"`
}

// Verification says how well one threshold tells pairs that match from others. A pair is a query and an item that is
// ranked for it.
type Verification struct {
	Matches int64         `json:"matching_pairs"`
	Others  int64         `json:"other_pairs"`
	Classes int           `json:"classes"` // That have pairs of both kinds.
	AtFMR   []ClassErrors `json:"at_fmr"`  // In the order of the rates asked for.
	Curve   []Threshold   `json:"-"`       // From the lowest FMR of a pair to 1, 20 for each factor of 10.
}

// Thresholds are multiples of a width, 1.9·10⁻⁶: similarities are counted in bins, so that memory is bounded.
const thresholdBins = 1 << 20

func thresholdBin(s float32) int {
	return max(0, min(int((float64(s)+1)*(thresholdBins/2)), thresholdBins-1))
}

// Verify finds, for each false match rate asked for, the lowest threshold that has no more, by all pairs of a query and
// an item, as scikit-learn's roc_curve (open-metric-learning interpolates between two). relevance may be nil, for
// the items of a query's class. Errors are those of [EvaluateRelevance], rates outside 0…1, and sets without pairs of
// both kinds. With rates similarities are computed twice, the second time to count by class.
func Verify(ctx context.Context, b compute.Backend, devices int, queries, gallery *Embeddings, relevance Relevance,
	rates []float64, progress func(done, total int)) (*Verification, error) {
	gallery, self, _, err := fit(queries, gallery)
	if err != nil {
		return nil, err
	}
	for _, v := range rates {
		if !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("retrieval: false match rate %v: want 0 to 1", v)
		}
	}
	if relevance == nil {
		members := membersOf(gallery.Labels)
		relevance = func(i int) (out []Relevant) {
			for _, j := range members[queries.Labels[i]] {
				out = append(out, Relevant{j, 1})
			}
			return out
		}
	}
	// pairs shows the similarities of a query to its matches, of kind 0, and to others, of kind 1, some at a time.
	pairs := func(see func(query, kind int, similarities []float32)) error {
		return similarities(ctx, b, devices, queries, gallery, progress,
			func(i int, row []float32) error {
				own := -1
				if self {
					own = i
				}
				matches, skip, err := relevance.of(i, own, row)
				see(i, 0, slice.Map(matches, func(m match) float32 { return m.similarity }))
				from := 0
				for _, j := range append(skip, len(row)) {
					see(i, 1, row[from:j])
					from = j + 1
				}
				return err
			})
	}
	var counts [2][]int64 // Of each kind, from each bin on.
	for kind := range counts {
		counts[kind] = make([]int64, thresholdBins+1)
	}
	classes := map[int64]*[2][]int64{} // Of each kind, how many reach each threshold, and how many there are.
	for _, label := range queries.Labels {
		classes[label] = &[2][]int64{make([]int64, len(rates)+1), make([]int64, len(rates)+1)}
	}
	if err := pairs(func(query, kind int, similarities []float32) {
		atomic.AddInt64(&classes[queries.Labels[query]][kind][len(rates)], int64(len(similarities)))
		for _, s := range similarities {
			atomic.AddInt64(&counts[kind][thresholdBin(s)], 1)
		}
	}); err != nil {
		return nil, err
	}
	for _, c := range counts {
		for k := thresholdBins - 1; k >= 0; k-- {
			c[k] += c[k+1]
		}
	}
	v := &Verification{Matches: counts[0][0], Others: counts[1][0]}
	if v.Matches == 0 || v.Others == 0 {
		return nil, fmt.Errorf("retrieval: %d pairs match and %d do not: want pairs of both kinds", v.Matches, v.Others)
	}
	from := func(bin int) Threshold {
		return Threshold{2*float64(bin)/thresholdBins - 1, float64(counts[1][bin]) / float64(v.Others),
			1 - float64(counts[0][bin])/float64(v.Matches)}
	}
	lowest := func(rate float64) int {
		return sort.Search(thresholdBins, func(bin int) bool { return from(bin).FMR <= rate })
	}
	for rate := 1 / float64(v.Others); rate < 1; rate *= math.Pow(10, 1.0/20) {
		if t := from(lowest(rate)); t.FMR > 0 {
			v.Curve = append(v.Curve, t)
		}
	}
	v.Curve = append(v.Curve, from(lowest(1)))
	bins := slice.Map(rates, lowest)
	labels := slices.DeleteFunc(slices.Sorted(maps.Keys(classes)), func(label int64) bool {
		return classes[label][0][len(bins)] == 0 || classes[label][1][len(bins)] == 0
	})
	if v.Classes = len(labels); len(bins) == 0 {
		return v, nil
	}
	if err := pairs(func(query, kind int, similarities []float32) {
		reached := classes[queries.Labels[query]][kind]
		for _, s := range similarities {
			for k, bin := range bins {
				if thresholdBin(s) >= bin {
					atomic.AddInt64(&reached[k], 1)
				}
			}
		}
	}); err != nil {
		return nil, err
	}
	for k, rate := range rates {
		e := ClassErrors{Asked: rate, Threshold: from(bins[k])}
		share := func(kind int) []float64 {
			return slice.Map(labels, func(label int64) float64 {
				reached := classes[label][kind]
				return float64(reached[k]) / float64(reached[len(bins)])
			})
		}
		if v.Classes > 1 {
			found := share(0)
			least := floats.MinIdx(found)
			e.FNMRDeviation, e.FMRDeviation = stat.PopStdDev(found, nil), stat.PopStdDev(share(1), nil)
			e.HighestFNMR, e.HighestClass = 1-found[least], labels[least]
		}
		v.AtFMR = append(v.AtFMR, e)
	}
	return v, nil
}
