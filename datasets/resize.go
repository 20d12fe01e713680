package datasets

import (
	"encoding/binary"
	"fmt"
	"math"
)

// MaxResize is the longest side, in pixels, that [Raster.Square] scales to.
const MaxResize = 1 << 14

// Filter is how the pixels of a scaled picture are weighted means of others. The zero value is [Bilinear].
type Filter string

// The filters, which are Pillow's.
const (
	Bilinear Filter = "bilinear"
	Bicubic  Filter = "bicubic"
)

// Check returns an error for an unknown filter.
func (f Filter) Check() error {
	if f != "" && f != Bilinear && f != Bicubic {
		return fmt.Errorf("datasets: interpolation %.40q: want %s or %s", string(f), Bilinear, Bicubic)
	}
	return nil
}

// shape returns how far the filter reaches, in pixels, and its weight at a distance of at most that.
func (f Filter) shape() (reach float64, weight func(x float64) float64) {
	if f != Bicubic {
		return 1, func(x float64) float64 { return 1 - x }
	}
	return 2, func(x float64) float64 { // Resample.c's bicubic_filter, with a = −1/2.
		if x < 1 {
			return (1.5*x-2.5)*x*x + 1
		}
		return (((x-5)*x+8)*x - 4) * -0.5
	}
}

// Square returns the middle of the scaled picture, [crop, crop, 3]. Its shorter side is scaled to resize pixels. The
// result is that of torchvision's Resize(resize) and CenterCrop(crop) on a Pillow image, bit for bit with Pillow up to
// version 12. (Version 13 scales rows before columns where that is faster, which may round differently by one.)
func (r *Raster) Square(resize, crop int, by Filter) ([]uint8, error) {
	if err := by.Check(); err != nil {
		return nil, err
	}
	if crop < 1 || resize < crop || resize > MaxResize {
		return nil, fmt.Errorf(
			"datasets: the middle %d pixels of %d; want at least 1, at most as many as there are, and those at most %d",
			crop, resize, MaxResize)
	}
	if r.Width < 1 || r.Height < 1 || len(r.Pix) != 3*r.Width*r.Height {
		return nil, fmt.Errorf("datasets: a picture of %d×%d pixels with %d values", r.Width, r.Height, len(r.Pix))
	}
	dst := make([]uint8, crop*crop*3)
	r.square(dst, resize, crop, by)
	return dst, nil
}

// square writes what Square returns into dst.
func (r *Raster) square(dst []uint8, resize, size int, by Filter) {
	width, height := resize, resize
	if r.Width < r.Height {
		height = resize * r.Height / r.Width
	} else {
		width = resize * r.Width / r.Height
	}
	// Python's round, which torchvision's crop uses, takes halves to the even number.
	left := int(math.RoundToEven(float64(width-size) / 2))
	top := int(math.RoundToEven(float64(height-size) / 2))
	r.scale(dst, width, height, left, top, size, by)
}

// crop returns a part of a picture, as far as it lies inside. A part that does not is damage.
func (r *Raster) crop(part Rectangle) (*Raster, error) {
	right, bottom := min(part.Left+part.Width, r.Width), min(part.Top+part.Height, r.Height)
	out := &Raster{Width: right - part.Left, Height: bottom - part.Top}
	if out.Width < 1 || out.Height < 1 {
		return nil, damage{fmt.Errorf("its box of %d×%d pixels at (%d, %d) is outside the picture of %d×%d", part.Width,
			part.Height, part.Left, part.Top, r.Width, r.Height)}
	}
	for y := part.Top; y < bottom; y++ {
		out.Pix = append(out.Pix, r.Pix[3*(y*r.Width+part.Left):3*(y*r.Width+right)]...)
	}
	return out, nil
}

// scale writes size × size pixels, from left and top on, of the picture scaled to width × height into dst. It computes
// only what these need: columns first, each rounded to 8 bits, as Pillow does.
func (r *Raster) scale(dst []uint8, width, height, left, top, size int, by Filter) {
	columns, rows := by.taps(r.Width, width, left, size), by.taps(r.Height, height, top, size)
	stride := (3*size + 7) &^ 7
	held := rows.n + 16 // Rows that are scaled across: few, which stay in a processor's cache.
	narrow := make([]uint8, held*stride)
	pairs := make([][3]uint64, columns.end-columns.start)
	begin, end := 0, 0 // The rows of narrow, counted as those of rows.first.
	for y, from := range rows.first {
		for ; end < from+rows.n; end += 2 {
			if end+2-begin > held {
				copy(narrow, narrow[(from-begin)*stride:(end-begin)*stride])
				begin = from
			}
			upper := rows.start + end
			lower := min(upper+1, r.Height-1)
			pairUp(pairs, r.Pix[3*(upper*r.Width+columns.start):], r.Pix[3*(lower*r.Width+columns.start):])
			out := narrow[(end-begin)*stride:]
			columns.across(out, out[stride:], pairs)
		}
		down(dst[3*size*y:][:3*size], narrow[(from-begin)*stride:], stride, rows.weights[y*rows.n:][:rows.n])
	}
}

