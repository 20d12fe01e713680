//go:build !(goexperiment.simd && amd64)

package datasets

func columnsAtOnce(out, in []uint8, width, height int, columns []taps) int { return 0 }

func rowAtOnce(out, in []uint8, weights []int32) int { return 0 }
