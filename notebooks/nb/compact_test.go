package nb

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"
)

func TestCompact(t *testing.T) {
	encode := func(at func(x, y int) color.NRGBA) []byte {
		img := image.NewNRGBA(image.Rect(0, 0, 128, 128))
		for y := range 128 {
			for x := range 128 {
				img.SetNRGBA(x, y, at(x, y))
			}
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	blue := color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	// A blue square with soft, slightly noisy edges on white: more than 256 colors.
	drawn := encode(func(x, y int) color.NRGBA {
		d := max(x-64, 64-x, y-64, 64-y)
		switch {
		case d < 30:
			return blue
		case d < 34:
			mix := func(a uint8) uint8 { return uint8(min(255, int(a)+(255-int(a))*(d-29)/5+(x*y)%7)) }
			return color.NRGBA{mix(blue.R), mix(blue.G), mix(blue.B), 0xff}
		case d == 50 && x == 14:
			return color.NRGBA{uint8(y), uint8(y), uint8(y), 0xff}
		}
		return color.NRGBA{0xff, 0xff, 0xff, 0xff}
	})
	_, small := compact(drawn)
	if len(small) >= len(drawn) {
		t.Errorf("%d bytes of %d", len(small), len(drawn))
	}
	before, _ := png.Decode(bytes.NewReader(drawn))
	after, err := png.Decode(bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	of := func(img image.Image, x, y int) [4]uint8 {
		c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
		return [4]uint8{c.R, c.G, c.B, c.A}
	}
	if c := of(after, 64, 64); c != [4]uint8{blue.R, blue.G, blue.B, blue.A} {
		t.Errorf("the square is %v", c)
	}
	for y := range 128 {
		for x := range 128 {
			if a, b := of(before, x, y), of(after, x, y); apart(a, b) > compactRareTolerance {
				t.Fatalf("at %d, %d: %v became %v", x, y, a, b)
			}
		}
	}
	// The areas of a heat map keep their many colors, nearly.
	area := func(x, y int) bool { return (7*x+13*y)%61 > 0 } // All else is dots in rare colors.
	cells := func(x, y int) color.NRGBA {
		if !area(x, y) {
			return color.NRGBA{uint8(x), uint8(y), uint8(x * y), 0xff}
		}
		return color.NRGBA{uint8(24 * (x / 16)), uint8(24 * (y / 16)), 100, 0xff}
	}
	heat := encode(cells)
	_, mappedFile := compact(heat)
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
	// A picture with colors all over is a photograph; what is no picture stays unchanged.
	many := encode(func(x, y int) color.NRGBA { return color.NRGBA{uint8(2 * x), uint8(2 * y), uint8(x*x ^ y*y), 0xff} })
	if kind, small := compact(many); kind != "image/jpeg" || len(small) >= len(many) {
		t.Errorf("many colors: %s, %d bytes of %d", kind, len(small), len(many))
	}
	for name, data := range map[string][]byte{"none": []byte("<svg/>"), "empty": nil} {
		if _, same := compact(data); !bytes.Equal(same, data) {
			t.Errorf("%s: changed", name)
		}
	}
}
