package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	_ "image/png" // A decoder that image.Decode finds.
	"io"
	"io/fs"
	"os"
)

// maxPixels bounds an image file's size once decoded (half a gigabyte), so that no file can exhaust memory.
const maxPixels = 1 << 27

// Raster is a picture of any shape: Pix holds red, green and blue of its pixels, row by row, [Height, Width, 3]. It is an
// [image.Image].
type Raster struct {
	Width, Height int
	Pix           []uint8
}

// ColorModel is that of colours without transparency.
func (r *Raster) ColorModel() color.Model { return color.RGBAModel }

// Bounds begin at (0, 0).
func (r *Raster) Bounds() image.Rectangle { return image.Rect(0, 0, r.Width, r.Height) }

// At is black outside the picture.
func (r *Raster) At(x, y int) color.Color {
	if !image.Pt(x, y).In(r.Bounds()) {
		return color.RGBA{A: 255}
	}
	p := r.Pix[3*(y*r.Width+x):]
	return color.RGBA{p[0], p[1], p[2], 255}
}

// ReadImage reads an image file by [DecodeRGB].
func ReadImage(path string) (*Raster, error) { return decodeFile(path) }

// DecodeRGB reads a JPEG or PNG image as Pillow's Image.open(file).convert("RGB") does, which is how torchvision's data
// sets read one (torchvision.datasets.folder.pil_loader), so that networks see the pixels that their peers see:
//   - The orientation that EXIF states is not applied.
//   - Transparency is dropped, not blended: a pixel keeps its colour, whatever its alpha.
//   - CMYK and YCCK JPEGs are taken as inverted, as Adobe writes them, and have no colour profile applied.
//   - Chroma that a JPEG has at half the resolution is interpolated as libjpeg does ("fancy upsampling").
//   - Of 16 bits a channel the high 8 are kept, but a grey PNG of 16 bits is cut off at 255.
//
// PNGs are equal bit for bit; of JPEGs some values differ by a few, since inverse cosine transforms round differently.
func DecodeRGB(in io.Reader) (*Raster, error) {
	file, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return decodeRGB(file)
}

func decodeRGB(file []byte) (*Raster, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, decodeError(err)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxPixels/config.Height {
		return nil, damage{fmt.Errorf("%d×%d pixels; want at least 1 and at most %d in all", config.Width, config.Height, maxPixels)}
	}
	src, _, err := image.Decode(bytes.NewReader(file))
	var unsupported jpeg.UnsupportedError
	if errors.As(err, &unsupported) && format == "jpeg" && config.ColorModel == color.CMYKModel {
		// Four components without Adobe's mark: with it, they are what Pillow takes them for.
		adobe := []byte{0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0}
		src, err = jpeg.Decode(io.MultiReader(bytes.NewReader(file[:2]), bytes.NewReader(adobe), bytes.NewReader(file[2:])))
	}
	if err != nil {
		return nil, decodeError(err)
	}
	return toRaster(src), nil
}

// damage is what decoding says of a file that was read and is no sound image.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

func decodeError(err error) error {
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return damage{errors.New("damaged image: it ends early")}
	case errors.Is(err, image.ErrFormat):
		return damage{errors.New("neither a JPEG nor a PNG image")}
	}
	return damage{fmt.Errorf("damaged image: %w", err)}
}

// decodeFile reads an image file. The path is the caller's to tell.
func decodeFile(path string) (*Raster, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return nil, err
	}
	return decodeRGB(file)
}

// toRaster drops what an image has beside red, green and blue.
func toRaster(src image.Image) *Raster {
	b := src.Bounds()
	r := &Raster{Width: b.Dx(), Height: b.Dy()}
	r.Pix = make([]uint8, 3*r.Width*r.Height)
	if ycc, ok := src.(*image.YCbCr); ok {
		fromYCbCr(r, ycc)
		return r
	}
	out := r.Pix
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out[0], out[1], out[2] = colourAt(src, x, y)
			out = out[3:]
		}
	}
	return r
}

