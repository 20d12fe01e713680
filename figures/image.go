package figures

import (
	"fmt"
	"image"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Image shows an image pixel by pixel, as a network sees it, with its description. The paper has no such figure. An
// image without pixels is an error.
func Image(img image.Image, alt string) (*Figure, error) {
	b := img.Bounds()
	if b.Empty() {
		return nil, fmt.Errorf("image: %d × %d pixels; want at least one", b.Dx(), b.Dy())
	}
	const width = 525 // Points, 700 pixels of a page.
	// A pixel of the image is several of the picture, so that viewers that smooth images blur only its edges.
	zoom := max(1, 2*width/b.Dx())
	large := image.NewRGBA(image.Rect(0, 0, b.Dx()*zoom, b.Dy()*zoom))
	for y := range b.Dy() * zoom {
		for x := range b.Dx() * zoom {
			large.Set(x, y, img.At(b.Min.X+x/zoom, b.Min.Y+y/zoom))
		}
	}
	return &Figure{
		Width: width, Height: width * vg.Length(b.Dy()) / vg.Length(b.Dx()), Alt: alt,
		panels: func(c draw.Canvas) { c.DrawImage(c.Rectangle, large) },
	}, nil
}
