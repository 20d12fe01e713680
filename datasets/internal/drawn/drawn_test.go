package drawn

import (
	"math"
	"slices"
	"testing"
)

// The classes themselves are what must be disjoint: no car or garment may be in two splits, under whatever name.
func TestClassesAreDisjoint(t *testing.T) {
	t.Parallel()
	cars, clothes := map[car]uint64{}, map[garment]uint64{}
	for seed, n := range map[uint64]int{carTrainClassSeed: carTrainClasses, carTestClassSeed: carTestClasses,
		otherCarClassSeed: otherCarClasses} {
		for c := range n {
			k := newCar(stream(seed, uint64(c), 0), carSpread)
			if other, ok := cars[k]; ok {
				t.Errorf("the same car from seeds %d and %d", seed, other)
			}
			cars[k] = seed
		}
	}
	for seed, n := range map[uint64]int{shopTrainClassSeed: shopTrainClasses, shopTestClassSeed: shopTestClasses,
		otherShopClassSeed: otherShopClasses} {
		for c := range n {
			k := newGarment(stream(seed, uint64(c), 0), c, 0)
			if other, ok := clothes[k]; ok {
				t.Errorf("the same garment from seeds %d and %d", seed, other)
			}
			clothes[k] = seed
		}
	}
	seeds := []int{carTrainClassSeed, carTrainImageSeed, carTestClassSeed, carTestImageSeed, shopTrainClassSeed,
		shopTrainImageSeed, shopTestClassSeed, shopTestImageSeed,
		blobClassSeed, blobImageSeed, otherCarClassSeed, otherCarImageSeed, otherShopClassSeed, otherShopImageSeed}
	slices.Sort(seeds)
	if len(slices.Compact(slices.Clone(seeds))) != len(seeds) {
		t.Error("two streams share a seed")
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

func BenchmarkDraw(b *testing.B) {
	for _, s := range Sets {
		b.Run(s.Name, func(b *testing.B) {
			p := s.Splits(0, 0)[0][0]
			const size = 32
			paint, dst := p.Painter(size), make([]uint8, size*size*3)
			for i := range b.N {
				paint(i%(p.Classes*p.PerClass), dst)
			}
		})
	}
}
