package datasets

import (
	"errors"
	"fmt"
	"image/color"
	"math"
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
