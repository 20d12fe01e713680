package stats

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Ranks returns the rank of each value [n] in ascending order, from 1. Tied values share the mean of their ranks.
func Ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	ranks := make([]float64, len(values))
	for first := 0; first < len(order); {
		end := first + 1
		for end < len(order) && values[order[end]] == values[order[first]] {
			end++
		}
		for _, i := range order[first:end] {
			ranks[i] = float64(first+1+end) / 2
		}
		first = end
	}
	return ranks
}

// Spearman returns the rank correlation ρ of two samples of equal length. It is NaN if a sample is constant or has
// fewer than two values. Like gonum's stat.Correlation, it panics if the lengths differ.
func Spearman(x, y []float64) float64 { return stat.Correlation(Ranks(x), Ranks(y), nil) }
