//go:build goexperiment.simd && amd64 && !go1.27

// Package vectors has the operations of simd/archsimd whose names or types differ between Go 1.26 and 1.27.
package vectors

import "simd/archsimd"

// Counts4 and Counts8 count the bits of shifts.
type (
	Counts4 = archsimd.Int32x4
	Counts8 = archsimd.Int32x8
)

// By4 returns n for each of four values.
func By4(n uint8) Counts4 { return archsimd.BroadcastInt32x4(int32(n)) }

// By8 returns n for each of eight values.
func By8(n uint8) Counts8 { return archsimd.BroadcastInt32x8(int32(n)) }

// Int8x16 loads the first 16 values.
func Int8x16(s []int8) archsimd.Int8x16 { return archsimd.LoadInt8x16Slice(s) }

// Int8x32 loads the first 32 values.
func Int8x32(s []int8) archsimd.Int8x32 { return archsimd.LoadInt8x32Slice(s) }

// Int16x16 loads the first 16 values.
func Int16x16(s []int16) archsimd.Int16x16 { return archsimd.LoadInt16x16Slice(s) }

// Int32x8 loads the first 8 values.
func Int32x8(s []int32) archsimd.Int32x8 { return archsimd.LoadInt32x8Slice(s) }

// Uint8x16 loads the first 16 values.
func Uint8x16(s []uint8) archsimd.Uint8x16 { return archsimd.LoadUint8x16Slice(s) }

// Uint8x32 loads the first 32 values.
func Uint8x32(s []uint8) archsimd.Uint8x32 { return archsimd.LoadUint8x32Slice(s) }

// Store16 stores v in the first 16 values of s.
func Store16(v archsimd.Uint8x16, s []uint8) { v.StoreSlice(s) }

// Store32 stores v in the first 32 values of s.
func Store32(v archsimd.Uint8x32, s []uint8) { v.StoreSlice(s) }

// Low returns the lower halves of a and b, one after the other.
func Low(a, b archsimd.Int32x8) archsimd.Int32x8 { return a.Select128FromPair(0, 2, b) }

// High returns the upper halves of a and b, one after the other.
func High(a, b archsimd.Int32x8) archsimd.Int32x8 { return a.Select128FromPair(1, 3, b) }
