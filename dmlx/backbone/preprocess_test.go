package backbone_test

import (
	"encoding/json"
	"image"
	"image/color"
	"os"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// The pixels are those of torchvision's Resize and CenterCrop, value for value: testdata/preprocess.py made the file.
func TestEvaluationPixels(t *testing.T) {
	raw, err := os.ReadFile("testdata/preprocess.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Width, Height, Resize, Crop int
		Pixels                      []int
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 5 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		img := pattern(c.Width, c.Height)
		got, err := backbone.EvaluationPixels(img, c.Resize, c.Crop)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(c.Pixels) {
			t.Fatalf("%d×%d: %d values, want %d", c.Width, c.Height, len(got), len(c.Pixels))
		}
		for i := range got {
			if int(got[i]) != c.Pixels[i] {
				t.Errorf("%d×%d to %d, %d: value %d is %d, want %d", c.Width, c.Height, c.Resize, c.Crop, i, got[i], c.Pixels[i])
				break
			}
		}
	}
	// Where the image lies in its plane does not matter.
	all := pattern(40, 30)
	part, err := backbone.EvaluationPixels(all.SubImage(image.Rect(5, 5, 25, 25)), 10, 8)
	if err != nil || len(part) != 8*8*3 {
		t.Errorf("%d values, %v", len(part), err)
	}
	if _, err := backbone.EvaluationPixels(all, 10, 20); err == nil || !strings.Contains(err.Error(), "20 pixels") {
		t.Errorf("a square larger than the image: %v", err)
	}
	if _, err := backbone.EvaluationPixels(image.NewNRGBA(image.Rect(0, 0, 0, 3)), 10, 8); err == nil {
		t.Error("no pixels, no error")
	}
}

// pattern is an image that testdata/preprocess.py makes too.
func pattern(w, h int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.SetNRGBA(x, y, color.NRGBA{uint8((x*37 + y*11) % 256), uint8((x * y) % 251), uint8((x*x + 3*y) % 256), uint8(255 - (x+y)%2*55)})
		}
	}
	return img
}
