package figures

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Step is the data of Figure 1: one measured training step of a batch of N images with embeddings of dimension D,
// forward and back to the gradient in two ways. Matrices are row-major.
type Step struct {
	Images []image.Image // The first images of the batch, one class in a row.
	PerRow int
	Labels []int64   // [N], sorted by class.
	Dim    int       // D
	F      []float32 // [N, D], the L2-normalized embeddings.
	S      []float32 // [N, N], their similarities.

	Triplets []StepTriplet

	// Gradient surgery: the rule, its gradient matrix [N, N] and its gradient at F, [N, D].
	Rule string
	M, G []float32
	// Autodiff: the loss, its formula in one or two lines, its value, its M = ∂L/∂S + (∂L/∂S)ᵀ and ∂L/∂F.
	Loss        string
	Formula     []Markup
	Value       float64
	LossM       []float32
	LossG       []float32
	Constant    float64 // c in ∂L/∂F = c·G.
	DifferenceM float64 // The largest |M of the loss − c·M|, relative to the largest entry.
	DifferenceG float64 // The same for ∂L/∂F and G.

	// Stages are the stages of the network with the length of their gradients in both ways.
	Stages []StepStage
}

// StepTriplet is a triplet of the batch with its similarities and the rule's weights.
type StepTriplet struct {
	Anchor, Positive, Negative         int // Indices into the batch.
	Sap, San                           float64
	PairPositive, PairNegative, Weight float64 // P₊, P₋ and T.
}

// StepStage is a stage of the network with the length of its weights' gradient under the rule and under the loss.
type StepStage struct {
	Name       string
	Rule, Loss float64
}

func (s Step) check() error {
	n := len(s.Labels)
	fail := func(format string, args ...any) error { return fmt.Errorf("figure 1: "+format, args...) }
	if n == 0 || s.Dim < 1 || len(s.Images) == 0 || s.PerRow < 1 {
		return fail("%d labels, %d dimensions, %d images, %d in a row; want at least one of each",
			n, s.Dim, len(s.Images), s.PerRow)
	}
	for _, m := range []struct {
		name   string
		values []float32
		want   int
	}{{"F", s.F, n * s.Dim}, {"S", s.S, n * n}, {"M", s.M, n * n}, {"G", s.G, n * s.Dim},
		{"M of the loss", s.LossM, n * n}, {"∂L/∂F", s.LossG, n * s.Dim}} {
		if len(m.values) != m.want {
			return fail("%s has %d values; want %d", m.name, len(m.values), m.want)
		}
		if i := notFinite(m.values); i >= 0 {
			return fail("value %d of %s is %v; want finite numbers", i, m.name, m.values[i])
		}
	}
	for i, t := range s.Triplets {
		if min(t.Anchor, t.Positive, t.Negative) < 0 || max(t.Anchor, t.Positive, t.Negative) >= n {
			return fail("triplet %d is of rows %d, %d and %d; want rows from 0 to %d", i, t.Anchor, t.Positive, t.Negative, n-1)
		}
		if sum := t.Sap + t.San + t.PairPositive + t.PairNegative + t.Weight; !finite(sum) {
			return fail("triplet %d has an infinite or NaN weight or similarity; want finite numbers", i)
		}
	}
	for _, g := range s.Stages {
		if sum := g.Rule + g.Loss; !finite(sum) {
			return fail("the gradient of %s is infinite or NaN; want finite numbers", g.Name)
		}
	}
	return nil
}

// The colors of the two ways to a gradient. The paper's own figure has red and blue.
var lossColor, surgeryColor = Vermilion, Blue

