package drawn

import (
	"math"
	"math/rand/v2"
)

// nuisance says how much images of one class differ, and so how hard a drawn set is beside how close its classes are.
// Lengths are in the scene's unit, half the picture's side.
type nuisance struct {
	Rotation   float64 // degrees, ±
	Scale      [2]float64
	Shear      float64 // x per y, ±
	Narrow     float64 // the most by which the view narrows the object
	Shift      float64 // ±, each way
	Mirror     float64 // probability
	Shapes     int     // in the background, at most
	Pale       bool    // background: pale as in a studio, or any color
	Occluder   float64 // probability of something in front
	OccluderAt [2]float64
	Light      float64 // slope of the light across half the picture, ±
	Level      float64 // brightness, ±
	Cast       float64 // color cast of each channel, ±
	Noise      float64 // standard deviation of a pixel's noise, at most
}

// dice are the random choices of one stream.
type dice struct{ *rand.Rand }

// stream is a generator of its own for each (seed, a, b), so that any class or image can be drawn alone, in any order
// and on any core. The seeds are mixed because PCG's streams from neighboring seeds begin alike.
func stream(seed, a, b uint64) dice {
	return dice{rand.New(rand.NewPCG(mix64(seed+mix64(a)), mix64(b+0x9e3779b97f4a7c15*(seed+1))))}
}

// mix64 is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func mix64(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between is uniform in [lo, hi).
func (d dice) between(lo, hi float64) float64 { return lo + (hi-lo)*d.Float64() }

// within is uniform in [−a, a).
func (d dice) within(a float64) float64 { return d.between(-a, a) }

// chance is true with probability p.
func (d dice) chance(p float64) bool { return d.Float64() < p }

// color is any color, or a pale one.
func (d dice) color(pale bool) rgb {
	h, s, v := d.Float64(), d.Float64(), d.Float64()
	if pale {
		return hsv(h, 0.15*s, 0.8+0.2*v)
	}
	return hsv(h, 0.5*s, 0.25+0.7*v)
}

// scene begins an image: paints its background and chooses the pose in which the object is drawn.
func (n *nuisance) scene(cv *canvas, d dice) {
	cv.at = cv.frame
	cv.clear(d.color(n.Pale))
	for range d.IntN(n.Shapes + 1) {
		n.thing(cv, d, 1, [2]float64{0.25, 0.9})
	}
	width := d.between(1-n.Narrow, 1)
	if d.chance(n.Mirror) {
		width = -width
	}
	size := d.between(n.Scale[0], n.Scale[1])
	cv.at = scaling(width, 1).
		then(affine{1, d.within(n.Shear), 0, 0, 1, 0}).
		then(rotation(d.within(n.Rotation) * math.Pi / 180)).
		then(scaling(size, size)).
		then(translation(d.within(n.Shift), d.within(n.Shift))).
		then(cv.frame)
}

// thing draws a rectangle or an ellipse, anywhere and any way round.
func (n *nuisance) thing(cv *canvas, d dice, reach float64, half [2]float64) {
	m := rotation(d.between(0, math.Pi)).then(translation(d.within(reach), d.within(reach)))
	w, h := d.between(half[0], half[1]), d.between(half[0], half[1])
	round := d.chance(0.5)
	cv.within(m, func() {
		if round {
			cv.ellipse(0, 0, w, h)
		} else {
			cv.rect(-w, -h, w, h, 0)
		}
		cv.fill(d.color(n.Pale), 1)
	})
}

// develop ends an image: something in front, perhaps, then light, color cast and noise, in dst [size·size·3].
func (n *nuisance) develop(cv *canvas, d dice, dst []uint8) {
	cv.at = cv.frame
	if d.chance(n.Occluder) {
		n.thing(cv, d, 0.8, n.OccluderAt)
	}
	slopeX, slopeY, level := d.within(n.Light), d.within(n.Light), 1+d.within(n.Level)
	var cast rgb
	for k := range cast {
		cast[k] = 1 + d.within(n.Cast)
	}
	sigma := 255 * d.between(0, n.Noise)
	const area = supersample * supersample
	half := float64(cv.size) / 2
	for y := range cv.size {
		for x := range cv.size {
			light := (level + slopeX*(float64(x)/half-1) + slopeY*(float64(y)/half-1)) / area
			var sum [3]int
			for sy := range supersample {
				row := cv.img.Pix[cv.img.PixOffset(x*supersample, y*supersample+sy):]
				for sx := range supersample {
					for k := range sum {
						sum[k] += int(row[4*sx+k])
					}
				}
			}
			grain := d.grain()
			for k, s := range sum {
				v := float64(s)*light*cast[k] + sigma*grain[k] + 0.5
				dst[(y*cv.size+x)*3+k] = uint8(max(0, min(255, v)))
			}
		}
	}
}

// grain is three nearly normal numbers of mean 0 and variance 1: sums of four of 16 bits each, from 3 draws. (The
// standard library's normal numbers go through math.Exp, whose last bit depends on the processor.)
func (d dice) grain() [3]float64 {
	const (
		mean  = 4 * 65535.0 / 2
		sigma = 37837.22724 // √(4 · (65536² − 1) / 12)
	)
	var g [3]float64
	for k := range g {
		u := d.Uint64()
		g[k] = (float64(u&0xffff+u>>16&0xffff+u>>32&0xffff+u>>48) - mean) / sigma
	}
	return g
}

// Part is one split of a drawn set, or a piece of one.
type Part struct {
	Classes, PerClass int
	First             int    // the first image's number within its class: a gallery goes on where its queries end
	Seed              uint64 // of the images' streams
	Nuisance          nuisance
	Name              func(class int) string
	Paint             func(cv *canvas, d dice, class int) // draws the object in canvas' pose
}

// first is the part cut down to its first n classes; n = 0 leaves it whole.
func (p Part) first(n int) Part {
	if n > 0 {
		p.Classes = min(n, p.Classes)
	}
	return p
}

// Painter returns a function that draws images of a size, [size·size·3] each. The images of a part are those of its
// first class, then those of its second, and so on. The function is for one goroutine.
func (p Part) Painter(size int) func(image int, dst []uint8) {
	cv := newCanvas(size)
	return func(i int, dst []uint8) {
		class := i / p.PerClass
		d := stream(p.Seed, uint64(class), uint64(p.First+i%p.PerClass))
		p.Nuisance.scene(cv, d)
		p.Paint(cv, d, class)
		p.Nuisance.develop(cv, d, dst)
	}
}
