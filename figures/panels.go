package figures

import (
	"image"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// pt returns a point of a canvas.
func pt(x, y vg.Length) vg.Point { return vg.Point{X: x, Y: y} }

// write writes a label at a point.
func write(c draw.Canvas, s text.Style, x, y vg.Length, label Markup) { c.FillText(s, pt(x, y), label) }

// dot draws a mark at a point, which may lie at the edge of the canvas.
func dot(c draw.Canvas, color color.Color, radius vg.Length, shape draw.GlyphDrawer, x, y vg.Length) {
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: color, Radius: radius, Shape: shape}, pt(x, y))
}

// heading writes a title at the top of a canvas and takes its place and a gap from it.
func heading(c *draw.Canvas, title Markup, align text.XAlignment, gap vg.Length) {
	s := aligned(bold(style(titleSize, ink)), align, text.YTop)
	x := c.Min.X
	if align == text.XCenter {
		x, title = c.Center().X, fitted(s, title, c.Max.X-c.Min.X)
	}
	write(*c, s, x, c.Max.Y+s.FontExtents().Descent, title)
	c.Max.Y -= s.Height("x") + gap
}

// ring draws an arc of a circle, from an angle on, in radians.
func ring(c draw.Canvas, middle vg.Point, radius vg.Length, from, angle float64, s draw.LineStyle) {
	var p vg.Path
	p.Move(pt(middle.X+radius*vg.Length(math.Cos(from)), middle.Y+radius*vg.Length(math.Sin(from))))
	p.Arc(middle, radius, from, angle)
	if angle >= 2*math.Pi {
		p.Close()
	}
	c.SetLineStyle(s)
	c.Stroke(p)
}

// rect returns the rectangle between two corners.
func rect(left, bottom, right, top vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: pt(left, bottom), Max: pt(right, top)}
}

// inset returns a rectangle with its sides moved inward.
func inset(r vg.Rectangle, by vg.Length) vg.Rectangle {
	return rect(r.Min.X+by, r.Min.Y+by, r.Max.X-by, r.Max.Y-by)
}

// fill fills a rectangle, outline strokes it with closed corners, and frame strokes its sides.
func fill(c draw.Canvas, r vg.Rectangle, color color.Color) {
	c.SetColor(color)
	c.Fill(r.Path())
}

func outline(c draw.Canvas, r vg.Rectangle, s draw.LineStyle) {
	c.SetLineStyle(s)
	c.Stroke(r.Path())
}

func frame(c draw.Canvas, r vg.Rectangle, s draw.LineStyle) {
	c.StrokeLines(s, []vg.Point{r.Min, pt(r.Max.X, r.Min.Y), r.Max, pt(r.Min.X, r.Max.Y), r.Min})
}

func center(r vg.Rectangle) vg.Point { return pt((r.Min.X+r.Max.X)/2, (r.Min.Y+r.Max.Y)/2) }

// cross draws two lines across each other.
func cross(c draw.Canvas, at vg.Point, r vg.Length, s draw.LineStyle) {
	c.StrokeLine2(s, at.X-r, at.Y-r, at.X+r, at.Y+r)
	c.StrokeLine2(s, at.X-r, at.Y+r, at.X+r, at.Y-r)
}

// raster returns an image of cells of equal size in pixels, so that viewers that smooth images blur only the edges of
// cells. Rows count from the top.
func raster(columns, rows, across, down int, at func(column, row int) color.NRGBA) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, columns*across, rows*down))
	for row := range rows {
		for column := range columns {
			k := at(column, row)
			for y := row * down; y < (row+1)*down; y++ {
				for x := column * across; x < (column+1)*across; x++ {
					img.SetNRGBA(x, y, k)
				}
			}
		}
	}
	return img
}

// span is a range of values.
type span struct{ low, high float64 }

// spanOf returns the range of some values. What is not finite does not count; without others the range is empty.
func spanOf(values ...float64) span {
	s := span{math.Inf(1), math.Inf(-1)}
	s.add(values...)
	return s
}

func (s *span) add(values ...float64) {
	for _, v := range values {
		if finite(v) {
			s.low, s.high = min(s.low, v), max(s.high, v)
		}
	}
}

// addMean adds a mean with its deviation.
func (s *span) addMean(m stats.Mean) { s.add(m.Mean-m.Std, m.Mean+m.Std) }

// padded returns the range with a share of its length, but at least some room, at each end; an empty range is one of
// percents.
func (s span) padded(share, least float64) span {
	if s.low > s.high {
		s = span{0, 100}
	}
	room := max(share*(s.high-s.low), least)
	return span{s.low - room, s.high + room}
}

// scaled gives an axis a range and about the given number of parts.
func (s span) scaled(a *plot.Axis, parts float64) {
	setAxis(a, s.low, s.high, roundStep((s.high-s.low)/parts))
}

// setAxis gives an axis a range and ticks at the multiples of step.
func setAxis(a *plot.Axis, low, high, step float64) {
	a.Min, a.Max, a.Tick.Marker = low, high, every(step, low, high)
}

