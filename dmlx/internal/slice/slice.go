// Package slice has what the standard library's package slices leaves out.
package slice

// Map returns what a function makes of each value, in their order; of none, an empty slice.
func Map[T, U any](values []T, of func(T) U) []U {
	out := make([]U, len(values))
	for i, v := range values {
		out[i] = of(v)
	}
	return out
}
