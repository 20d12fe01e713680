package onnx

import (
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// operator builds the graph of a node.
type operator struct {
	inputs int // The least number of them.
	kind   int // The type of what comes of constants; never if it is not computed while the graph is built.
	apply  func(e *evaluation) *operand
}

// The opsets that are read; at later ones operators may mean something else. TestOperators compares all with ONNX
// Runtime, at each opset that changed them.
const (
	oldest = 7
	newest = 26
)

// since has the opset from which on an operator means what is computed here, of those that did not at first.
var since = map[string]int{
	"Min": 8, "Max": 8, "Expand": 8, "ConstantOfShape": 9, "Erf": 9, "Slice": 10, "Pad": 11, "Range": 11, "GatherND": 11,
	"SplitToSequence": 11, "SequenceAt": 11, "HardSwish": 14, "CastLike": 15, "LayerNormalization": 17, "Resize": 18,
	"Gelu": 20,
}

// Types of results, beside those of tensors.
const (
	never   = 0
	ofFirst = -1 // That of the first input.
)

var operators map[string]operator

func init() { // Not in the declaration, which would refer to itself.
	plain := func(inputs, kind int, f func(e *evaluation, x *Node) *Node) operator {
		return operator{inputs, kind, func(e *evaluation) *operand { return &operand{n: f(e, e.plain(e.in[0]))} }}
	}
	image := func(inputs int, f func(e *evaluation, x *Node) *Node) operator {
		return operator{inputs, never, func(e *evaluation) *operand { return &operand{last: f(e, e.image(e.in[0]))} }}
	}
	reshaped := func(inputs int, dims func(e *evaluation, old []int) []int) operator {
		return operator{inputs, ofFirst, func(e *evaluation) *operand { return e.reshaped(dims(e, e.in[0].dims())) }}
	}
	first := func(e *evaluation) *operand { return e.in[0] }
	operators = map[string]operator{
		"Shape":           {1, never, (*evaluation).shape},
		"Constant":        {0, never, (*evaluation).constant},
		"ConstantOfShape": {1, never, (*evaluation).constantOfShape},
		"Range":           {3, never, (*evaluation).sequence},
		"Cast":            {1, never, (*evaluation).cast},
		"CastLike":        {2, never, (*evaluation).cast},
		"Identity":        {1, never, first},
		"Dropout":         {1, never, (*evaluation).dropout},

		"Conv":               image(2, (*evaluation).convolution),
		"BatchNormalization": image(5, (*evaluation).batchNormalization),
		"MaxPool":            image(1, (*evaluation).pool),
		"AveragePool":        image(1, (*evaluation).pool),
		"GlobalAveragePool": image(1, func(e *evaluation, x *Node) *Node {
			return e.exactly(x, func(x *Node) *Node { return ReduceAndKeep(x, ReduceMean, 1, 2) })
		}),
		"LayerNormalization": plain(2, never, (*evaluation).layerNormalization),
		"LpNormalization":    plain(1, never, (*evaluation).lpNormalization),
		"Softmax": plain(1, never, func(e *evaluation, x *Node) *Node {
			return e.exactly(x, func(x *Node) *Node { return Softmax(x, e.softmaxAxes(x.Rank())...) })
		}),
		"MatMul": plain(2, never, (*evaluation).matMul),
		"Gemm":   plain(2, never, (*evaluation).gemm),

		"Resize":    image(1, (*evaluation).resize),
		"Pad":       {2, never, (*evaluation).pad},
		"Expand":    plain(2, ofFirst, (*evaluation).expand),
		"Slice":     {3, ofFirst, (*evaluation).slice},
		"Gather":    plain(2, ofFirst, (*evaluation).gather),
		"GatherND":  plain(2, ofFirst, (*evaluation).gatherND),
		"Concat":    {1, ofFirst, (*evaluation).concat},
		"Transpose": {1, ofFirst, (*evaluation).transpose},
		"Reshape":   reshaped(2, (*evaluation).newShape),
		"Squeeze":   reshaped(1, (*evaluation).squeezed),
		"Unsqueeze": reshaped(1, (*evaluation).unsqueezed),
		"Flatten": reshaped(1, func(e *evaluation, old []int) []int {
			axis := bound(e.node.integer("axis", 1), len(old))
			return []int{product(old[:axis]), product(old[axis:])}
		}),

		"Split":           {1, never, (*evaluation).split},
		"SplitToSequence": {1, never, (*evaluation).split},
		"SequenceAt":      {2, never, (*evaluation).sequenceAt},
	}
	for name, f := range unary {
		operators[name] = operator{1, ofFirst, func(e *evaluation) *operand {
			if o := e.in[0]; o.isImage() {
				return &operand{last: f(e, o.last)}
			}
			return &operand{n: f(e, e.plain(e.in[0]))}
		}}
	}
	for name, f := range arithmetic {
		operators[name] = operator{2, ofFirst, func(e *evaluation) *operand { return e.all(f) }}
	}
	for _, name := range []string{"Min", "Max"} {
		operators[name] = operator{1, ofFirst, operators[name].apply}
	}
	for name, f := range reductions {
		operators[name] = operator{1, never, func(e *evaluation) *operand { return e.reduce(f) }}
	}
}

// of is an operator without attributes.
func of(f func(*Node) *Node) func(*evaluation, *Node) *Node {
	return func(_ *evaluation, x *Node) *Node { return f(x) }
}

var unary = map[string]func(e *evaluation, x *Node) *Node{
	"Relu": of(backbone.ReLU), "Sigmoid": of(Sigmoid), "Tanh": of(Tanh), "Exp": of(Exp), "Log": of(Log),
	"Sqrt": of(Sqrt), "Erf": of(Erf), "Neg": of(Neg), "Abs": of(Abs), "Sin": of(Sin), "Cos": of(Cos),
	"Floor": of(Floor), "Ceil": of(Ceil), "Reciprocal": of(Reciprocal),
	"Gelu": func(e *evaluation, x *Node) *Node {
		if e.node.texts["approximate"] == "tanh" {
			inner := MulScalar(Add(x, MulScalar(Mul(x, Square(x)), 0.044715)), math.Sqrt(2/math.Pi))
			return MulScalar(Mul(x, OnePlus(Tanh(inner))), 0.5)
		}
		return MulScalar(Mul(x, OnePlus(Erf(MulScalar(x, math.Sqrt2/2)))), 0.5)
	},
	"Softplus": of(func(x *Node) *Node { return Add(MaxScalar(x, 0), Log1P(Exp(Neg(Abs(x))))) }),
	"Clip": func(e *evaluation, x *Node) *Node {
		low, high := e.node.float("min", math.Inf(-1)), e.node.float("max", math.Inf(1))
		low, high = e.scalar(1, low), e.scalar(2, high)
		return clipped(x, min(low, high), high) // Where low is above high, all is high.
	},
	"HardSwish": of(func(x *Node) *Node { return Mul(x, clipped(AddScalar(MulScalar(x, 1.0/6), 0.5), 0, 1)) }),
	"HardSigmoid": func(e *evaluation, x *Node) *Node {
		return clipped(AddScalar(MulScalar(x, e.node.float("alpha", 0.2)), e.node.float("beta", 0.5)), 0, 1)
	},
	"LeakyRelu": func(e *evaluation, x *Node) *Node {
		return Where(GreaterThan(x, ScalarZero(x.Graph(), x.DType())), x, MulScalar(x, e.node.float("alpha", 0.01)))
	},
}

var arithmetic = map[string]func(a, b *Node) *Node{
	"Add": Add, "Sub": Sub, "Mul": Mul, "Div": Div, "Pow": Pow, "Min": Min, "Max": Max,
}

var reductions = map[string]func(x *Node, axes ...int) *Node{
	"ReduceMean": ReduceMean, "ReduceSum": ReduceSum, "ReduceMax": ReduceMax,
	"ReduceL2": func(x *Node, axes ...int) *Node { return Sqrt(ReduceSum(Square(x), axes...)) },
}

// softmaxAxes returns the axes of a softmax: one since opset 13, and before that all from one on.
func (e *evaluation) softmaxAxes(rank int) []int {
	if e.opset >= 13 {
		return []int{e.axis(-1, rank)}
	}
	var axes []int
	for a := e.axis(1, rank); a < rank; a++ {
		axes = append(axes, a)
	}
	return axes
}

func (e *evaluation) dropout() *operand {
	if e.scalar(2, 0) != 0 {
		exceptions.Panicf("in training mode: export model.eval()")
	}
	return e.in[0]
}

func (e *evaluation) shape() *operand {
	d := e.in[0].dims()
	from, to := bound(e.node.integer("start", 0), len(d)), bound(e.node.integer("end", len(d)), len(d))
	t := &tensor{kind: int64Type, dims: []int{max(0, to-from)}, x: []float64{}}
	for _, v := range d[from:max(from, to)] {
		t.x = append(t.x, float64(v))
	}
	return &operand{known: t}
}

func (e *evaluation) constant() *operand {
	for _, t := range e.node.numbers { // "value", "value_ints", …: there is one.
		return &operand{known: t}
	}
	exceptions.Panicf("a constant without a value of numbers")
	return nil
}

// repeated returns a constant of a shape.
func repeated(kind int, value float64, dims ...int) *operand {
	if err := sized(dims, maxConstant); err != nil {
		exceptions.Panicf("a constant %v", err)
	}
	return &operand{known: &tensor{kind: kind, dims: dims, x: slices.Repeat([]float64{value}, product(dims))}}
}

func (e *evaluation) constantOfShape() *operand {
	if t := e.node.numbers["value"]; t != nil && t.size() == 1 {
		return repeated(t.kind, t.floats()[0], e.in[0].integers()...)
	}
	return repeated(float32Type, 0, e.in[0].integers()...)
}

func (e *evaluation) sequence() *operand {
	from, step := e.scalar(0, 0), e.scalar(2, 0)
	count := math.Ceil((e.scalar(1, 0) - from) / step)
	if !(math.Abs(count) <= maxConstant) {
		exceptions.Panicf("a range of %g values: want at most %d", count, maxConstant)
	}
	o := repeated(e.in[0].known.kind, from, max(0, int(count)))
	for i := range o.known.x {
		o.known.x[i] += float64(i) * step
	}
	return o
}

// cast is Cast and CastLike. Nodes are floating-point.
func (e *evaluation) cast() *operand {
	to := e.node.integer("to", float32Type)
	if like := e.in[1]; like != nil && like.known != nil {
		to = like.known.kind
	}
	if t := e.in[0].known; t != nil && t.size() <= maxConstant {
		return &operand{known: t.as(to)}
	}
	if to != float32Type {
		exceptions.Panicf("to the type %d, which is not supported: export in float32", to)
	}
	return e.in[0]
}

// all applies a function of two values to all inputs, which are broadcast, as NumPy does. Of two types it takes that of
// the computation.
func (e *evaluation) all(f func(a, b *Node) *Node) *operand {
	out := e.in[0]
	for i := 1; i < len(e.node.in); i++ {
		b := e.in[i]
		switch {
		case b == nil:
			exceptions.Panicf("has no input %d", i)
		case (out.last != nil || b.last != nil) && len(out.dims()) <= 4 && len(b.dims()) <= 4:
			out = &operand{last: f(e.sameType(e.asImage(out), e.asImage(b)))}
		default:
			x, y := e.plain(out), e.plain(b)
			rank := max(x.Rank(), y.Rank())
			out = &operand{n: f(e.sameType(ExpandLeftToRank(x, rank), ExpandLeftToRank(y, rank)))}
		}
	}
	return out
}

// asImage returns an operand with axes of length 1 in front up to four, its channels last.
func (e *evaluation) asImage(o *operand) *Node {
	if o.last != nil {
		return o.last
	}
	return TransposeAllAxes(ExpandLeftToRank(e.plain(o), 4), 0, 2, 3, 1)
}

func (e *evaluation) sameType(a, b *Node) (x, y *Node) {
	if a.DType() != b.DType() {
		return ConvertDType(a, e.dtype), ConvertDType(b, e.dtype)
	}
	return a, b
}

// exactly computes in float32 and returns the type of x.
func (e *evaluation) exactly(x *Node, f func(x *Node) *Node) *Node {
	return ConvertDType(f(ConvertDType(x, e.exact)), x.DType())
}

// clipped limits x. Its gradient is 0 outside the limits and on them, as that of PyTorch's ReLU6; that of clamp is 1 on
// them.
func clipped(x *Node, low, high float64) *Node {
	limit := func(v float64) *Node {
		return BroadcastToDims(Scalar(x.Graph(), x.DType(), v), x.Shape().Dimensions...)
	}
	y := x
	if !math.IsInf(low, -1) {
		y = Where(GreaterThan(x, limit(low)), y, limit(low))
	}
	if !math.IsInf(high, 1) {
		y = Where(LessThan(x, limit(high)), y, limit(high))
	}
	return y
}

// window reads how the kernel of a node, of a size, slides over images.
func (e *evaluation) window(kernel []int) backbone.Window {
	get := func(name string, count, or int) []int {
		v := e.node.integers(name)
		if v == nil {
			v = slices.Repeat([]int{or}, count)
		}
		if len(v) != count || slices.Min(v) < 0 || slices.Max(v) > 1<<12 {
			exceptions.Panicf("%s of %v: want %d numbers of at most %d", name, v, count, 1<<12)
		}
		return v
	}
	strides, dilations, pads := get("strides", 2, 1), get("dilations", 2, 1), get("pads", 4, 0)
	if auto := e.node.texts["auto_pad"]; auto != "" && auto != "NOTSET" || len(kernel) != 2 || strides[0] < 1 ||
		strides[0] != strides[1] || dilations[0] != dilations[1] || dilations[0] < 1 {
		exceptions.Panicf("a window of %v with strides %v, dilations %v, padding %q: want two axes, one stride and one "+
			"dilation", kernel, strides, dilations, auto)
	}
	span := func(i int) int { return (kernel[i]-1)*dilations[0] + 1 }
	if min(kernel[0], kernel[1]) < 1 || max(span(0), span(1)) > maxWindow || span(0)*span(1) > maxWindow {
		exceptions.Panicf("a window of %v, dilated by %d: want at most %d places", kernel, dilations[0], maxWindow)
	}
	return backbone.Window{Stride: strides[0], Pad: [4]int(pads), Dilation: dilations[0],
		Groups: e.node.integer("group", 1)}
}

func (e *evaluation) convolution(images *Node) *Node {
	kernel := e.typed(e.in[1])
	if kernel.Rank() != 4 {
		exceptions.Panicf("with a kernel of shape %s: want [O, C, H, W]", kernel.Shape())
	}
	w := e.window(kernel.Shape().Dimensions[2:])
	if w.Groups > 64 && w.Groups != images.Shape().Dim(3) {
		exceptions.Panicf("of %d groups: want at most 64, or one for each channel", w.Groups)
	}
	y := backbone.Conv2D(images, TransposeAllAxes(kernel, 2, 3, 1, 0), w)
	e.flop += 2 * y.Shape().Size() * product(kernel.Shape().Dimensions[1:])
	b := e.in[2] // PyTorch exports zeros for no bias.
	if b == nil || b.known != nil && !slices.ContainsFunc(b.known.floats(), func(x float64) bool { return x != 0 }) {
		return y
	}
	return Add(y, Reshape(e.typed(b), 1, 1, 1, -1))
}

func (e *evaluation) batchNormalization(x *Node) *Node {
	v := e.node.in
	if e.node.integer("training_mode", 0) != 0 || len(e.node.out) > 1 || e.node.integer("spatial", 1) != 1 {
		exceptions.Panicf("in training mode, of the batch's own averages: export model.eval(), which can be trained, too")
	}
	for _, name := range v[3:5] {
		if e.tensors[name] == nil {
			exceptions.Panicf("computes its running average %.80q, as the older exporter merges equal tensors: export with "+
				"dynamo=True, optimize=False", name)
		}
	}
	p := backbone.BatchNormalization{Weight: e.plain(e.in[1]), Bias: e.plain(e.in[2]), Mean: e.variable(v[3]),
		Variance: e.variable(v[4]), Trained: e.trains(v[1]) || e.trains(v[2]),
		Epsilon: e.node.float("epsilon", backbone.Epsilon), Momentum: 1 - e.node.float("momentum", 0.9)}
	return p.Of(x, e.pass)
}

// trains reports whether the variable of a name is trained.
func (e *evaluation) trains(name string) bool {
	v := e.scope.Store().GetVariable(variablePath(name))
	return v != nil && v.Trainable
}

func (e *evaluation) layerNormalization(x *Node) *Node {
	if e.axis(-1, x.Rank()) != x.Rank()-1 {
		exceptions.Panicf("over the axes from %d of %s: want the last axis", e.node.integer("axis", -1), x.Shape())
	}
	return e.exactly(x, func(x *Node) *Node {
		centered := Sub(x, ReduceAndKeep(x, ReduceMean, -1))
		variance := ReduceAndKeep(Square(centered), ReduceMean, -1)
		y := Mul(centered, Reciprocal(Sqrt(AddScalar(variance, e.node.float("epsilon", 1e-5)))))
		y = Mul(y, ExpandLeftToRank(e.plain(e.in[1]), x.Rank()))
		if e.in[2] != nil {
			y = Add(y, ExpandLeftToRank(e.plain(e.in[2]), x.Rank()))
		}
		return y
	})
}

func (e *evaluation) lpNormalization(x *Node) *Node {
	axis := e.axis(-1, x.Rank())
	if p := e.node.integer("p", 2); p != 2 {
		exceptions.Panicf("of order %d: want 2", p)
	}
	return e.exactly(x, func(x *Node) *Node { return L2NormalizeWithEpsilon(x, 1e-24, axis) })
}

// pool is MaxPool and AveragePool.
func (e *evaluation) pool(x *Node) *Node {
	kernel := e.node.integers("kernel_shape")
	w := e.window(kernel)
	if w.Dilation != 1 || kernel[0] != kernel[1] {
		exceptions.Panicf("of windows %v with dilation %d: want squares without", kernel, w.Dilation)
	}
	size, s, counted := kernel[0], w.Stride, w.Pad
	if e.node.integer("ceil_mode", 0) == 1 {
		for i := range 2 { // More border at the end, unless a window would start in it.
			length := x.Shape().Dim(1+i) + w.Pad[i] + w.Pad[2+i]
			if over := (length - size) % s; length > size && over > 0 && length-over+s-size < x.Shape().Dim(1+i)+w.Pad[i] {
				w.Pad[2+i] += s - over
			}
		}
	}
	if e.node.op == "MaxPool" {
		if p := w.Pad[0]; w.Pad == [4]int{p, p, p, p} && p < size {
			return backbone.MaxPooling(x, size, s, p)
		}
		return backbone.MaxPooling(backbone.Border(x, w.Pad, -math.MaxFloat32), size, s, 0)
	}
	ones := Ones(e.g, x.Shape())
	if e.node.integer("count_include_pad", 0) == 1 {
		ones = backbone.Border(ones, counted, 1)
	} else {
		counted = [4]int{}
	}
	for i := range counted {
		counted[i] = w.Pad[i] - counted[i]
	}
	sum := backbone.SumPooling(backbone.Border(x, w.Pad, 0), size, s)
	return Div(sum, backbone.SumPooling(backbone.Border(ones, counted, 0), size, s))
}

// channelsLast has the place of each axis of [N, C, H, W] in [N, H, W, C].
var channelsLast = []int{0, 3, 1, 2}

func (e *evaluation) reduce(f func(*Node, ...int) *Node) *operand {
	o, keep := e.in[0], e.node.integer("keepdims", 1) == 1
	rank := len(o.dims())
	axes := e.axes(1, rank)
	if len(axes) == 0 {
		if e.node.integer("noop_with_empty_axes", 0) == 1 {
			return o
		}
		for i := range rank {
			axes = append(axes, i)
		}
	}
	reduced := func(x *Node) *Node {
		if keep {
			return ReduceAndKeep(x, f, axes...)
		}
		return f(x, axes...)
	}
	if keep && o.isImage() {
		for i, a := range axes {
			axes[i] = channelsLast[a]
		}
		return &operand{last: e.exactly(o.last, reduced)}
	}
	return &operand{n: e.exactly(e.plain(o), reduced)}
}

// resize scales images as PyTorch's interpolate does with antialias: position embeddings, of images of any size.
func (e *evaluation) resize(x *Node) *Node {
	sizes, dims := e.in[3].integers(), e.in[0].dims()
	filter := map[string]datasets.Filter{"cubic": datasets.Bicubic, "linear": datasets.Bilinear}[e.node.texts["mode"]]
	if at := e.node.texts["coordinate_transformation_mode"]; filter == "" || at != "" && at != "half_pixel" ||
		e.node.integer("antialias", 0)*e.node.integer("exclude_outside", 0) != 1 ||
		filter == datasets.Bicubic && e.node.float("cubic_coeff_a", -0.75) != -0.5 || len(sizes) != 4 ||
		!slices.Equal(sizes[:2], dims[:2]) || slices.Min(sizes) < 1 || max(slices.Max(sizes), slices.Max(dims[2:])) > 1<<12 {
		exceptions.Panicf("of %v to %v: want bicubic or bilinear scaling with antialias to at most %d pixels, or export at "+
			"a fixed size", dims, sizes, 1<<12)
	}
	e.fits(sizes)
	return e.exactly(x, func(x *Node) *Node {
		for axis, to := range sizes[2:] {
			from := dims[2+axis]
			matrix := make([]float32, to*from)
			for i := range to {
				first, weights := filter.Weights(from, to, i)
				for j, w := range weights {
					matrix[i*from+first+j] = float32(w)
				}
			}
			x = along(x, 1+axis, ConvertDType(Const(e.g, tensors.FromFlatDataAndDimensions(matrix, to, from)), x.DType()))
		}
		return x
	})
}

func (e *evaluation) pad() *operand {
	image, x := e.in[0].isImage(), e.in[0].last
	if !image {
		x = e.plain(e.in[0])
	}
	pads, axes := e.in[1].integers(), e.in[3].integers()
	if mode := e.node.texts["mode"]; mode != "" && mode != "constant" {
		exceptions.Panicf("of mode %q: want constant", mode)
	}
	fill := max(-math.MaxFloat32, min(e.scalar(2, 0), math.MaxFloat32))
	for i := 0; i < x.Rank() && e.in[3] == nil; i++ {
		axes = append(axes, i)
	}
	if len(pads) != 2*len(axes) || len(pads) > 0 && slices.Min(pads) < 0 {
		exceptions.Panicf("of %d axes by %v", len(axes), pads)
	}
	for i, a := range axes {
		axis, before, after := axisOf(a, x.Rank()), pads[i], pads[len(axes)+i]
		if image {
			axis = channelsLast[axis]
		}
		dims := slices.Clone(x.Shape().Dimensions)
		dims[axis] += before + after
		e.fits(dims)
		x = backbone.Extend(x, axis, before, after, fill)
	}
	if image {
		return &operand{last: x}
	}
	return &operand{n: x}
}

// matMul is NumPy's: leading axes are broadcast.
func (e *evaluation) matMul(x *Node) *Node {
	a, b := e.sameType(x, e.plain(e.in[1]))
	switch {
	case a.Rank() < 2 || b.Rank() < 2:
		exceptions.Panicf("of %s and %s: want at least two axes", a.Shape(), b.Shape())
	case b.Rank() == 2:
		return e.product(DotGeneral(a, []int{a.Rank() - 1}, nil, b, []int{0}, nil), b.Shape().Dim(0))
	}
	rank := max(a.Rank(), b.Rank())
	a, b = ExpandLeftToRank(a, rank), ExpandLeftToRank(b, rank)
	as, bs := slices.Clone(a.Shape().Dimensions), slices.Clone(b.Shape().Dimensions)
	var batch []int
	for i := range rank - 2 {
		as[i], bs[i] = max(as[i], bs[i]), max(as[i], bs[i])
		batch = append(batch, i)
	}
	e.fits(as)
	e.fits(bs)
	a, b = BroadcastToDims(a, as...), BroadcastToDims(b, bs...)
	return e.product(DotGeneral(a, []int{rank - 1}, batch, b, []int{rank - 2}, batch), as[rank-1])
}

// product counts the operations of a matrix product whose elements are sums of so many.
func (e *evaluation) product(y *Node, sum int) *Node {
	e.flop += 2 * y.Shape().Size() * sum
	return y
}

func (e *evaluation) gemm(x *Node) *Node {
	a, b := e.sameType(x, e.plain(e.in[1]))
	if a.Rank() != 2 || b.Rank() != 2 {
		exceptions.Panicf("of %s and %s: want matrices", a.Shape(), b.Shape())
	}
	ofA, ofB := 1-bound(e.node.integer("transA", 0), 1), bound(e.node.integer("transB", 0), 1)
	y := e.product(DotGeneral(a, []int{ofA}, nil, b, []int{ofB}, nil), a.Shape().Dim(ofA))
	if alpha, beta := e.node.float("alpha", 1), e.node.float("beta", 1); alpha != 1 || beta != 1 {
		exceptions.Panicf("with alpha %g and beta %g: want 1", alpha, beta)
	}
	if e.in[2] == nil {
		return y
	}
	return Add(e.sameType(y, ExpandLeftToRank(e.plain(e.in[2]), 2)))
}

// transpose brings axes into another order. A change between channels first and last costs nothing.
func (e *evaluation) transpose() *operand {
	x, perm := e.in[0], e.node.integers("perm")
	rank := len(x.dims())
	for i := rank - 1; i >= 0 && e.node.numbers["perm"] == nil; i-- {
		perm = append(perm, i)
	}
	seen := make([]bool, rank)
	for _, p := range perm {
		seen[axisOf(p, rank)] = true
	}
	switch {
	case len(perm) != rank || slices.Contains(seen, false):
		exceptions.Panicf("of %d axes to %v", rank, perm)
	case x.isImage() && slices.Equal(perm, []int{0, 2, 3, 1}):
		return &operand{n: x.last}
	case slices.Equal(perm, channelsLast):
		return &operand{last: e.plain(x)}
	}
	return &operand{n: TransposeAllAxes(e.plain(x), perm...)}
}

func (e *evaluation) reshaped(dims []int) *operand {
	e.fits(dims)
	if t := e.in[0].known; e.folding {
		return &operand{known: &tensor{kind: t.kind, dims: dims, x: t.floats()}}
	}
	return &operand{n: Reshape(e.plain(e.in[0]), dims...)}
}

// newShape returns the shape that a Reshape asks for.
func (e *evaluation) newShape(old []int) []int {
	dims, open := e.in[1].integers(), -1
	for i, d := range dims {
		if d == 0 && e.node.integer("allowzero", 0) == 0 && i < len(old) {
			dims[i] = old[i]
		}
		if d == -1 && open < 0 {
			open, dims[i] = i, 1
		}
	}
	if err := sized(dims, maxElements); err != nil {
		exceptions.Panicf("to a tensor %v", err)
	}
	if rest := product(dims); open >= 0 && rest > 0 {
		dims[open] = product(old) / rest
	}
	if product(dims) != product(old) {
		exceptions.Panicf("of shape %v to %v: export with a fixed height and width", old, dims)
	}
	return dims
}

func (e *evaluation) unsqueezed(dims []int) []int {
	rank := len(dims) + len(e.list("axes", 1))
	if rank > maxRank {
		exceptions.Panicf("to %d axes: want at most %d", rank, maxRank)
	}
	dims = slices.Clone(dims)
	for _, a := range e.axes(1, rank) {
		dims = slices.Insert(dims, min(a, len(dims)), 1)
	}
	return dims
}

func (e *evaluation) squeezed(dims []int) []int {
	axes, out := e.axes(1, len(dims)), []int{}
	for i, d := range dims {
		if d != 1 || len(axes) > 0 && !slices.Contains(axes, i) {
			out = append(out, d)
		}
	}
	return out
}

func (e *evaluation) concat() *operand {
	var all []*Node
	images := !slices.ContainsFunc(e.in[:len(e.node.in)], func(o *operand) bool { return o == nil || !o.isImage() })
	axis := e.axis(0, len(e.in[0].dims()))
	for i, o := range e.in[:len(e.node.in)] {
		switch {
		case o == nil:
			exceptions.Panicf("of nothing at input %d", i)
		case images:
			all = append(all, o.last)
		case o.known == nil || o.known.size() > 0:
			all = append(all, e.typed(o))
		}
	}
	switch {
	case images:
		return &operand{last: Concatenate(all, channelsLast[axis])}
	case len(all) == 0:
		return e.in[0]
	}
	return &operand{n: Concatenate(all, axis)}
}

func (e *evaluation) expand(x *Node) *Node {
	dims := e.in[1].integers()
	x = ExpandLeftToRank(x, max(x.Rank(), len(dims)))
	dims = slices.Concat(slices.Repeat([]int{1}, x.Rank()-len(dims)), dims)
	for i := range dims {
		if dims[i] == 1 {
			dims[i] = x.Shape().Dim(i)
		}
	}
	e.fits(dims)
	return BroadcastToDims(x, dims...)
}

// part returns a part of an axis.
func part(x *Node, axis, from, to int) *Node {
	specs := slices.Repeat([]SliceAxisSpec{AxisRange()}, x.Rank())
	if from < 0 || to <= from || to > x.Shape().Dim(axis) {
		exceptions.Panicf("of [%d:%d] of %d", from, to, x.Shape().Dim(axis))
	}
	specs[axis] = AxisRange(from, to)
	return Slice(x, specs...)
}

// bound returns an index as Slice counts, from 0 to d.
func bound(i, d int) int {
	if i < 0 {
		i += d
	}
	return max(0, min(i, d))
}

func (e *evaluation) slice() *operand {
	dims := slices.Clone(e.in[0].dims())
	starts, ends, axes, steps := e.in[1].integers(), e.in[2].integers(), e.in[3].integers(), e.in[4].integers()
	for i := range starts {
		if e.in[3] == nil {
			axes = append(axes, i)
		}
		if e.in[4] == nil {
			steps = append(steps, 1)
		}
	}
	if len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts) {
		exceptions.Panicf("of %d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	specs := slices.Repeat([]SliceAxisSpec{AxisRange()}, len(dims))
	for i, axis := range axes {
		axis = axisOf(axis, len(dims))
		from, to := bound(starts[i], dims[axis]), bound(ends[i], dims[axis])
		switch {
		case steps[i] < 1 || from >= to && !e.folding:
			exceptions.Panicf("of [%d:%d:%d] of axis %d of %v", from, to, steps[i], axis, dims)
		case from >= to:
			dims[axis] = 0
			return repeated(e.in[0].known.kind, 0, dims...)
		}
		specs[axis] = AxisRange(from, to).Stride(steps[i])
	}
	return &operand{n: Slice(e.plain(e.in[0]), specs...)}
}

// split divides an axis into parts of some sizes, of which the last repeats. It is Split and SplitToSequence.
func (e *evaluation) split() *operand {
	x := e.plain(e.in[0])
	axis := e.axis(0, x.Rank())
	length, sizes, squeeze := x.Shape().Dim(axis), e.list("split", 1), false
	if sizes == nil && e.node.op == "Split" {
		sizes = []int{(length + len(e.node.out) - 1) / len(e.node.out)}
	} else if sizes == nil {
		sizes, squeeze = []int{1}, e.node.integer("keepdims", 1) == 0
	}
	out := &operand{parts: []*operand{}}
	for from := 0; from < length; {
		if len(sizes) == 0 || len(out.parts) >= maxWindow {
			exceptions.Panicf("in more than %d parts, or none", maxWindow)
		}
		to := min(from+sizes[min(len(out.parts), len(sizes)-1)], length)
		y := part(x, axis, from, to)
		if from = to; squeeze {
			y = Squeeze(y, axis)
		}
		out.parts = append(out.parts, &operand{n: y})
	}
	return out
}

func (e *evaluation) sequenceAt() *operand {
	at := e.in[1].integers()
	if len(at) != 1 || e.in[0].parts == nil {
		exceptions.Panicf("of no sequence, or not one place")
	}
	return e.in[0].parts[axisOf(at[0], len(e.in[0].parts))]
}

func (e *evaluation) gather(x *Node) *Node {
	axis, dims := e.axis(0, x.Rank()), x.Shape().Dimensions
	return e.taken(x, axis, e.in[1].integers(), slices.Concat(dims[:axis], e.in[1].dims(), dims[axis+1:]))
}

func (e *evaluation) gatherND(x *Node) *Node {
	index, at := e.in[1].integers(), e.in[1].dims()
	dims := x.Shape().Dimensions
	if e.node.integer("batch_dims", 0) != 0 || len(at) == 0 || at[len(at)-1] < 1 || at[len(at)-1] > len(dims) {
		exceptions.Panicf("of %s by indices of shape %v", x.Shape(), at)
	}
	axes := at[len(at)-1]
	var rows []int
	for indices := range slices.Chunk(index, axes) {
		row := 0
		for i, v := range indices {
			row = row*dims[i] + axisOf(v, dims[i])
		}
		rows = append(rows, row)
	}
	flat := Reshape(x, append([]int{product(dims[:axes])}, dims[axes:]...)...)
	return e.taken(flat, 0, rows, slices.Concat(at[:len(at)-1], dims[axes:]))
}

// taken takes parts of an axis: few as slices, many by a product with one-hot rows, whose gradient adds up in the same
// order on every backend.
func (e *evaluation) taken(x *Node, axis int, index, dims []int) *Node {
	size := x.Shape().Dim(axis)
	for i := range index {
		index[i] = axisOf(index[i], size)
	}
	e.fits(dims)
	if len(index) == 0 || len(index) > maxConstant {
		exceptions.Panicf("of %d indices", len(index))
	}
	if len(index) <= 8 {
		var parts []*Node
		for _, i := range index {
			parts = append(parts, part(x, axis, i, i+1))
		}
		if len(parts) > 1 {
			parts[0] = Concatenate(parts, axis)
		}
		return Reshape(parts[0], dims...)
	}
	e.fits([]int{len(index), size})
	at := slice.Map(index, func(v int) int32 { return int32(v) })
	hot := OneHot(Const(e.g, tensors.FromFlatDataAndDimensions(at, len(at))), size, x.DType())
	return Reshape(along(x, axis, hot), dims...)
}

// along multiplies an axis of x by a matrix [new length, length].
func along(x *Node, axis int, matrix *Node) *Node {
	y := DotGeneral(matrix, []int{1}, nil, x, []int{axis}, nil) // [new length, the other axes]
	order := make([]int, x.Rank())
	for i := range order {
		switch {
		case i < axis:
			order[i] = i + 1
		case i > axis:
			order[i] = i
		}
	}
	return TransposeAllAxes(y, order...)
}
