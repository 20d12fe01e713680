//go:build !(goexperiment.simd && amd64)

package backend

// SIMD tells whether this program was built with the vectorized kernels of the Go backend (GOEXPERIMENT=simd).
const SIMD = false
