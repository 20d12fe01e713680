package figures

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"
)

func TestImage(t *testing.T) {
	img := image.NewRGBA(image.Rect(1, 1, 5, 3))
	for x := 1; x < 5; x++ {
		for y := 1; y < 3; y++ {
			img.Set(x, y, color.RGBA{uint8(60 * x), uint8(90 * y), 0, 255})
		}
	}
	f, err := Image(img, "eight pixels")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := Bytes(f, "png")
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for x := 1; x < 5; x++ {
		for y := 1; y < 3; y++ {
			at := got.At(got.Bounds().Dx()*(2*x-1)/8, got.Bounds().Dy()*(2*y-1)/4)
			if r, g, _, _ := at.RGBA(); uint8(r>>8) != uint8(60*x) || uint8(g>>8) != uint8(90*y) {
				t.Errorf("pixel %d, %d is %v", x, y, at)
			}
		}
	}
	if _, err := Image(image.NewRGBA(image.Rectangle{}), ""); err == nil {
		t.Error("an image without pixels passes")
	}
}