// Framework draws Figure 1: a batch goes forward through the network to similarities and triplets, and back to the
// gradient in two ways. One differentiates a loss; the other, the paper's, composes direction × pair weight ×
// triplet weight. Both give a matrix M, a gradient G = M f at the embeddings, and from there one back-propagation.
// Shapes that disagree and values that are not finite are errors.
func Framework(s Step) (*Figure, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	direction, pair, triplet, err := RuleLabels(s.Rule)
	if err != nil {
		return nil, fmt.Errorf("figure 1: %w", err)
	}
	drawn := frameworkPicture{s, fmt.Sprintf("%s × %s × %s", direction, pair, triplet)}
	return laid(635, func(width vg.Length) *Figure {
		height, plan := vg.Length(728), frameworkStack
		// The side of the squares of five columns, the last of which is as wide as its words.
		if side := min((width-2*margin-12-frameworkSide-4*33)/4, frameworkSide); side >= 60 {
			height, plan = 3*(side+51), func(c vg.Rectangle) frameworkPlan { return frameworkRow(c, side) }
		}
		return &Figure{
			Width: width, Height: 2*margin + height, Photographs: true,
			panels: func(c draw.Canvas) { drawn.draw(c, plan(c.Rectangle)) },
			Alt: fmt.Sprintf("Figure 1. Above, from left to right: a batch of %d images, the network, their embeddings f, "+
				"the similarities S and the mined triplets. "+
				"Below, from right to left, two ways to a gradient: the loss %s by autodiff, "+
				"and the rule %s composed of direction, pair weight and triplet weight. "+
				"The gradient matrices M, the gradients at the embeddings and those of the network's weights "+
				"are equal up to the factor %s.", len(s.Labels), s.Loss, s.Rule, number(s.Constant)),
		}
	}), nil
}

// frameworkPicture draws Figure 1: the forward pass on top, and below each quantity its gradients.
type frameworkPicture struct {
	Step
	parts Markup
}

const (
	frameworkSide = vg.Length(88)  // Of the squares, at most.
	frameworkHead = vg.Length(15)  // For a panel's title.
	frameworkText = vg.Length(8.5) // The picture is full of words: they are larger than notes elsewhere.
)

// frameworkPlan says where the panels are.
type frameworkPlan struct {
	images, network, f, s, triplets, stages vg.Rectangle
	start, m, g                             [2]vg.Rectangle // Of the two ways.
	to, back                                [2][]vg.Point   // Lines to their starts, and from their ends to the stages.
	stacked                                 bool            // The two ways go down, side by side.
}

// beside tells whether the stages are beside what is done to reach them, with room for the legend.
func (p frameworkPlan) beside() bool { return p.stages.Max.Y > p.g[0].Min.Y }

// frameworkRow lays the picture out in five columns and three rows.
func frameworkRow(c vg.Rectangle, side vg.Length) (p frameworkPlan) {
	c.Max.X -= 12 // Room for the arrow from the triplets to the rule.
	row := (c.Max.Y - c.Min.Y) / 3
	gap := (c.Max.X - c.Min.X - 4*side - frameworkSide) / 4
	// cell returns the panel of a column and a row, counted from the top left.
	cell := func(column, line int) vg.Rectangle {
		x, y := c.Min.X+vg.Length(column)*(side+gap), c.Max.Y-vg.Length(line)*row-frameworkHead
		if column == 4 {
			return rect(x, y-side, x+frameworkSide, y)
		}
		return rect(x, y-side, x+side, y)
	}
	p.images, p.network, p.f, p.s, p.triplets = cell(0, 0), cell(1, 0), cell(2, 0), cell(3, 0), cell(4, 0)
	for way := range 2 {
		p.start[way], p.m[way], p.g[way] = cell(4, way+1), cell(3, way+1), cell(2, way+1)
	}
	p.stages = cell(1, 1)
	p.stages.Max.Y -= row / 2
	p.stages.Min.Y -= row / 2
	if side < frameworkSide { // The legend is above.
		p.stages = rect(p.g[0].Min.X-36-frameworkSide, c.Min.Y+28, p.g[0].Min.X-36, c.Min.Y+28+side)
	}
	for way, g := range p.g {
		p.back[way] = []vg.Point{pt(g.Min.X-3, center(g).Y),
			pt(p.stages.Max.X+4, center(p.stages).Y+side*vg.Length(0.22-0.44*float64(way)))}
	}
	down, bend, right := p.triplets, p.start[1], c.Max.X+11
	p.to[0] = []vg.Point{pt(down.Max.X-18, down.Min.Y-12), pt(down.Max.X-18, down.Min.Y-30)}
	p.to[1] = []vg.Point{pt(down.Max.X+1, center(down).Y), pt(right, center(down).Y), pt(right, center(bend).Y),
		pt(bend.Max.X+1, center(bend).Y)}
	return p
}

