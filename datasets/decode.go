package datasets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"strings"

	"github.com/gradient-surgery/dml/datasets/internal/jpeg"
	"github.com/gradient-surgery/dml/dmlx/durable"
)

// maxPixels bounds an image file's size once decoded (half a gigabyte), so that no file can exhaust memory.
const maxPixels = 1 << 27

// maxFile bounds an image file in bytes: no compression makes a picture of maxPixels longer.
const maxFile = 1 << 30

// Raster is a picture of any size, and an [image.Image]. Pix holds red, green and blue of its pixels, row by row,
// [Height, Width, 3].
type Raster struct {
	Width, Height int
	Pix           []uint8
	Warning       string // What is wrong with a file whose picture is whole; "" if nothing.
}

// ColorModel returns [color.RGBAModel].
func (r *Raster) ColorModel() color.Model { return color.RGBAModel }

// Bounds returns the picture's rectangle, which begins at (0, 0).
func (r *Raster) Bounds() image.Rectangle { return image.Rect(0, 0, r.Width, r.Height) }

// At returns the color of a pixel, and black outside the picture.
func (r *Raster) At(x, y int) color.Color {
	if !image.Pt(x, y).In(r.Bounds()) {
		return color.RGBA{A: 255}
	}
	p := r.Pix[3*(y*r.Width+x):]
	return color.RGBA{p[0], p[1], p[2], 255}
}

// ReadImage reads the image file of a path by [DecodeRGB].
func ReadImage(path string) (*Raster, error) { return decodeFile(path) }

// DecodeRGB reads a JPEG or PNG image as Pillow's Image.open(file).convert("RGB") does, which is how torchvision's data
// sets read one (torchvision.datasets.folder.pil_loader), so that networks see the pixels that their peers see:
//   - The orientation that EXIF states is not applied.
//   - Transparency is dropped, not blended: a pixel keeps its color, whatever its alpha.
//   - CMYK and YCCK JPEGs are taken as inverted, as Adobe writes them, and have no color profile applied.
//   - Chroma that a JPEG has at half the resolution is interpolated as libjpeg does ("fancy upsampling").
//   - Of 16 bits a channel the high 8 are kept, but a gray PNG of 16 bits is cut off at 255.
//
// All pixels are equal to Pillow's. A file that Pillow refuses is an error, and so is one of which Pillow would invent
// a pixel: a JPEG with damaged data or without all scans, a damaged PNG. A damaged JPEG whose picture is whole has a
// [Raster].Warning: extraneous bytes before a marker, another version of JFIF or an undefined color transform. Animated
// PNGs are read as their first image.
func DecodeRGB(in io.Reader) (*Raster, error) {
	file, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(file) > maxFile {
		return nil, damage{fmt.Errorf("more than %d bytes", maxFile)}
	}
	return decodeRGB(file)
}

func decodeRGB(file []byte) (*Raster, error) {
	switch {
	case bytes.HasPrefix(file, []byte("\xff\xd8\xff")):
		width, height, pix, warning, err := jpeg.Decode(file, maxPixels)
		if err != nil {
			return nil, decodeError(err)
		}
		return &Raster{width, height, pix, warning}, nil
	case !bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")):
		if what := durable.Looks(file); what != "" {
			return nil, damage{fmt.Errorf("neither a JPEG nor a PNG image: it is %s", what)}
		}
		return nil, damage{errors.New("neither a JPEG nor a PNG image")}
	}
	config, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, decodeError(err)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxPixels/config.Height {
		return nil, damage{fmt.Errorf("%d×%d pixels; want at least 1 and at most %d in all", config.Width, config.Height,
			maxPixels)}
	}
	if err := checkChunks(file, config.Width, config.Height); err != nil {
		return nil, decodeError(err)
	}
	src, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, decodeError(err)
	}
	return toRaster(src), nil
}

// chunkLengths are the lengths that chunks beside the pixels must have, by name. Pillow refuses shorter ones.
var chunkLengths = map[string]int{"gAMA": 4, "cHRM": 32, "sRGB": 1, "pHYs": 9, "acTL": 8, "fcTL": 26}

