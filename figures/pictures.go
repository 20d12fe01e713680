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
	rule  bool     // Whether a line separates the first picture of a row from the others.
}

// pictured is a picture with the text under it.
type pictured struct {
	image image.Image
	role  string // The alternative text.
	right *bool  // Whether it is of the right class; nil if the question does not arise.
	lines []string
	bold  bool // Of the first line.
}

// yes and no are marks of pictures.
var yes, no = true, false

// sheetPlan is the layout of rows of pictures in columns.
type sheetPlan struct {
	columns               int       // At most.
	down                  bool      // Whether rows fill a column before the next one begins.
	between               vg.Length // Columns.
	head, headSize, under vg.Length // The room of the heads, their size, and the room under a row.
	afterFirst, gap, last vg.Length // The room after the first picture, after the others, and after the last one.
}

// width returns that of some columns with n pictures side by side in each.
func (l sheetPlan) width(columns, n int) vg.Length {
	row := sheetSide + l.afterFirst + vg.Length(n-1)*(sheetSide+l.gap) - l.gap + l.last
	return vg.Length(columns)*(row+l.between) - l.between
}

// plan gives the figure the size of all columns, and draws the pictures.
func (p *Pictures) plan(l sheetPlan) *Pictures {
	most := 0
	for _, row := range p.rows {
		most = max(most, len(row))
	}
	lines, high := (len(p.rows)+l.columns-1)/l.columns, sheetRow+l.under
	p.Width, p.Height = 2*margin+l.width(l.columns, most), 2*margin+l.head+vg.Length(lines)*high+noteRoom(p.Provenance)
	p.panels = func(c draw.Canvas) {
		head := aligned(bold(style(l.headSize, ink)), text.XLeft, text.YTop)
		for i, pictures := range p.rows {
			column, line := i%l.columns, i/l.columns
			if l.down {
				column, line = i/lines, i%lines
			}
			left, top := c.Min.X+vg.Length(column)*(l.width(1, most)+l.between), c.Max.Y-l.head-vg.Length(line)*high
			if p.rule {
				x := left + sheetSide + l.afterFirst/2
				c.StrokeLine2(stroke(faint, 1), x, top, x, top-sheetSide)
			}
			for k, picture := range pictures {
				at := pt(left, top-sheetSide)
				if k > 0 {
					at.X += sheetSide + l.afterFirst + vg.Length(k-1)*(sheetSide+l.gap)
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
		style := s
		if i == 0 && k.bold {
			style = bold(s)
		}
		if !strings.Contains(line, "$") { // A number with its symbol is not cut.
			line = fitted(style, line, sheetSide)
		}
		write(c, style, at.X, at.Y-2-vg.Length(i)*(noteSize+0.5), line)
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
			lines := k.lines
			if !p.rule { // The heads name each picture.
				lines = append([]string{p.heads[i]}, lines...)
			}
			for j, line := range lines {
				if j > 0 {
					b.WriteString("<br>")
				}
				b.WriteString(HTML(line))
			}
			b.WriteString("</div></div>")
			if i == 0 && p.rule {
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
