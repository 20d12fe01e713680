package figures

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"testing"
)

// TestDraftLooksTheSame compares a draft with the figure as SVG: the same text but for the files of its images, and the
// same pixels in these, of a heat map with many colors and of a matrix with few.
func TestDraftLooksTheSame(t *testing.T) {
	values := make([]float32, 40*40)
	for i := range values {
		values[i] = float32(i % 41)
	}
	diagram, err := TripletDiagram(Diagram{Field: Field{Title: "T", Values: values}, Levels: []float64{}})
	if err != nil {
		t.Fatal(err)
	}
	matrix, err := GradientMatrix(Matrix{Values: []float32{0, 1, -1, 0.5}, Labels: []int64{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`data:image/png;base64,[^"]*`)
	for _, f := range []*Figure{diagram, matrix} {
		whole, err := Bytes(f, "svg")
		if err != nil {
			t.Fatal(err)
		}
		draft, err := Draft(f)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file.ReplaceAll(whole, nil), file.ReplaceAll(draft, nil)) {
			t.Error("the draft has another text")
		}
		a, b := file.FindAll(whole, -1), file.FindAll(draft, -1)
		if len(a) < 2 || len(a) != len(b) {
			t.Fatalf("%d images, in the draft %d", len(a), len(b))
		}
		for i := range a {
			x, y := decoded(t, a[i]), decoded(t, b[i])
			if x.Bounds() != y.Bounds() || x.Bounds().Dx() < 1 {
				t.Fatalf("image %d is %v, in the draft %v", i, x.Bounds(), y.Bounds())
			}
			for row := range x.Bounds().Dy() {
				for column := range x.Bounds().Dx() {
					k, l := color.NRGBAModel.Convert(x.At(column, row)), color.NRGBAModel.Convert(y.At(column, row))
					if k != l {
						t.Fatalf("image %d has %v at %d, %d, in the draft %v", i, k, column, row, l)
					}
				}
			}
		}
	}
}

func decoded(t *testing.T, url []byte) image.Image {
	t.Helper()
	_, text, _ := bytes.Cut(url, []byte(","))
	data, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}