// frameworkStack lays the picture out in three columns of the forward pass, and below it the two ways side by side.
func frameworkStack(c vg.Rectangle) (p frameworkPlan) {
	const small, arrow, label, words = vg.Length(58), vg.Length(14), vg.Length(12), vg.Length(56)
	large := min((c.Max.X-c.Min.X-words)/2, frameworkSide)
	y := c.Max.Y - frameworkHead
	at := func(share, width, height vg.Length) vg.Rectangle {
		x := c.Min.X + share*(c.Max.X-c.Min.X-width)
		return rect(x, y-height, x+width, y)
	}
	p.stacked = true
	p.images, p.network, p.f = at(0, small, small), at(0.5, small, small), at(1, small, small)
	y -= small + arrow + frameworkHead
	p.triplets, p.s = at(0, small, small), at(1, small, small)
	y -= small + label + arrow
	for _, line := range []*[2]vg.Rectangle{&p.start, &p.m, &p.g} {
		y -= frameworkHead
		line[0], line[1] = at(0, large, large), at(1, large, large)
		y -= large + arrow + 2
	}
	y -= frameworkHead
	p.stages = at(0.5, frameworkSide, 70)
	for way, x := range []vg.Length{p.stages.Min.X - 5, p.stages.Max.X + 5} {
		p.back[way] = []vg.Point{pt(center(p.g[way]).X, p.g[way].Min.Y-3), pt(x, p.stages.Max.Y-20)}
	}
	from, loss, rule := p.triplets, p.start[0], p.start[1]
	end, right := rule.Max.Y+frameworkHead, from.Max.X+22
	p.to[0] = []vg.Point{pt(center(loss).X, from.Min.Y-3), pt(center(loss).X, end-1)}
	p.to[1] = []vg.Point{pt(from.Max.X+3, from.Min.Y+14), pt(right, from.Min.Y+14), pt(right, end+9),
		pt(center(rule).X, end+9), pt(center(rule).X, end-1)}
	return p
}

func (f frameworkPicture) draw(c draw.Canvas, p frameworkPlan) {
	in := func(r vg.Rectangle) draw.Canvas {
		part := c
		part.Rectangle = r
		return part
	}
	n, dim := len(f.Labels), f.Dim
	sizes := func(rows, columns int) string { return fmt.Sprintf("%d × %d", rows, columns) }

	// The forward pass.
	f.images(in(p.images))
	f.network(in(p.network))
	frameworkHeat(in(p.f), n, dim, f.F, true)
	frameworkHeat(in(p.s), n, n, f.S, false)
	classLines(in(p.s), f.Labels)
	f.mined(in(p.s))
	f.diagram(in(p.triplets))
	frameworkTitle(in(p.images), ink, "$\\mathbf{X}$, a batch", fmt.Sprintf("%d images", n))
	frameworkTitle(in(p.network), ink, "network $f_\\theta$", "")
	frameworkTitle(in(p.f), ink, "$\\mathbf{f}$", sizes(n, dim))
	frameworkTitle(in(p.s), ink, "$S = \\mathbf{f}\\,\\mathbf{f}^T$", sizes(n, n))
	frameworkTitle(in(p.triplets), ink, "triplets", fmt.Sprint(len(f.Triplets)))
	note := aligned(style(frameworkText, quiet), text.XCenter, text.YTop)
	marks := Markup("○ positive, × negative")
	if at := pt(center(p.s).X, p.s.Min.Y-3); p.stacked {
		write(c, aligned(note, text.XRight, text.YTop), p.s.Max.X, at.Y, marks)
	} else {
		write(c, note, at.X, at.Y, marks)
	}
	for i, to := range []vg.Rectangle{p.network, p.f, p.s, p.triplets} {
		from := []vg.Rectangle{p.images, p.network, p.f, p.s}[i]
		frameworkArrow(c, from, to, ink, []Markup{"", "L2", "", "mine"}[i])
	}

	// The two ways back.
	for way, k := range []struct {
		color                 color.NRGBA
		m, g                  []float32
		title, mTitle, gTitle Markup
		start                 func(draw.Canvas)
		how                   Markup
	}{
		{lossColor, f.LossM, f.LossG, "loss $L$: " + f.Loss, `$\partial L/\partial S+(\partial L/\partial S)^T$`,
			`$\partial L/\partial\mathbf{f}$`, f.formula, "autodiff"},
		{surgeryColor, f.M, f.G, f.parts, "$M$", "$G = M\\,\\mathbf{f}$", f.bars, "scatter"},
	} {
		frameworkHeat(in(p.m[way]), n, n, k.m, true)
		classLines(in(p.m[way]), f.Labels)
		frameworkHeat(in(p.g[way]), n, dim, k.g, true)
		k.start(in(p.start[way]))
		frameworkTitle(in(p.start[way]), k.color, k.title, "")
		frameworkTitle(in(p.m[way]), k.color, k.mTitle, "")
		frameworkTitle(in(p.g[way]), k.color, k.gTitle, "")
		frameworkArrow(c, p.start[way], p.m[way], k.color, k.how)
		frameworkArrow(c, p.m[way], p.g[way], k.color, "$\\cdot\\,\\mathbf{f}$")
	}
	for i, line := range [][2]vg.Rectangle{p.m, p.g} {
		times, to := number(f.Constant), Scientific([]float64{f.DifferenceM, f.DifferenceG}[i])
		if p.stacked {
			at := center(rect(line[0].Max.X, line[0].Min.Y, line[1].Min.X, line[0].Max.Y))
			write(c, aligned(note, text.XCenter, text.YCenter), at.X, at.Y, fmt.Sprintf("= %s ×,\nto %s", times, to))
		} else {
			write(c, note, center(line[0]).X, line[0].Min.Y-3, fmt.Sprintf("= %s × below, to %s", times, to))
		}
	}

	// Both ways end at the network.
	f.stages(in(p.stages))
	frameworkTitle(in(p.stages), ink, `$\|\partial L/\partial\theta\|$ by stage`, "")
	lines := func(of [2][]vg.Point) {
		for way, line := range of {
			l, last := stroke([]color.Color{lossColor, surgeryColor}[way], 1.5), len(line)-1
			if last > 1 {
				c.StrokeLines(l, line[:last])
			}
			arrow(c, line[last-1], line[last], l)
		}
	}
	lines(p.back)
	if p.beside() {
		write(c, aligned(style(frameworkText, ink), text.XCenter, text.YCenter),
			(p.stages.Max.X+p.g[0].Min.X)/2, center(p.stages).Y, "back")
	}
	f.legend(c, p)
	lines(p.to)
}

