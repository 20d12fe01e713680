package samples

import (
	"fmt"
	"maps"
	"slices"
)

// NumberClasses numbers the classes that are trained on from 0, in the order of their labels, without some. The numbers
// are the rows of their proxies.
func NumberClasses(labels []int64, without map[int64]bool) map[int64]int32 {
	out := make(map[int64]int32)
	for _, l := range slices.Compact(slices.Sorted(slices.Values(labels))) {
		if !without[l] {
			out[l] = int32(len(out))
		}
	}
	return out
}

// HeldOut returns the labels of every n-th class, in the order of the labels, and nil for n = 0. It fails if
// these are fewer than two classes or no class has two images.
func HeldOut(labels []int64, n int) (map[int64]bool, error) {
	if n == 0 {
		return nil, nil
	}
	count := make(map[int64]int)
	for _, l := range labels {
		count[l]++
	}
	out, ranked := make(map[int64]bool), false
	for i, l := range slices.Sorted(maps.Keys(count)) {
		if i%n == n-1 {
			out[l] = true
			ranked = ranked || count[l] > 1
		}
	}
	if len(out) < 2 || !ranked {
		return nil, fmt.Errorf("every %d-th of %d training classes leaves too few images to rank: "+
			"want at least two classes, and two images of one", n, len(count))
	}
	return out, nil
}
