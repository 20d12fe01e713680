package jpeg

import "encoding/binary"

// Constants of the transform, fixed point with 13 bits, and the bits that its first pass keeps beyond the integers.
const (
	fixBits  = 13
	keepBits = 2

	fix0298631336 = 2446
	fix0390180644 = 3196
	fix0541196100 = 4433
	fix0765366865 = 6270
	fix0899976223 = 7373
	fix1175875602 = 9633
	fix1501321110 = 12299
	fix1847759065 = 15137
	fix1961570560 = 16069
	fix2053119869 = 16819
	fix2562915447 = 20995
	fix3072711026 = 25172
)

// block holds the coefficients of 8×8 samples times their steps of quantization, row by row, and which are not 0. Two
// neighbors are one number, the left plus 2³² times the right: its sums and multiples are those of both.
type block struct {
	pairs  [32]int64
	set    uint64
	beyond int64 // has bits that wide has not if a coefficient is beyond halfWide
}

// Ranges in which all of libjpeg-turbo's transforms agree. Beyond them its C code wraps around where its vector code
// saturates, at 16 bits between the passes and at 10 in the end. Samples of 8 bits have coefficients within ±1024, so
// that no encoder comes near.
const (
	halfWide   = 1 << 14 // Coefficients and what is between the passes; sums of two are of 16 bits.
	halfSample = 1 << 9

	both = 1<<32 + 1               // Times a number it is that number twice.
	left = 1<<32 - 1               // The bits of the left.
	wide = (2*halfWide - 1) * both // Those of numbers within halfWide, once that is added to them.
)

// put adds the coefficient at place i, counted row by row, a multiple of its step, as of component.quant. It returns
// what set and beyond are to have.
func (b *block) put(i int, v int32, quant *[64]int64) (set uint64, beyond int64) {
	pair := int64(v) * quant[i&63]
	b.pairs[i>>1&31] += pair
	return 1 << (i & 63), pair + halfWide*both
}

// transform writes the samples of a block: the inverse cosine transform of Loeffler, Ligtenberg and Moschytz (ICASSP
// 1989) in the fixed point of libjpeg's jidctint.c, which rounds once after the columns and once after the rows. It
// returns false if numbers go beyond the ranges above.
func (c *component) transform(x, y int, b *block) bool {
	out := c.samples[8*(y*c.stride+x):]
	if b.set&^1 == 0 { // Both passes keep the only coefficient but for its scale.
		s := (int32(b.pairs[0]) + 4) >> 3
		v := clip8(s + 128)
		for row := range 8 {
			to := out[row*c.stride:][:8:8]
			for i := range to {
				to[i] = v
			}
		}
		return b.beyond&^wide == 0 && uint32(s+halfSample) < 2*halfSample
	}
	var between [32]int64 // Pairs of a row, with halfWide added.
	beyond, sums := b.beyond, int64(0)
	const shift = fixBits - keepBits
	for i := range 4 {
		v, to := b.pairs[i:][:29], between[i:][:29]
		// The rows of the first two columns but for the first, and their lower half.
		const below, lower = 0x0303030303030300, 0x0303030300000000
		if b.set&(below<<(2*i)) == 0 {
			s := v[0]<<keepBits + halfWide*both
			beyond |= s
			for row := range 8 {
				to[4*row] = s
			}
			continue
		}
		var s0, s1, s2, s3, s4, s5, s6, s7 int64
		if v0 := v[0]<<fixBits + (1<<(shift-1)+halfWide<<shift)*both; b.set&(lower<<(2*i)) == 0 {
			s0, s1, s2, s3, s4, s5, s6, s7 = inverseHalf(v0, v[4], v[8], v[12])
		} else {
			s0, s1, s2, s3, s4, s5, s6, s7 = inverse(v0, v[4], v[8], v[12], v[16]<<fixBits, v[20], v[24], v[28])
		}
		sums |= s0 | s1 | s2 | s3 | s4 | s5 | s6 | s7
		to[0], to[4], to[8], to[12] = s0>>shift&wide, s1>>shift&wide, s2>>shift&wide, s3>>shift&wide
		to[16], to[20], to[24], to[28] = s4>>shift&wide, s5>>shift&wide, s6>>shift&wide, s7>>shift&wide
	}
	if beyond&^wide != 0 || sums&^((2*halfWide<<shift-1)*both) != 0 {
		return false
	}
	for row := 0; row < 8; row += 2 {
		u, l := (*[4]int64)(between[4*row:]), (*[4]int64)(between[4*row+4:])
		even := func(i int) int64 { return u[i]&left + l[i]<<32 - halfWide*both } // A column of two rows.
		odd := func(i int) int64 { return u[i]>>32 + l[i]&^left - halfWide*both }
		const shift = fixBits + keepBits + 3
		var s0, s1, s2, s3, s4, s5, s6, s7 int64
		if v0 := even(0)<<fixBits + (1<<(shift-1)+128<<shift)*both; b.set&0xf0f0f0f0f0f0f0f0 == 0 {
			s0, s1, s2, s3, s4, s5, s6, s7 = inverseHalf(v0, odd(0), even(1), odd(1))
		} else {
			s0, s1, s2, s3, s4, s5, s6, s7 = inverse(v0, odd(0), even(1), odd(1), even(2)<<fixBits, odd(2), even(3), odd(3))
		}
		upper, lower := out[row*c.stride:][:8:8], out[(row+1)*c.stride:][:8:8]
		if (s0|s1|s2|s3|s4|s5|s6|s7)&^((256<<shift-1)*both) == 0 { // All are within 0..255.
			const one = 255 * both
			first := uint64(s0>>shift&one | s1>>shift&one<<8 | s2>>shift&one<<16 | s3>>shift&one<<24)
			last := uint64(s4>>shift&one | s5>>shift&one<<8 | s6>>shift&one<<16 | s7>>shift&one<<24)
			binary.LittleEndian.PutUint64(upper, first&left|last<<32)
			binary.LittleEndian.PutUint64(lower, first>>32|last&^left)
			continue
		}
		for i, s := range [8]int64{s0, s1, s2, s3, s4, s5, s6, s7} {
			u, l := int32(s)>>shift, (s-int64(int32(s)))>>(32+shift)
			if uint32(u-128+halfSample) >= 2*halfSample || uint64(l-128+halfSample) >= 2*halfSample {
				return false
			}
			upper[i], lower[i] = clip8(u), clip8(int32(l))
		}
	}
	return true
}

