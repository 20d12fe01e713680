package page

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"
	"os"
	"slices"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
)

// carsFile has the test images that the page draws as a head learns: those of the eight first test classes, in the
// order of the features, in rows of 20.
const (
	carsFile            = "web/cars.png"
	carSide, carsInARow = 32, 20
	carClasses          = 8
)

// TestCars draws the images anew: they are the first test images of the file of features.
func TestCars(t *testing.T) {
	set, err := datasets.Open("minicar", datasets.Options{Size: carSide})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, header, _ := readFeatures(t); !slices.Equal(header.Test, set.Test.Labels) {
		t.Fatal("the file of features has other test labels")
	}
	n := slices.IndexFunc(set.Test.Labels, func(l int64) bool { return l >= set.Test.Labels[0]+carClasses })
	want := image.NewNRGBA(image.Rect(0, 0, carsInARow*carSide, (n+carsInARow-1)/carsInARow*carSide))
	for i := range n {
		x, y := i%carsInARow*carSide, i/carsInARow*carSide
		draw.Draw(want, image.Rect(x, y, x+carSide, y+carSide), set.Test.Thumbnail(i), image.Point{}, draw.Src)
	}
	if *regen {
		var out bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, want); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(carsFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(carsFile)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := png.Decode(bytes.NewReader(raw))
	if err != nil || kept.Bounds() != want.Bounds() {
		t.Fatalf("%v, %v; want %v", kept, err, want.Bounds())
	}
	for y := range want.Bounds().Dy() {
		for x := range want.Bounds().Dx() {
			if got := want.ColorModel().Convert(kept.At(x, y)); got != want.At(x, y) {
				t.Fatalf("pixel %d, %d is %v; want %v", x, y, got, want.At(x, y))
			}
		}
	}
}
