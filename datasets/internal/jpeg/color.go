package jpeg

import "encoding/binary"

// rgb interpolates the planes and converts their colors, as libjpeg-turbo's jdsample.c and jdcolor.c do and, of four
// components, Pillow's Convert.c.
func (d *decoder) rgb() []uint8 {
	convert := d.conversion()
	out := make([]uint8, 3*d.width*d.height)
	rows := make([][]uint8, len(d.components))
	samplers := make([]sampler, len(d.components))
	for i := range samplers {
		samplers[i] = newSampler(&d.components[i], d.across, d.down)
	}
	for y := range d.height {
		for i := range samplers {
			rows[i] = samplers[i].row(y)[:d.width]
		}
		convert(out[3*d.width*y:][:3*d.width], rows)
	}
	return out
}

// conversion returns what converts rows of samples to RGB, chosen as jdapimin.c's default_decompress_parms does.
func (d *decoder) conversion() func(out []uint8, rows [][]uint8) {
	ids := d.components
	defined := map[int]uint8{3: 1, 4: 2}[len(ids)]
	if d.adobe && d.adobeTransform != 0 && d.adobeTransform != defined && len(ids) > 1 && !(len(ids) == 3 && d.jfif) {
		d.warn("color transform %d of %d components; want %d or 0", d.adobeTransform, len(ids), defined)
	}
	switch {
	case len(ids) == 1:
		return fromGray
	case len(ids) == 4 && (!d.adobe || d.adobeTransform == 0):
		return fromCMYK
	case len(ids) == 4:
		return fromYCCK
	case d.jfif || d.adobe && d.adobeTransform != 0:
		return fromYCC
	case d.adobe, ids[0].id == 'R' && ids[1].id == 'G' && ids[2].id == 'B':
		return fromRGB
	}
	return fromYCC
}

func fromGray(out []uint8, rows [][]uint8) {
	for x, v := range rows[0] {
		p := out[3*x : 3*x+3 : 3*x+3]
		p[0], p[1], p[2] = v, v, v
	}
}

func fromRGB(out []uint8, rows [][]uint8) {
	r, g, b := rows[0], rows[1], rows[2]
	for x := range r {
		p := out[3*x : 3*x+3 : 3*x+3]
		p[0], p[1], p[2] = r[x], g[x], b[x]
	}
}

func fromYCC(out []uint8, rows [][]uint8) {
	luma, cb, cr := rows[0], rows[1][:len(rows[0])], rows[2][:len(rows[0])]
	for x := range luma {
		p := out[3*x : 3*x+3 : 3*x+3]
		p[0], p[1], p[2] = yccToRGB(luma[x], cb[x], cr[x])
	}
}

// fromCMYK takes ink as inverted, the way Adobe writes it and Pillow reads it.
func fromCMYK(out []uint8, rows [][]uint8) {
	for x, k := range rows[3] {
		p := out[3*x : 3*x+3 : 3*x+3]
		p[0], p[1], p[2] = ink(255-rows[0][x], k), ink(255-rows[1][x], k), ink(255-rows[2][x], k)
	}
}

func fromYCCK(out []uint8, rows [][]uint8) {
	for x, k := range rows[3] {
		r, g, b := yccToRGB(rows[0][x], rows[1][x], rows[2][x])
		p := out[3*x : 3*x+3 : 3*x+3]
		p[0], p[1], p[2] = ink(r, k), ink(g, k), ink(b, k)
	}
}

// ink returns the light that an ink and black leave, as Convert.c's cmyk2rgb does.
func ink(v, light uint8) uint8 {
	l := int(light)
	t := int(v)*l + 128
	return uint8(max(0, l-(t>>8+t)>>8))
}

// yccToRGB is jdcolor.c's conversion, in fixed point of 16 bits.
func yccToRGB(y, cb, cr uint8) (r, g, b uint8) {
	light := uint64(y)*lightY + lightCb[cb] + lightCr[cr]
	return clipped[light>>redAt&1023], clipped[light>>greenAt&1023], clipped[light&1023]
}

// The sum of three words is red, green and blue at once: blue in the lowest 10 bits, red in the next, then green's
// fraction of 16 bits and green. Each is above its value by clipBelow, so that none borrows from the next.
const (
	redAt, fractionAt, greenAt = 10, 20, 36

	lightY = 1<<greenAt | 1<<redAt | 1
)

var lightCb, lightCr = lights()

