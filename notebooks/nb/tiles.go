package nb

import (
	"fmt"
	"html"
	"image/color"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/figures"
)

// tileStyle lays tiles out in lines. An open one takes a line of its own.
const tileStyle = `<style>
.dmlx-tiles{display:flex;flex-wrap:wrap;gap:4px;align-items:flex-start;margin:2px 0 8px}
.dmlx-tiles>b{flex:0 0 7.5em;font-weight:400}
.dmlx-tiles>details[open]{flex:1 1 100%;border:1px solid currentColor;border-radius:4px;padding:4px 8px;max-width:60em}
.dmlx-tiles summary{display:inline-flex;cursor:pointer;list-style:none;font-size:12px;line-height:22px;color:#000}
.dmlx-tiles summary>span{min-width:22px;padding:0 3px;text-align:center}
.dmlx-tiles details:not([open]) summary>span>span{display:none}
.dmlx-tiles p{margin:4px 0}
[data-jp-theme-light="false"] .dmlx-tiles summary{filter:invert(1) hue-rotate(180deg)}
</style>`

// Tiles displays a table as a map: a tile for each row, in lines by the text of one column, with the first letters and
// the colors of others. A click opens the row. It needs no script, and is a list where styles are not trusted; formats
// other than HTML have the table. A caption is as in [Show].
func Tiles(t *figures.Table, line int, shown []int, caption ...string) {
	data, metadata, err := formats(t)
	Check(err)
	text, err := captioned(caption, "")
	Check(err)
	data["text/html"] = tiles(t, line, shown)
	display(data, metadata)
	if text != "" {
		say(text)
	}
}

func tiles(t *figures.Table, line int, shown []int) string {
	var b strings.Builder
	var key []string // What the letters stand for.
	b.WriteString(tileStyle)
	for i, row := range t.Rows {
		if i == 0 || row[line].Text != t.Rows[i-1][line].Text {
			if i > 0 {
				b.WriteString("</div>\n")
			}
			fmt.Fprintf(&b, `<div class="dmlx-tiles"><b>%s</b>`, figures.HTML(row[line].Text))
		}
		var title []string
		for _, c := range shown {
			title = append(title, heading(t.Columns[c])+": "+figures.Plain(row[c].Text))
		}
		fmt.Fprintf(&b, `<details><summary title="%s">`, html.EscapeString(strings.Join(title, "; ")))
		for _, c := range shown {
			k, word := row[c].Background, []rune(figures.Plain(row[c].Text)+" ")
			if k.A == 0 {
				k = color.NRGBA{0xf4, 0xf4, 0xf4, 0xff}
			} else if text := string(word[:1]) + ": " + figures.Plain(row[c].Text); !slices.Contains(key, text) {
				key = append(key, text)
			}
			fmt.Fprintf(&b, `<span style="background:#%02x%02x%02x">%s<span>%s</span></span> `, k.R, k.G, k.B,
				html.EscapeString(string(word[:1])), html.EscapeString(strings.TrimSpace(string(word[1:]))))
		}
		b.WriteString("</summary>")
		for c, column := range t.Columns {
			if c != line && !slices.Contains(shown, c) {
				fmt.Fprintf(&b, "<p><i>%s:</i> %s</p>", html.EscapeString(heading(column)), figures.HTML(row[c].Text))
			}
		}
		b.WriteString("</details>")
	}
	slices.Sort(key)
	fmt.Fprintf(&b, "</div>\n<div style=\"font-size:85%%\">%s</div>\n<div style=\"font-size:85%%;opacity:.7\">%s</div>",
		html.EscapeString(strings.Join(key, " · ")), html.EscapeString(t.Provenance))
	return b.String()
}

// heading is the head of a column in words.
func heading(c figures.Column) string {
	return strings.TrimSpace(figures.Plain(c.Title) + " " + figures.Plain(c.Group))
}
