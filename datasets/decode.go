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

// Raster is a picture of any size. Pix holds red, green and blue of its pixels, row by row,
// [Height, Width, 3].
type Raster struct {
	Width, Height int
	Pix           []uint8
	Warning       string // What is wrong with a file whose picture is whole, or shown otherwise; "" if nothing.
}

// ReadImage reads a JPEG or PNG file as Pillow's Image.open(file).convert("RGB") does, which is how torchvision's data
// sets read one (torchvision.datasets.folder.pil_loader), so that networks see the pixels that their peers see:
//   - The orientation that EXIF states is not applied.
//   - Transparency is dropped, not blended: a pixel keeps its color, whatever its alpha.
//   - CMYK and YCCK JPEGs are taken as inverted, as Adobe writes them, and have no color profile applied.
//   - Chroma that a JPEG has at half the resolution is interpolated as libjpeg does ("fancy upsampling").
//   - Of 16 bits a channel the high 8 are kept, but a gray PNG of 16 bits is cut off at 255.
//
// All pixels are equal to Pillow's. A file of which Pillow would invent a pixel is an error: a JPEG with damaged data
// or without all scans, a damaged PNG. A damaged JPEG whose picture is whole has a [Raster].Warning: extraneous bytes
// before a marker, another version of JFIF or an undefined color transform. So has a picture that viewers turn by its
// EXIF, and one with transparent pixels. Of animated PNGs the first image is read.
func ReadImage(path string) (*Raster, error) { return decodeFile(path) }

// DecodeImage reads a JPEG or PNG file that is in memory, as [ReadImage] does.
func DecodeImage(file []byte) (*Raster, error) {
	switch {
	case bytes.HasPrefix(file, []byte("\xff\xd8\xff")):
		width, height, pix, warning, err := jpeg.Decode(file, maxPixels)
		if err != nil {
			return nil, decodeError(err)
		}
		if warning == "" && turned(file) {
			warning = "its EXIF turns it, which is not applied"
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
	// Deflate packs 258 bytes into 2 bits at best; a pixel has one bit or more.
	const ratio = 1032
	if (config.Width+7)/8*config.Height > len(file)*ratio { // Before memory is taken for it.
		return nil, decodeError(io.ErrUnexpectedEOF)
	}
	src, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, decodeError(err)
	}
	return RasterOf(src), nil
}

// turned tells whether the EXIF of a JPEG file says that its picture is to be turned or mirrored.
func turned(file []byte) bool {
	_, tiff, _ := bytes.Cut(file[:min(len(file), 1<<16)], []byte("Exif\x00\x00"))
	if len(tiff) < 8 {
		return false
	}
	var order binary.ByteOrder = binary.BigEndian
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}
	entries := tiff[min(int64(order.Uint32(tiff[4:])), int64(len(tiff)-2)):]
	n := order.Uint16(entries)
	for entries = entries[2:]; n > 0 && len(entries) >= 12; n, entries = n-1, entries[12:] {
		if order.Uint16(entries) == 0x112 { // The orientation.
			return order.Uint16(entries[8:]) > 1
		}
	}
	return false
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
	return DecodeImage(file)
}

// beginsAsImage tells whether a file, whatever its name, begins as an image does.
func beginsAsImage(path string) bool {
	f, err := durable.Open(path)
	if err != nil {
		return false // Only a file that is read has to be readable.
	}
	defer f.Close()
	head := make([]byte, 64)
	n, _ := io.ReadFull(f, head)
	return strings.HasSuffix(durable.Looks(head[:n]), " image")
}

// RasterOf returns an image's red, green and blue, without its alpha.
func RasterOf(src image.Image) *Raster {
	b := src.Bounds()
	r := &Raster{Width: b.Dx(), Height: b.Dy()}
	if im, can := src.(interface{ Opaque() bool }); can && !im.Opaque() {
		r.Warning = "pixels are transparent, of which the colors below are read"
	}
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
