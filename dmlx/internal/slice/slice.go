// Package slice has what the standard library's package slices leaves out.
package slice

import "slices"

// Map returns what a function makes of each value, in their order; of none, an empty slice.
func Map[T, U any](values []T, of func(T) U) []U {
	out := make([]U, len(values))
	for i, v := range values {
		out[i] = of(v)
	}
	return out
}

// AddNew returns a list with those values appended that it does not contain, each once.
func AddNew[T comparable](list []T, values ...T) []T {
	for _, v := range values {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// Count returns how many of the values a function is true of.
func Count[T any](values []T, is func(T) bool) (n int) {
	for _, v := range values {
		if is(v) {
			n++
		}
	}
	return n
}