// colourAt is a pixel as it is stored, without its alpha.
func colourAt(src image.Image, x, y int) (r, g, b uint8) {
	switch im := src.(type) {
	case *image.Gray:
		v := im.GrayAt(x, y).Y
		return v, v, v
	case *image.Gray16:
		v := uint8(min(im.Gray16At(x, y).Y, 255))
		return v, v, v
	case *image.RGBA: // Of a PNG or JPEG it is opaque.
		p := im.Pix[im.PixOffset(x, y):]
		return p[0], p[1], p[2]
	case *image.NRGBA:
		p := im.Pix[im.PixOffset(x, y):]
		return p[0], p[1], p[2]
	case *image.RGBA64:
		p := im.Pix[im.PixOffset(x, y):]
		return p[0], p[2], p[4]
	case *image.NRGBA64:
		p := im.Pix[im.PixOffset(x, y):]
		return p[0], p[2], p[4]
	case *image.CMYK: // Go's is ink; Pillow's arithmetic is Convert.c's cmyk2rgb.
		p := im.Pix[im.PixOffset(x, y):]
		k := 255 - int(p[3])
		ink := func(v uint8) uint8 {
			t := int(v)*k + 128
			return uint8(max(0, k-(t>>8+t)>>8))
		}
		return ink(p[0]), ink(p[1]), ink(p[2])
	}
	c := color.NRGBAModel.Convert(src.At(x, y)).(color.NRGBA)
	return c.R, c.G, c.B
}

// fromYCbCr is libjpeg's way from luma and subsampled chroma to RGB.
func fromYCbCr(r *Raster, im *image.YCbCr) {
	wide, tall := 1, 1 // By how much chroma is coarser.
	switch im.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		wide = 2
	case image.YCbCrSubsampleRatio420:
		wide, tall = 2, 2
	case image.YCbCrSubsampleRatio440:
		tall = 2
	case image.YCbCrSubsampleRatio411:
		wide = 4
	case image.YCbCrSubsampleRatio410:
		wide, tall = 4, 2
	}
	width, height := (r.Width+wide-1)/wide, (r.Height+tall-1)/tall
	cb, cr := make([]uint8, width*wide), make([]uint8, width*wide)
	sums := make([]int, width)
	origin := im.COffset(im.Rect.Min.X, im.Rect.Min.Y)
	for y := range r.Height {
		for _, plane := range []struct{ out, in []uint8 }{{cb, im.Cb}, {cr, im.Cr}} {
			row := func(k int) []uint8 {
				k = max(0, min(k, height-1))
				return plane.in[origin+k*im.CStride:][:width]
			}
			chromaRow(plane.out, sums, row, y, wide, tall)
		}
		luma := im.Y[im.YOffset(im.Rect.Min.X, im.Rect.Min.Y+y):][:r.Width]
		out := r.Pix[3*y*r.Width:][:3*r.Width]
		for x, l := range luma {
			p := out[3*x : 3*x+3 : 3*x+3]
			p[0], p[1], p[2] = yccToRGB(int32(l), int32(cb[x])-128, int32(cr[x])-128)
		}
	}
}

// chromaRow interpolates the chroma of row y of an image, as libjpeg-turbo's jdsample.c does: a triangle filter where
// there are two pixels to a sample, repetition elsewhere.
func chromaRow(out []uint8, sums []int, row func(int) []uint8, y, wide, tall int) {
	n := len(sums)
	near := row(y / tall)
	far := row(y/tall - 1)
	if y%2 == 1 {
		far = row(y/tall + 1)
	}
	switch {
	case wide == 1 && tall == 1:
		copy(out, near)
	case wide == 1: // h1v2_fancy_upsample
		bias := 1 + y%2
		for i := range n {
			out[i] = uint8((3*int(near[i]) + int(far[i]) + bias) >> 2)
		}
	case wide == 2 && n <= 2 || wide > 2: // Without neighbours.
		for i := range out {
			out[i] = near[i/wide]
		}
	case tall == 1: // h2v1_fancy_upsample
		for i := range n {
			v := 3 * int(near[i])
			out[2*i] = uint8((v + int(near[max(0, i-1)]) + 1) >> 2)
			out[2*i+1] = uint8((v + int(near[min(n-1, i+1)]) + 2) >> 2)
		}
	default: // h2v2_fancy_upsample
		for i := range n {
			sums[i] = 3*int(near[i]) + int(far[i])
		}
		before := sums[0]
		for i, v := range sums {
			after := v
			if i+1 < n {
				after = sums[i+1]
			}
			out[2*i] = uint8((3*v + before + 8) >> 4)
			out[2*i+1] = uint8((3*v + after + 7) >> 4)
			before = v
		}
	}
}

// yccToRGB is jdcolor.c's conversion, in fixed point of 16 bits; cb and cr are about 0.
func yccToRGB(y, cb, cr int32) (r, g, b uint8) {
	const half = 1 << 15
	return clip8(y + (91881*cr+half)>>16), clip8(y + (-22554*cb-46802*cr+half)>>16), clip8(y + (116130*cb+half)>>16)
}

// clip8 is v within 0..255.
func clip8(v int32) uint8 {
	if uint32(v) > 255 {
		if v < 0 {
			return 0
		}
		return 255
	}
	return uint8(v)
}
