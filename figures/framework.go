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
	}
	for i, t := range s.Triplets {
		if min(t.Anchor, t.Positive, t.Negative) < 0 || max(t.Anchor, t.Positive, t.Negative) >= n {
			return fail("triplet %d is of rows %d, %d and %d; want rows from 0 to %d", i, t.Anchor, t.Positive, t.Negative, n-1)
		}
	}
	s.Images = nil
	return allFinite("figure 1", s)
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
	return &Figure{
		Width: 635, Height: 2*margin + 3*(frameworkSide+51), Photographs: true, panels: drawn.draw,
		Alt: fmt.Sprintf("Figure 1. Above, from left to right: a batch of %d images, the network, their embeddings f, "+
			"the similarities S and the mined triplets. "+
			"Below, from right to left, two ways to a gradient: the loss %s by autodiff, "+
			"and the rule %s composed of direction, pair weight and triplet weight. "+
			"The gradient matrices M, the gradients at the embeddings and those of the network's weights "+
			"are equal up to the factor %s.", len(s.Labels), s.Loss, s.Rule, number(s.Constant)),
	}, nil
}

// frameworkPicture draws Figure 1: the forward pass on top, and below each quantity its gradients.
type frameworkPicture struct {
	Step
	parts Markup
}

const (
	frameworkSide = vg.Length(88)  // Of the squares.
	frameworkText = vg.Length(8.5) // The picture is full of words: they are larger than notes elsewhere.
)

func (f frameworkPicture) draw(c draw.Canvas) {
	n, dim := len(f.Labels), f.Dim
	right := c.Max.X - 12 // Room for the arrow from the triplets to the rule.
	step, row := (right-c.Min.X-frameworkSide)/4, (c.Max.Y-c.Min.Y)/3
	// cell returns the panel of a column and a row, counted from the top left.
	cell := func(column, line vg.Length) draw.Canvas {
		x, y := c.Min.X+column*step, c.Max.Y-line*row-15
		part := c
		part.Rectangle = rect(x, y-frameworkSide, x+frameworkSide, y)
		return part
	}

	// The forward pass.
	images, network, embeddings, similarities, triplets := cell(0, 0), cell(1, 0), cell(2, 0), cell(3, 0), cell(4, 0)
	f.images(images)
	f.network(network)
	frameworkHeat(embeddings, n, dim, f.F, true)
	frameworkHeat(similarities, n, n, f.S, false)
	classLines(similarities, f.Labels)
	f.mined(similarities)
	f.diagram(triplets)
	frameworkTitle(images, ink, "$\\mathbf{X}$, a batch", fmt.Sprintf("%d images", n))
	frameworkTitle(network, ink, "network $f_\\theta$", "")
	frameworkTitle(embeddings, ink, "$\\mathbf{f}$", fmt.Sprintf("%d × %d", n, dim))
	frameworkTitle(similarities, ink, "$S = \\mathbf{f}\\,\\mathbf{f}^T$", fmt.Sprintf("%d × %d", n, n))
	frameworkTitle(triplets, ink, "triplets", fmt.Sprint(len(f.Triplets)))
	note := aligned(style(frameworkText, quiet), text.XCenter, text.YTop)
	write(c, note, similarities.Center().X, similarities.Min.Y-3, "○ positive, × negative")
	frameworkArrow(images, network, ink, "")
	frameworkArrow(network, embeddings, ink, "L2")
	frameworkArrow(embeddings, similarities, ink, "")
	frameworkArrow(similarities, triplets, ink, "mine")

	// The two ways back, which end at the network.
	stages := cell(1, 1.5)
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
		line := vg.Length(way + 1)
		start, m, g := cell(4, line), cell(3, line), cell(2, line)
		frameworkHeat(m, n, n, k.m, true)
		classLines(m, f.Labels)
		frameworkHeat(g, n, dim, k.g, true)
		k.start(start)
		frameworkTitle(start, k.color, k.title, "")
		frameworkTitle(m, k.color, k.mTitle, "")
		frameworkTitle(g, k.color, k.gTitle, "")
		frameworkArrow(start, m, k.color, k.how)
		frameworkArrow(m, g, k.color, "$\\cdot\\,\\mathbf{f}$")
		arrow(c, pt(g.Min.X-3, g.Center().Y),
			pt(stages.Max.X+4, stages.Center().Y+frameworkSide*vg.Length(0.22-0.44*float64(way))), stroke(k.color, 1.5))
	}
	for i, difference := range []float64{f.DifferenceM, f.DifferenceG} {
		at := cell(vg.Length(3-i), 1)
		write(c, note, at.Center().X, at.Min.Y-3,
			fmt.Sprintf("= %s × below, to %s", number(f.Constant), Scientific(difference)))
	}
	f.stages(stages)
	frameworkTitle(stages, ink, `$\|\partial L/\partial\theta\|$ by stage`, "")
	write(c, aligned(style(frameworkText, ink), text.XCenter, text.YCenter), (stages.Max.X+cell(2, 1).Min.X)/2,
		stages.Center().Y, "back")
	f.legend(c, stages.Max.Y+34)

	// From the triplets to the loss and, around it, to the rule.
	down, end := pt(triplets.Max.X-18, triplets.Min.Y-12), triplets.Center().Y-2*row
	arrow(c, down, down.Sub(pt(0, 18)), stroke(lossColor, 1.5))
	c.StrokeLines(stroke(surgeryColor, 1.5), []vg.Point{{X: triplets.Max.X + 1, Y: triplets.Center().Y},
		{X: right + 11, Y: triplets.Center().Y}, {X: right + 11, Y: end}})
	arrow(c, pt(right+11, end), pt(triplets.Max.X+1, end), stroke(surgeryColor, 1.5))
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

// frameworkArrow draws an arrow between two panels that are beside each other, with a label.
func frameworkArrow(from, to draw.Canvas, color color.Color, label Markup) {
	a, b := pt(from.Max.X+4, from.Center().Y), pt(to.Min.X-4, from.Center().Y)
	if from.Min.X > to.Min.X {
		a.X, b.X = from.Min.X-4, to.Max.X+4
	}
	arrow(from, a, b, stroke(color, 1.5))
	write(from, aligned(style(frameworkText, color), text.XCenter, text.YBottom), (a.X+b.X)/2, a.Y+5, label)
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

// legend explains the colors, from y down.
func (f frameworkPicture) legend(c draw.Canvas, y vg.Length) {
	plain := aligned(style(frameworkText, ink), text.XLeft, text.YTop)
	for _, l := range []struct {
		color color.NRGBA
		text.Style
		text Markup
	}{
		{lossColor, bold(plain), "a loss, differentiated"},
		{lossColor, plain, "$L$ → $\\partial L/\\partial\\mathbf{f}$ by autodiff"}, {},
		{surgeryColor, bold(plain), "gradient surgery"}, {surgeryColor, plain, "direction × pair weight"},
		{surgeryColor, plain, "× triplet weight"}, {},
		{ink, plain, "both: $\\theta$ ← $\\theta-η\\,\\partial L/\\partial\\theta$"},
	} {
		if l.Color = l.color; l.text != "" {
			write(c, l.Style, c.Min.X, y, l.text)
		}
		y -= frameworkText + 4
	}
}