// frameworkTitle writes a title above a panel, with a note at the right if there is room.
func frameworkTitle(c draw.Canvas, color color.Color, title, note Markup) {
	s := aligned(bold(style(frameworkText+0.5, color)), text.XLeft, text.YBottom)
	write(c, s, c.Min.X, c.Max.Y+4, title)
	if n := aligned(style(frameworkText, quiet), text.XRight, text.YBottom); note != "" &&
		s.Width(title)+n.Width(note) < c.Max.X-c.Min.X {
		write(c, n, c.Max.X, c.Max.Y+4, note)
	}
}

// frameworkArrow draws an arrow between two panels that are beside or above each other, with a label.
func frameworkArrow(c draw.Canvas, from, to vg.Rectangle, color color.Color, label Markup) {
	a, b := pt(from.Max.X+4, center(from).Y), pt(to.Min.X-4, center(from).Y)
	at, s := center(vg.Rectangle{Min: a, Max: b}), aligned(style(frameworkText, color), text.XCenter, text.YBottom)
	switch {
	case from.Min.Y > to.Max.Y:
		a, b = pt(center(to).X, from.Min.Y-3), pt(center(to).X, to.Max.Y+frameworkHead-1)
		at, s = center(vg.Rectangle{Min: a, Max: b}).Add(pt(6, -8)), aligned(s, text.XLeft, text.YCenter)
	case from.Min.X > to.Min.X:
		a.X, b.X = from.Min.X-4, to.Max.X+4
		at = center(vg.Rectangle{Min: a, Max: b})
	}
	arrow(c, a, b, stroke(color, 1.5))
	write(c, s, at.X, at.Y+5, label)
}

// frameworkHeat draws a matrix as a heat map. The scale of a signed matrix is symmetric about zero; any other runs from
// the least to the largest value.
func frameworkHeat(c draw.Canvas, rows, columns int, values []float32, signed bool) {
	b := newBar(float64(slices.Min(values)), float64(slices.Max(values)), signed, hues[HueWeight])
	// Each cell has several pixels, so that viewers that smooth images blur only its edges.
	down, across := max(1, 256/rows), max(1, 256/columns)
	c.DrawImage(c.Rectangle, raster(columns, rows, across, down, func(column, row int) color.NRGBA {
		return b.at(float64(values[row*columns+column]))
	}))
	frame(c, c.Rectangle, stroke(ink, 0.6))
}

