package drawn

import "fmt"

// How hard minicar is: its classes look alike, so most of what counts is how far Spread pulls the proportions of a
// class away from its body type against how much the pose moves them.
var (
	carSpread   = 0.5  // a class' proportions differ from its body type's by up to this, in units of each one's range
	carZoom     = 1.15 // the larger the car in the picture, the more pixels tell its class
	carNuisance = nuisance{
		Rotation: 5, Scale: [2]float64{0.88, 1.05}, Shear: 0.04, Narrow: 0.05, Shift: 0.05, Mirror: 0.5,
		Shapes: 2, Occluder: 0.1, OccluderAt: [2]float64{0.1, 0.3},
		Light: 0.15, Level: 0.15, Cast: 0.05, Noise: 0.03,
	}
)

const (
	carTrainClasses, carTrainImages = 64, 16
	carTestClasses, carTestImages   = 96, 10

	// Streams of the class parameters and of the images, for each split.
	carTrainClassSeed, carTrainImageSeed = 101, 102
	carTestClassSeed, carTestImageSeed   = 103, 104
)

// minicar is a set of cars in side view, like CARS-196 in that the classes are many and look alike: 64 classes × 16
// images to train on, 96 others × 10 to test, all against all. A class is a body type with proportions of its own;
// color is never a clue.
func minicar(trainClasses, testClasses int) [][]Part {
	return [][]Part{
		{carPart("train", carTrainClasses, carTrainImages, carTrainClassSeed, carTrainImageSeed).first(trainClasses)},
		{carPart("test", carTestClasses, carTestImages, carTestClassSeed, carTestImageSeed).first(testClasses)},
	}
}

func carPart(split string, classes, images int, classSeed, imageSeed uint64) Part {
	cars := make([]car, classes)
	for c := range cars {
		cars[c] = newCar(stream(classSeed, uint64(c), 0), carSpread)
	}
	return Part{
		Classes: classes, PerClass: images, Seed: imageSeed, Nuisance: carNuisance,
		Name:  func(c int) string { return fmt.Sprintf("%s-%03d-%s", split, c, cars[c].kind) },
		Paint: func(cv *canvas, d dice, c int) { cv.within(scaling(carZoom, carZoom), func() { cars[c].paint(cv, d) }) },
	}
}

// The proportions of a car. carRange gives each one's length at parameter 0 and 1, in half pictures (the last three of
// the names in fractions).
const (
	wheelbase     = iota
	wheelRadius   // of the tire
	frontOverhang // from the front axle to the nose
	rearOverhang
	bodyHeight // from the sill's lower edge to the window line
	roofHeight // above the window line
	pillarFoot // of the windshield, behind the front axle
	rake       // of the windshield: how far its top lies behind its foot
	rearPillar // how far the rear window's foot lies behind its top
	clearance
	hoodDrop  // of the nose below the window line
	trunkDrop // of the tail below the window line
	sillHeight
	roofEnd // from the windshield's top (0) to the tail (1)
	bPillar // between the side windows' front (0) and rear (1)
	rimRatio
	carParameters
)

var carRange = [carParameters][2]float64{
	wheelbase:     {0.78, 1.02},
	wheelRadius:   {0.135, 0.19},
	frontOverhang: {0.20, 0.30},
	rearOverhang:  {0.18, 0.34},
	bodyHeight:    {0.25, 0.37},
	roofHeight:    {0.21, 0.34},
	pillarFoot:    {0.02, 0.26},
	rake:          {0.10, 0.34},
	rearPillar:    {0.03, 0.33},
	clearance:     {0.07, 0.13},
	hoodDrop:      {0.02, 0.15},
	trunkDrop:     {0, 0.10},
	sillHeight:    {0.03, 0.09},
	roofEnd:       {0.34, 0.94},
	bPillar:       {0.38, 0.62},
	rimRatio:      {0.50, 0.74},
}

