package figures

import (
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Figure is a picture that draws itself on any canvas of gonum/plot.
type Figure struct {
	// Width and Height are the size with a provenance of at most one line. Each further line adds to the height.
	Width, Height vg.Length
	// Alt describes the picture in words. It is stored with the picture where the format has a place for it.
	Alt string
	// Provenance is the note under the picture: preset, data, backend. It may be empty.
	Provenance string
	// Photographs tells that the picture has some, so that a dark theme must show its colors as they are.
	Photographs bool

	panels func(c draw.Canvas)
}

// Of returns a figure of one plot.
func Of(p *plot.Plot, width, height vg.Length) *Figure {
	return &Figure{Width: width, Height: height, Alt: Plain(p.Title.Text), panels: p.Draw}
}

// besideWidth is the widest row of [Beside], and of panels: a notebook's page shows it without making it smaller.
const besideWidth = vg.Length(620)

// Beside returns one figure of several, side by side in rows, with their texts in words together.
func Beside(of ...*Figure) *Figure {
	if len(of) == 1 {
		return of[0]
	}
	out := &Figure{Width: 2 * margin, Height: 2 * margin}
	var words []string
	var corners []vg.Point // The top left of each, from that of the first.
	var x, y, high vg.Length
	for _, f := range of {
		if x > 0 && x+f.Width > besideWidth {
			x, y, high = 0, y+high, 0
		}
		corners = append(corners, pt(x, y))
		x, high = x+f.Width, max(high, f.height())
		out.Width, out.Height = max(out.Width, 2*margin+x), 2*margin+y+high
		words = append(words, f.Alt)
	}
	out.Alt = strings.Join(words, "\n")
	out.panels = func(c draw.Canvas) {
		for i, f := range of {
			part := c
			part.Min.X, part.Max.Y = c.Min.X+corners[i].X, c.Max.Y-corners[i].Y
			part.Max.X, part.Min.Y = part.Min.X+f.Width, part.Max.Y-f.height()
			f.Draw(part)
		}
	}
	return out
}

// margin is the free space around the panels.
const margin = vg.Length(6)

// Draw draws the figure on a canvas and fills it.
func (f *Figure) Draw(c draw.Canvas) {
	fill(c, c.Rectangle, paper)
	c = draw.Crop(c, margin, -margin, margin, -margin)
	if f.Provenance != "" {
		lines := broken(noteStyle(), f.Provenance, c.Max.X-c.Min.X)
		write(c, noteStyle(), c.Max.X, c.Min.Y, strings.Join(lines, "\n"))
		c = draw.Crop(c, 0, 0, noteRoom(f.Provenance)+noteLine()*vg.Length(len(lines)-1), 0)
	}
	if f.panels != nil {
		f.panels(c)
	}
}

// height is the figure's height with all lines of its provenance.
func (f *Figure) height() vg.Length {
	return f.Height + noteLine()*vg.Length(max(len(broken(noteStyle(), f.Provenance, f.Width-2*margin))-1, 0))
}

// noteStyle is the text style of a provenance, and noteLine the distance of its lines.
func noteStyle() text.Style { return aligned(style(noteSize, quiet), text.XRight, text.YBottom) }
func noteLine() vg.Length   { return handler().Extents(noteStyle().Font).Height }

// broken breaks a text between words into lines that are no wider than width.
func broken(s text.Style, note string, width vg.Length) []string {
	var lines []string
	for _, word := range strings.Fields(note) {
		if n := len(lines); n > 0 && s.Width(lines[n-1]+" "+word) <= width {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
