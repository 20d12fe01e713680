package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Rungs returns the lengths, in epochs, at which trials are measured, the shortest first: the full length, and up to
// count − 1 shorter ones, each the previous one divided by factor. No length is below one epoch, and none occurs
// twice.
func Rungs(epochs, factor, count int) ([]int, error) {
	if epochs < 1 || factor < 2 || count < 1 {
		return nil, fmt.Errorf("%d rungs of %d epochs with a factor of %d: want at least 1, 1 and 2", count, epochs, factor)
	}
	out := []int{epochs}
	length := float64(epochs)
	for len(out) < count {
		length /= float64(factor)
		next := int(math.Round(length))
		if next < 1 || next == out[len(out)-1] {
			break
		}
		out = append(out, next)
	}
	slices.Reverse(out)
	return out, nil
}

// promoted returns the indices, in ascending order, of the trials that go on to the next rung: the best
// len(scores)/factor, and at least one. Diverged trials (−Inf) never go on. Among equal scores the earlier trial
// wins.
func promoted(scores []float64, factor int) []int {
	order := make([]int, 0, len(scores))
	for i, s := range scores {
		if !math.IsInf(s, -1) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	order = order[:min(len(order), max(1, len(scores)/factor))]
	slices.Sort(order)
	return order
}