// images draws the first images of the batch.
func (f frameworkPicture) images(c draw.Canvas) {
	rows := (len(f.Images) + f.PerRow - 1) / f.PerRow
	side := (c.Max.X - c.Min.X) / vg.Length(max(rows, f.PerRow))
	for i, img := range f.Images {
		at := pt(c.Min.X+side*vg.Length(i%f.PerRow), c.Max.Y-side*vg.Length(i/f.PerRow+1))
		c.DrawImage(inset(vg.Rectangle{Min: at, Max: at.Add(pt(side, side))}, 0.75), img)
	}
}

// network draws the stages as boxes that get smaller, as the images do.
func (f frameworkPicture) network(c draw.Canvas) {
	n := len(f.Stages)
	for i, stage := range f.Stages {
		half := (c.Max.Y - c.Min.Y) * vg.Length(0.44*(1-0.72*float64(i)/float64(max(n-1, 1))))
		step := (c.Max.X - c.Min.X) / vg.Length(n)
		x := c.Min.X + step*vg.Length(i)
		r := rect(x+1.5, c.Center().Y-half, x+step-1.5, c.Center().Y+half)
		fill(c, r, faint)
		outline(c, r, stroke(ink, 0.6))
		s := aligned(style(frameworkText-0.5, ink), text.XCenter, text.YCenter)
		s.Rotation = math.Pi / 2
		c.FillText(s, center(r), stage.Name)
	}
}

// mined marks each anchor's positive and negative in its row of S.
func (f frameworkPicture) mined(c draw.Canvas) {
	unit := (c.Max.X - c.Min.X) / vg.Length(len(f.Labels))
	for _, t := range f.Triplets {
		mark := func(column int, shape draw.GlyphDrawer) {
			dot(c, paper, min(1.7, unit/3), shape, c.Min.X+unit*(vg.Length(column)+0.5), c.Max.Y-unit*(vg.Length(t.Anchor)+0.5))
		}
		mark(t.Positive, draw.CircleGlyph{})
		mark(t.Negative, draw.CrossGlyph{})
	}
}

// diagram draws the triplets on the triplet diagram. Above the diagonal the negative is nearer.
func (f frameworkPicture) diagram(c draw.Canvas) {
	values := spanOf(0, 1)
	for _, t := range f.Triplets {
		values.add(t.Sap, t.San)
	}
	if values.low < 0 {
		values.low = -1
	}
	share := func(v float64) vg.Length { return vg.Length((v - values.low) / (values.high - values.low)) }
	size := c.Size()
	c.StrokeLine2(stroke(faint, 0.8), c.Min.X, c.Min.Y, c.Max.X, c.Max.Y)
	frame(c, c.Rectangle, stroke(ink, 0.6))
	for _, t := range f.Triplets {
		dot(c, ink, vg.Points(1.9), ringed{draw.CircleGlyph{}}, c.Min.X+size.X*share(t.Sap),
			c.Min.Y+size.Y*share(t.San))
	}
	s := style(frameworkText, ink)
	write(c, aligned(s, text.XCenter, text.YTop), c.Center().X, c.Min.Y-1, "$S_{ap}$")
	write(c, aligned(s, text.XLeft, text.YTop), c.Min.X+4, c.Max.Y-3, "$S_{an}$")
	write(c, aligned(s, text.XLeft, text.YTop), c.Min.X, c.Min.Y-2, number(values.low))
	write(c, aligned(s, text.XRight, text.YTop), c.Max.X, c.Min.Y-2, number(values.high))
}

// formula draws the start of autodiff: the loss, its formula and its value.
func (f frameworkPicture) formula(c draw.Canvas) {
	frame(c, c.Rectangle, stroke(lossColor, 0.6))
	lines := append(slices.Clone(f.Formula), "mean over triplets:", fmt.Sprintf("$L$ = %.4f", f.Value))
	s := aligned(style(frameworkText, ink), text.XCenter, text.YCenter)
	step := (c.Max.Y - c.Min.Y) / vg.Length(len(lines)+1)
	for i, l := range lines {
		write(c, s, c.Center().X, c.Max.Y-step*vg.Length(i+1), l)
	}
}