// carTypes are the middles around which classes lie, by hand.
var carTypes = []struct {
	name string
	at   [carParameters]float64
}{
	{"sedan", [...]float64{wheelbase: .6, wheelRadius: .4, frontOverhang: .5, rearOverhang: .75, bodyHeight: .4,
		roofHeight: .4, pillarFoot: .5, rake: .55, rearPillar: .6, clearance: .4, hoodDrop: .45, trunkDrop: .3,
		sillHeight: .4, roofEnd: .4, bPillar: .5, rimRatio: .5}},
	{"hatch", [...]float64{wheelbase: .3, wheelRadius: .4, frontOverhang: .4, rearOverhang: .1, bodyHeight: .5,
		roofHeight: .6, pillarFoot: .35, rake: .55, rearPillar: .35, clearance: .4, hoodDrop: .6, trunkDrop: .3,
		sillHeight: .4, roofEnd: .78, bPillar: .5, rimRatio: .5}},
	{"suv", [...]float64{wheelbase: .6, wheelRadius: .8, frontOverhang: .45, rearOverhang: .4, bodyHeight: .8,
		roofHeight: .7, pillarFoot: .4, rake: .25, rearPillar: .15, clearance: .85, hoodDrop: .25, trunkDrop: .2,
		sillHeight: .75, roofEnd: .9, bPillar: .5, rimRatio: .6}},
	{"coupe", [...]float64{wheelbase: .5, wheelRadius: .6, frontOverhang: .6, rearOverhang: .5, bodyHeight: .25,
		roofHeight: .2, pillarFoot: .75, rake: .8, rearPillar: .9, clearance: .15, hoodDrop: .7, trunkDrop: .35,
		sillHeight: .25, roofEnd: .3, bPillar: .6, rimRatio: .7}},
	{"pickup", [...]float64{wheelbase: .9, wheelRadius: .75, frontOverhang: .4, rearOverhang: .6, bodyHeight: .6,
		roofHeight: .6, pillarFoot: .3, rake: .35, rearPillar: .05, clearance: .85, hoodDrop: .25, trunkDrop: .1,
		sillHeight: .5, roofEnd: .05, bPillar: .5, rimRatio: .5}},
}

// wheelArch is the radius of the arch, in tires.
const wheelArch = 1.13

// car is a class of minicar.
type car struct {
	kind string
	size [carParameters]float64 // lengths, not parameters
}

// newCar draws a class: a body type, each proportion moved by up to spread of its range.
func newCar(d dice, spread float64) car {
	t := carTypes[d.IntN(len(carTypes))]
	c := car{kind: t.name}
	for k, r := range carRange {
		c.size[k] = lerp(r[0], r[1], t.at[k]+d.within(spread))
	}
	// What no car lacks, however the draw went: a roof, wheels inside the body, pillars that lean the right way.
	c.size[rake] = max(c.size[rake], 0.04)
	c.size[rearPillar] = max(c.size[rearPillar], 0.01)
	c.size[sillHeight] = max(c.size[sillHeight], 0.015)
	c.size[roofEnd] = max(0.2, min(c.size[roofEnd], 0.97))
	c.size[frontOverhang] = max(c.size[frontOverhang], wheelArch*c.size[wheelRadius]+0.035)
	c.size[rearOverhang] = max(c.size[rearOverhang], wheelArch*c.size[wheelRadius]+0.025)
	return c
}