// checkChunks refuses what image/png passes over and Pillow does not, chunks whose names are not letters or whose
// lengths are wrong, and a picture that is larger than the file's data can unpack to, before memory is taken for it.
func checkChunks(file []byte, width, height int) error {
	const start, beside, ratio = 8, 12, 1032 // Deflate packs 258 bytes into 2 bits at best.
	packed, frames := 0, uint32(0)
	for at := start; at+beside <= len(file); {
		length, name := int(binary.BigEndian.Uint32(file[at:])), string(file[at+4:at+8])
		if length > len(file)-at-beside {
			return fmt.Errorf("it ends early: a chunk of %d bytes at byte %d of %d", length, at, len(file))
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r|0x20 < 'a' || r|0x20 > 'z' }) {
			return fmt.Errorf("a chunk named %q at byte %d; want four letters", name, at)
		}
		if want, ok := chunkLengths[name]; ok && length != want {
			return fmt.Errorf("a chunk %s of %d bytes at byte %d; want %d", name, length, at, want)
		}
		data := file[at+8 : at+8+length]
		switch name {
		case "IDAT":
			packed += length
		case "fcTL", "fdAT": // Of an animation: a running number, then of fcTL width, height, x and y.
			if length < 4 || binary.BigEndian.Uint32(data) != frames {
				return fmt.Errorf("a chunk %s at byte %d out of turn", name, at)
			}
			frames++
			number := func(i int) int { return int(binary.BigEndian.Uint32(data[4*i:])) }
			if name == "fcTL" && (number(1)+number(3) > width || number(2)+number(4) > height) {
				return fmt.Errorf("a frame at byte %d beyond the picture's %d×%d pixels", at, width, height)
			}
		case "iCCP", "zTXt": // A keyword, 0, the method of compression.
			_, method, _ := bytes.Cut(data, []byte{0})
			if len(method) > 0 && method[0] != 0 {
				return fmt.Errorf("a chunk %s at byte %d with compression method %d; want 0", name, at, method[0])
			}
		}
		if at += beside + length; name == "IEND" {
			break
		}
	}
	const depth, kind = 24, 25 // Where IHDR has the bits and the channels of a pixel.
	channels := map[byte]int{2: 3, 4: 2, 6: 4}[file[kind]]
	if bits := max(1, channels) * int(file[depth]) * width; (bits+7)/8*height > packed*ratio {
		return fmt.Errorf("it ends early: %d×%d pixels in %d bytes, of which each is %d at most", width, height, packed,
			ratio)
	}
	return nil
}

// damage is the error of decoding a file that was read and is no sound image.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

func decodeError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return damage{errors.New("damaged image: it ends early")}
	}
	return damage{fmt.Errorf("damaged image: %w", err)}
}

// decodeFile reads an image file. Its errors leave the path to the caller.
func decodeFile(path string) (*Raster, error) {
	file, err := durable.ReadAtMost(path, maxFile)
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return nil, err
	}
	return decodeRGB(file)
}

// toRaster returns an image's red, green and blue, without its alpha.
func toRaster(src image.Image) *Raster {
	b := src.Bounds()
	r := &Raster{Width: b.Dx(), Height: b.Dy()}
	r.Pix = make([]uint8, 3*r.Width*r.Height)
	out := r.Pix
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out[0], out[1], out[2] = colorAt(src, x, y)
			out = out[3:]
		}
	}
	return r
}

// colorAt is a pixel as it is stored, without its alpha.
func colorAt(src image.Image, x, y int) (r, g, b uint8) {
	switch im := src.(type) {
	case *image.Gray:
		v := im.GrayAt(x, y).Y
		return v, v, v
	case *image.Gray16:
		v := uint8(min(im.Gray16At(x, y).Y, 255))
		return v, v, v
	case *image.RGBA: // Of a PNG it is opaque.
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
	}
	c := color.NRGBAModel.Convert(src.At(x, y)).(color.NRGBA)
	return c.R, c.G, c.B
}
