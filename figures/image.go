package figures

import (
	"fmt"
	"image"
	"image/color"

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
	// A pixel of the image is several whole ones of a PNG: smoothing would blur it, and make a file of many colors.
	const dots = 72.0 / 192 // Points of a PNG's pixel.
	zoom := max(1, 1400/b.Dx())
	large := raster(b.Dx(), b.Dy(), zoom, zoom, func(column, row int) color.NRGBA {
		return color.NRGBAModel.Convert(img.At(b.Min.X+column, b.Min.Y+row)).(color.NRGBA)
	})
	return &Figure{
		Width:  vg.Length(dots*float64(b.Dx()*zoom)) + 2*margin,
		Height: vg.Length(dots*float64(b.Dy()*zoom)) + 2*margin, Alt: alt,
		panels: func(c draw.Canvas) { c.DrawImage(c.Rectangle, large) },
	}, nil
}
