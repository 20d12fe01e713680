package samples

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
)

// Means and deviations of the rectangles are those of 40,000 draws of torchvision 0.29.2's RandomResizedCrop.get_params
// on an image of 32 pixels.
func TestResizedCropAsTorchvision(t *testing.T) {
	type moments struct{ mean, std float64 }
	for _, c := range []struct {
		text                                  string
		height, width, area, ratio, top, left moments
		whole                                 float64 // Share of draws of the whole image.
	}{
		{"resized-crop", moments{21.6466, 6.1463}, moments{21.6799, 6.1642}, moments{501.1443, 246.1148},
			moments{0.0014, 0.1612}, moments{0.4821, 0.34}, moments{0.4828, 0.3402}, 0.002625},
		{"resized-crop?scale=0.2-1&ratio=0.5-2", moments{22.3926, 5.5911}, moments{22.3241, 5.6131},
			moments{504.3144, 192.6111}, moments{-0.0034, 0.351}, moments{0.4768, 0.3441}, moments{0.4802, 0.344}, 0.001475},
		// Few rectangles fit, so that the middle is taken at times.
		{"resized-crop?scale=0.9-1&ratio=0.5-3", moments{31.376, 0.9022}, moments{31.3813, 0.8988},
			moments{984.5491, 38.5478}, moments{0.0002, 0.0432}, moments{0.1929, 0.3731}, moments{0.1926, 0.373}, 0.416375},
	} {
		a, err := ParseAugmentation(c.text, 0)
		if err != nil {
			t.Fatal(err)
		}
		const n, theirs, size = 20000, 40000, 32
		rng := rand.New(rand.NewPCG(1, 2))
		var height, width, area, ratio, top, left []float64
		whole := 0.0
		for range n {
			r := a.cut(rng, size)
			if r.Left < 0 || r.Top < 0 || r.Width < 1 || r.Height < 1 || r.Left+r.Width > size || r.Top+r.Height > size {
				t.Fatalf("%s: %+v", c.text, r)
			}
			w, h := float64(r.Width), float64(r.Height)
			height, width, area = append(height, h), append(width, w), append(area, w*h)
			ratio = append(ratio, math.Log(w/h))
			top = append(top, float64(r.Top)/max(size-h, 1))
			left = append(left, float64(r.Left)/max(size-w, 1))
			if r.Width == size && r.Height == size {
				whole++
			}
		}
		for _, m := range []struct {
			name   string
			values []float64
			want   moments
		}{
			{"height", height, c.height}, {"width", width, c.width}, {"area", area, c.area}, {"log ratio", ratio, c.ratio},
			{"top", top, c.top}, {"left", left, c.left},
		} {
			sum, squares := 0.0, 0.0
			for _, v := range m.values {
				sum += v
			}
			mean := sum / n
			for _, v := range m.values {
				squares += (v - mean) * (v - mean)
			}
			std := math.Sqrt(squares / n)
			// Five standard errors of the difference of both means; deviations within 3 %.
			if limit := 5 * m.want.std * math.Sqrt(1./n+1./theirs); math.Abs(mean-m.want.mean) > limit ||
				math.Abs(std/m.want.std-1) > 0.03 {
				t.Errorf("%s: %s is %.4f ± %.4f, torchvision's %.4f ± %.4f", c.text, m.name, mean, std, m.want.mean, m.want.std)
			}
		}
		if limit := 5 * math.Sqrt(c.whole*(1./n+1./theirs)); math.Abs(whole/n-c.whole) > limit {
			t.Errorf("%s: the whole image in %.4f of the draws, torchvision's %.4f", c.text, whole/n, c.whole)
		}
	}
}

// If no rectangle fits, the middle is taken: these are torchvision's for an image of 32 pixels.
func TestMiddle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for text, want := range map[string]datasets.Rectangle{
		"resized-crop?scale=1-1&ratio=2-3":     {Left: 0, Top: 8, Width: 32, Height: 16},
		"resized-crop?scale=1-1&ratio=0.2-0.5": {Left: 8, Top: 0, Width: 16, Height: 32},
		"resized-crop?scale=1-1&ratio=1-1":     {Width: 32, Height: 32},
	} {
		a, err := ParseAugmentation(text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.cut(rng, 32); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// What each augmentation may do to an image does occur, and nothing else; all of it again for the same seed.
func TestMoves(t *testing.T) {
	for text, want := range map[string]struct{ shift, cut, flip bool }{
		"none": {}, "flip": {flip: true}, "pad-crop?pad=2": {shift: true}, "pad-crop+flip?pad=2": {shift: true, flip: true},
		"resized-crop": {cut: true}, "resized-crop+flip": {cut: true, flip: true},
	} {
		a, err := ParseAugmentation(text, 0)
		if err != nil {
			t.Fatal(err)
		}
		moves := func(seed uint64) []Move {
			return (&Augment{Augmentation: a, Rand: sampling.Stream(seed, sampling.Augment, 3)}).Moves(50, 32)
		}
		some, again, other := moves(1), moves(1), moves(2)
		got, differ := want, false
		got.shift, got.cut, got.flip = false, false, false
		for i, m := range some {
			if m != again[i] {
				t.Fatalf("%s: %+v and %+v for the same seed", text, m, again[i])
			}
			differ = differ || m != other[i]
			got.shift = got.shift || m.DX != 0 || m.DY != 0
			got.cut = got.cut || m.part != (datasets.Rectangle{})
			got.flip = got.flip || m.Flip
		}
		if got != want || differ != (text != "none") {
			t.Errorf("%s: %+v, want %+v; differs by seed: %v", text, got, want, differ)
		}
	}
}

// Texts are read, written in canonical form, and read again as they are.
func TestCanonicalAugmentations(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"none", "none"},
		{"flip", "flip"},
		{"pad-crop", "pad-crop?pad=2"},
		{"pad-crop+flip?pad=4", "pad-crop+flip?pad=4"},
		{"resized-crop+flip?scale=.2-1.0", "resized-crop+flip?scale=0.2-1"},
		{"resized-crop?ratio=0.5-2&scale=0.08-1", "resized-crop?ratio=0.5-2"},
	} {
		got, err := ParseAugmentation(c.text, 2)
		if err != nil || got.String() != c.want {
			t.Errorf("%q is %q, %v; want %q", c.text, got, err, c.want)
			continue
		}
		if again, err := ParseAugmentation(got.String(), 2); err != nil || again != got {
			t.Errorf("%q is %q, %v, when read again", got, again, err)
		}
	}
}
