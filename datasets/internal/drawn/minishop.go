package drawn

import (
	"fmt"
	"math"
)

// How hard minishop is: classes stand well apart in cut, color and pattern; light and pose vary enough that a net which
// is trained on them still errs on one query in six.
var (
	shopColors = colorJitter{Hue: 0.05, Value: 0.25}
	// shopContrast is how much a pattern's color at least differs from the cloth's in lightness.
	shopContrast = 0.15
	// shopHueJitter is how far a class' hue strays from the even spread that classes of the same cut and pattern have.
	shopHueJitter = 0.04
	shopSkin      = 0.6 // probability of a head, and of legs
	shopNuisance  = nuisance{
		Rotation: 10, Scale: [2]float64{0.8, 1.1}, Shear: 0.06, Narrow: 0.12, Shift: 0.12, Mirror: 0.5,
		Shapes: 2, Pale: true, Occluder: 0.4, OccluderAt: [2]float64{0.15, 0.35},
		Light: 0.2, Level: 0.2, Cast: 0.1, Noise: 0.04,
	}
)

const (
	shopTrainClasses, shopTrainImages         = 240, 6
	shopTestClasses, shopQueries, shopGallery = 240, 3, 3
	shopTrainClassSeed, shopTrainImageSeed    = 201, 202
	shopTestClassSeed, shopTestImageSeed      = 203, 204
)

// minishop is a set of clothes, like In-shop in that classes are many, well separated and small: 240 classes × 6 images
// to train on, 240 others × 3 queries and 3 gallery images to test. A class is a cut with measures of its own, a color
// and a pattern.
func minishop(trainClasses, testClasses int) [][]Part {
	query := shopPart("test", shopTestClasses, shopQueries, shopTestClassSeed, shopTestImageSeed).first(testClasses)
	gallery := query
	gallery.PerClass, gallery.First = shopGallery, shopQueries
	return [][]Part{
		{shopPart("train", shopTrainClasses, shopTrainImages, shopTrainClassSeed, shopTrainImageSeed).first(trainClasses)},
		{query},
		{gallery},
	}
}

func shopPart(split string, classes, images int, classSeed, imageSeed uint64) Part {
	start := stream(classSeed, math.MaxUint64, 0).Float64()
	clothes := make([]garment, classes)
	for c := range clothes {
		clothes[c] = newGarment(stream(classSeed, uint64(c), 0), c, start)
	}
	return Part{
		Classes: classes, PerClass: images, Seed: imageSeed, Nuisance: shopNuisance,
		Name: func(c int) string { return fmt.Sprintf("%s-%03d-%s", split, c, cuts[clothes[c].cut].name) },
		Paint: func(cv *canvas, d dice, c int) {
			cv.within(translation(0, cuts[clothes[c].cut].down), func() { clothes[c].paint(cv, d) })
		},
	}
}

// colorJitter is how much a class' colors vary between its images: hue in turns, value relative, each ±.
type colorJitter struct{ Hue, Value float64 }

// cloth is a class' colors and pattern.
type cloth struct {
	hue, saturation, value    float64
	hue2, saturation2, value2 float64 // of the pattern
	pattern                   int
	period                    float64 // of the pattern, half pictures
	place                     float64 // where the pattern begins
}

// newCloth draws a cloth of the given hue and pattern. The pattern's color is drawn until its lightness differs enough.
func newCloth(d dice, hue float64, pattern int) cloth {
	c := cloth{hue: hue, saturation: d.between(0.35, 0.95), value: d.between(0.3, 0.95), pattern: pattern}
	for range 50 {
		c.hue2, c.saturation2, c.value2 = d.Float64(), d.between(0, 0.9), d.between(0.1, 1)
		if math.Abs(hsv(c.hue, c.saturation, c.value).luma()-hsv(c.hue2, c.saturation2, c.value2).luma()) > shopContrast {
			break
		}
	}
	c.period, c.place = d.between(0.16, 0.4), d.Float64()
	return c
}

// colors are the cloth's two colors in one image.
func (c *cloth) colors(d dice, j colorJitter) (ground, figure rgb) {
	hue, value := d.within(j.Hue), 1+d.within(j.Value)
	return hsv(c.hue+hue, c.saturation, min(1, c.value*value)), hsv(c.hue2+hue, c.saturation2, min(1, c.value2*value))
}

const (
	plain = iota
	acrossStripes
	downStripes
	diagonalStripes
	checks
	dots
	block
	patterns
)

