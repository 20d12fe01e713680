package figures

import (
	"image"
	"strings"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// pictures are a figure's photographs.
type pictures struct {
	rows  [][]pictured
	heads []Markup // Above the first pictures of a row.
}

// pictured is a picture with the text under it.
type pictured struct {
	image image.Image
	right *bool // Whether it is of the right class; nil if the question does not arise.
	lines []string
}

// The layout of a row: the room after the first picture and after the others, between columns, and of the heads.
const (
	sheetFirst   = 3 * sheetGap
	sheetBetween = 2 * sheetGap
	sheetHead    = 16
)

// plan gives a figure the size of some columns, which are filled one after the other, and draws the pictures.
func (p pictures) plan(f *Figure, columns int) *Figure {
	most := 0
	for _, row := range p.rows {
		most = max(most, len(row))
	}
	lines := (len(p.rows) + columns - 1) / columns
	wide := vg.Length(sheetSide+sheetFirst) + vg.Length(most-1)*(sheetSide+sheetGap) + sheetBetween // A column.
	f.Width = 2*margin + vg.Length(columns)*wide - sheetBetween
	f.Height = 2*margin + sheetHead + vg.Length(lines)*sheetRow + noteRoom(f.Provenance)
	f.panels = func(c draw.Canvas) {
		head := aligned(bold(style(labelSize, ink)), text.XLeft, text.YTop)
		for i, pictures := range p.rows {
			left, line := c.Min.X+vg.Length(i/lines)*wide, i%lines
			top := c.Max.Y - sheetHead - vg.Length(line)*sheetRow
			x := left + sheetSide + sheetFirst/2
			c.StrokeLine2(stroke(faint, 1), x, top, x, top-sheetSide)
			for k, picture := range pictures {
				at := pt(left, top-sheetSide)
				if k > 0 {
					at.X += sheetSide + sheetFirst + vg.Length(k-1)*(sheetSide+sheetGap)
				}
				if line == 0 && k < len(p.heads) {
					write(c, head, at.X, c.Max.Y, p.heads[k])
				}
				picture.draw(c, at)
			}
		}
	}
	return f
}

// draw draws a picture with its lower left corner at a point, and under it its lines, cut to its width.
func (k pictured) draw(c draw.Canvas, at vg.Point) {
	drawThumb(c, k.image, at, k.right)
	s := aligned(style(noteSize, ink), text.XLeft, text.YTop)
	if k.right != nil && !*k.right {
		s.Color = Vermilion
	}
	for i, line := range k.lines {
		if !strings.Contains(line, "$") { // A number with its symbol is not cut.
			line = fitted(s, line, sheetSide)
		}
		write(c, s, at.X, at.Y-2-vg.Length(i)*(noteSize+0.5), line)
	}
}
