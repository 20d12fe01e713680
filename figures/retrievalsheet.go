package figures

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"sort"
	"strings"

	ximage "golang.org/x/image/draw"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// RetrievalRow is a query with the images that a network retrieves for it, nearest first.
type RetrievalRow struct {
	Query image.Image
	Class string
	Hits  []RetrievalHit
}

// RetrievalHit is a retrieved image.
type RetrievalHit struct {
	Image      image.Image
	Class      string
	Similarity float64
	Right      bool // Whether it has the query's class.
}

const (
	// sheetSide is the side of a picture: 96 pixels of a PNG file, a multiple of 32, so that small pictures stay sharp.
	sheetSide = 96 * vg.Inch / PNGResolution
	sheetGap  = vg.Length(6)
	sheetRow  = sheetSide + 21
	// The layout of a row: the room after the query and after the others, between columns, and of the heads.
	sheetFirst   = 3 * sheetGap
	sheetBetween = 2 * sheetGap
	sheetHead    = 16
)

// RetrievalSheet draws queries, one in each row, with their nearest images and similarities. A right image has a thin
// blue frame. A wrong one has a thick orange frame with a cross in its corner, and the name of its class below. The
// paper has no such figure.
func RetrievalSheet(provenance string, rows ...RetrievalRow) (*Figure, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("retrieval sheet: no queries; want at least one")
	}
	most, right, first, all := 0, 0, 0, 0
	for i, r := range rows {
		if r.Query == nil || len(r.Hits) == 0 {
			return nil, fmt.Errorf("retrieval sheet: query %d has no picture or no retrieved image; want both", i)
		}
		most = max(most, len(r.Hits))
		for k, h := range r.Hits {
			if h.Image == nil || math.IsNaN(h.Similarity) {
				return nil, fmt.Errorf("retrieval sheet: image %d of query %d has no picture, or similarity %v; "+
					"want a picture and a number", k+1, i, h.Similarity)
			}
			if h.Right {
				right++
			}
		}
		if all += len(r.Hits); r.Hits[0].Right {
			first++
		}
	}
	// Short rows are set in two columns.
	columns := 1
	if len(rows) > 1 && most <= 5 {
		columns = 2
	}
	lines := (len(rows) + columns - 1) / columns
	wide := vg.Length(sheetSide+sheetFirst) + vg.Length(most)*(sheetSide+sheetGap) + sheetBetween // A column.
	return &Figure{
		Width:      2*margin + vg.Length(columns)*wide - sheetBetween,
		Height:     2*margin + sheetHead + vg.Length(lines)*sheetRow + noteRoom(provenance),
		Provenance: provenance,
		Alt: fmt.Sprintf("%d queries with their %d nearest images each: %d of %d are of the query's class, and so is the "+
			"nearest of %d queries.", len(rows), most, right, all, first),
		panels: func(c draw.Canvas) {
			head := aligned(bold(style(labelSize, ink)), text.XLeft, text.YTop)
			for i, r := range rows {
				left, line := c.Min.X+vg.Length(i/lines)*wide, i%lines
				top := c.Max.Y - sheetHead - vg.Length(line)*sheetRow
				x, hits := left+sheetSide+sheetFirst/2, left+sheetSide+sheetFirst
				c.StrokeLine2(stroke(faint, 1), x, top, x, top-sheetSide)
				if line == 0 {
					write(c, head, left, c.Max.Y, "query")
					write(c, head, hits, c.Max.Y, "nearest first, with its similarity")
				}
				at := pt(left, top-sheetSide)
				c.DrawImage(thumbAt(at), thumb(r.Query))
				writeBelow(c, at, ink, r.Class)
				for k, h := range r.Hits {
					h.draw(c, pt(hits+vg.Length(k)*(sheetSide+sheetGap), at.Y))
				}
			}
		},
	}, nil
}

// thumbAt is the place of a picture with its lower left corner at a point.
func thumbAt(at vg.Point) vg.Rectangle {
	return vg.Rectangle{Min: at, Max: at.Add(pt(sheetSide, sheetSide))}
}

// draw draws a retrieved image with its lower left corner at a point, in a frame that shows whether it is right.
func (h RetrievalHit) draw(c draw.Canvas, at vg.Point) {
	r, similarity := thumbAt(at), fmt.Sprintf("%.3f", h.Similarity)
	c.DrawImage(r, thumb(h.Image))
	if h.Right {
		outline(c, inset(r, -0.45), stroke(Blue, 0.9))
		writeBelow(c, at, ink, similarity)
		return
	}
	outline(c, inset(r, -0.6), stroke(Vermilion, 2.2))
	corner := rect(r.Max.X-8, r.Max.Y-8, r.Max.X, r.Max.Y)
	fill(c, corner, Vermilion)
	cross(c, center(corner), 2.8, stroke(paper, 1.3))
	writeBelow(c, at, Vermilion, similarity, h.Class)
}

// writeBelow writes lines below a picture, cut to its width.
func writeBelow(c draw.Canvas, at vg.Point, in color.Color, lines ...string) {
	s := aligned(style(noteSize, in), text.XLeft, text.YTop)
	for i, line := range lines {
		write(c, s, at.X, at.Y-2-vg.Length(i)*(noteSize+0.5), fitted(s, line, sheetSide))
	}
}

// letters are those of a command's name.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// fitted cuts a text to a width, with an ellipsis. A formula is closed behind it, and is not cut within a command.
func fitted(s text.Style, line Markup, width vg.Length) Markup {
	if s.Width(line) <= width {
		return line
	}
	runes := []rune(line)
	first := func(n int) Markup { // The first n letters, without those of a command.
		for ; n > 0; n-- {
			cut, end := string(runes[:n]), "…"
			if open := (strings.Count(cut, "$")-strings.Count(cut, `\$`))%2 == 1; open {
				formula := cut[strings.LastIndex(cut, "$"):]
				if at := strings.LastIndex(formula, `\`); at >= 0 && strings.Trim(formula[at+1:], letters) == "" {
					continue
				}
				end += strings.Repeat("}", max(strings.Count(formula, "{")-strings.Count(formula, "}"), 0)) + "$"
			}
			return cut + end
		}
		return "…"
	}
	return first(sort.Search(len(runes), func(n int) bool { return s.Width(first(n)) > width }) - 1)
}

// thumb scales a picture to sheetSide in pixels of a PNG file. Small pictures whose side divides it are enlarged
// without interpolation and stay sharp.
func thumb(img image.Image) image.Image {
	const side = int(sheetSide * PNGResolution / vg.Inch)
	b := img.Bounds()
	if b.Dx() == side && b.Dy() == side {
		return img
	}
	out := image.NewNRGBA(image.Rect(0, 0, side, side))
	var scaler ximage.Scaler = ximage.CatmullRom
	if b.Dx() <= side && side%b.Dx() == 0 {
		scaler = ximage.NearestNeighbor
	}
	scaler.Scale(out, out.Rect, img, b, ximage.Src, nil)
	return out
}