// cover is how much of the pattern's color lies at (x, y): 0 … 1, its edges blurred over a pixel.
func (c *cloth) cover(x, y, pixel float64) float64 {
	switch c.pattern {
	case acrossStripes:
		return c.stripe(y, pixel)
	case downStripes:
		return c.stripe(x, pixel)
	case diagonalStripes:
		return c.stripe((x+y)*math.Sqrt2/2, pixel)
	case checks:
		return (c.stripe(x, pixel) + c.stripe(y, pixel)) / 2
	case dots:
		row := math.Floor(y/c.period + c.place)
		v := y/c.period + c.place - row - 0.5
		u := x/c.period + c.place + 0.5*row
		u -= math.Floor(u) + 0.5
		return clamp01((0.3-math.Sqrt(u*u+v*v))*c.period/pixel + 0.5)
	case block:
		edge := lerp(-0.3, 0.3, c.place)
		return clamp01((y-edge)/pixel + 0.5)
	}
	return 0
}

// stripe is a stripe of 0.45 of the period, at the coordinate u across it.
func (c *cloth) stripe(u, pixel float64) float64 {
	u = u/c.period + c.place
	u -= math.Floor(u)
	return clamp01((0.225-math.Abs(u-0.5))*c.period/pixel + 0.5)
}

// The measures of a garment, each 0 … 1.
const (
	shoulder = iota
	hem
	length
	neck
	sleeve
	garmentMeasures
)

// garment is a class of minishop.
type garment struct {
	cloth
	cut int
	m   [garmentMeasures]float64
}

// cuts are the kinds of garments and how each is laid down.
var cuts = []struct {
	name       string
	head, legs bool    // what a wearer shows
	down       float64 // moves it to the middle of the picture
	paint      func(g *garment, p *tailor)
}{
	{"tee", true, false, 0.14, func(g *garment, p *tailor) {
		bottom := lerp(0.2, 0.6, g.m[length])
		p.top(bottom, lerp(0.24, 0.42, g.m[sleeve]), lerp(0.14, 0.24, g.m[sleeve]))
	}},
	{"longsleeve", true, false, 0.1, func(g *garment, p *tailor) {
		bottom := lerp(0.2, 0.6, g.m[length])
		p.top(bottom, lerp(0.75, 1.05, g.m[sleeve]), lerp(0.11, 0.2, g.m[sleeve]))
	}},
	{"tank", true, false, 0.16, func(g *garment, p *tailor) { p.tank(lerp(0.15, 0.6, g.m[length])) }},
	{"dress", true, true, 0.04, func(g *garment, p *tailor) { p.dress(lerp(0.45, 0.9, g.m[length])) }},
	{"skirt", false, true, 0.12, func(g *garment, p *tailor) { p.skirt(lerp(0.05, 0.75, g.m[length])) }},
	{"trousers", false, false, -0.1, func(g *garment, p *tailor) {
		p.trousers(lerp(0.62, 0.9, g.m[length]), lerp(0.13, 0.26, g.m[sleeve]))
	}},
	{"shorts", false, true, 0.22, func(g *garment, p *tailor) {
		p.trousers(lerp(-0.1, 0.3, g.m[length]), lerp(0.24, 0.36, g.m[sleeve]))
	}},
	{"coat", true, true, 0.06, func(g *garment, p *tailor) {
		bottom := lerp(0.45, 0.85, g.m[length])
		p.top(bottom, lerp(0.85, 1.1, g.m[sleeve]), lerp(0.16, 0.24, g.m[sleeve]))
		p.buttons(bottom)
	}},
}

// newGarment is class c: cuts and patterns take turns and hues are spread evenly (by the golden ratio) over classes
// that share both, so that no two classes are near twins by chance.
func newGarment(d dice, c int, startHue float64) garment {
	const golden = 0.6180339887498949
	cut := c % len(cuts)
	pattern := c / len(cuts) % patterns
	g := garment{cut: cut}
	round, place := float64(c/(len(cuts)*patterns)), float64(c%(len(cuts)*patterns))
	g.cloth = newCloth(d, startHue+golden*round+0.37*place+d.within(shopHueJitter), pattern)
	for k := range g.m {
		g.m[k] = d.Float64()
	}
	return g
}

