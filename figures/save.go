package figures

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"path/filepath"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// Output is a [*Figure], a [*Table] or another picture that [Save] and [Bytes] can write.
type Output interface {
	// Formats lists the formats, as file name extensions without the dot.
	Formats() []string
	bytes(format string) ([]byte, error)
}

// Failed returns an output that stands for a failure: writing it, in any format, returns err.
func Failed(err error) Output { return failed{err} }

// Failure returns the error of an output made by [Failed], and nil for any other output.
func Failure(o Output) error {
	if f, ok := o.(failed); ok {
		return f.err
	}
	return nil
}

type failed struct{ err error }

func (failed) Formats() []string              { return (&Table{}).Formats() }
func (f failed) bytes(string) ([]byte, error) { return nil, f.err }

// Formats returns svg, png and pdf.
func (f *Figure) Formats() []string { return []string{"svg", "png", "pdf"} }

// PNGResolution is the resolution of PNG files, in dots per inch.
const PNGResolution = 192

// Bytes renders a figure or a table in a format, such as svg or md. The error for an unknown format lists the known
// ones.
func Bytes(o Output, format string) ([]byte, error) {
	for _, f := range o.Formats() {
		if f == format {
			return o.bytes(format)
		}
	}
	return nil, fmt.Errorf("unknown format %q; use one of %s", format, strings.Join(o.Formats(), ", "))
}

// Save writes a figure or a table to a file, in the format of the path's extension. It creates missing folders and
// replaces the file atomically.
func Save(o Output, path string) error {
	data, err := Bytes(o, strings.ToLower(strings.TrimPrefix(filepath.Ext(path), ".")))
	if err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	return durable.WriteInFolder(path, data, 0o666)
}

func (f *Figure) bytes(format string) (data []byte, err error) {
	err = f.try(func() error {
		switch format {
		case "svg":
			data, err = f.svg()
		case "pdf":
			data, err = written(upright{vgpdf.New(f.Width, f.height())}, f)
		default:
			data, err = f.png(PNGResolution)
		}
		return err
	})
	return data, err
}

// Image returns the pixels of the figure's PNG file.
func (f *Figure) Image() (img *image.RGBA, err error) {
	err = f.try(func() error {
		c := f.pixels(PNGResolution)
		f.Draw(draw.New(c))
		img = c.Image().(*image.RGBA)
		return nil
	})
	return img, err
}

// try calls a function that draws. gonum/plot panics when it cannot draw, for example on an infinite range.
func (f *Figure) try(drawing func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("drawing: %v", r)
		}
	}()
	if !(f.Width > 0 && f.Height > 0) {
		return fmt.Errorf("drawing: the figure's size is %v × %v; want positive lengths", f.Width, f.Height)
	}
	return drawing()
}

func (f *Figure) pixels(dpi int) *vgimg.Canvas {
	return vgimg.NewWith(vgimg.UseWH(f.Width, f.height()), vgimg.UseDPI(dpi))
}

func (f *Figure) png(dpi int) ([]byte, error) {
	return written(vgimg.PngCanvas{Canvas: f.pixels(dpi)}, f)
}

func written(c vg.CanvasWriterTo, f *Figure) ([]byte, error) {
	f.Draw(draw.New(c))
	var b bytes.Buffer
	_, err := c.WriteTo(&b)
	return b.Bytes(), err
}

func init() {
	// A PDF has no date, so that a picture is the same file each time, unless several of its images are equally wide:
	// fpdf orders those at random.
	fpdf.SetDefaultCatalogSort(true)
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
}

// upright is a PDF canvas that draws images the right way up. The one of gonum/plot flips them.
type upright struct{ *vgpdf.Canvas }

func (c upright) DrawImage(r vg.Rectangle, img image.Image) {
	b := img.Bounds()
	c.Canvas.DrawImage(r, raster(b.Dx(), b.Dy(), 1, 1, func(column, row int) color.NRGBA {
		return color.NRGBAModel.Convert(img.At(b.Min.X+column, b.Max.Y-1-row)).(color.NRGBA)
	}))
}

func (f *Figure) svg() ([]byte, error) {
	data, err := written(vgsvg.New(f.Width, f.height()), f)
	if err != nil {
		return nil, err
	}
	var alt bytes.Buffer
	if err := xml.EscapeText(&alt, []byte(Printable(f.Alt))); err != nil {
		return nil, err
	}
	data = bytes.ReplaceAll(data, []byte("data:image/jpg;"), []byte("data:image/png;")) // What gonum/plot writes is PNG.
	// Without image-rendering, viewers blur the cells of a heat map.
	data = bytes.ReplaceAll(data, []byte("<image "),
		[]byte(`<image preserveAspectRatio="none" style="image-rendering:pixelated" `))
	if f.Alt != "" {
		open := bytes.Index(data, []byte("<g "))
		if open > 0 {
			data = bytes.Join([][]byte{data[:open], []byte("<title>"), alt.Bytes(), []byte("</title>\n"), data[open:]}, nil)
		}
		data = bytes.Replace(data, []byte("<svg "), []byte(`<svg role="img" `), 1)
	}
	return data, nil
}
