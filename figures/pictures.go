package figures

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/jpeg"
	"strings"

	ximage "golang.org/x/image/draw"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Pictures is a [Figure] made of photographs. Its HTML stays small: each photograph is stored once, as a JPEG.
type Pictures struct {
	*Figure
	rows  [][]pictured
	heads []Markup // Above the first pictures of a row.
}

// pictured is a picture with the text under it.
type pictured struct {
	image image.Image
	role  string // The alternative text.
	right *bool  // Whether it is of the right class; nil if the question does not arise.
	lines []string
}

// The layout of a row: the room after the first picture and after the others, between columns, and of the heads.
const (
	sheetFirst   = 3 * sheetGap
	sheetBetween = 2 * sheetGap
	sheetHead    = 16
)

// plan gives the figure the size of some columns, which are filled one after the other, and draws the pictures.
func (p *Pictures) plan(columns int) *Pictures {
	most := 0
	for _, row := range p.rows {
		most = max(most, len(row))
	}
	lines := (len(p.rows) + columns - 1) / columns
	wide := vg.Length(sheetSide+sheetFirst) + vg.Length(most-1)*(sheetSide+sheetGap) + sheetBetween // A column.
	p.Width = 2*margin + vg.Length(columns)*wide - sheetBetween
	p.Height = 2*margin + sheetHead + vg.Length(lines)*sheetRow + noteRoom(p.Provenance)
	p.panels = func(c draw.Canvas) {
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
	return p
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

// Formats returns those of a figure, html, and txt, which is the alternative text.
func (p *Pictures) Formats() []string { return append(p.Figure.Formats(), "html", "txt") }

func (p *Pictures) bytes(format string) ([]byte, error) {
	switch format {
	case "html":
		return p.html()
	case "txt":
		return []byte(strings.TrimSpace(Printable(p.Alt+"\n"+p.Provenance)) + "\n"), nil
	}
	return p.Figure.bytes(format)
}

func (p *Pictures) html() ([]byte, error) {
	const side = 96 // CSS pixels.
	var b bytes.Buffer
	const group = "display:flex;flex-wrap:wrap;gap:14px 28px;font:12px/1.25 sans-serif"
	fmt.Fprintf(&b, `<div role="group" aria-label="%s" style="%s">`+"\n", html.EscapeString(p.Alt), group)
	for _, row := range p.rows {
		b.WriteString(`<div style="display:flex;flex-wrap:wrap;gap:6px">`)
		for i, k := range row {
			uri, err := photo(k.image)
			if err != nil {
				return nil, err
			}
			frame, mark, alt, color := "", "", k.role, ""
			switch {
			case k.right == nil:
			case *k.right:
				frame, alt = fmt.Sprintf("outline:1.5px solid %s;", css(Blue)), alt+", right"
			default:
				frame, alt, color = fmt.Sprintf("outline:3px solid %s;outline-offset:-1px;", css(Vermilion)), alt+", wrong",
					";color:"+css(Vermilion)
				mark = fmt.Sprintf(`<span aria-hidden="true" style="position:absolute;right:0;top:0;width:13px;`+
					`text-align:center;font-weight:bold;color:#fff;background:%s">✗</span>`, css(Vermilion))
			}
			fmt.Fprintf(&b, `<div style="width:%dpx;overflow-wrap:anywhere"><div style="position:relative">`+
				`<img src="%s" alt="%s" width="%d" height="%d" `+
				`style="display:block;max-width:none;image-rendering:pixelated;%s">%s</div>`,
				side, uri, html.EscapeString(alt), side, side, frame, mark)
			fmt.Fprintf(&b, `<div style="padding-top:3px%s">`, color)
			for j, line := range k.lines {
				if j > 0 {
					b.WriteString("<br>")
				}
				b.WriteString(HTML(line))
			}
			b.WriteString("</div></div>")
			if i == 0 {
				fmt.Fprintf(&b, `<div style="border-left:1px solid currentColor;opacity:.3;height:%dpx"></div>`, side)
			}
		}
		b.WriteString("</div>\n")
	}
	b.WriteString("</div>\n")
	if p.Provenance != "" {
		fmt.Fprintf(&b, `<div style="font-size:85%%;opacity:.7">%s</div>`+"\n", html.EscapeString(p.Provenance))
	}
	return b.Bytes(), nil
}

// photo returns a picture, reduced to at most 128 pixels a side, as a data URI.
func photo(img image.Image) (string, error) {
	const most = 128
	if b := img.Bounds(); max(b.Dx(), b.Dy()) > most {
		small := image.NewRGBA(image.Rect(0, 0, most, most))
		ximage.CatmullRom.Scale(small, small.Rect, img, b, ximage.Src, nil)
		img = small
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 78}); err != nil {
		return "", err
	}
	return "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// css returns a color in the notation of style sheets.
func css(k color.NRGBA) string { return fmt.Sprintf("#%02x%02x%02x", k.R, k.G, k.B) }