// paint draws the garment from the front, on a wearer or not.
func (g *garment) paint(cv *canvas, d dice) {
	ground, figure := g.colors(d, shopColors)
	skin := hsv(d.between(0.04, 0.09), d.between(0.25, 0.6), d.between(0.45, 0.95))
	hair := hsv(d.between(0.03, 0.12), d.between(0.2, 0.7), d.between(0.08, 0.6))
	head, legs := d.chance(shopSkin), d.chance(shopSkin)
	k := cuts[g.cut]
	p := &tailor{
		cv: cv, g: g, thread: ground.times(0.5),
		color: func(x, y, pixel float64) rgb { return ground.mix(figure, g.cover(x, y, pixel)) },
	}
	if legs && k.legs {
		for _, side := range []float64{-1, 1} {
			cv.polygon(corner{side * 0.03, -0.1, 0}, corner{side * 0.25, -0.1, 0}, corner{side * 0.2, 1.2, 0},
				corner{side * 0.07, 1.2, 0}).fill(skin, 1)
		}
	}
	if head && k.head {
		cv.ellipse(0, -0.86, 0.155, 0.18).fill(hair, 1)
		cv.rect(-0.075, -0.8, 0.075, -0.5, 0).fill(skin.times(0.9), 1)
		cv.ellipse(0, -0.82, 0.12, 0.155).fill(skin, 1)
		// Shoulders and chest, for a wide neck to show.
		cv.polygon(corner{-0.2, -0.6, 0.1}, corner{0.2, -0.6, 0.1}, corner{0.2, -0.2, 0}, corner{-0.2, -0.2, 0}).fill(skin, 1)
	}
	k.paint(g, p)
}

// tailor lays down the pieces of one garment in one image.
type tailor struct {
	cv     *canvas
	g      *garment
	thread rgb
	color  func(x, y, pixel float64) rgb
}

// both adds an outline, given as its right half from the top down, mirrored to its left, and shades it.
func (p *tailor) both(half ...corner) {
	whole := append([]corner(nil), half...)
	for k := len(half) - 1; k >= 0; k-- {
		if half[k].x != 0 {
			whole = append(whole, corner{-half[k].x, half[k].y, half[k].radius})
		}
	}
	p.cv.polygon(whole...).shade(p.color)
}

const shoulderY = -0.62

// neckline is the outline's beginning: the middle of the neck, and its side.
func (p *tailor) neckline() (mid, side corner) {
	width, depth := lerp(0.1, 0.22, p.g.m[neck]), lerp(0.05, 0.26, p.g.m[neck])
	return corner{0, shoulderY + depth, 0.12}, corner{width, shoulderY - 0.02, 0}
}

// top is a shirt down to bottom with sleeves of the given length and width.
func (p *tailor) top(bottom, sleeveLength, sleeveWidth float64) {
	mid, side := p.neckline()
	s, h := lerp(0.3, 0.42, p.g.m[shoulder]), lerp(0.28, 0.46, p.g.m[hem])
	// A sleeve hangs at this slope from the shoulder.
	const dx, dy = 0.42, 0.9075
	armpit := corner{s - 0.05, shoulderY + 0.1 + sleeveWidth*1.1, 0.03}
	for _, m := range []float64{-1, 1} {
		x, y := s-0.02, shoulderY+0.07
		ex, ey := x+dx*sleeveLength, y+dy*sleeveLength
		wx, wy := -dy*sleeveWidth, dx*sleeveWidth
		p.cv.polygon(corner{m * x, y - 0.04, 0.08}, corner{m * ex, ey, 0.02}, corner{m * (ex + wx), ey + wy, 0.02},
			corner{m * (armpit.x - 0.06), armpit.y, 0}, corner{m * (x - 0.1), y, 0}).
			shade(p.color)
		p.cv.line(m*armpit.x, armpit.y, m*(s-0.005), shoulderY+0.06, 0.014).fill(p.thread, 0.6)
	}
	p.both(mid, side, corner{s, shoulderY + 0.05, 0.06}, armpit,
		corner{lerp(s, h, 0.5) - 0.03, lerp(armpit.y, bottom, 0.5), 0.1}, corner{h, bottom, 0.03})
	for _, m := range []float64{-1, 1} {
		p.cv.line(m*armpit.x, armpit.y, m*(s-0.005), shoulderY+0.06, 0.014).fill(p.thread, 0.6)
	}
	p.cv.line(-h+0.01, bottom-0.04, h-0.01, bottom-0.04, 0.012).fill(p.thread, 0.5)
	p.collar(mid, side)
}

