package nb

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"
)

func TestCompact(t *testing.T) {
	painted := func(at func(x, y int) color.RGBA) *image.RGBA {
		img := image.NewRGBA(image.Rect(0, 0, 128, 128))
		for y := range 128 {
			for x := range 128 {
				img.SetRGBA(x, y, at(x, y))
			}
		}
		return img
	}
	full := func(img image.Image) int {
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		return b.Len()
	}
	blue := color.RGBA{0x00, 0x72, 0xb2, 0xff}
	// A blue square with soft, slightly noisy edges on white: more than 256 colors.
	drawn := painted(func(x, y int) color.RGBA {
		d := max(x-64, 64-x, y-64, 64-y)
		switch {
		case d < 30:
			return blue
		case d < 34:
			mix := func(a uint8) uint8 { return uint8(min(255, int(a)+(255-int(a))*(d-29)/5+(x*y)%7)) }
			return color.RGBA{mix(blue.R), mix(blue.G), mix(blue.B), 0xff}
		case d == 50 && x == 14:
			return color.RGBA{uint8(y), uint8(y), uint8(y), 0xff}
		}
		return color.RGBA{0xff, 0xff, 0xff, 0xff}
	})
	_, small, err := compact(drawn)
	if err != nil || len(small) >= full(drawn) {
		t.Errorf("%d bytes of %d, %v", len(small), full(drawn), err)
	}
	after, err := png.Decode(bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	of := func(img image.Image, x, y int) [4]uint8 {
		c := color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)
		return [4]uint8{c.R, c.G, c.B, c.A}
	}
	if c := of(after, 64, 64); c != [4]uint8{blue.R, blue.G, blue.B, blue.A} {
		t.Errorf("the square is %v", c)
	}
	for y := range 128 {
		for x := range 128 {
			if a, b := of(drawn, x, y), of(after, x, y); apart(a, b) > compactRareTolerance {
				t.Fatalf("at %d, %d: %v became %v", x, y, a, b)
			}
		}
	}
	// The areas of a heat map keep their many colors, nearly.
	area := func(x, y int) bool { return (7*x+13*y)%61 > 0 } // All else is dots in rare colors.
	cells := func(x, y int) color.RGBA {
		if !area(x, y) {
			return color.RGBA{uint8(x), uint8(y), uint8(x * y), 0xff}
		}
		return color.RGBA{uint8(24 * (x / 16)), uint8(24 * (y / 16)), 100, 0xff}
	}
	heat := painted(cells)
	_, mappedFile, _ := compact(heat)
	mapped, err := png.Decode(bytes.NewReader(mappedFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := mapped.(*image.Paletted); !ok {
		t.Errorf("a heat map of 64 colors has no palette: %T", mapped)
	}
	for y := range 128 {
		for x := range 128 {
			c := cells(x, y)
			if got := of(mapped, x, y); area(x, y) && apart(got, [4]uint8{c.R, c.G, c.B, c.A}) > compactTolerance {
				t.Fatalf("heat map at %d, %d: %v became %v", x, y, c, got)
			}
		}
	}
	// A picture with colors all over is a photograph.
	many := painted(func(x, y int) color.RGBA { return color.RGBA{uint8(2 * x), uint8(2 * y), uint8(x*x ^ y*y), 0xff} })
	if kind, small, err := compact(many); kind != "image/jpeg" || len(small) >= full(many) || err != nil {
		t.Errorf("many colors: %s, %d bytes of %d, %v", kind, len(small), full(many), err)
	}
}
