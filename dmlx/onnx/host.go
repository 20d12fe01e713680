package onnx

import (
	"math"
	"slices"

	"github.com/gomlx/gomlx/support/exceptions"
)

// onHost computes what is known while the graph is built: shapes, indices, and small constants such as the angles of
// rotary embeddings. It returns nil for the rest. Floating-point values stay float64 until they enter the graph.
func (e *evaluation) onHost() *tensor {
	node, attributes := e.node, e.node.attributes
	switch node.op {
	case "Shape":
		if e.in[0] == nil {
			return nil
		}
		d := e.in[0].dims()
		from, to := bound(node.integer("start", 0), len(d)), bound(node.integer("end", len(d)), len(d))
		return integersOf([]int{max(0, to-from)}, d[from:max(from, to)]...)
	case "Constant":
		if t := attributes["value"].t; t != nil {
			return t
		}
		if a, ok := attributes["value_ints"]; ok {
			return integersOf([]int{len(a.ints)}, a.ints...)
		}
		if a, ok := attributes["value_int"]; ok {
			return integersOf([]int{}, a.i)
		}
		if a, ok := attributes["value_floats"]; ok {
			return &tensor{kind: float32Type, dims: []int{len(a.floats)}, x: a.floats}
		}
		if a, ok := attributes["value_float"]; ok {
			return &tensor{kind: float32Type, dims: []int{}, x: []float64{float64(a.f)}}
		}
		exceptions.Panicf("a constant without a value of numbers")
	}
	if o := e.in[1]; node.op == "CastLike" && o != nil && o.known == nil && e.in[0] != nil && e.in[0].known != nil {
		return cast(e.in[0].known, float32Type) // Integers that are computed with are always known.
	}
	var in []*tensor
	for i := range node.in {
		switch {
		case e.in[i] == nil:
			in = append(in, nil)
			continue
		case e.in[i].known == nil || e.in[i].known.size() > maxConstant:
			return nil
		}
		in = append(in, e.in[i].known)
	}
	if least := hostInputs[node.op]; least == 0 || len(in) < least || slices.Contains(in[:least], nil) {
		return nil
	}
	t := in[0]
	if len(in) == 1 && (node.op == "Min" || node.op == "Max") {
		return t
	}
	if f := hostUnary[node.op]; f != nil {
		return elementwise(t.kind, f, t)
	}
	if f := hostBinary[node.op]; f != nil && len(in) == 2 {
		return broadcast(t.kind, func(x []float64) float64 { return f(x[0], x[1]) }, t, in[1])
	}
	if f := hostComparisons[node.op]; f != nil {
		return broadcast(boolType, func(x []float64) float64 { return truth(f(x[0], x[1])) }, t, in[1])
	}
	switch v := t.floats(); node.op {
	case "Identity":
		return t
	case "Not":
		return elementwise(boolType, func(x float64) float64 { return truth(x == 0) }, t)
	case "CastLike":
		return cast(t, in[1].kind)
	case "Cast":
		return cast(t, node.integer("to", float32Type))
	case "Where":
		return broadcast(in[1].kind, func(x []float64) float64 {
			if x[0] != 0 {
				return x[1]
			}
			return x[2]
		}, t, in[1], in[2])
	case "ConstantOfShape":
		fill := &tensor{kind: float32Type, dims: []int{1}, x: []float64{0}}
		if a := attributes["value"].t; a != nil && a.size() == 1 {
			fill = a
		}
		out := constantOf(fill.kind, e.integers(e.in[0])...)
		for i := range out.x {
			out.x[i] = fill.floats()[0]
		}
		return out
	case "Range":
		if t.size() != 1 || in[1].size() != 1 || in[2].size() != 1 {
			return nil
		}
		from, step := v[0], in[2].floats()[0]
		count := math.Ceil((in[1].floats()[0] - from) / step)
		if !(math.Abs(count) <= maxConstant) {
			exceptions.Panicf("a range of %g values: want at most %d", count, maxConstant)
		}
		out := constantOf(t.kind, max(0, int(count)))
		for i := range out.x {
			out.x[i] = from + float64(i)*step
		}
		return out
	case "Reshape":
		return &tensor{kind: t.kind, dims: e.newShape(t.dims, e.integers(e.in[1])), x: v}
	case "Unsqueeze":
		return &tensor{kind: t.kind, dims: e.unsqueezed(t.dims), x: v}
	case "Squeeze":
		return &tensor{kind: t.kind, dims: e.squeezed(t.dims), x: v}
	case "Expand":
		return broadcast(t.kind, func(x []float64) float64 { return x[0] }, t, constantOf(t.kind, e.integers(e.in[1])...))
	case "Concat":
		axis := axisOf(node.integer("axis", 0), len(t.dims))
		dims, outer := slices.Clone(t.dims), product(t.dims[:axis])
		dims[axis] = 0
		for _, part := range in {
			if part == nil || part.kind != t.kind || len(part.dims) != len(dims) || product(part.dims[:axis]) != outer {
				return nil
			}
			dims[axis] += part.dims[axis]
		}
		out := constantOf(t.kind, dims...)
		rest := out.x[:0]
		for o := range outer {
			for _, part := range in {
				w := part.size() / outer
				rest = append(rest, part.floats()[o*w:(o+1)*w]...)
			}
		}
		if len(rest) != len(out.x) {
			exceptions.Panicf("of tensors of different shapes")
		}
		return out
	case "Gather":
		if len(t.dims) == 0 || axisOf(node.integer("axis", 0), len(t.dims)) != 0 {
			return nil
		}
		inner := product(t.dims[1:])
		out := constantOf(t.kind, slices.Concat(in[1].dims, t.dims[1:])...)
		for i, at := range e.integers(e.in[1]) {
			at = axisOf(at, t.dims[0])
			copy(out.x[i*inner:], v[at*inner:(at+1)*inner])
		}
		return out
	case "Slice":
		s := e.slices(t.dims)
		if len(t.dims) != 1 || s[0].step < 1 {
			return nil
		}
		out := constantOf(t.kind, s[0].count())
		for i := range out.x {
			out.x[i] = v[s[0].from+i*s[0].step]
		}
		return out
	}
	return nil
}

