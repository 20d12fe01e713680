package datasets

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"sync/atomic"
	"testing"
)

// tiny is a 3×3 image whose pixel (x, y) is (10y + x, 100, 200 + 10y + x).
func tiny() *Images {
	im := &Images{N: 1, Size: 3, Labels: []int64{0}, Names: []string{"a"}, Pad: [3]uint8{7, 8, 9}}
	for y := range 3 {
		for x := range 3 {
			im.Pixels = append(im.Pixels, uint8(10*y+x), 100, uint8(200+10*y+x))
		}
	}
	return im
}

func TestAugmented(t *testing.T) {
	t.Parallel()
	// Only the first channel is written down; p is padding.
	const p = 7
	for _, tc := range []struct {
		dx, dy int
		flip   bool
		want   [9]uint8
	}{
		{0, 0, false, [9]uint8{0, 1, 2, 10, 11, 12, 20, 21, 22}},
		{0, 0, true, [9]uint8{2, 1, 0, 12, 11, 10, 22, 21, 20}},
		{1, 0, false, [9]uint8{1, 2, p, 11, 12, p, 21, 22, p}},
		{-1, 0, false, [9]uint8{p, 0, 1, p, 10, 11, p, 20, 21}},
		{0, 2, false, [9]uint8{20, 21, 22, p, p, p, p, p, p}},
		{0, -1, false, [9]uint8{p, p, p, 0, 1, 2, 10, 11, 12}},
		{1, -1, true, [9]uint8{p, p, p, 1, 0, p, 11, 10, p}},
		{-2, 1, true, [9]uint8{p, p, 12, p, p, 22, p, p, p}},
		{3, 0, false, [9]uint8{p, p, p, p, p, p, p, p, p}},
		{-9, 0, true, [9]uint8{p, p, p, p, p, p, p, p, p}},
		{9, 9, false, [9]uint8{p, p, p, p, p, p, p, p, p}},
	} {
		im := tiny()
		dst := make([]uint8, 27)
		im.Augmented(dst, 0, tc.dx, tc.dy, tc.flip)
		for i, want := range tc.want {
			full := [3]uint8{want, 100, 200 + want}
			if want == p {
				full = im.Pad
			}
			if got := [3]uint8(dst[3*i:]); got != full {
				t.Errorf("dx %d dy %d flip %v: pixel %d is %v, want %v", tc.dx, tc.dy, tc.flip, i, got, full)
			}
		}
	}
}

