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
)

// Pictures is a [Figure] made of photographs. Its HTML stays small: each photograph is stored once, as a JPEG.
type Pictures struct {
	*Figure
	rows [][]pictured
	rule bool // Whether a line separates the first picture of a row from the others.
}

// pictured is a picture with the text under it.
type pictured struct {
	image image.Image
	role  string // The alternative text.
	right *bool  // Whether it is of the right class; nil if the question does not arise.
	lines []string
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
	const side = 52 // CSS pixels.
	var b bytes.Buffer
	const group = "display:flex;flex-wrap:wrap;gap:10px 28px;font:11px/1.25 sans-serif"
	fmt.Fprintf(&b, `<div role="group" aria-label="%s" style="%s">`+"\n", html.EscapeString(p.Alt), group)
	for _, row := range p.rows {
		b.WriteString(`<div style="display:flex;gap:6px">`)
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
			fmt.Fprintf(&b, `<div style="width:%dpx"><div style="position:relative">`+
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

// photo returns a picture, reduced to at most 64 pixels a side, as a data URI.
func photo(img image.Image) (string, error) {
	const most = 64
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
