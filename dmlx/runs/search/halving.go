package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Rungs are the lengths, in epochs, at which trials are measured: the whole length, and before it a half, a quarter and so on
// of it for a factor of 2, as many as wished but none below an epoch or twice the same. The shortest comes first.
func Rungs(epochs, factor, count int) ([]int, error) {
	if epochs < 1 || factor < 2 || count < 1 {
		return nil, fmt.Errorf("%d rungs of %d epochs by a factor of %d: want at least 1, 1 and 2", count, epochs, factor)
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

// promoted are the indices of those that go on to the next rung, in their order: one in factor of all who began the bracket's
// rung, the best, but none that diverged (−Inf). Equal scores go by who came first.
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