// hostInputs has the least number of inputs of the operators that the host computes.
var hostInputs = map[string]int{
	"Identity": 1, "Not": 1, "CastLike": 2, "Cast": 1, "Where": 3, "ConstantOfShape": 1, "Range": 3, "Reshape": 2,
	"Unsqueeze": 1, "Squeeze": 1, "Expand": 2, "Concat": 1, "Gather": 2, "Slice": 3,
}

func init() {
	for name := range hostUnary {
		hostInputs[name] = 1
	}
	for name := range hostBinary {
		hostInputs[name] = 2
	}
	hostInputs["Min"], hostInputs["Max"] = 1, 1
	for name := range hostComparisons {
		hostInputs[name] = 2
	}
}

var hostUnary = map[string]func(x float64) float64{
	"Sqrt": math.Sqrt, "Cos": math.Cos, "Sin": math.Sin, "Floor": math.Floor, "Ceil": math.Ceil, "Exp": math.Exp,
	"Log": math.Log, "Abs": math.Abs, "Neg": func(x float64) float64 { return -x },
	"Reciprocal": func(x float64) float64 { return 1 / x },
}

var hostBinary = map[string]func(a, b float64) float64{
	"Add": func(a, b float64) float64 { return a + b }, "Sub": func(a, b float64) float64 { return a - b },
	"Mul": func(a, b float64) float64 { return a * b }, "Div": func(a, b float64) float64 { return a / b },
	"Mod": func(a, b float64) float64 { return a - b*math.Floor(a/b) }, "Pow": math.Pow,
	"Min": math.Min, "Max": math.Max,
}

