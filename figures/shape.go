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
		if s.Width, err = vg.ParseLength(width); err != nil || !(s.Width >= 100 && s.Width <= 2000) {
			return s, fmt.Errorf("width %q: want a length of 100pt to 2000pt, as in 240pt, 3.3in or 8.4cm", width)
		}
	}
	if s.Serif = typeface == "serif"; !s.Serif && typeface != "sans" && typeface != "" {
		return s, fmt.Errorf("typeface %q: want sans or serif", typeface)
	}
	return s, nil
}

// Apply returns an output in a style. Tables are as they are. It returns an error for a figure that does not fit into
// the width, and for photographs and maps of another width, which cannot be narrowed.
func (s Style) Apply(o Output) (Output, error) {
	fixed := func(f *Figure, of string) (*Figure, error) {
		if s.Width != 0 && s.Width != f.Width {
			return nil, fmt.Errorf("%s cannot be narrowed or widened: the figure is %.4g pt wide", of, f.Width.Points())
		}
		return f.in(Style{Serif: s.Serif, NoProvenance: s.NoProvenance})
	}
	if s == (Style{}) {
		return o, nil
	}
	var err error
	switch of := o.(type) {
	case *Figure:
		return of.in(s)
	case *Pictures:
		out := *of
		out.Figure, err = fixed(of.Figure, "photographs")
		return &out, err
	case *EmbeddingMap:
		out := *of
		out.Figure, err = fixed(of.Figure, "a map")
		return &out, err
	}
	return o, nil
}

// in returns the figure in a style.
func (f *Figure) in(s Style) (*Figure, error) {
	out := *f
	out.style = s
	if s.Width == 0 {
		return &out, nil
	}
	panels, before, err := out.probe()
	if err != nil {
		return nil, err
	}
	own := f.Width / vg.Length(panels) // Of a panel.
	for out.across = panels; out.across > 1 && s.Width/vg.Length(out.across) < 0.75*own; {
		out.across--
	}
	lines := (panels + out.across - 1) / out.across
	shape := min(max(float64(s.Width/vg.Length(out.across)/own), 0.75), 1)
	out.Width, out.Height = s.Width, f.Height*vg.Length(float64(lines)*shape)
	_, after, err := out.probe()
	if err == nil && (after > before || s.Width/vg.Length(out.across) < 0.5*own) {
		err = fmt.Errorf("it does not fit into a width of %.4g pt with text of this size, only into %.4g pt",
			s.Width.Points(), f.Width.Points())
	}
	return &out, err
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
	between vg.Rectangle // Where text may be.
	texts   []vg.Rectangle
	// How often text that is not turned lies outside of between or on other text.
	collisions int
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

// text sees a line of text.
func (c *styled) text(at vg.Point, width, size vg.Length) {
	box := vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - 0.1*size}, Max: vg.Point{X: at.X + width, Y: at.Y + 0.6*size}}
	if c.between.Max.X > 0 && (box.Min.X < c.between.Min.X-0.5 || box.Max.X > c.between.Max.X+0.5) {
		c.collisions++
	}
	for _, other := range c.texts {
		if box.Min.X < other.Max.X && other.Min.X < box.Max.X && box.Min.Y < other.Max.Y && other.Min.Y < box.Max.Y {
			c.collisions++
		}
	}
	c.texts = append(c.texts, box)
}

// probe draws a figure on nothing. It returns the most panels that stand side by side, and how often text collides.
func (f *Figure) probe() (panels, collisions int, err error) {
	defer func() {
		if r := recover(); r != nil { // As in bytes.
			err = fmt.Errorf("drawing: %v", r)
		}
	}()
	size := vg.Rectangle{Max: vg.Point{X: f.Width, Y: f.height()}}
	on := f.on(new(recorder.Canvas))
	on.between = size
	f.Draw(draw.Canvas{Canvas: on, Rectangle: size})
	return on.panels, on.collisions, nil
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