// collar is the rib around the neck.
func (p *tailor) collar(mid, side corner) {
	for _, m := range []float64{-1, 1} {
		p.cv.polygon(corner{0, mid.y, 0.1}, corner{m * side.x, side.y, 0}, corner{m * (side.x + 0.035), side.y + 0.01, 0},
			corner{0, mid.y + 0.045, 0.1}).
			fill(p.thread, 0.85)
	}
}

// tank is a top of straps and no sleeves.
func (p *tailor) tank(bottom float64) {
	mid, side := p.neckline()
	mid.y += 0.1
	s, h := side.x+lerp(0.06, 0.16, p.g.m[shoulder]), lerp(0.28, 0.46, p.g.m[hem])
	p.both(mid, side, corner{s, shoulderY, 0}, corner{s + 0.01, shoulderY + 0.25, 0.12},
		corner{0.34, shoulderY + 0.4, 0.04}, corner{h, bottom, 0.03})
	p.cv.line(-h+0.01, bottom-0.04, h-0.01, bottom-0.04, 0.012).fill(p.thread, 0.5)
	p.collar(mid, side)
}

// dress has a waist and a wide hem.
func (p *tailor) dress(bottom float64) {
	mid, side := p.neckline()
	s, h, cap := lerp(0.26, 0.36, p.g.m[shoulder]), lerp(0.3, 0.66, p.g.m[hem]), lerp(0, 0.14, p.g.m[sleeve])
	const waist = -0.05
	p.both(mid, side, corner{s, shoulderY + 0.03, 0.04}, corner{s + cap, shoulderY + 0.06 + cap, 0.03},
		corner{0.28, shoulderY + 0.3, 0.06}, corner{0.21, waist, 0.08}, corner{h, bottom, 0.05})
	p.cv.line(-0.22, waist, 0.22, waist, 0.05).fill(p.thread, 0.9)
	p.collar(mid, side)
}

const waistY = -0.55

// skirt hangs from a waistband.
func (p *tailor) skirt(bottom float64) {
	w, h := lerp(0.22, 0.32, p.g.m[shoulder]), lerp(0.3, 0.72, p.g.m[hem])
	p.both(corner{w, waistY, 0}, corner{lerp(w, h, 0.55) + 0.05*p.g.m[sleeve], lerp(waistY, bottom, 0.4), 0.15},
		corner{h, bottom, 0.04})
	for _, m := range []float64{-0.4, 0, 0.4} {
		p.cv.line(m*w, waistY+0.12, m*h, bottom-0.02, 0.012).fill(p.thread, 0.35)
	}
	p.band(w)
}

// trousers have two legs, as wide at the foot as given.
func (p *tailor) trousers(bottom, foot float64) {
	w, hip := lerp(0.24, 0.32, p.g.m[shoulder]), lerp(0.3, 0.42, p.g.m[hem])
	crotch := lerp(-0.2, -0.02, p.g.m[neck])
	out := max(foot+0.05, hip-0.02)
	p.both(corner{w, waistY, 0}, corner{hip, crotch - 0.12, 0.1}, corner{out, bottom, 0.02},
		corner{out - foot, bottom, 0.02}, corner{0, crotch, 0.02})
	p.cv.line(0, waistY, 0, crotch, 0.014).fill(p.thread, 0.7)
	for _, m := range []float64{-1, 1} {
		p.cv.line(m*(w-0.1), waistY+0.1, m*(hip-0.03), waistY+0.24, 0.014).fill(p.thread, 0.7)
	}
	p.band(w)
}

// band is a waistband.
func (p *tailor) band(w float64) {
	p.cv.rect(-w-0.005, waistY-0.02, w+0.005, waistY+0.055, 0.01).fill(p.thread, 0.9)
}

// buttons close a coat's front, with its lapels.
func (p *tailor) buttons(bottom float64) {
	p.cv.line(0, shoulderY+0.15, 0, bottom, 0.016).fill(p.thread, 0.9)
	for _, m := range []float64{-1, 1} {
		p.cv.polygon(corner{m * 0.1, shoulderY - 0.03, 0}, corner{m * 0.22, shoulderY + 0.12, 0.02},
			corner{m * 0.02, shoulderY + 0.42, 0}).fill(p.thread, 0.8)
	}
	for y := shoulderY + 0.5; y < bottom-0.1; y += 0.2 {
		p.cv.ellipse(0.06, y, 0.024, 0.024).fill(p.thread, 1)
	}
}
