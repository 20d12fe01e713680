package nb

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"maps"
	"os"
	"slices"

	"github.com/janpfeifer/gonb/gonbui/protocol"
	ximage "golang.org/x/image/draw"
)

const (
	// The largest change of a channel, of 255: small for colors that fill areas, which must not show bands, and larger
	// for rare colors, which are on the edges of letters.
	compactTolerance     = 3
	compactRareTolerance = 12
	// A color with a smaller share of the picture is rare. A picture with a larger share of rare colors is not a drawing.
	compactRare  = 2e-4
	compactEdges = 0.12
)

// photographQuality is the quality of a JPEG file.
const photographQuality = 80

// compact encodes a drawing as a PNG file with a palette, which takes a third of the space in a notebook. Frequent
// colors change little or not at all; those of soft edges are replaced by close ones. What is not a drawing becomes a
// JPEG file of half the resolution, 96 dots per inch: a page of photographs would take half of a notebook otherwise.
func compact(img *image.RGBA) (kind protocol.MIMEType, file []byte, err error) {
	if file = drawing(img); file != nil {
		return protocol.MIMEImagePNG, file, nil
	}
	size := img.Rect.Size()
	half := image.NewRGBA(image.Rect(0, 0, size.X/2, size.Y/2))
	ximage.CatmullRom.Scale(half, half.Rect, img, img.Rect, ximage.Src, nil)
	var b bytes.Buffer
	err = jpeg.Encode(&b, half, &jpeg.Options{Quality: photographQuality})
	return "image/jpeg", b.Bytes(), err
}

// drawing returns a picture as a PNG file with a palette, or nil if it has too many colors for a drawing.
func drawing(img *image.RGBA) []byte {
	counts := make(map[[4]uint8]int)
	for i := 0; i < len(img.Pix); i += 4 {
		counts[[4]uint8(img.Pix[i:])]++
	}
	colors := slices.SortedFunc(maps.Keys(counts), func(a, b [4]uint8) int {
		return cmp.Or(counts[b]-counts[a], slices.Compare(a[:], b[:]))
	})
	pixels := float64(len(img.Pix) / 4)
	rare := func(c [4]uint8) bool { return float64(counts[c]) < compactRare*pixels }
	edges := 0
	for c, n := range counts {
		if rare(c) {
			edges += n
		}
	}
	if float64(edges) > compactEdges*pixels {
		return nil
	}
	var kept [][4]uint8
	index := make(map[[4]uint8]uint8, len(colors))
	for _, c := range colors {
		tolerance := compactTolerance
		if rare(c) {
			tolerance = compactRareTolerance
		}
		best := slices.IndexFunc(kept, func(k [4]uint8) bool { return apart(c, k) <= tolerance })
		switch {
		case best >= 0:
		case len(kept) < 256:
			best = len(kept)
			kept = append(kept, c)
		case rare(c):
			best = slices.Index(kept, slices.MinFunc(kept, func(a, b [4]uint8) int { return apart(c, a) - apart(c, b) }))
		default:
			return nil
		}
		index[c] = uint8(best)
	}
	palette := make(color.Palette, len(kept))
	for i, k := range kept {
		palette[i] = color.RGBA{k[0], k[1], k[2], k[3]}
	}
	out := image.NewPaletted(img.Rect, palette)
	for i := range out.Pix {
		out.Pix[i] = index[[4]uint8(img.Pix[4*i:])]
	}
	var b bytes.Buffer
	var encoder png.Encoder
	if os.Getenv("DMLX_HEADLESS") != "" { // A notebook to keep. This takes five times as long for 6 % less.
		encoder.CompressionLevel = png.BestCompression
	}
	if err := encoder.Encode(&b, out); err != nil {
		return nil
	}
	return b.Bytes()
}

// apart returns the largest difference of two colors in a channel.
func apart(a, b [4]uint8) int {
	most := 0
	for i := range a {
		most = max(most, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return most
}
