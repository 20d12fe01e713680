package figures

import (
	"fmt"
	"image"
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
	Right      *bool // Whether it has the query's class; nil where that is not known.
}

const (
	// sheetSide is the side of a picture: 96 pixels of a PNG file, a multiple of 32, so that small pictures stay sharp.
	sheetSide = 96 * vg.Inch / PNGResolution
	sheetGap  = vg.Length(6)
	sheetRow  = sheetSide + 21
)

// RetrievalSheet draws queries, one in each row, with their nearest images and similarities. A right image has a thin
// blue frame. A wrong one has a thick orange frame with a cross in its corner, and the name of its class below. The
// paper has no such figure.
func RetrievalSheet(provenance string, rows ...RetrievalRow) (*Figure, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("retrieval sheet: no queries; want at least one")
	}
	most, right, first, all := 0, 0, 0, 0 // Of those whose class is known.
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
			if h.Right != nil {
				all++
			}
			if h.Right != nil && *h.Right {
				right++
				if k == 0 {
					first++
				}
			}
		}
	}
	// Short rows are set in two columns.
	columns := 1
	if len(rows) > 1 && most <= 5 {
		columns = 2
	}
	f := &Figure{Alt: fmt.Sprintf("%d queries with their %d nearest images each", len(rows), most), Provenance: provenance}
	if all > 0 {
		f.Alt += fmt.Sprintf(": %d of %d are of the query's class, and so is the nearest of %d queries", right, all, first)
	}
	f.Alt += "."
	p := pictures{heads: []Markup{"query", "nearest first, with its similarity"}}
	for _, r := range rows {
		line := []pictured{{image: r.Query, lines: []string{r.Class}}}
		for _, h := range r.Hits {
			k := pictured{image: h.Image, right: h.Right, lines: []string{fmt.Sprintf("%.3f", h.Similarity)}}
			if h.Right == nil || !*h.Right {
				k.lines = append(k.lines, h.Class)
			}
			line = append(line, k)
		}
		p.rows = append(p.rows, line)
	}
	return p.plan(f, columns), nil
}

// drawThumb draws a picture with its lower left corner at a point. If right is not nil, the frame shows whether the
// picture is right.
func drawThumb(c draw.Canvas, img image.Image, at vg.Point, right *bool) {
	r := vg.Rectangle{Min: at, Max: at.Add(pt(sheetSide, sheetSide))}
	c.DrawImage(r, thumb(img))
	switch {
	case right == nil:
		return
	case *right:
		outline(c, inset(r, -0.45), stroke(Blue, 0.9))
		return
	}
	outline(c, inset(r, -0.6), stroke(Vermilion, 2.2))
	corner := rect(r.Max.X-8, r.Max.Y-8, r.Max.X, r.Max.Y)
	fill(c, corner, Vermilion)
	cross(c, center(corner), 2.8, stroke(paper, 1.3))
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
