//go:build goexperiment.simd && amd64

package datasets

import (
	"encoding/binary"
	"simd/archsimd"

	"github.com/gradient-surgery/dml/datasets/internal/vectors"
)

// columnsAtOnce scales the columns of rows as scale does: in has the width's pixels a row, out those of columns. It
// returns how many rows it has done of height: its loads go up to four bytes beyond a pixel's taps.
func columnsAtOnce(out, in []uint8, width, height int, columns []taps) int {
	if !archsimd.X86.AVX2() {
		return 0
	}
	// Weights have 22 bits, and the instruction that multiplies and adds pairs takes 16, so they are split in two. A
	// group is of four taps: each weight stands once for each channel.
	const split = 11
	type group struct{ high, low [16]int16 }
	var groups []group
	reach := 0
	for _, c := range columns {
		for i, w := range c.weights {
			if i%4 == 0 {
				groups = append(groups, group{})
			}
			g := &groups[len(groups)-1]
			for channel := range 4 {
				at := i%4/2*8 + 2*channel + i%2
				g.high[at], g.low[at] = int16(w>>split), int16(w&(1<<split-1))
			}
		}
		reach = max(reach, 3*c.first+12*((len(c.weights)-1)/4)+16)
	}
	// Red, red, green, green, blue, blue of the first two taps of a group, and of the other two, in 16 bits each.
	pairs := vectors.Int8x32([]int8{0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,
		6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1})
	lowest := vectors.Int8x16([]int8{0, 4, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1})
	half, zero := archsimd.BroadcastInt32x4(1<<(fixed-1)), archsimd.BroadcastInt32x4(0)
	most, last := archsimd.BroadcastInt32x4(255), vectors.By4(fixed)
	by := vectors.By8(split)
	y := 0
	for ; y < height && 3*y*width+reach <= len(in); y++ {
		row, to, k := in[3*y*width:], out[3*y*len(columns):], 0
		for x := range columns {
			c := &columns[x]
			var high, low archsimd.Int32x8
			for at := 3 * c.first; at < 3*(c.first+len(c.weights)); at += 12 {
				four := vectors.Uint8x16(row[at : at+16])
				var both archsimd.Uint8x32
				v := both.SetLo(four).SetHi(four).PermuteOrZeroGrouped(pairs).AsInt16x16()
				high = high.Add(v.DotProductPairs(vectors.Int16x16(groups[k].high[:])))
				low = low.Add(v.DotProductPairs(vectors.Int16x16(groups[k].low[:])))
				k++
			}
			sum := high.ShiftLeft(by).Add(low)
			rgb := sum.GetLo().Add(sum.GetHi()).Add(half).ShiftRight(last).Max(zero).Min(most)
			binary.LittleEndian.PutUint32(to[3*x:], rgb.AsUint8x16().PermuteOrZero(lowest).AsUint32x4().GetElem(0))
		}
	}
	archsimd.ClearAVXUpperBits()
	return y
}

// rowAtOnce adds rows of len(out) values with their weights, 32 values at once, and returns how many values it has
// done.
func rowAtOnce(out, in []uint8, weights []int32) int {
	if !archsimd.X86.AVX2() {
		return 0
	}
	all := archsimd.BroadcastInt32x8
	// Counts in vectors: see the package jpeg's transformAtOnce.
	by8, by16, by24 := archsimd.BroadcastUint32x8(8), archsimd.BroadcastUint32x8(16), archsimd.BroadcastUint32x8(24)
	x := 0
	for ; x+32 <= len(out); x += 32 {
		// Of eight words the first bytes, the second, the third and the fourth.
		a, b, c, d := all(1<<(fixed-1)), all(1<<(fixed-1)), all(1<<(fixed-1)), all(1<<(fixed-1))
		for i, w := range weights {
			v := vectors.Uint8x32(in[i*len(out)+x:]).AsUint32x8()
			w, low := all(w), archsimd.BroadcastUint32x8(255)
			a = a.Add(v.And(low).AsInt32x8().Mul(w))
			b = b.Add(v.ShiftRight(by8).And(low).AsInt32x8().Mul(w))
			c = c.Add(v.ShiftRight(by16).And(low).AsInt32x8().Mul(w))
			d = d.Add(v.ShiftRight(by24).AsInt32x8().Mul(w))
		}
		round := func(sum archsimd.Int32x8) archsimd.Int32x8 {
			return sum.ShiftRight(vectors.By8(fixed)).Max(all(0)).Min(all(255))
		}
		word := round(a).Or(round(b).ShiftLeft(vectors.By8(8))).Or(round(c).ShiftLeft(vectors.By8(16))).
			Or(round(d).ShiftLeft(vectors.By8(24)))
		vectors.Store32(word.AsUint8x32(), out[x:])
	}
	archsimd.ClearAVXUpperBits()
	return x
}
