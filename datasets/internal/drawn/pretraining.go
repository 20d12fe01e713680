package drawn

import (
	"fmt"
	"math"
)

const (
	blobClasses, blobImages                = 60, 40
	otherCarClasses, otherCarImages        = 60, 40
	otherShopClasses, otherShopImages      = 100, 20
	blobClassSeed, blobImageSeed           = 301, 302
	otherCarClassSeed, otherCarImageSeed   = 303, 304
	otherShopClassSeed, otherShopImageSeed = 305, 306
)

// blobRecolored is the share of blob classes whose colors change from image to image, so that only shape tells.
const blobRecolored = 0.7

// Pretraining is what the small net learns before it is fine-tuned: blobs, cars and clothes of other classes than those
// of minicar and minishop.
func Pretraining(classes int) []Part {
	return []Part{
		blobPart(blobClasses, blobImages).first(classes),
		carPart("other", otherCarClasses, otherCarImages, otherCarClassSeed, otherCarImageSeed).first(classes),
		shopPart("other", otherShopClasses, otherShopImages, otherShopClassSeed, otherShopImageSeed).first(classes),
	}
}

func blobPart(classes, images int) Part {
	blobs := make([]blob, classes)
	for c := range blobs {
		blobs[c] = newBlob(stream(blobClassSeed, uint64(c), 0))
	}
	return Part{
		Classes: classes, PerClass: images, Seed: blobImageSeed, Nuisance: carNuisance,
		Name:  func(c int) string { return fmt.Sprintf("other-%03d-blob", c) },
		Paint: func(cv *canvas, d dice, c int) { blobs[c].paint(cv, d) },
	}
}

// blob is a class of 2 to 4 closed curves over one another, each with a cloth of its own.
type blob struct {
	recolored bool
	outlines  []outline
}

// outline is r(θ) = radius (1 + Σ amplitude[k] cos((k+2) θ + phase[k])) around a center.
type outline struct {
	cloth
	x, y, radius     float64
	amplitude, phase [4]float64
}

func newBlob(d dice) blob {
	b := blob{recolored: d.chance(blobRecolored)}
	for k := range 2 + d.IntN(3) {
		o := outline{cloth: newCloth(d, d.Float64(), d.IntN(patterns)), radius: d.between(0.45, 0.65)}
		if k > 0 {
			o.x, o.y, o.radius = d.within(0.4), d.within(0.4), d.between(0.15, 0.35)
		}
		for h := range o.amplitude {
			o.amplitude[h] = d.within(0.35 / float64(h+1))
			o.phase[h] = d.between(0, 2*math.Pi)
		}
		b.outlines = append(b.outlines, o)
	}
	return b
}

func (b *blob) paint(cv *canvas, d dice) {
	for k := range b.outlines {
		o := &b.outlines[k]
		ground, figure := o.colors(d, shopColors)
		if b.recolored {
			ground, figure = d.color(false), d.color(false)
		}
		const corners = 48
		var path []corner
		for i := range corners {
			angle := 2 * math.Pi * float64(i) / corners
			r := 1.0
			for h, a := range o.amplitude {
				r += a * math.Cos(float64(h+2)*angle+o.phase[h])
			}
			r *= o.radius
			sin, cos := math.Sincos(angle)
			path = append(path, corner{o.x + r*cos, o.y + r*sin, 1})
		}
		cv.polygon(path...).shade(func(x, y, pixel float64) rgb { return ground.mix(figure, o.cover(x, y, pixel)) })
	}
}
