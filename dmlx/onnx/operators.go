package onnx

import (
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// operator builds the graph of a node; inputs is the least number of inputs.
type operator struct {
	inputs int
	apply  func(e *evaluation) []*operand
}

// Operators returns the names of the operators that are supported, in alphabetical order.
func Operators() []string {
	var names []string
	for name := range operators {
		names = append(names, name)
	}
	for name := range hostInputs {
		if _, both := operators[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var operators map[string]operator

func init() { // Not in the declaration, which would refer to itself.
	operators = map[string]operator{
		"Identity": {1, func(e *evaluation) []*operand { return e.in[:1] }},
		"Dropout":  {1, func(e *evaluation) []*operand { return e.in[:1] }},
		"CastLike": {2, func(e *evaluation) []*operand { return e.in[:1] }},
		"Cast":     {1, (*evaluation).cast},
		"Clip":     {1, (*evaluation).clip},
		"Gelu":     {1, (*evaluation).gelu},
		"Where":    {3, (*evaluation).where},

		"Conv":               {2, (*evaluation).convolution},
		"BatchNormalization": {5, (*evaluation).batchNormalization},
		"LayerNormalization": {2, (*evaluation).layerNormalization},
		"LpNormalization":    {1, (*evaluation).lpNormalization},
		"Softmax":            {1, (*evaluation).softmax},
		"MaxPool":            {1, (*evaluation).pool},
		"AveragePool":        {1, (*evaluation).pool},
		"GlobalAveragePool":  {1, (*evaluation).globalAveragePool},
		"Pad":                {2, (*evaluation).pad},
		"MatMul":             {2, (*evaluation).matMul},
		"Gemm":               {2, (*evaluation).gemm},

		"Transpose":       {1, (*evaluation).transpose},
		"Reshape":         {2, (*evaluation).reshape},
		"Flatten":         {1, (*evaluation).flatten},
		"Squeeze":         {1, func(e *evaluation) []*operand { return e.reshaped(e.squeezed(e.in[0].dims())) }},
		"Unsqueeze":       {1, func(e *evaluation) []*operand { return e.reshaped(e.unsqueezed(e.in[0].dims())) }},
		"Concat":          {1, (*evaluation).concat},
		"Expand":          {2, (*evaluation).expand},
		"Slice":           {3, (*evaluation).slice},
		"Split":           {1, (*evaluation).split},
		"SplitToSequence": {1, (*evaluation).splitToSequence},
		"SequenceAt":      {2, (*evaluation).sequenceAt},
		"Gather":          {2, (*evaluation).gather},
		"GatherND":        {2, (*evaluation).gatherND},
	}
	for name, f := range unary {
		operators[name] = operator{1, func(e *evaluation) []*operand {
			return e.each(e.in[0], func(x *Node) *Node { return f(e.node, x) })
		}}
	}
	for name, f := range arithmetic {
		operators[name] = operator{2, func(e *evaluation) []*operand { return e.two(e.in[0], e.in[1], f) }}
	}
	for name, f := range reductions {
		operators[name] = operator{1, func(e *evaluation) []*operand { return e.reduce(f) }}
	}
}

func plain(f func(*Node) *Node) func(*node, *Node) *Node {
	return func(_ *node, x *Node) *Node { return f(x) }
}

var unary = map[string]func(n *node, x *Node) *Node{
	"Relu": plain(backbone.ReLU), "Sigmoid": plain(Sigmoid), "Tanh": plain(Tanh), "Exp": plain(Exp), "Log": plain(Log),
	"Sqrt": plain(Sqrt), "Erf": plain(Erf), "Neg": plain(Neg), "Abs": plain(Abs), "Sin": plain(Sin), "Cos": plain(Cos),
	"Reciprocal": plain(Reciprocal),
	"Softplus":   plain(func(x *Node) *Node { return Add(MaxScalar(x, 0), Log1P(Exp(Neg(Abs(x))))) }),
	"HardSwish":  plain(func(x *Node) *Node { return Mul(x, clipped(AddScalar(MulScalar(x, 1.0/6), 0.5), 0, 1)) }),
	"HardSigmoid": func(n *node, x *Node) *Node {
		return clipped(AddScalar(MulScalar(x, n.float("alpha", 0.2)), n.float("beta", 0.5)), 0, 1)
	},
	"LeakyRelu": func(n *node, x *Node) *Node {
		return Where(GreaterThan(x, ScalarZero(x.Graph(), x.DType())), x, MulScalar(x, n.float("alpha", 0.01)))
	},
}

var arithmetic = map[string]func(a, b *Node) *Node{
	"Add": Add, "Sub": Sub, "Mul": Mul, "Div": Div, "Pow": Pow, "Min": Min, "Max": Max,
}

var reductions = map[string]func(x *Node, axes ...int) *Node{
	"ReduceMean": ReduceMean, "ReduceSum": ReduceSum, "ReduceMax": ReduceMax,
	"ReduceL2": func(x *Node, axes ...int) *Node { return Sqrt(ReduceSum(Square(x), axes...)) },
}

func one(n *Node) []*operand { return []*operand{{n: n}} }

func oneImage(n *Node) []*operand { return []*operand{{last: n}} }

// each applies a function of each element.
func (e *evaluation) each(o *operand, f func(*Node) *Node) []*operand {
	if o.last != nil && o.n == nil {
		return oneImage(f(o.last))
	}
	return one(f(e.plain(o)))
}

// two applies a function of two operands that are broadcast, as NumPy does. Of two floating-point types it takes that
// of the computation.
func (e *evaluation) two(a, b *operand, f func(a, b *Node) *Node) []*operand {
	if (a.last != nil || b.last != nil) && len(a.dims()) <= 4 && len(b.dims()) <= 4 {
		return oneImage(f(e.sameType(e.asImage(a), e.asImage(b))))
	}
	x, y := e.plain(a), e.plain(b)
	rank := max(x.Rank(), y.Rank())
	return one(f(e.sameType(ranked(x, rank), ranked(y, rank))))
}

// asImage returns an operand with axes of length 1 in front up to four, its channels last.
func (e *evaluation) asImage(o *operand) *Node {
	if o.last != nil {
		return o.last
	}
	return TransposeAllAxes(ranked(e.plain(o), 4), 0, 2, 3, 1)
}

func ranked(x *Node, rank int) *Node {
	for x.Rank() < rank {
		x = ExpandAxes(x, 0)
	}
	return x
}

func (e *evaluation) sameType(a, b *Node) (x, y *Node) {
	if a.DType() != b.DType() {
		if !a.DType().IsFloat() || !b.DType().IsFloat() {
			exceptions.Panicf("of the types %s and %s", a.DType(), b.DType())
		}
		return ConvertDType(a, e.dtype), ConvertDType(b, e.dtype)
	}
	return a, b
}

// in32 computes in float32 and returns the type of the computation.
func (e *evaluation) in32(x *Node, f func(x *Node) *Node) *Node {
	return ConvertDType(f(ConvertDType(x, dtypes.Float32)), x.DType())
}

func (e *evaluation) cast() []*operand {
	if to := e.node.integer("to", float32Type); to != float32Type {
		exceptions.Panicf("to the type %d, which is not supported: export in float32", to)
	}
	return e.each(e.in[0], func(x *Node) *Node {
		if x.DType().IsFloat() {
			return x
		}
		return ConvertDType(x, e.dtype)
	})
}

func (e *evaluation) clip() []*operand {
	limit := func(i int, name string, or float64) float64 {
		if o := e.in[i]; o != nil {
			if o.known == nil || o.known.size() != 1 {
				exceptions.Panicf("limits that are no constants")
			}
			return o.known.floats()[0]
		}
		return e.node.float(name, or)
	}
	low, high := limit(1, "min", math.Inf(-1)), limit(2, "max", math.Inf(1))
	return e.each(e.in[0], func(x *Node) *Node { return clipped(x, low, high) })
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

func (e *evaluation) gelu() []*operand {
	tanh := e.node.attributes["approximate"].s == "tanh"
	return e.each(e.in[0], func(x *Node) *Node {
		if tanh {
			inner := MulScalar(Add(x, MulScalar(Mul(x, Square(x)), 0.044715)), math.Sqrt(2/math.Pi))
			return MulScalar(Mul(x, OnePlus(Tanh(inner))), 0.5)
		}
		return MulScalar(Mul(x, OnePlus(Erf(MulScalar(x, math.Sqrt2/2)))), 0.5)
	})
}

func (e *evaluation) where() []*operand {
	c, a, b := e.plain(e.in[0]), e.plain(e.in[1]), e.plain(e.in[2])
	rank := max(c.Rank(), a.Rank(), b.Rank())
	a, b = e.sameType(ranked(a, rank), ranked(b, rank))
	dims := slices.Clone(a.Shape().Dimensions)
	c = ranked(c, rank)
	for i := range dims {
		for _, x := range []*Node{b, c} {
			if dims[i] == 1 {
				dims[i] = x.Shape().Dim(i)
			}
		}
	}
	e.fits(dims)
	return one(Where(BroadcastToDims(c, dims...), BroadcastToDims(a, dims...), BroadcastToDims(b, dims...)))
}

// fits panics if a shape is too large for a value.
func (e *evaluation) fits(dims []int) {
	if err := sized(dims, maxElements); err != nil {
		exceptions.Panicf("gives a tensor %v", err)
	}
}

// window reads how the kernel of a node, of a size, slides over images.
func (e *evaluation) window(kernel []int) backbone.Window {
	a := e.node.attributes
	get := func(name string, count, or int) []int {
		v := a[name].ints
		if v == nil {
			v = slices.Repeat([]int{or}, count)
		}
		if len(v) != count || slices.Min(v) < 0 || slices.Max(v) > 1<<12 {
			exceptions.Panicf("%s of %v: want %d numbers of at most %d", name, v, count, 1<<12)
		}
		return v
	}
	strides, dilations, pads := get("strides", 2, 1), get("dilations", 2, 1), get("pads", 4, 0)
	if auto := a["auto_pad"].s; auto != "" && auto != "NOTSET" || len(kernel) != 2 || strides[0] != strides[1] ||
		dilations[0] != dilations[1] || strides[0] < 1 || dilations[0] < 1 {
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

func (e *evaluation) convolution() []*operand {
	images, kernel := e.image(e.in[0]), e.typed(e.in[1])
	if kernel.Rank() != 4 {
		exceptions.Panicf("with a kernel of shape %s: want [O, C, H, W]", kernel.Shape())
	}
	w := e.window(kernel.Shape().Dimensions[2:])
	if w.Groups > 64 && w.Groups != images.Shape().Dim(3) {
		exceptions.Panicf("of %d groups: want at most 64, or one for each channel", w.Groups)
	}
	y := backbone.Conv2D(images, TransposeAllAxes(kernel, 2, 3, 1, 0), w)
	e.flop += 2 * y.Shape().Size() * product(kernel.Shape().Dimensions[1:])
	if b := e.in[2]; b != nil && !(b.known != nil && !slices.ContainsFunc(b.known.floats(), func(x float64) bool {
		return x != 0 // PyTorch exports zeros for no bias.
	})) {
		y = Add(y, Reshape(e.typed(b), 1, 1, 1, -1))
	}
	return oneImage(y)
}

func (e *evaluation) batchNormalization() []*operand {
	o := e.in[0]
	rank := len(o.dims())
	if rank != 2 && rank != 4 {
		exceptions.Panicf("of a tensor of shape %v: want [N, C] or [N, C, H, W]", o.dims())
	}
	x := e.plain(o)
	if rank == 4 {
		x = e.image(o)
	}
	gamma, beta, epsilon := e.plain(e.in[1]), e.plain(e.in[2]), e.node.float("epsilon", backbone.Epsilon)
	dims := x.Shape().Dimensions
	flat := ConvertDType(Reshape(x, -1, dims[rank-1]), dtypes.Float32)
	var y *Node
	if e.pass.Training && !e.pass.Frozen && (e.trains(e.node.in[1]) || e.trains(e.node.in[2])) {
		var m, v *Node
		y, m, v = backbone.Normalize(flat, gamma, beta, epsilon)
		if rows := float64(flat.Shape().Dim(0)); !e.pass.Again {
			momentum := 1 - e.node.float("momentum", 0.9)
			for i, to := range []*Node{m, MulScalar(v, rows/(rows-1))} {
				running := e.scope.Store().GetVariable(variablePath(e.node.in[3+i]))
				running.SetNodeValue(Add(MulScalar(running.NodeValue(e.g), 1-momentum), MulScalar(to, momentum)))
			}
		}
	} else {
		scale := Mul(gamma, Reciprocal(Sqrt(AddScalar(e.plain(e.in[4]), epsilon))))
		shift := Sub(beta, Mul(e.plain(e.in[3]), scale))
		y = Add(Mul(flat, ExpandAxes(scale, 0)), ExpandAxes(shift, 0))
	}
	y = ConvertDType(Reshape(y, dims...), e.dtype)
	if rank == 4 {
		return oneImage(y)
	}
	return one(y)
}

// trains reports whether the variable of a name is trained.
func (e *evaluation) trains(name string) bool {
	v := e.scope.Store().GetVariable(variablePath(name))
	return v != nil && v.Trainable
}

func (e *evaluation) layerNormalization() []*operand {
	x := e.plain(e.in[0])
	if axisOf(e.node.integer("axis", -1), x.Rank()) != x.Rank()-1 {
		exceptions.Panicf("over the axes from %d of %s: want the last axis", e.node.integer("axis", -1), x.Shape())
	}
	return one(e.in32(x, func(x *Node) *Node {
		centered := Sub(x, ReduceAndKeep(x, ReduceMean, -1))
		variance := ReduceAndKeep(Square(centered), ReduceMean, -1)
		y := Mul(centered, Reciprocal(Sqrt(AddScalar(variance, e.node.float("epsilon", 1e-5)))))
		y = Mul(y, ranked(e.plain(e.in[1]), x.Rank()))
		if e.in[2] != nil {
			y = Add(y, ranked(e.plain(e.in[2]), x.Rank()))
		}
		return y
	}))
}

func (e *evaluation) lpNormalization() []*operand {
	x := e.plain(e.in[0])
	axis := axisOf(e.node.integer("axis", -1), x.Rank())
	if e.node.integer("p", 2) != 2 {
		exceptions.Panicf("of order %d: want 2", e.node.integer("p", 2))
	}
	return one(e.in32(x, func(x *Node) *Node { return L2NormalizeWithEpsilon(x, 1e-24, axis) }))
}

func (e *evaluation) softmax() []*operand {
	x := e.plain(e.in[0])
	axis := axisOf(e.node.integer("axis", -1), x.Rank())
	return one(e.in32(x, func(x *Node) *Node { return Softmax(x, axis) }))
}

// pool is MaxPool and AveragePool.
func (e *evaluation) pool() []*operand {
	x, kernel := e.image(e.in[0]), e.node.attributes["kernel_shape"].ints
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
			return oneImage(backbone.MaxPooling(x, size, s, p))
		}
		return oneImage(backbone.MaxPooling(backbone.Border(x, w.Pad, -math.MaxFloat32), size, s, 0))
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
	return oneImage(Div(sum, backbone.SumPooling(backbone.Border(ones, counted, 0), size, s)))
}

func (e *evaluation) globalAveragePool() []*operand {
	mean := func(x *Node) *Node { return ReduceAndKeep(x, ReduceMean, 1, 2) }
	return oneImage(e.in32(e.image(e.in[0]), mean))
}

func (e *evaluation) reduce(f func(*Node, ...int) *Node) []*operand {
	o := e.in[0]
	rank := len(o.dims())
	axes := e.axes(1, rank)
	if len(axes) == 0 {
		if e.node.integer("noop_with_empty_axes", 0) == 1 {
			return e.in[:1]
		}
		for i := range rank {
			axes = append(axes, i)
		}
	}
	keep := e.node.integer("keepdims", 1) == 1
	if o.last != nil && o.n == nil && keep {
		places := map[int]int{0: 0, 1: 3, 2: 1, 3: 2}
		for i, a := range axes {
			axes[i] = places[a]
		}
		return oneImage(e.in32(o.last, func(x *Node) *Node { return ReduceAndKeep(x, f, axes...) }))
	}
	return one(e.in32(e.plain(o), func(x *Node) *Node {
		if keep {
			return ReduceAndKeep(x, f, axes...)
		}
		return f(x, axes...)
	}))
}

func (e *evaluation) pad() []*operand {
	x := e.plain(e.in[0])
	pads, axes := e.integers(e.in[1]), e.integers(e.in[3])
	if mode := e.node.attributes["mode"].s; mode != "" && mode != "constant" {
		exceptions.Panicf("of mode %q: want constant", mode)
	}
	fill := 0.0
	if o := e.in[2]; o != nil {
		if o.known == nil || o.known.size() != 1 {
			exceptions.Panicf("with a value that is no constant")
		}
		fill = max(-math.MaxFloat32, min(o.known.floats()[0], math.MaxFloat32))
	}
	if axes == nil {
		for i := range x.Rank() {
			axes = append(axes, i)
		}
	}
	if len(pads) != 2*len(axes) {
		exceptions.Panicf("of %d axes by %d numbers", len(axes), len(pads))
	}
	for i, a := range axes {
		axis, before, after := axisOf(a, x.Rank()), pads[i], pads[len(axes)+i]
		dims := slices.Clone(x.Shape().Dimensions)
		if dims[axis] += before + after; before < 0 || after < 0 {
			exceptions.Panicf("by a negative number")
		}
		e.fits(dims)
		x = backbone.Extend(x, axis, before, after, fill)
	}
	return one(x)
}

// matMul is NumPy's: leading axes are broadcast.
func (e *evaluation) matMul() []*operand {
	a, b := e.sameType(e.plain(e.in[0]), e.plain(e.in[1]))
	switch {
	case a.Rank() < 2 || b.Rank() < 2:
		exceptions.Panicf("of %s and %s: want at least two axes", a.Shape(), b.Shape())
	case b.Rank() == 2:
		return e.product(DotGeneral(a, []int{a.Rank() - 1}, nil, b, []int{0}, nil), b.Shape().Dim(0))
	}
	rank := max(a.Rank(), b.Rank())
	a, b = ranked(a, rank), ranked(b, rank)
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
func (e *evaluation) product(y *Node, sum int) []*operand {
	e.flop += 2 * y.Shape().Size() * sum
	return one(y)
}

func (e *evaluation) gemm() []*operand {
	a, b := e.sameType(e.plain(e.in[0]), e.plain(e.in[1]))
	if a.Rank() != 2 || b.Rank() != 2 {
		exceptions.Panicf("of %s and %s: want matrices", a.Shape(), b.Shape())
	}
	transposed := func(name string) int { return bound(e.node.integer(name, 0), 1) }
	y := DotGeneral(a, []int{1 - transposed("transA")}, nil, b, []int{transposed("transB")}, nil)
	e.product(y, a.Shape().Dim(1-transposed("transA")))
	if alpha := e.node.float("alpha", 1); alpha != 1 {
		y = MulScalar(y, alpha)
	}
	if e.in[2] == nil {
		return one(y)
	}
	c := ranked(e.plain(e.in[2]), 2)
	if beta := e.node.float("beta", 1); beta != 1 {
		c = MulScalar(c, beta)
	}
	return one(Add(e.sameType(y, c)))
}

// transpose brings axes into another order. A change between channels first and last costs nothing.
func (e *evaluation) transpose() []*operand {
	x, perm := e.in[0], e.node.attributes["perm"].ints
	rank := len(x.dims())
	if perm == nil {
		for i := range rank {
			perm = append([]int{i}, perm...)
		}
	}
	seen := make([]bool, rank)
	for _, p := range perm {
		seen[axisOf(p, rank)] = true
	}
	switch {
	case len(perm) != rank || slices.Contains(seen, false):
		exceptions.Panicf("of %d axes to %v", rank, perm)
	case x.n == nil && x.last != nil && slices.Equal(perm, []int{0, 2, 3, 1}):
		return one(x.last)
	case slices.Equal(perm, []int{0, 3, 1, 2}):
		return oneImage(e.plain(x))
	}
	return one(TransposeAllAxes(e.plain(x), perm...))
}

func (e *evaluation) reshaped(dims []int) []*operand {
	e.fits(dims)
	return one(Reshape(e.plain(e.in[0]), dims...))
}

func (e *evaluation) reshape() []*operand {
	return e.reshaped(e.newShape(e.in[0].dims(), e.integers(e.in[1])))
}

func (e *evaluation) flatten() []*operand {
	dims := e.in[0].dims()
	axis := bound(e.node.integer("axis", 1), len(dims))
	return e.reshaped([]int{product(dims[:axis]), product(dims[axis:])})
}

func (e *evaluation) concat() []*operand {
	images, rank := true, len(e.in[0].dims())
	var all []*Node
	for i := range e.node.in {
		if e.in[i] == nil {
			exceptions.Panicf("of nothing at input %d", i)
		}
		images = images && e.in[i].last != nil && e.in[i].n == nil
	}
	axis := axisOf(e.node.integer("axis", 0), rank)
	for i := range e.node.in {
		if images {
			all = append(all, e.in[i].last)
			continue
		}
		x := e.plain(e.in[i])
		if x.DType().IsFloat() {
			x = ConvertDType(x, e.dtype)
		}
		all = append(all, x)
	}
	if images {
		return oneImage(Concatenate(all, []int{0, 3, 1, 2}[axis]))
	}
	return one(Concatenate(all, axis))
}

func (e *evaluation) expand() []*operand {
	x, dims := e.plain(e.in[0]), slices.Clone(e.integers(e.in[1]))
	x = ranked(x, len(dims))
	for len(dims) < x.Rank() {
		dims = slices.Insert(dims, 0, 1)
	}
	for i := range dims {
		if dims[i] == 1 {
			dims[i] = x.Shape().Dim(i)
		}
	}
	e.fits(dims)
	return one(BroadcastToDims(x, dims...))
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

func (e *evaluation) slice() []*operand {
	x := e.plain(e.in[0])
	specs := make([]SliceAxisSpec, x.Rank())
	for i, s := range e.slices(x.Shape().Dimensions) {
		if s.count() < 1 {
			exceptions.Panicf("of [%d:%d:%d] of axis %d of %s", s.from, s.to, s.step, i, x.Shape())
		}
		specs[i] = AxisRange(s.from, s.to).Stride(s.step)
	}
	return one(Slice(x, specs...))
}

// pieces divides an axis into parts of the given sizes; the last size repeats.
func (e *evaluation) pieces(axis int, sizes []int) (out []*operand) {
	x := e.plain(e.in[0])
	for from := 0; from < x.Shape().Dim(axis); {
		if len(sizes) == 0 || len(out) >= maxWindow {
			exceptions.Panicf("in more than %d parts, or none", maxWindow)
		}
		size := sizes[min(len(out), len(sizes)-1)]
		out = append(out, &operand{n: part(x, axis, from, min(from+size, x.Shape().Dim(axis)))})
		from += size
	}
	return out
}

func (e *evaluation) split() []*operand {
	dims := e.in[0].dims()
	axis := axisOf(e.node.integer("axis", 0), len(dims))
	sizes := e.node.attributes["split"].ints
	if e.in[1] != nil {
		sizes = e.integers(e.in[1])
	}
	if sizes == nil {
		sizes = []int{(dims[axis] + len(e.node.out) - 1) / len(e.node.out)}
	}
	return e.pieces(axis, sizes)
}

func (e *evaluation) splitToSequence() []*operand {
	axis, sizes := axisOf(e.node.integer("axis", 0), len(e.in[0].dims())), []int{1}
	if e.in[1] != nil {
		sizes = e.integers(e.in[1])
	}
	parts := e.pieces(axis, sizes)
	if e.in[1] == nil && e.node.integer("keepdims", 1) == 0 {
		for _, p := range parts {
			p.n = Squeeze(p.n, axis)
		}
	}
	return []*operand{{parts: parts}}
}

func (e *evaluation) sequenceAt() []*operand {
	at := e.integers(e.in[1])
	if len(at) != 1 || e.in[0].parts == nil {
		exceptions.Panicf("of no sequence, or not one place")
	}
	return e.in[0].parts[axisOf(at[0], len(e.in[0].parts)):][:1]
}

func (e *evaluation) gather() []*operand {
	x, index := e.plain(e.in[0]), e.integers(e.in[1])
	axis := axisOf(e.node.integer("axis", 0), x.Rank())
	dims := x.Shape().Dimensions
	return e.taken(x, axis, index, slices.Concat(dims[:axis], e.in[1].dims(), dims[axis+1:]))
}

func (e *evaluation) gatherND() []*operand {
	x, index, at := e.plain(e.in[0]), e.integers(e.in[1]), e.in[1].dims()
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
func (e *evaluation) taken(x *Node, axis int, index, dims []int) []*operand {
	size := x.Shape().Dim(axis)
	for i := range index {
		index[i] = axisOf(index[i], size)
	}
	e.fits(dims)
	if len(index) == 0 || len(index) > maxConstant || len(index) > maxWindow && !x.DType().IsFloat() {
		exceptions.Panicf("of %d indices", len(index))
	}
	if len(index) <= 8 || !x.DType().IsFloat() {
		var parts []*Node
		for _, i := range index {
			parts = append(parts, part(x, axis, i, i+1))
		}
		if len(parts) > 1 {
			parts[0] = Concatenate(parts, axis)
		}
		return one(Reshape(parts[0], dims...))
	}
	e.fits([]int{len(index), size})
	at := make([]int32, len(index))
	for i, v := range index {
		at[i] = int32(v)
	}
	hot := OneHot(Const(e.g, tensors.FromFlatDataAndDimensions(at, len(at))), size, x.DType())
	y := DotGeneral(hot, []int{1}, nil, x, []int{axis}, nil) // [indices, the other axes]
	order := make([]int, x.Rank())
	for i := range order {
		switch {
		case i < axis:
			order[i] = i + 1
		case i > axis:
			order[i] = i
		}
	}
	return one(Reshape(TransposeAllAxes(y, order...), dims...))
}
