package jpeg

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

// block holds the coefficients of 8×8 samples times their steps of quantization, row by row, and which are not 0.
type block struct {
	values [64]int32
	set    uint64
	beyond uint32 // has bits of 2*halfWide and up if a coefficient is beyond halfWide
}

// Ranges in which all of libjpeg-turbo's transforms agree. Beyond them its C code wraps around where its vector code
// saturates, at 16 bits between the passes and at 10 in the end. Samples of 8 bits have coefficients within ±1024, so
// that no encoder comes near.
const (
	halfWide   = 1 << 14 // Coefficients and what is between the passes; sums of two are of 16 bits.
	halfSample = 1 << 9
)

// put sets the coefficient at place i, counted row by row.
func (b *block) put(i int, v int32) {
	b.values[i] = v
	b.set |= 1 << (i & 63)
	b.beyond |= uint32(v + halfWide)
}

// transform writes the samples of a block: the inverse cosine transform of Loeffler, Ligtenberg and Moschytz (ICASSP
// 1989) in the fixed point of libjpeg's jidctint.c, which rounds once after the columns and once after the rows. It
// returns false if numbers go beyond the ranges above.
func (c *component) transform(x, y int, b *block) bool {
	out := c.samples[8*(y*c.stride+x):]
	if b.set&^1 == 0 { // Both passes keep the only coefficient but for its scale.
		s := (b.values[0] + 4) >> 3
		v := clip(s)
		for row := range 8 {
			to := out[row*c.stride:][:8:8]
			for i := range to {
				to[i] = v
			}
		}
		return b.beyond < 2*halfWide && uint32(s+halfSample) < 2*halfSample
	}
	var between [64]int32
	beyond := b.beyond
	const below = 0x0101010101010100 // The rows of the first column but for the first.
	for i := range 8 {
		v := b.values[i:]
		if b.set&(below<<i) == 0 {
			s := v[0] << keepBits
			beyond |= uint32(s + halfWide)
			for row := range 8 {
				between[8*row+i] = s
			}
			continue
		}
		const half, shift = 1 << (fixBits - keepBits - 1), fixBits - keepBits
		s0, s1, s2, s3, s4, s5, s6, s7 := inverse(v[0], v[8], v[16], v[24], v[32], v[40], v[48], v[56])
		s0, s1, s2, s3 = (s0+half)>>shift, (s1+half)>>shift, (s2+half)>>shift, (s3+half)>>shift
		s4, s5, s6, s7 = (s4+half)>>shift, (s5+half)>>shift, (s6+half)>>shift, (s7+half)>>shift
		beyond |= uint32(s0+halfWide) | uint32(s1+halfWide) | uint32(s2+halfWide) | uint32(s3+halfWide) |
			uint32(s4+halfWide) | uint32(s5+halfWide) | uint32(s6+halfWide) | uint32(s7+halfWide)
		to := between[i:]
		to[0], to[8], to[16], to[24], to[32], to[40], to[48], to[56] = s0, s1, s2, s3, s4, s5, s6, s7
	}
	samples := uint32(0)
	for row := range 8 {
		v := between[8*row:][:8:8]
		const half, shift = 1 << (fixBits + keepBits + 2), fixBits + keepBits + 3
		s0, s1, s2, s3, s4, s5, s6, s7 := inverse(v[0]+half>>fixBits, v[1], v[2], v[3], v[4], v[5], v[6], v[7])
		s0, s1, s2, s3, s4, s5, s6, s7 = s0>>shift, s1>>shift, s2>>shift, s3>>shift, s4>>shift, s5>>shift, s6>>shift,
			s7>>shift
		samples |= uint32(s0+halfSample) | uint32(s1+halfSample) | uint32(s2+halfSample) | uint32(s3+halfSample) |
			uint32(s4+halfSample) | uint32(s5+halfSample) | uint32(s6+halfSample) | uint32(s7+halfSample)
		to := out[row*c.stride:][:8:8]
		to[0], to[1], to[2], to[3] = clip(s0), clip(s1), clip(s2), clip(s3)
		to[4], to[5], to[6], to[7] = clip(s4), clip(s5), clip(s6), clip(s7)
	}
	return beyond < 2*halfWide && samples < 2*halfSample
}

// inverse is the transform of one column or row, times 2^(fixBits+3/2).
func inverse(v0, v1, v2, v3, v4, v5, v6, v7 int32) (_, _, _, _, _, _, _, _ int32) {
	// Even part.
	z := (v2 + v6) * fix0541196100
	c2 := z - v6*fix1847759065
	c3 := z + v2*fix0765366865
	c0, c1 := (v0+v4)<<fixBits, (v0-v4)<<fixBits
	e0, e3, e1, e2 := c0+c3, c0-c3, c1+c2, c1-c2

	// Odd part.
	z1, z2, z3, z4 := v7+v1, v5+v3, v7+v3, v5+v1
	z5 := (z3 + z4) * fix1175875602
	z1, z2 = -z1*fix0899976223, -z2*fix2562915447
	z3, z4 = z5-z3*fix1961570560, z5-z4*fix0390180644
	o0 := v7*fix0298631336 + z1 + z3
	o1 := v5*fix2053119869 + z2 + z4
	o2 := v3*fix3072711026 + z2 + z3
	o3 := v1*fix1501321110 + z1 + z4

	return e0 + o3, e1 + o2, e2 + o1, e3 + o0, e3 - o0, e2 - o1, e1 - o2, e0 - o3
}

// clip returns the sample of a value about 0, within ±halfSample.
func clip(v int32) uint8 { return clipped[uint32(v+halfSample)&1023] }
