//go:build goexperiment.simd && amd64

package jpeg

import (
	"simd/archsimd"

	"github.com/gradient-surgery/dml/datasets/internal/vectors"
)

// eight holds a number for each of eight columns, rows or pixels.
type eight = archsimd.Int32x8

func all(v int32) eight { return archsimd.BroadcastInt32x8(v) }

func by(bits uint8) vectors.Counts8 { return vectors.By8(bits) }

// transformAtOnce is transformInTurn for all eight columns and then all eight rows at once, in the same arithmetic.
// Where there are no such instructions, it does nothing and says so.
//
// No shift here is ShiftAllRight or ShiftAllLeft: Go 1.26 moves their count by an instruction of SSE, which takes five
// times as long as all else beside AVX's.
func (b *block) transformAtOnce(out []uint8, stride int) (within, done bool) {
	if !archsimd.X86.AVX2() {
		return false, false
	}
	row := func(i int) eight { return vectors.Int32x8(b.values[8*i:]) }
	s0, s1, s2, s3, s4, s5, s6, s7 := inverseAtOnce(row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7))
	const shift = fixBits - keepBits
	half, wide := all(1<<(shift-1)), all(halfWide)
	s0, s1 = s0.Add(half).ShiftRight(by(shift)), s1.Add(half).ShiftRight(by(shift))
	s2, s3 = s2.Add(half).ShiftRight(by(shift)), s3.Add(half).ShiftRight(by(shift))
	s4, s5 = s4.Add(half).ShiftRight(by(shift)), s5.Add(half).ShiftRight(by(shift))
	s6, s7 = s6.Add(half).ShiftRight(by(shift)), s7.Add(half).ShiftRight(by(shift))
	beyond := s0.Add(wide).Or(s1.Add(wide)).Or(s2.Add(wide)).Or(s3.Add(wide)).
		Or(s4.Add(wide)).Or(s5.Add(wide)).Or(s6.Add(wide)).Or(s7.Add(wide)).And(all(^(2*halfWide - 1)))

	s0, s1, s2, s3, s4, s5, s6, s7 = transposed(s0, s1, s2, s3, s4, s5, s6, s7)
	s0, s1, s2, s3, s4, s5, s6, s7 = inverseAtOnce(s0.Add(all(1<<(keepBits+2))), s1, s2, s3, s4, s5, s6, s7)
	const last = fixBits + keepBits + 3
	s0, s1, s2, s3 = s0.ShiftRight(by(last)), s1.ShiftRight(by(last)), s2.ShiftRight(by(last)), s3.ShiftRight(by(last))
	s4, s5, s6, s7 = s4.ShiftRight(by(last)), s5.ShiftRight(by(last)), s6.ShiftRight(by(last)), s7.ShiftRight(by(last))
	wide = all(halfSample)
	beyond = s0.Add(wide).Or(s1.Add(wide)).Or(s2.Add(wide)).Or(s3.Add(wide)).
		Or(s4.Add(wide)).Or(s5.Add(wide)).Or(s6.Add(wide)).Or(s7.Add(wide)).And(all(^(2*halfSample - 1))).Or(beyond)

	// Now a vector holds a column, and a word of left and of right four samples of a row.
	left, right := fourBytes(s0, s1, s2, s3), fourBytes(s4, s5, s6, s7)
	var rows [64]uint8
	upper, lower := left.InterleaveLoGrouped(right), left.InterleaveHiGrouped(right)
	vectors.Store32(vectors.Low(upper, lower).AsUint8x32(), rows[:32])
	vectors.Store32(vectors.High(upper, lower).AsUint8x32(), rows[32:])
	within = beyond.IsZero() && b.beyond < 2*halfWide
	archsimd.ClearAVXUpperBits()
	for i := range 8 {
		copy(out[i*stride:], rows[8*i:8*i+8])
	}
	return within, true
}