func TestPaddingIsZeroOnceNormalized(t *testing.T) {
	t.Parallel()
	s := open(t, "minishop", Options{Size: 16, TrainClasses: 10, TestClasses: 2})
	for _, im := range []*Images{s.Train, s.Test, s.Gallery} {
		for k, v := range im.Pad {
			if d := math.Abs(float64(v)/255 - float64(s.Mean[k])); d > 0.5/255+1e-7 {
				t.Errorf("channel %d is padded with %d, mean %v", k, v, 255*s.Mean[k])
			}
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	im := &Images{N: 1, Size: 2, Pixels: []uint8{0, 51, 10, 255, 51, 20, 0, 51, 30, 255, 51, 40}}
	mean, std := im.Stats()
	if want := [3]float32{0.5, 0.2, 25.0 / 255}; mean != want {
		t.Errorf("mean %v, want %v", mean, want)
	}
	// The second channel never changes; dividing by its deviation must be harmless.
	if want := [3]float32{0.5, 1, float32(math.Sqrt(125) / 255)}; std != want {
		t.Errorf("std %v, want %v", std, want)
	}
	if mean, std := new(Images).Stats(); mean != [3]float32{} || std != [3]float32{1, 1, 1} {
		t.Errorf("of nothing: mean %v std %v", mean, std)
	}
}

func TestThumbnailAndContactSheet(t *testing.T) {
	t.Parallel()
	im := tiny()
	if got, want := im.Thumbnail(0).At(1, 2), (color.NRGBA{21, 100, 221, 255}); got != want {
		t.Errorf("pixel (1, 2) is %v, want %v", got, want)
	}
	sheet := ContactSheet(im, []int{0, -1, 0, 5, 0}, 2)
	if b := sheet.Bounds(); b.Dx() != 2*4+1 || b.Dy() != 3*4+1 {
		t.Fatalf("sheet of %v", b)
	}
	white := color.NRGBA{255, 255, 255, 255}
	for _, tc := range []struct {
		x, y int
		want color.Color
	}{
		{0, 0, white}, {1, 1, im.Thumbnail(0).At(0, 0)}, {3, 3, im.Thumbnail(0).At(2, 2)},
		{5, 1, white}, {1, 5, im.Thumbnail(0).At(0, 0)}, {6, 6, white}, {1, 9, im.Thumbnail(0).At(0, 0)},
	} {
		if got := sheet.At(tc.x, tc.y); got != tc.want {
			t.Errorf("sheet (%d, %d) is %v, want %v", tc.x, tc.y, got, tc.want)
		}
	}
	if b := ContactSheet(im, nil, 3).Bounds(); b.Empty() {
		t.Error("a sheet of nothing has no pixels to encode")
	}
}

func TestForEachReportsTheFirstErrorInOrder(t *testing.T) {
	t.Parallel()
	for range 50 {
		var ran atomic.Int64
		err := forEach(1000, func() func(int) error {
			return func(i int) error {
				ran.Add(1)
				if i%10 == 7 {
					return fmt.Errorf("%d", i)
				}
				return nil
			}
		})
		if err == nil || err.Error() != "7" {
			t.Fatalf("error %v, want 7's", err)
		}
		if ran.Load() > 900 {
			t.Fatalf("%d ran after an error", ran.Load())
		}
	}
	if err := forEach(0, func() func(int) error { return func(int) error { return errors.New("ran") } }); err != nil {
		t.Error(err)
	}
}

func TestCanvas(t *testing.T) {
	t.Parallel()
	cv := newCanvas(32)
	ink := func(paint func()) float64 {
		cv.clear(gray(0))
		paint()
		sum := 0.0
		for i := 0; i < len(cv.img.Pix); i += 4 {
			sum += float64(cv.img.Pix[i]) / 255
		}
		return 4 * sum / float64(64*64) // the picture's area is 4
	}
	white := func(x, y, pixel float64) rgb { return gray(1) }
	for _, tc := range []struct {
		name  string
		paint func()
		want  float64
	}{
		{"rectangle", func() { cv.rect(-0.5, -0.25, 0.5, 0.25, 0).fill(gray(1), 1) }, 0.5},
		{"half transparent", func() { cv.rect(-0.5, -0.25, 0.5, 0.25, 0).fill(gray(1), 0.5) }, 0.25},
		{"shaded", func() { cv.rect(-0.5, -0.25, 0.5, 0.25, 0).shade(white) }, 0.5},
		// A parabola in a right angle cuts off a third of the triangle's half: r²/6 at each corner.
		{"rounded", func() { cv.rect(-0.5, -0.5, 0.5, 0.5, 0.3).fill(gray(1), 1) }, 1 - 4*0.09/6},
		{"ellipse", func() { cv.ellipse(0.1, 0.2, 0.5, 0.3).fill(gray(1), 1) }, math.Pi * 0.15},
		{"line", func() { cv.line(-0.3, -0.4, 0.3, 0.4, 0.1).fill(gray(1), 1) }, 0.1},
		{"rotated", func() { cv.within(rotation(0.3), func() { cv.rect(-0.5, -0.25, 0.5, 0.25, 0).fill(gray(1), 1) }) }, 0.5},
		{"cut at the edge", func() { cv.rect(0.5, 0.5, 3, 3, 0).fill(gray(1), 1) }, 0.25},
		{"outside", func() { cv.rect(2, 2, 3, 3, 0).fill(gray(1), 1) }, 0},
		{"of no length", func() { cv.line(0, 0, 0, 0, 1).fill(gray(1), 1) }, 0},
	} {
		if got := ink(tc.paint); math.Abs(got-tc.want) > 0.01 {
			t.Errorf("%s covers %.4f, want %.4f", tc.name, got, tc.want)
		}
	}
	m := scaling(2, 3).then(rotation(0.7)).then(translation(0.1, -0.2))
	x, y := m.apply(0.3, 0.4)
	if x, y = m.inverse().apply(x, y); math.Abs(x-0.3)+math.Abs(y-0.4) > 1e-12 {
		t.Errorf("there and back: %v, %v", x, y)
	}
}

func TestPatternsCoverTheirShare(t *testing.T) {
	t.Parallel()
	for pattern, want := range []float64{
		plain: 0, acrossStripes: 0.45, downStripes: 0.45, diagonalStripes: 0.45, checks: 0.45, dots: math.Pi * 0.09,
		block: 0.5,
	} {
		c := cloth{pattern: pattern, period: 0.25, place: 0.5}
		sum := 0.0
		const n = 400
		for i := range n {
			for j := range n {
				sum += c.cover(2*float64(i)/n-1, 2*float64(j)/n-1, 0.03)
			}
		}
		// Diagonal stripes do not fit a whole number of times.
		if got := sum / n / n; math.Abs(got-want) > 0.02 {
			t.Errorf("pattern %d covers %.3f, want %.3f", pattern, got, want)
		}
	}
}

func TestColors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		h, s, v float64
		want    rgb
	}{
		{0, 1, 1, rgb{1, 0, 0}}, {1.0 / 3, 1, 1, rgb{0, 1, 0}}, {-1.0 / 3, 1, 0.5, rgb{0, 0, 0.5}},
		{1.0 / 6, 1, 1, rgb{1, 1, 0}}, {0.4, 0, 0.3, gray(0.3)},
	} {
		got := hsv(tc.h, tc.s, tc.v)
		for k := range got {
			if math.Abs(got[k]-tc.want[k]) > 1e-9 {
				t.Errorf("hsv(%v, %v, %v) = %v, want %v", tc.h, tc.s, tc.v, got, tc.want)
				break
			}
		}
	}
}

func TestGrainIsNearlyNormal(t *testing.T) {
	t.Parallel()
	d := stream(1, 2, 3)
	var values []float64
	for range 20000 {
		g := d.grain()
		values = append(values, g[:]...)
	}
	var mean, variance float64
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		variance += (v - mean) * (v - mean) / float64(len(values))
	}
	slices.Sort(values)
	median := values[len(values)/2]
	if math.Abs(mean) > 0.02 || math.Abs(median) > 0.02 || math.Abs(variance-1) > 0.02 {
		t.Errorf("mean %.3f, median %.3f, variance %.3f", mean, median, variance)
	}
}
