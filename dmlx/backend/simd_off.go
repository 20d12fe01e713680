//go:build !(goexperiment.simd && amd64)

package backend

// SIMD reports whether this program was built with the vectorised kernels of the Go backend (GOEXPERIMENT=simd).
const SIMD = false