// setLegend places the legend of a plot: at its top or its bottom, its left or its right, moved by x and y.
func setLegend(p *plot.Plot, top, left bool, x, y float64) {
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs = top, left, vg.Points(x), vg.Points(y)
}

// scatter returns points, which are finite.
func scatter(points plotter.XYs, color color.Color, radius float64, shape draw.GlyphDrawer) *plotter.Scatter {
	return &plotter.Scatter{XYs: points,
		GlyphStyle: draw.GlyphStyle{Color: color, Radius: vg.Points(radius), Shape: shape}}
}

// curve returns n points.
func curve(n int, at func(i int) (x, y float64)) plotter.XYs {
	out := make(plotter.XYs, n)
	for i := range out {
		out[i].X, out[i].Y = at(i)
	}
	return out
}

// path returns a line through points, which are finite.
func path(points plotter.XYs, s draw.LineStyle) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: s}
}

// addPath adds a line through points to a plot and, under its name, to the legend; "" is no entry.
func addPath(p *plot.Plot, name Markup, points plotter.XYs, s draw.LineStyle) {
	l := path(points, s)
	p.Add(l)
	if name != "" {
		p.Legend.Add(name, l)
	}
}

// nameTicks returns ticks with names at 0, step, 2·step, and so on.
func nameTicks(step float64, names []Markup) plot.ConstantTicks {
	ticks := make(plot.ConstantTicks, len(names))
	for i, name := range names {
		ticks[i] = plot.Tick{Value: step * float64(i), Label: name}
	}
	return ticks
}

// dotPlot returns a plot of values to the right, with a row for each name. Row i is at −i.
func dotPlot(title, x Markup, names []Markup, values span, parts float64) *plot.Plot {
	p := newPlot(title, x, "")
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.LineStyle.Width = nameTicks(-1, names), 0, 0
	p.Y.Min, p.Y.Max = 0.5-float64(max(len(names), 1)), 0.5
	values.scaled(&p.X, parts)
	p.Add(stripes(len(names)))
	return p
}

// stripes draws the background of a dot plot: a light line in each of its rows and at each tick.
type stripes int

