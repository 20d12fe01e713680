package figures

import (
	"fmt"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// Style says how figures are drawn for somebody's pages. The zero value draws each as it is.
type Style struct {
	// Width is that of the figures, 0 for each one's own. Text keeps its size, of which no letter is below 7 points then:
	// panels that stand side by side stand below each other where there is too little room.
	Width vg.Length
	// Serif sets text in Liberation Serif in place of Liberation Sans.
	Serif bool
	// NoProvenance leaves the note under a picture out in PDF. Pictures in other formats always have it.
	NoProvenance bool
}

// ParseStyle reads a width such as 240pt, 3.3in or 8.4cm, or "" for each figure's own, and a typeface, sans or serif.
func ParseStyle(width, typeface string) (s Style, err error) {
	if width != "" {
		if s.Width, err = vg.ParseLength(width); err != nil || !(s.Width >= 234 && s.Width <= 2000) {
			return s, fmt.Errorf("width %q: want a length of 234pt to 2000pt, as in 240pt, 3.3in or 8.4cm", width)
		}
	}
	if s.Serif = typeface == "serif"; !s.Serif && typeface != "sans" && typeface != "" {
		return s, fmt.Errorf("typeface %q: want sans or serif", typeface)
	}
	return s, nil
}

// Apply returns an output in a style. Tables are as they are. It returns an error for a figure that does not fit into
// the width.
func (s Style) Apply(o Output) (Output, error) {
	if s == (Style{}) {
		return o, nil
	}
	var err error
	switch of := o.(type) {
	case *Figure:
		return of.in(s)
	case *Pictures:
		out := *of
		out.Figure, err = of.Figure.in(s)
		return &out, err
	case *EmbeddingMap:
		out := *of
		out.Figure, err = of.Figure.in(s)
		return &out, err
	}
	return o, nil
}

// in returns the figure in a style: laid out for the width, or with as many panels side by side as there is room for.
func (f *Figure) in(s Style) (*Figure, error) {
	out := *f
	out.style = s
	if s.Width == 0 {
		return &out, nil
	}
	seen, err := out.probe()
	if err != nil {
		return nil, err
	}
	panels := seen.panels
	if f.lay != nil {
		out, panels = *f.lay(s.Width), 1
		out.style, out.Provenance = s, f.Provenance
	}
	own := out.Width / vg.Length(panels) // Of a panel.
	height := out.Height
	for out.across = panels; ; out.across-- {
		each := s.Width / vg.Length(out.across)
		lines := vg.Length((panels + out.across - 1) / out.across)
		fits := func(share vg.Length) bool {
			out.Width, out.Height = s.Width, height*lines*share
			on, err := out.probe()
			return err == nil && on.collisions <= seen.collisions
		}
		// Panels get lower as they get narrower, but a list of names may need its own height. Squares grow with the width.
		share := max(each/own, 0.75)
		if !seen.square || lines > 1 {
			share = min(share, 1)
		}
		if alone := out.across == 1; (alone || each >= 0.65*own) && fits(share) || alone && fits(1) {
			return &out, nil
		}
		if out.across == 1 {
			return nil, fmt.Errorf("text is cut or on other text at a width of %.4g pt: want a larger one, such as %.4g pt, "+
				"or shorter labels", s.Width.Points(), f.Width.Points())
		}
	}
}

// on is a canvas that tells what is drawn on it of the figure's style.
func (f *Figure) on(c vg.Canvas) *styled {
	out := &styled{Canvas: c, serif: f.style.Serif, across: f.across, panels: 1}
	if f.style.Width != 0 {
		out.least = leastSize
	}
	return out
}

// leastSize is the size of the smallest letters of a figure whose width is asked for: journals print no smaller ones.
const leastSize = vg.Length(7)

// styled is a canvas that tells what is drawn on it how, and sees what is.
type styled struct {
	vg.Canvas
	serif   bool
	least   vg.Length    // Of the sizes of letters, 0 for any.
	across  int          // The most panels side by side, 0 for any number.
	panels  int          // The most that asked to stand side by side.
	square  bool         // Whether panels have square areas.
	between vg.Rectangle // Where text may be.
	labels  []label
	// How often text lies outside of between or on other text.
	collisions int
}

// label is a line of text and where it is.
type label struct {
	line
	box vg.Rectangle
}

// styledBy returns the style of a canvas, nil without one.
func styledBy(c vg.Canvas) *styled {
	for {
		switch of := c.(type) {
		case *styled:
			return of
		case *draw.Canvas:
			c = of.Canvas
		case draw.Canvas:
			c = of.Canvas
		default:
			return nil
		}
	}
}

// text sees a line of text of a size that begins at a point, and that goes up if it is turned.
func (c *styled) text(l line, at vg.Point, size vg.Length, turned bool) {
	box := rect(at.X, at.Y-0.1*size, at.X+l.width, at.Y+0.6*size)
	if turned {
		box = rect(at.X-0.6*size, at.Y, at.X+0.1*size, at.Y+l.width)
	}
	if c.between.Max.X > 0 && (box.Min.X < c.between.Min.X-0.5 || box.Max.X > c.between.Max.X+0.5 ||
		box.Min.Y < c.between.Min.Y-0.5 || box.Max.Y > c.between.Max.Y+0.5) {
		c.collisions++
	}
	for _, other := range c.labels {
		if o := other.box; box.Min.X < o.Max.X && o.Min.X < box.Max.X && box.Min.Y < o.Max.Y && o.Min.Y < box.Max.Y {
			c.collisions++
		}
	}
	c.labels = append(c.labels, label{l, box})
}

// probe draws a figure on nothing, and returns what has seen it.
func (f *Figure) probe() (on *styled, err error) {
	defer func() {
		if r := recover(); r != nil { // As in bytes.
			err = fmt.Errorf("drawing: %v", r)
		}
	}()
	size := vg.Rectangle{Max: vg.Point{X: f.Width, Y: f.height()}}
	on = f.on(new(recorder.Canvas))
	on.between = size
	f.Draw(draw.Canvas{Canvas: on, Rectangle: size})
	return on, nil
}

// wrapped splits n panels that are to stand side by side into lines of a canvas, if they are too many for one.
func wrapped(c draw.Canvas, n int) (lines []draw.Canvas, across int) {
	s := styledBy(c.Canvas)
	if s == nil {
		return []draw.Canvas{c}, n
	}
	s.panels = max(s.panels, n)
	if s.across == 0 || s.across >= n {
		return []draw.Canvas{c}, n
	}
	return stack(c, 4, (n+s.across-1)/s.across), s.across
}
