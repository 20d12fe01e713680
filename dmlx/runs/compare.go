package runs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// SameButSeed groups runs that differ only in their seeds, in the order of their first occurrence. Duplicates count
// once.
func SameButSeed(runs []*Result) [][]*Result {
	place := make(map[string]int)
	seen := make(map[string]bool)
	var out [][]*Result
	for _, r := range runs {
		if seen[r.Hash] {
			continue
		}
		seen[r.Hash] = true
		s := r.Spec
		s.Seed = 0
		key := string(s.Canonical())
		if i, known := place[key]; known {
			out[i] = append(out[i], r)
			continue
		}
		place[key] = len(out)
		out = append(out, []*Result{r})
	}
	return out
}

// SeedTest tells whether a measure differs between two groups of runs by more than its variation over seeds.
type SeedTest struct {
	// Paired is true if runs of the same seed share their batches, see [SameBatches], and both groups have the same seeds.
	// The test is then [stats.Paired] on the differences seed by seed, otherwise [stats.Welch].
	Paired bool
	// A and B are the numbers of compared runs, one per seed; they are equal in a paired test. Diverged is the number of
	// diverged runs, which are not compared.
	A, B     int
	Diverged int
	// The difference is the mean of the first group minus the mean of the second.
	stats.Test
}

// Method returns the name of the test with the numbers of seeds.
func (t SeedTest) Method() string {
	if t.Paired {
		return fmt.Sprintf("paired by seed, %d pairs", t.A)
	}
	return fmt.Sprintf("Welch, %d and %d seeds", t.A, t.B)
}

// SameBatches reports whether two runs with the same seed train on the same images in the same order: whether their
// specs differ only in the rule or loss, the learning rates and the memory options. Other runs with the same seed are
// independent of each other, since the sampler draws other batches.
func SameBatches(a, b Spec) bool {
	for _, s := range []*Spec{&a, &b} {
		s.Rule, s.Loss, s.Miner, s.Exchange = "", "", "", ""
		s.LR, s.ProxyLR, s.Decay, s.Memory, s.Seed = 0, 0, 0, train.Memory{}, 0
	}
	return string(a.Canonical()) == string(b.Canonical())
}

// CompareSeeds tests a measure between two groups of runs. The runs of a group differ only in their seeds. Runs that
// diverged, or whose measure is NaN, are left out. The test is unknown, NaN, if no runs differ. It returns an error
// with fewer than two seeds in a group.
func CompareSeeds(a, b []*Result, measure func(*Result) float64) (SeedTest, error) {
	var t SeedTest
	of := func(runs []*Result) (values map[uint64]float64, list []float64) {
		values = make(map[uint64]float64)
		for _, r := range runs {
			if r.Diverged != "" {
				t.Diverged++
			} else if v := measure(r); !math.IsNaN(v) {
				values[r.Spec.Seed] = v
			}
		}
		for _, s := range slices.Sorted(maps.Keys(values)) { // Sorted, because the rounding of a sum depends on its order.
			list = append(list, values[s])
		}
		return values, list
	}
	x, listX := of(a)
	y, listY := of(b)
	t.A, t.B = len(x), len(y)
	if t.A < 2 || t.B < 2 {
		return t, fmt.Errorf("%d and %d seeds: a test needs at least two of each", t.A, t.B)
	}
	seeds := slices.Sorted(maps.Keys(x))
	t.Paired = slices.Equal(seeds, slices.Sorted(maps.Keys(y))) && SameBatches(a[0].Spec, b[0].Spec)
	if t.Paired {
		differences := make([]float64, len(seeds))
		for i := range seeds {
			differences[i] = listX[i] - listY[i]
		}
		t.Test = stats.Paired(differences)
	} else {
		t.Test = stats.Welch(stats.MeanOf(listX), stats.MeanOf(listY))
	}
	if d := t.Difference.Value; math.IsNaN(d) || math.IsInf(d, 0) {
		return t, errors.New("the measure of a run is not finite")
	}
	return t, nil
}