func (s stripes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i := range int(s) {
		c.StrokeLine2(stroke(faint, 0.8), c.Min.X, y(-float64(i)), c.Max.X, y(-float64(i)))
	}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(stroke(faint, 0.4), x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
}

// place returns where a value of an axis is.
type place = func(v float64) vg.Length

// painter draws on the data area of a plot.
type painter func(c draw.Canvas, p *plot.Plot, x, y place)

func (f painter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	f(c, p, x, y)
}

// rungs draws a light line at each tick of the vertical axis.
func rungs(c draw.Canvas, p *plot.Plot, _, y place) {
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(stroke(faint, 0.5), c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
}

// whiskers draws values with their intervals in the rows of a dot plot, moved up by shift.
type whiskers struct {
	values   []stats.Interval
	diverged []bool // Says in a row without a value that its runs diverged; may be nil.
	shift    float64
	width    float64 // Of the lines.
	mark     draw.GlyphStyle
}

func (w whiskers) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, v := range w.values {
		row := y(w.shift - float64(i))
		switch {
		case finite(v.Value):
			if v.Low < v.High { // It may have no end.
				c.StrokeLine2(stroke(w.mark.Color, w.width), x(max(v.Low, p.X.Min)), row, x(min(v.High, p.X.Max)), row)
			}
			c.DrawGlyphNoClip(w.mark, pt(x(v.Value), row))
		case w.diverged != nil && w.diverged[i]:
			write(c, aligned(style(noteSize, w.mark.Color), text.XLeft, text.YCenter), c.Min.X+4, row, "diverged")
		}
	}
}

// deviation returns a mean as a value with its standard deviation to both sides.
func deviation(m stats.Mean) stats.Interval {
	return stats.Interval{Value: m.Mean, Low: m.Mean - m.Std, High: m.Mean + m.Std}
}

// noteRoom is the height that a provenance of one line takes.
func noteRoom(provenance string) vg.Length {
	if provenance == "" {
		return 0
	}
	return noteSize + 6
}

// widest returns the width of the widest name of some things, and at least some width.
func widest[T any](s text.Style, least vg.Length, of []T, name func(T) Markup) vg.Length {
	for _, t := range of {
		least = max(least, s.Width(name(t)))
	}
	return least
}

// equal returns n relative widths for [columns].
func equal(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// drawPlot draws a plot and centers its title over the data area. gonum/plot centers it over the data and the axis
// labels together. A title or label that is wider than the canvas is broken into three lines at most, and a name at the
// vertical axis that is wider than 0.45 of it is cut.
func drawPlot(of *plot.Plot, c draw.Canvas) {
	copied := *of
	p := &copied
	p.Y.Label.Text = fitted(p.Y.Label.TextStyle, p.Y.Label.Text, c.Max.Y-c.Min.Y)
	if ticks, names := p.Y.Tick.Marker.(plot.ConstantTicks); names {
		ticks = slices.Clone(ticks)
		for i, t := range ticks {
			ticks[i].Label = fitted(p.Y.Tick.Label, t.Label, 0.45*(c.Max.X-c.Min.X))
		}
		p.Y.Tick.Marker = ticks
	}
	whole := c.Max.X - c.Min.X
	p.X.Label.Text = inLines(p.X.Label.TextStyle, p.X.Label.Text, whole, whole)
	data := p.DataCanvas(c)
	aside := data.Center().X - c.Center().X
	p.Title.Text = inLines(p.Title.TextStyle, p.Title.Text, whole, whole-2*max(aside, -aside))
	if width := p.Title.TextStyle.Width(p.Title.Text); width > 0 {
		p.Title.TextStyle.XAlign = text.XCenter + text.XAlignment(aside/width)
	}
	p.Draw(c)
}

// inLines breaks a text that is wider than most into three lines at most, of some width, and cuts what does not fit.
func inLines(s text.Style, label Markup, most, width vg.Length) Markup {
	if s.Width(label) <= most {
		return label
	}
	lines := broken(s, label, width)
	if len(lines) > 3 {
		lines = append(lines[:2], strings.Join(lines[2:], " "))
	}
	for i, line := range lines {
		lines[i] = fitted(s, line, width)
	}
	return strings.Join(lines, "\n")
}

// columns splits a canvas into columns of the given relative widths with gaps between them.
func columns(c draw.Canvas, gap vg.Length, widths ...float64) (out []draw.Canvas) {
	total := 0.0
	for _, w := range widths {
		total += w
	}
	room := c.Max.X - c.Min.X - gap*vg.Length(len(widths)-1)
	out = make([]draw.Canvas, len(widths))
	x := c.Min.X
	for i, w := range widths {
		out[i] = c
		out[i].Min.X = x
		out[i].Max.X = x + room*vg.Length(w/total)
		x = out[i].Max.X + gap
	}
	return out
}

// stack splits a canvas into n lines of equal height, from the top, with gaps between them.
func stack(c draw.Canvas, gap vg.Length, n int) []draw.Canvas {
	out := make([]draw.Canvas, n)
	height := (c.Max.Y - c.Min.Y + gap) / vg.Length(n)
	for i := range out {
		out[i] = c
		out[i].Max.Y -= height * vg.Length(i)
		out[i].Min.Y = out[i].Max.Y - height + gap
	}
	return out
}

// drawRow draws plots side by side, of equal width or of the given relative widths.
func drawRow(c draw.Canvas, plots []*plot.Plot, gap vg.Length, widths ...float64) {
	if widths == nil {
		widths = equal(len(plots))
	}
	for i, panel := range columns(c, gap, widths...) {
		drawPlot(plots[i], panel)
	}
}

// drawRows draws rows of plots of equal height, with gaps between rows and between the plots of a row.
func drawRows(c draw.Canvas, rows [][]*plot.Plot, between, gap vg.Length, widths ...float64) {
	for i, row := range stack(c, between, len(rows)) {
		drawRow(row, rows[i], gap, widths...)
	}
}

// around returns the canvas on which the data area of a plot is the given rectangle.
func around(p *plot.Plot, c draw.Canvas, data vg.Rectangle) draw.Canvas {
	inner := p.DataCanvas(c)
	out := c
	out.Min, out.Max = data.Min.Sub(inner.Min.Sub(c.Min)), data.Max.Add(c.Max.Sub(inner.Max))
	return out
}

// square is a plot with a square data area, its color bar, nil for none, and the free space behind it.
type square struct {
	*plot.Plot
	bar   *bar
	after vg.Length
}

// squares draws a row of plots whose data areas are equal, as large as they can be.
func squares(c draw.Canvas, plots []square) {
	around := make([]vg.Rectangle, len(plots)) // The space of each plot outside its data area.
	room, side := c.Max.X-c.Min.X, c.Max.Y-c.Min.Y
	for i, p := range plots {
		data := p.DataCanvas(c)
		around[i] = vg.Rectangle{Min: data.Min.Sub(c.Min), Max: c.Max.Sub(data.Max)}
		room -= around[i].Min.X + around[i].Max.X + p.after
		side = min(side, c.Max.Y-c.Min.Y-around[i].Min.Y-around[i].Max.Y)
	}
	side = min(side, room/vg.Length(len(plots)))
	x := c.Min.X + max(room-side*vg.Length(len(plots)), 0)/2
	for i, p := range plots {
		part := c
		part.Min.X, part.Max.X = x, x+around[i].Min.X+side+around[i].Max.X
		part.Min.Y = c.Max.Y - around[i].Max.Y - side - around[i].Min.Y
		x = part.Max.X + p.after
		drawPlot(p.Plot, part)
		if p.bar != nil {
			p.bar.draw(p.DataCanvas(part), part)
		}
	}
}

// squareAxes gives both axes of a plot the same range of similarities and the names of the triplet diagram.
func squareAxes(p *plot.Plot, low, high, step float64) {
	setAxis(&p.X, low, high, step)
	setAxis(&p.Y, low, high, step)
	p.X.Label.Text, p.Y.Label.Text = "$S_{ap}$", "$S_{an}$"
}