func lights() (cb, cr [256]uint64) {
	const half = 1 << 15
	for i := range cb {
		v := int64(i) - 128
		cb[i] = uint64(-22554*v<<fractionAt + (116130*v+half)>>16)
		cr[i] = clipBelow*lightY + uint64((half-46802*v)<<fractionAt+(91881*v+half)>>16<<redAt)
	}
	return cb, cr
}

// clipped holds clip8 of the numbers from -clipBelow, which colors are within. Noise makes a branch dear.
var clipped = func() (table [1024]uint8) {
	for i := range table {
		table[i] = clip8(int32(i) - clipBelow)
	}
	return table
}()

const clipBelow = 384

// clip8 returns v limited to 0..255.
func clip8(v int32) uint8 {
	if uint32(v) <= 255 {
		return uint8(v)
	}
	return uint8(^(v >> 31))
}

// sampler brings a plane to the picture's resolution, a row at a time.
type sampler struct {
	*component
	wide, tall int // pixels to a sample
	out        []uint8
}

func newSampler(c *component, across, down int) sampler {
	s := sampler{component: c, wide: across / c.across, tall: down / c.down}
	if s.wide > 1 || s.tall > 1 {
		s.out = make([]uint8, c.width*s.wide)
	}
	return s
}

// samplesOf returns a row of the plane. Beyond the plane, the first and the last row repeat.
func (s *sampler) samplesOf(row int) []uint8 {
	row = max(0, min(row, s.height-1))
	return s.samples[row*s.stride:][:s.width]
}

// row is row y of the picture: a triangle filter ("fancy upsampling") where there are two pixels to a sample,
// repetition elsewhere. It is valid until the next.
func (s *sampler) row(y int) []uint8 {
	n, out := s.width, s.out
	near := s.samplesOf(y / s.tall)
	far := s.samplesOf(y/s.tall - 1)
	if y%2 == 1 {
		far = s.samplesOf(y/s.tall + 1)
	}
	switch {
	case s.wide == 1 && s.tall == 1:
		return near
	case s.wide == 1 && s.tall == 2: // h1v2_fancy_upsample
		bias := 1 + y%2
		for i := range n {
			out[i] = uint8((3*int(near[i]) + int(far[i]) + bias) >> 2)
		}
	case s.wide == 2 && s.tall == 1 && n > 2: // h2v1_fancy_upsample
		for i := range n {
			v := 3 * int(near[i])
			out[2*i] = uint8((v + int(near[max(0, i-1)]) + 1) >> 2)
			out[2*i+1] = uint8((v + int(near[min(n-1, i+1)]) + 2) >> 2)
		}
	case s.wide == 2 && s.tall == 2 && n > 2: // h2v2_fancy_upsample
		sum := func(i int) uint { return 3*uint(near[i]) + uint(far[i]) }
		v := sum(0)
		before, i := v, 0
		for ; i+8 < n; i += 8 {
			eightFancy((*[16]uint8)(out[2*i:]), (*[8]uint8)(near[i:]), (*[8]uint8)(far[i:]), before, sum(i+8))
			before, v = sum(i+7), sum(i+8)
		}
		for ; i < n; i++ {
			after := sum(min(i+1, n-1))
			out[2*i], out[2*i+1] = uint8((3*v+before+8)>>4), uint8((3*v+after+7)>>4)
			before, v = v, after
		}
	default: // int_upsample
		for i := range out {
			out[i] = near[i/s.wide]
		}
	}
	return out
}

// eightFancy is h2v2_fancy_upsample of eight samples: before and after are the sums beside theirs, three times the near
// sample and the far one. Words hold four numbers of 16 bits, of the samples 0, 2, 4, 6 or of 1, 3, 5, 7.
func eightFancy(out *[16]uint8, near, far *[8]uint8, before, after uint) {
	const one, low = 0x0001000100010001, 0x00ff00ff00ff00ff
	n, f := binary.LittleEndian.Uint64(near[:]), binary.LittleEndian.Uint64(far[:])
	even, odd := 3*(n&low)+f&low, 3*(n>>8&low)+f>>8&low
	pair := func(v, before, after uint64) uint64 {
		return (3*v+before+8*one)>>4&low | (3*v+after+7*one)>>4&low<<8
	}
	e := pair(even, odd<<16|uint64(before), odd)
	o := pair(odd, even, even>>16|uint64(after)<<48)
	const first, second = 0xffff, 0xffff << 16
	binary.LittleEndian.PutUint64(out[:8], e&first|o&first<<16|e&second<<16|o&second<<32)
	e, o = e>>32, o>>32
	binary.LittleEndian.PutUint64(out[8:], e&first|o&first<<16|e&second<<16|o&second<<32)
}