// bars draws the start of gradient surgery: P₊, P₋ and T of each triplet. Each has its own scale.
func (f frameworkPicture) bars(c draw.Canvas) {
	frame(c, c.Rectangle, stroke(surgeryColor, 0.6))
	part := (c.Max.Y - c.Min.Y) / 3
	for i, p := range []struct {
		name Markup
		of   func(StepTriplet) float64
	}{
		{"$P_+$", func(t StepTriplet) float64 { return t.PairPositive }},
		{"$P_-$", func(t StepTriplet) float64 { return t.PairNegative }},
		{"$T$", func(t StepTriplet) float64 { return t.Weight }},
	} {
		values := spanOf(0)
		for _, t := range f.Triplets {
			values.add(p.of(t))
		}
		box := rect(c.Min.X+18, c.Max.Y-part*vg.Length(i+1)+4, c.Max.X-3, c.Max.Y-part*vg.Length(i)-4)
		write(c, aligned(style(frameworkText, ink), text.XLeft, text.YBottom), c.Min.X+4, box.Min.Y, p.name)
		write(c, aligned(style(frameworkText-2, quiet), text.XLeft, text.YTop), c.Min.X+3, box.Max.Y+2,
			fmt.Sprintf("%.2g", values.high))
		if values.high == values.low {
			continue
		}
		y := func(v float64) vg.Length {
			return box.Min.Y + (box.Max.Y-box.Min.Y)*vg.Length((v-values.low)/(values.high-values.low))
		}
		width := (box.Max.X - box.Min.X) / vg.Length(len(f.Triplets))
		for k, t := range f.Triplets {
			x, v := box.Min.X+width*vg.Length(k), p.of(t)
			fill(c, rect(x+0.1*width, y(min(v, 0)), x+0.9*width, y(max(v, 0))), surgeryColor)
		}
		c.StrokeLine2(stroke(ink, 0.5), box.Min.X, y(0), box.Max.X, y(0))
	}
}

// stages draws the length of the gradient of each stage's weights in both ways.
func (f frameworkPicture) stages(c draw.Canvas) {
	high := 0.0
	for _, s := range f.Stages {
		high = max(high, s.Rule, s.Loss)
	}
	c.StrokeLine2(stroke(ink, 0.6), c.Min.X, c.Min.Y, c.Max.X, c.Min.Y)
	if high == 0 {
		return
	}
	step := (c.Max.X - c.Min.X) / vg.Length(len(f.Stages))
	y := func(v float64) vg.Length { return c.Min.Y + (c.Max.Y-c.Min.Y-8)*vg.Length(v/high) }
	for i, stage := range f.Stages {
		x, longer := c.Min.X+step*vg.Length(i), max(stage.Loss, stage.Rule)
		fill(c, rect(x+0.1*step, c.Min.Y, x+0.5*step, y(stage.Loss)), lossColor)
		fill(c, rect(x+0.5*step, c.Min.Y, x+0.9*step, y(stage.Rule)), surgeryColor)
		write(c, aligned(style(frameworkText-1.5, quiet), text.XCenter, text.YBottom), x+0.5*step, y(longer)+2,
			fmt.Sprintf("%.2g", longer))
		s := aligned(style(frameworkText-0.5, ink), text.XRight, text.YCenter)
		s.Rotation = math.Pi / 2
		write(c, s, x+0.5*step, c.Min.Y-3, stage.Name)
	}
}

// legend explains the colors: beside or above the stages, or in two columns below them.
func (f frameworkPicture) legend(c draw.Canvas, p frameworkPlan) {
	x, y := c.Min.X, p.stages.Max.Y+34
	switch {
	case p.stacked:
		y = p.stages.Min.Y - 42
	case !p.beside():
		y = p.g[0].Max.Y + 4
	}
	top := y
	for _, l := range []struct {
		color color.NRGBA
		bold  bool
		text  Markup
	}{
		{lossColor, true, "a loss, differentiated"}, {lossColor, false,
			"$L$ → $\\partial L/\\partial\\mathbf{f}$ by autodiff"},
		{},
		{surgeryColor, true, "gradient surgery"}, {surgeryColor, false, "direction × pair weight"},
		{surgeryColor, false, "× triplet weight"}, {},
		{ink, false, "both: $\\theta$ ← $\\theta-η\\,\\partial L/\\partial\\theta$"},
	} {
		s := aligned(style(frameworkText, l.color), text.XLeft, text.YTop)
		if l.bold {
			s = bold(s)
		}
		if l.bold && p.stacked && y < top {
			x, y = c.Center().X+10, top
		}
		if l.color == ink && p.stacked {
			x, y = c.Min.X, y+frameworkText+4
		}
		write(c, s, x, y, l.text)
		y -= frameworkText + 4
	}
}
