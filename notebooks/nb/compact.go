package nb

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"slices"
)

const (
	// compactTolerance is how far a channel may be off, of 255: no eye sees it on the edge of a letter.
	compactTolerance = 12
	// A drawing has few colours almost everywhere; a heat map has not, and would show bands.
	compactColours = 24
	compactShare   = 0.9
)

// compact writes the PNG file of a drawing with a palette: its frequent colours as they are, those on soft edges by one that is
// close. It then takes a third of the room in a notebook. Other pictures stay as they are.
func compact(data []byte) []byte {
	decoded, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return data
	}
	img := image.NewNRGBA(decoded.Bounds())
	draw.Draw(img, img.Rect, decoded, img.Rect.Min, draw.Src)
	counts := make(map[[4]uint8]int)
	for i := 0; i < len(img.Pix); i += 4 {
		counts[[4]uint8(img.Pix[i:])]++
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b [4]uint8) int {
		return cmp.Or(counts[b]-counts[a], slices.Compare(a[:], b[:]))
	})
	frequent := 0
	for _, c := range colours[:min(len(colours), compactColours)] {
		frequent += counts[c]
	}
	if float64(frequent) < compactShare*float64(len(img.Pix)/4) {
		return data
	}
	var kept [][4]uint8
	index := make(map[[4]uint8]uint8, len(colours))
	for _, c := range colours {
		best := slices.IndexFunc(kept, func(k [4]uint8) bool { return apart(c, k) <= compactTolerance })
		if best < 0 {
			if best = len(kept); best == 256 {
				return data
			}
			kept = append(kept, c)
		}
		index[c] = uint8(best)
	}
	palette := make(color.Palette, len(kept))
	for i, k := range kept {
		palette[i] = color.NRGBA{k[0], k[1], k[2], k[3]}
	}
	out := image.NewPaletted(img.Rect, palette)
	for i := range out.Pix {
		out.Pix[i] = index[[4]uint8(img.Pix[4*i:])]
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, out); err != nil || b.Len() > len(data) {
		return data
	}
	return b.Bytes()
}

// apart is the largest difference of two colours' channels.
func apart(a, b [4]uint8) int {
	most := 0
	for i := range a {
		most = max(most, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return most
}