// paint draws the car, nose to the left, in a color that d chooses.
func (c *car) paint(cv *canvas, d dice) {
	body := d.carColor()
	glass := hsv(d.between(0.5, 0.62), d.between(0.05, 0.3), d.between(0.22, 0.62))
	dark := body.times(0.55)

	// Places: x to the rear, y down, the tires on the ground.
	const ground = 0.36
	s := &c.size
	nose := -(s[frontOverhang] + s[wheelbase] + s[rearOverhang]) / 2
	front := nose + s[frontOverhang]
	rear := front + s[wheelbase]
	tail := rear + s[rearOverhang]
	sill := ground - s[clearance]
	belt := sill - s[bodyHeight]
	roof := belt - s[roofHeight]
	screenFoot := front + s[pillarFoot]
	screenTop := screenFoot + s[rake]
	roofEnd := lerp(screenTop, tail, s[roofEnd])
	windowEnd := min(roofEnd+s[rearPillar], tail-0.02)
	roofEnd = min(roofEnd, windowEnd-0.01)
	hood, trunk := belt+s[hoodDrop], belt+s[trunkDrop]

	cv.ellipse((nose+tail)/2, ground, (tail-nose)/2+0.02, 0.055).fill(gray(0.05), 0.4)

	cv.polygon(
		corner{nose + 0.03, sill, 0.05}, corner{nose, lerp(sill, hood, 0.5), 0.08}, corner{nose + 0.03, hood, 0.08},
		corner{screenFoot, belt, 0.1}, corner{screenTop, roof, 0.09}, corner{roofEnd, roof + 0.015, 0.09},
		corner{windowEnd, min(belt, trunk), 0.06}, corner{tail - 0.015, trunk, 0.05},
		corner{tail, lerp(sill, trunk, 0.5), 0.06},
		corner{tail - 0.03, sill, 0.05}).
		fill(body, 1)

	// Light falls from above: a bright shoulder, a dark lower body, then the sill.
	cv.rect(nose+0.06, belt+0.4*(hood-belt)+0.03, tail-0.04, belt+0.4*(hood-belt)+0.06, 0.02).
		fill(body.mix(gray(1), 0.55), 0.6)
	cv.rect(nose+0.02, sill-0.42*s[bodyHeight], tail-0.01, sill, 0.03).fill(dark, 0.35)
	cv.rect(nose+0.02, sill-s[sillHeight], tail-0.02, sill+0.005, 0.02).fill(gray(0.14), 0.85)

	// Windows: one pane inside the pillars, a lighter slant as its reflection, a body-colored B-pillar over it.
	const post = 0.035
	base, top := belt-0.012, roof+0.045
	left, right := screenFoot+post+0.01, windowEnd-post-0.01
	topLeft, topRight := screenTop+post*0.6, roofEnd-post*0.6
	if topRight < topLeft+0.06 {
		topRight = topLeft + 0.06
	}
	right = max(right, topRight)
	pane := func() {
		cv.polygon(corner{left, base, 0.02}, corner{topLeft, top, 0.04}, corner{topRight, top, 0.04},
			corner{right, base, 0.02})
	}
	pane()
	cv.fill(glass, 1)
	slant := lerp(topLeft, topRight, 0.12)
	cv.polygon(corner{slant - 0.05, base, 0}, corner{slant + 0.04, top, 0}, corner{slant + 0.1, top, 0},
		corner{slant + 0.01, base, 0}).
		fill(glass.mix(gray(1), 0.6), 0.55)
	post2 := lerp(left, right, s[bPillar])
	cv.line(post2, base+0.01, post2+0.015, top-0.01, 0.045).fill(body, 1)

	// Doors, handles, mirror, lights, bumper: the small things that make it a car at larger sizes.
	seam := body.times(0.45)
	cv.line(post2, belt, post2, sill-s[sillHeight], 0.012).fill(seam, 0.8)
	cv.line(left+0.01, belt, left-0.02, sill-s[sillHeight], 0.012).fill(seam, 0.8)
	cv.rect(post2-0.1, belt+0.055, post2-0.03, belt+0.075, 0.01).fill(seam, 0.9)
	if right-post2 > 0.2 {
		cv.rect(post2+0.08, belt+0.055, post2+0.15, belt+0.075, 0.01).fill(seam, 0.9)
	}
	cv.ellipse(left+0.035, base-0.015, 0.032, 0.026).fill(dark, 1)
	cv.polygon(corner{nose + 0.012, hood + 0.05, 0.01}, corner{nose + 0.12, hood + 0.035, 0.03},
		corner{nose + 0.1, hood + 0.09, 0.03}, corner{nose + 0.008, hood + 0.1, 0.01}).
		fill(rgb{0.98, 0.96, 0.82}, 1)
	cv.rect(tail-0.06, trunk+0.04, tail-0.008, trunk+0.11, 0.015).fill(rgb{0.75, 0.08, 0.08}, 1)

	for _, axle := range []float64{front, rear} {
		c.paintWheel(cv, axle, ground-s[wheelRadius], sill)
	}
}

// paintWheel draws the arch in the body, the tire and a rim of five spokes.
func (c *car) paintWheel(cv *canvas, x, y, sill float64) {
	r := c.size[wheelRadius]
	arch := r * wheelArch
	// The arch ends at the sill: below it there is no body to cut.
	foot := min(sill, y+arch)
	cv.polygon(corner{x - arch, foot, 0}, corner{x - arch, y - arch, arch}, corner{x + arch, y - arch, arch},
		corner{x + arch, foot, 0}).
		fill(gray(0.07), 1)
	cv.ellipse(x, y, r, r).fill(gray(0.13), 1)
	rim := r * c.size[rimRatio]
	cv.ellipse(x, y, rim, rim).fill(gray(0.78), 1)
	for k := range 5 {
		cv.within(rotation(float64(k)*1.2566370614).then(translation(x, y)),
			func() { cv.ellipse(0, -0.62*rim, 0.2*rim, 0.26*rim) })
	}
	cv.fill(gray(0.3), 1)
}

// carColor is a body color: half of all cars are white, gray or black.
func (d dice) carColor() rgb {
	h, s, v := d.Float64(), d.between(0.45, 0.95), d.between(0.35, 0.9)
	if d.chance(0.5) {
		return gray(d.between(0.15, 0.95))
	}
	return hsv(h, s, v)
}
