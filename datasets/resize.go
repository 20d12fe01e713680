package datasets

import (
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
// only what these need.
func (r *Raster) scale(dst []uint8, width, height, left, top, size int, by Filter) {
	columns := by.taps(r.Width, width, left, size)
	rows := by.taps(r.Height, height, top, size)
	first := rows[0].first
	last := rows[size-1].first + len(rows[size-1].weights)
	// Columns first, each rounded to 8 bits, as Pillow does.
	narrow := make([]uint8, (last-first)*size*3)
	for y := first; y < last; y++ {
		in, out := r.Pix[3*y*r.Width:], narrow[(y-first)*size*3:]
		for x := range columns {
			c := &columns[x]
			var red, green, blue int32
			from := in[3*c.first:]
			for i, w := range c.weights {
				p := from[3*i : 3*i+3 : 3*i+3]
				red += w * int32(p[0])
				green += w * int32(p[1])
				blue += w * int32(p[2])
			}
			p := out[3*x : 3*x+3 : 3*x+3]
			p[0], p[1], p[2] = round8(red), round8(green), round8(blue)
		}
	}
	sums := make([]int32, 3*size)
	for y := range rows {
		from, out := narrow[(rows[y].first-first)*3*size:], dst[y*3*size:][:3*size]
		clear(sums)
		for i, w := range rows[y].weights {
			for x, v := range from[3*size*i:][:len(sums)] {
				sums[x] += w * int32(v)
			}
		}
		for x := range out {
			out[x] = round8(sums[x])
		}
	}
}

// fixed is the number of binary places of weights (Resample.c's PRECISION_BITS).
const fixed = 32 - 8 - 2

// round8 rounds a sum of weighted bytes: less than 255·2²³, which an int32 holds, though weights may be below 0.
func round8(sum int32) uint8 { return uint8(max(0, min((sum+1<<(fixed-1))>>fixed, 255))) }

// taps are the pixels that one pixel is made of: weights, in fixed point, of those from first on.
type taps struct {
	first   int
	weights []int32
}

// taps gives pixels from … from+n−1 of a line of length in scaled to length out.
func (f Filter) taps(in, out, from, n int) []taps {
	all := make([]taps, n)
	for k := range all {
		first, weights := f.Weights(in, out, from+k)
		all[k] = taps{first, make([]int32, len(weights))}
		for i, w := range weights {
			all[k].weights[i] = int32(math.Copysign(0.5, w) + w*(1<<fixed))
		}
	}
	return all
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