// inverse is the transform of two columns or rows, times 2^(fixBits+3/2). v0 and v4 are times 2^fixBits.
func inverse(v0, v1, v2, v3, v4, v5, v6, v7 int64) (_, _, _, _, _, _, _, _ int64) {
	// Even part.
	z := (v2 + v6) * fix0541196100
	c2 := z - v6*fix1847759065
	c3 := z + v2*fix0765366865
	c0, c1 := v0+v4, v0-v4
	e0, e3, e1, e2 := c0+c3, c0-c3, c1+c2, c1-c2

	// Odd part.
	z1, z2, z3, z4 := v7+v1, v5+v3, v7+v3, v5+v1
	z5 := (z3 + z4) * fix1175875602
	z1, z2 = z1*fix0899976223, z2*fix2562915447
	z3, z4 = z5-z3*fix1961570560, z5-z4*fix0390180644
	o0 := v7*fix0298631336 - z1 + z3
	o1 := v5*fix2053119869 - z2 + z4
	o2 := v3*fix3072711026 - z2 + z3
	o3 := v1*fix1501321110 - z1 + z4

	return e0 + o3, e1 + o2, e2 + o1, e3 + o0, e3 - o0, e2 - o1, e1 - o2, e0 - o3
}

// inverseHalf is inverse where v4 and on are 0.
func inverseHalf(v0, v1, v2, v3 int64) (_, _, _, _, _, _, _, _ int64) {
	c2, c3 := v2*fix0541196100, v2*(fix0541196100+fix0765366865)
	e0, e3, e1, e2 := v0+c3, v0-c3, v0+c2, v0-c2
	z5 := (v1 + v3) * fix1175875602
	o0 := z5 - v1*fix0899976223 - v3*fix1961570560
	o1 := z5 - v1*fix0390180644 - v3*fix2562915447
	o2 := z5 + v3*(fix3072711026-fix2562915447-fix1961570560)
	o3 := z5 + v1*(fix1501321110-fix0899976223-fix0390180644)
	return e0 + o3, e1 + o2, e2 + o1, e3 + o0, e3 - o0, e2 - o1, e1 - o2, e0 - o3
}