// inverseAtOnce is inverse.
func inverseAtOnce(v0, v1, v2, v3, v4, v5, v6, v7 eight) (_, _, _, _, _, _, _, _ eight) {
	z := v2.Add(v6).Mul(all(fix0541196100))
	c2 := z.Sub(v6.Mul(all(fix1847759065)))
	c3 := z.Add(v2.Mul(all(fix0765366865)))
	c0, c1 := v0.Add(v4).ShiftLeft(by(fixBits)), v0.Sub(v4).ShiftLeft(by(fixBits))
	e0, e3, e1, e2 := c0.Add(c3), c0.Sub(c3), c1.Add(c2), c1.Sub(c2)

	z1, z2, z3, z4 := v7.Add(v1), v5.Add(v3), v7.Add(v3), v5.Add(v1)
	z5 := z3.Add(z4).Mul(all(fix1175875602))
	z1, z2 = z1.Mul(all(-fix0899976223)), z2.Mul(all(-fix2562915447))
	z3, z4 = z5.Sub(z3.Mul(all(fix1961570560))), z5.Sub(z4.Mul(all(fix0390180644)))
	o0 := v7.Mul(all(fix0298631336)).Add(z1).Add(z3)
	o1 := v5.Mul(all(fix2053119869)).Add(z2).Add(z4)
	o2 := v3.Mul(all(fix3072711026)).Add(z2).Add(z3)
	o3 := v1.Mul(all(fix1501321110)).Add(z1).Add(z4)

	return e0.Add(o3), e1.Add(o2), e2.Add(o1), e3.Add(o0), e3.Sub(o0), e2.Sub(o1), e1.Sub(o2), e0.Sub(o3)
}

// transposed exchanges rows and columns.
func transposed(r0, r1, r2, r3, r4, r5, r6, r7 eight) (_, _, _, _, _, _, _, _ eight) {
	four := func(a, b, c, d eight) (_, _, _, _ eight) { // Columns 0 and 4, 1 and 5, 2 and 6, 3 and 7.
		ab, cd := a.InterleaveLoGrouped(b).AsInt64x4(), c.InterleaveLoGrouped(d).AsInt64x4()
		high, low := a.InterleaveHiGrouped(b).AsInt64x4(), c.InterleaveHiGrouped(d).AsInt64x4()
		return ab.InterleaveLoGrouped(cd).AsInt32x8(), ab.InterleaveHiGrouped(cd).AsInt32x8(),
			high.InterleaveLoGrouped(low).AsInt32x8(), high.InterleaveHiGrouped(low).AsInt32x8()
	}
	a0, a1, a2, a3 := four(r0, r1, r2, r3)
	b0, b1, b2, b3 := four(r4, r5, r6, r7)
	return vectors.Low(a0, b0), vectors.Low(a1, b1),
		vectors.Low(a2, b2), vectors.Low(a3, b3),
		vectors.High(a0, b0), vectors.High(a1, b1),
		vectors.High(a2, b2), vectors.High(a3, b3)
}

// fourBytes are the samples of values about 0, the first in the lowest byte.
func fourBytes(a, b, c, d eight) eight {
	clip := func(v eight) eight { return v.Add(all(128)).Max(all(0)).Min(all(255)) }
	return clip(a).Or(clip(b).ShiftLeft(by(8))).Or(clip(c).ShiftLeft(by(16))).Or(clip(d).ShiftLeft(by(24)))
}

// yccAtOnce converts the first pixels of a row, eight at once, as yccToRGB does, and returns how many.
func yccAtOnce(out, luma, cb, cr []uint8) int {
	if !archsimd.X86.AVX2() {
		return 0
	}
	// Of four pixels of four bytes, the first three bytes each.
	packed := vectors.Int8x32([]int8{0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
		0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1})
	half, middle, dark, bright := all(1<<15), all(128), all(0), all(255)
	redCr, greenCb, greenCr, blueCb := all(91881), all(22554), all(46802), all(116130)
	byte1, byte2 := by(8), by(16)
	clip := func(v eight) eight { return v.Max(dark).Min(bright) }
	x := 0
	for ; x+16 <= len(luma); x += 8 { // Loads read eight samples too many, and stores write four bytes too many.
		y, u, v := samples(luma[x:]), samples(cb[x:]).Sub(middle), samples(cr[x:]).Sub(middle)
		red := v.Mul(redCr).Add(half).ShiftRight(byte2).Add(y)
		green := half.Sub(u.Mul(greenCb)).Sub(v.Mul(greenCr)).ShiftRight(byte2).Add(y)
		blue := u.Mul(blueCb).Add(half).ShiftRight(byte2).Add(y)
		rgb := clip(red).Or(clip(green).ShiftLeft(byte1)).Or(clip(blue).ShiftLeft(byte2)).AsUint8x32().
			PermuteOrZeroGrouped(packed)
		vectors.Store16(rgb.GetLo(), out[3*x:3*x+16])
		vectors.Store16(rgb.GetHi(), out[3*x+12:3*x+28])
	}
	archsimd.ClearAVXUpperBits()
	return x
}

// samples returns the first eight of at least sixteen.
func samples(of []uint8) eight { return vectors.Uint8x16(of).ExtendLo8ToUint32().AsInt32x8() }