var hostComparisons = map[string]func(a, b float64) bool{
	"Equal": func(a, b float64) bool { return a == b }, "Greater": func(a, b float64) bool { return a > b },
	"Less": func(a, b float64) bool { return a < b }, "GreaterOrEqual": func(a, b float64) bool { return a >= b },
	"LessOrEqual": func(a, b float64) bool { return a <= b }, "And": func(a, b float64) bool { return a != 0 && b != 0 },
	"Or": func(a, b float64) bool { return a != 0 || b != 0 },
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// constantOf returns a tensor of zeros. It panics if it has more than maxConstant elements.
func constantOf(kind int, dims ...int) *tensor {
	if err := sized(dims, maxConstant); err != nil {
		exceptions.Panicf("a constant %v", err)
	}
	return &tensor{kind: kind, dims: append([]int{}, dims...), x: make([]float64, product(dims))}
}

func integersOf(dims []int, values ...int) *tensor {
	t := constantOf(int64Type, dims...)
	for i, v := range values {
		t.x[i] = float64(v)
	}
	return t
}

func cast(t *tensor, kind int) *tensor {
	if typeSizes[kind] == 0 {
		exceptions.Panicf("to the type %d, which is not supported: export in float32", kind)
	}
	return elementwise(kind, func(x float64) float64 { return x }, t)
}

// elementwise applies a function to each element, and makes the result whole if it is of integers.
func elementwise(kind int, f func(float64) float64, t *tensor) *tensor {
	return broadcast(kind, func(x []float64) float64 { return f(x[0]) }, t)
}

// broadcast applies a function to the elements of tensors that are broadcast to one shape, as NumPy does.
func broadcast(kind int, f func([]float64) float64, of ...*tensor) *tensor {
	rank := 0
	for _, t := range of {
		rank = max(rank, len(t.dims))
	}
	at := func(t *tensor, axis int) int {
		if axis -= rank - len(t.dims); axis >= 0 {
			return t.dims[axis]
		}
		return 1
	}
	dims := slices.Repeat([]int{1}, rank)
	for axis := range dims {
		for _, t := range of {
			switch d := at(t, axis); {
			case dims[axis] == 1:
				dims[axis] = d
			case d != 1 && d != dims[axis]:
				exceptions.Panicf("of shapes %v and %v, which do not fit", of[0].dims, t.dims)
			}
		}
	}
	out, x := constantOf(kind, dims...), make([]float64, len(of))
	for i := range out.x {
		for j, t := range of {
			index, rest, step := 0, i, 1
			for axis := rank - 1; axis >= 0; axis-- {
				if d := at(t, axis); d > 1 {
					index += rest % dims[axis] * step
					step *= d
				}
				rest /= dims[axis]
			}
			x[j] = t.floats()[index]
		}
		switch y := f(x); kind {
		case float32Type, float64Type:
			out.x[i] = y
		case boolType:
			out.x[i] = truth(y != 0)
		default:
			if out.x[i] = math.Trunc(y); y-y != 0 {
				exceptions.Panicf("a whole number that is %g", y)
			}
		}
	}
	return out
}

func bound(i, d int) int {
	if i < 0 {
		i += d
	}
	return max(0, min(i, d))
}

// span is a part of an axis.
type span struct{ from, to, step int }

func (s span) count() int {
	if s.from >= s.to || s.step < 1 {
		return 0
	}
	return (s.to-s.from-1)/s.step + 1
}

// slices returns the parts of all axes that a Slice takes.
func (e *evaluation) slices(dims []int) []span {
	spans := make([]span, len(dims))
	for i, d := range dims {
		spans[i] = span{0, d, 1}
	}
	starts, ends := e.integers(e.in[1]), e.integers(e.in[2])
	axes, steps := e.integers(e.in[3]), e.integers(e.in[4])
	if len(ends) != len(starts) || axes != nil && len(axes) != len(starts) || steps != nil && len(steps) != len(starts) {
		exceptions.Panicf("of %d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	for i := range starts {
		axis, step := i, 1
		if axes != nil {
			axis = axes[i]
		}
		if steps != nil {
			step = steps[i]
		}
		axis = axisOf(axis, len(dims))
		spans[axis] = span{bound(starts[i], dims[axis]), bound(ends[i], dims[axis]), step}
	}
	return spans
}

// newShape returns the shape that a Reshape asks for.
func (e *evaluation) newShape(old, dims []int) []int {
	dims = slices.Clone(dims)
	open, rest := -1, 1
	for i, d := range dims {
		if d == 0 && e.node.integer("allowzero", 0) == 0 && i < len(old) {
			dims[i] = old[i]
		}
		if dims[i] == -1 && open < 0 {
			open, dims[i] = i, 1
		}
	}
	if err := sized(dims, maxElements); err != nil {
		exceptions.Panicf("to a tensor %v", err)
	}
	if rest = product(dims); open >= 0 && rest > 0 {
		dims[open] = product(old) / rest
	}
	if product(dims) != product(old) {
		exceptions.Panicf("of shape %v to %v: export with a fixed height and width", old, dims)
	}
	return dims
}

func (e *evaluation) unsqueezed(dims []int) []int {
	count := len(e.node.attributes["axes"].ints)
	if e.in[1] != nil {
		count = len(e.integers(e.in[1]))
	}
	dims = slices.Clone(dims)
	if len(dims)+count > maxRank {
		exceptions.Panicf("to %d axes: want at most %d", len(dims)+count, maxRank)
	}
	for _, a := range e.axes(1, len(dims)+count) {
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
