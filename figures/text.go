package figures

import (
	"strings"
	"sync"

	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// outlines sets [Markup] and draws it as filled outlines. A font that the reader lacks would shift every label of an
// SVG, and a PDF of gonum/plot has Latin letters only. Embedding one face costs half a megabyte a picture; outlines
// cost a few kilobytes and look the same everywhere.
type outlines struct{ fonts *font.Cache }

var _ text.Handler = outlines{}

// handler returns the handler of all text in this package's figures.
var handler = sync.OnceValue(func() outlines { return outlines{font.NewCache(liberation.Collection())} })

func (h outlines) Cache() *font.Cache { return h.fonts }

func (h outlines) Extents(f font.Font) font.Extents {
	face := h.fonts.Lookup(f, f.Size)
	return face.Extents()
}

func (h outlines) Lines(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") }

func (h outlines) Box(s string, f font.Font) (width, height, depth vg.Length) {
	e := h.Extents(f)
	return h.set(s, f).width, e.Ascent, e.Descent
}

func (h outlines) Draw(c vg.Canvas, s string, sty text.Style, at vg.Point) {
	lines := h.Lines(s)
	e := h.Extents(sty.Font)
	height := e.Height * vg.Length(len(lines)-1) // From the first baseline to the last.
	top := at.Y + (height+e.Ascent+e.Descent)*(1+vg.Length(sty.YAlign))
	if sty.YAlign == text.YBottom {
		top -= e.Descent // gonum/plot's axes take the bottom for the baseline.
	}
	rotated := sty.Rotation != 0
	if rotated {
		c.Push()
		c.Translate(at)
		c.Rotate(sty.Rotation)
		top -= at.Y
		at = vg.Point{}
	}
	c.SetColor(sty.Color)
	for i, line := range lines {
		l := h.set(line, sty.Font)
		origin := pt(at.X+vg.Length(sty.XAlign)*l.width, top-e.Ascent-e.Height*vg.Length(i))
		if path := l.path(origin); len(path) > 0 {
			c.Fill(path)
		}
	}
	if rotated {
		c.Pop()
	}
}

// line is a label after layout: glyphs and bars on a baseline.
type line struct {
	width  vg.Length
	glyphs []glyph
	bars   []vg.Rectangle
}

type glyph struct {
	face *sfnt.Font
	rune rune
	size vg.Length
	at   vg.Point
}

const (
	scriptSize = 0.72  // Size of a script, relative to the size of its base.
	superRise  = 0.40  // Rise of a superscript above the baseline, relative to the same.
	subDrop    = -0.20 // Rise of a subscript, relative to the same.
)

func (h outlines) set(s string, f font.Font) line {
	var l line
	l.width = h.place(&l, parseMarkup(s), f, f.Size, vg.Point{})
	return l
}

// place sets atoms from a point onward and returns the x at which they end.
func (h outlines) place(l *line, atoms []atom, f font.Font, size vg.Length, at vg.Point) vg.Length {
	for _, a := range atoms {
		if a.root != nil {
			at.X = h.placeText(l, "√", faceMath, f, size, at)
			from := at.X
			at.X = h.place(l, a.root, f, size, at) + 0.04*size
			const height, thickness = 0.843, 0.045 // The end of the radical of Liberation Serif.
			l.bars = append(l.bars, rect(
				from-0.03*size, at.Y+(height-thickness)*size, at.X, at.Y+height*size))
		}
		at.X = h.placeText(l, a.text, a.face, f, size, at)
		end, script := at.X, size*scriptSize
		if a.sub != nil {
			end = max(end, h.place(l, a.sub, f, script, pt(at.X+0.02*size, at.Y+subDrop*size)))
		}
		if a.sup != nil {
			end = max(end, h.place(l, a.sup, f, script, pt(at.X+0.06*size, at.Y+superRise*size)))
		}
		if a.sub != nil || a.sup != nil {
			end += 0.04 * size
		}
		at.X = end
	}
	return at.X
}

func (h outlines) placeText(l *line, s string, kind face, f font.Font, size vg.Length, at vg.Point) vg.Length {
	switch kind {
	case faceMath:
		f = font.Font{Typeface: f.Typeface, Variant: "Serif"}
	case faceMathItalic:
		f = font.Font{Typeface: f.Typeface, Variant: "Serif", Style: xfont.StyleItalic}
	case faceMathBold:
		f = font.Font{Typeface: f.Typeface, Variant: "Serif", Weight: xfont.WeightBold}
	}
	face := h.fonts.Lookup(f, size).Face
	for _, r := range s {
		l.glyphs = append(l.glyphs, glyph{face, r, size, at})
		at.X += advance(face, r) * size
	}
	return at.X
}

// perpAdvance is the width of ⊥ in ems. Liberation has no such glyph, so it is drawn from bars.
const perpAdvance = 0.66

// advance returns the width of a rune in ems.
func advance(f *sfnt.Font, r rune) vg.Length {
	switch r {
	case '⊥':
		return perpAdvance
	case thin:
		return 0.16
	}
	var buf sfnt.Buffer
	i, err := f.GlyphIndex(&buf, r)
	a, failed := f.GlyphAdvance(&buf, i, unitsPerEm(f), xfont.HintingNone)
	if err != nil || failed != nil {
		return 0
	}
	return vg.Length(a) / vg.Length(unitsPerEm(f))
}

func unitsPerEm(f *sfnt.Font) fixed.Int26_6 { return fixed.I(int(f.UnitsPerEm())) }

func (l line) path(origin vg.Point) vg.Path {
	var p vg.Path
	for _, g := range l.glyphs {
		at := origin.Add(g.at)
		if g.rune == '⊥' {
			bar := func(x0, y0, x1, y1 vg.Length) {
				p = rectangle(p, vg.Rectangle{Min: at.Add(pt(x0, y0).Scale(g.size)), Max: at.Add(pt(x1, y1).Scale(g.size))})
			}
			bar(0.06, 0, 0.60, 0.05)
			bar(0.305, 0.05, 0.355, 0.66)
			continue
		}
		p = g.path(p, at)
	}
	for _, b := range l.bars {
		p = rectangle(p, vg.Rectangle{Min: origin.Add(b.Min), Max: origin.Add(b.Max)})
	}
	return p
}

func (g glyph) path(p vg.Path, at vg.Point) vg.Path {
	var buf sfnt.Buffer
	i, err := g.face.GlyphIndex(&buf, g.rune)
	if err != nil || i == 0 && (g.rune == ' ' || g.rune == thin) {
		return p
	}
	em := unitsPerEm(g.face)
	segments, err := g.face.LoadGlyph(&buf, i, em, nil)
	if err != nil {
		return p
	}
	scale := g.size / vg.Length(em)
	point := func(q fixed.Point26_6) vg.Point {
		return pt(at.X+vg.Length(q.X)*scale, at.Y-vg.Length(q.Y)*scale)
	}
	open := false
	for _, s := range segments {
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			if open {
				p.Close()
			}
			p.Move(point(s.Args[0]))
			open = true
		case sfnt.SegmentOpLineTo:
			p.Line(point(s.Args[0]))
		case sfnt.SegmentOpQuadTo:
			p.QuadTo(point(s.Args[0]), point(s.Args[1]))
		case sfnt.SegmentOpCubeTo:
			p.CubeTo(point(s.Args[0]), point(s.Args[1]), point(s.Args[2]))
		}
	}
	if open {
		p.Close()
	}
	return p
}

// rectangle appends r to a path, clockwise like the outer contours of TrueType, so that overlaps stay filled.
func rectangle(p vg.Path, r vg.Rectangle) vg.Path {
	p.Move(r.Min)
	p.Line(pt(r.Min.X, r.Max.Y))
	p.Line(r.Max)
	p.Line(pt(r.Max.X, r.Min.Y))
	p.Close()
	return p
}