// pairUp puts the pixels of two rows together, the upper in the low halves of words, so that one product weights both.
func pairUp(pairs [][3]uint64, upper, lower []uint8) {
	upper, lower = upper[:3*len(pairs)], lower[:3*len(pairs)]
	for i := range pairs {
		u, l := upper[3*i:3*i+3:3*i+3], lower[3*i:3*i+3:3*i+3]
		pairs[i] = [3]uint64{bytePair(u[0], l[0]), bytePair(u[1], l[1]), bytePair(u[2], l[2])}
	}
}

// across scales two rows.
func (t *taps) across(upper, lower []uint8, pairs [][3]uint64) {
	all := t.weights
	for x, from := range t.first {
		weights := all[:t.n]
		all = all[t.n:]
		taps := pairs[from:][:len(weights)]
		var red, green, blue uint64 = half, half, half
		for i, w := range weights {
			p := &taps[i]
			red, green, blue = red+w*p[0], green+w*p[1], blue+w*p[2]
		}
		u, l := upper[3*x:3*x+3:3*x+3], lower[3*x:3*x+3:3*x+3]
		if (red|green|blue)&outside == 0 {
			u[0], u[1], u[2] = uint8(red>>fixed), uint8(green>>fixed), uint8(blue>>fixed)
			l[0], l[1], l[2] = uint8(red>>(32+fixed)), uint8(green>>(32+fixed)), uint8(blue>>(32+fixed))
			continue
		}
		u[0], l[0] = clamp(red)
		u[1], l[1] = clamp(green)
		u[2], l[2] = clamp(blue)
	}
}

// down sums rows, with a weight for each. A word holds bytes that are four apart.
func down(out, rows []uint8, stride int, weights []uint64) {
	for x := 0; x < len(out); x += 8 {
		var s0, s1, s2, s3 uint64 = half, half, half, half
		at := x
		for _, w := range weights {
			v := binary.LittleEndian.Uint64(rows[at:])
			s0, s1, s2, s3 = s0+w*(v&low8), s1+w*(v>>8&low8), s2+w*(v>>16&low8), s3+w*(v>>24&low8)
			at += stride
		}
		if (s0|s1|s2|s3)&outside == 0 && x+8 <= len(out) {
			binary.LittleEndian.PutUint64(out[x:],
				s0>>fixed&low8|s1>>fixed&low8<<8|s2>>fixed&low8<<16|s3>>fixed&low8<<24)
			continue
		}
		var eight [8]uint8
		for i, s := range [4]uint64{s0, s1, s2, s3} {
			eight[i], eight[i+4] = clamp(s)
		}
		copy(out[x:], eight[:])
	}
}

// fixed is the number of binary places of weights (Resample.c's PRECISION_BITS).
const fixed = 32 - 8 - 2

// Of two numbers in a word, which is the first plus 2³² times the second.
const (
	both    = 1<<32 + 1
	low8    = 255 * both
	half    = 1 << (fixed - 1) * both       // Rounds them.
	outside = (1<<32 - 1<<(fixed+8)) * both // Has bits of sums below 0 or, once rounded, above 255.
)

func bytePair(first, second uint8) uint64 { return uint64(first) | uint64(second)<<32 }

// clamp rounds two sums to bytes.
func clamp(sums uint64) (first, second uint8) {
	low := int64(int32(sums))
	high := (int64(sums) - low) >> 32
	return uint8(max(0, min(low>>fixed, 255))), uint8(max(0, min(high>>fixed, 255)))
}

// taps are the pixels, from start up to end, that pixels of a scaled line are made of: n each.
type taps struct {
	start, end, n int
	first         []int    // The first of each, counted from start.
	weights       []uint64 // Of n for each, in fixed point; below 0 modulo 2⁶⁴.
}

// taps gives pixels from … from+n−1 of a line of length in scaled to length out.
func (f Filter) taps(in, out, from, n int) *taps {
	t := &taps{first: make([]int, n)}
	all := make([][]float64, n)
	for k := range all {
		t.first[k], all[k] = f.Weights(in, out, from+k)
		t.n = max(t.n, len(all[k]))
	}
	t.start = min(t.first[0], in-t.n)
	t.weights = make([]uint64, n*t.n)
	for k, weights := range all {
		first := min(t.first[k], in-t.n)
		for i, w := range weights {
			t.weights[k*t.n+t.first[k]-first+i] = uint64(int64(math.Copysign(0.5, w) + w*(1<<fixed)))
		}
		t.first[k], t.end = first-t.start, first+t.n
	}
	return t
}

// Weights returns what the pixel at a place of a line of length in scaled to length out is a weighted mean of: pixels
// from first on. The filter widens with the scale, so that it does not alias (Resample.c's precompute_coeffs, and
// PyTorch's interpolate with antialias).
func (f Filter) Weights(in, out, place int) (first int, weights []float64) {
	if in == out { // Pillow leaves such a line alone, to the same end.
		return place, []float64{1}
	}
	scale := float64(in) / float64(out)
	reach, weight := f.shape()
	wide := max(scale, 1)
	center := (float64(place) + 0.5) * scale
	first = max(0, int(center-reach*wide+0.5))
	weights = make([]float64, min(in, int(center+reach*wide+0.5))-first)
	total := 0.0
	for i := range weights {
		if x := math.Abs((float64(first+i) - center + 0.5) * (1 / wide)); x < reach {
			weights[i] = weight(x)
		}
		total += weights[i]
	}
	for i := range weights {
		weights[i] /= total
	}
	return first, weights
}
