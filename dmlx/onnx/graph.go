package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// operand is a value of the graph: one that is known while the graph is built, or a node. The node of an image has its
// channels last, as this library computes.
type operand struct {
	known *tensor
	n     *Node      // As in the file.
	last  *Node      // [N, H, W, C] for [N, C, H, W].
	parts []*operand // Of a sequence.
}

func (o *operand) dims() []int {
	switch {
	case o.known != nil:
		return o.known.dims
	case o.n != nil:
		return o.n.Shape().Dimensions
	case o.last == nil:
		exceptions.Panicf("a sequence where a tensor is expected")
	}
	d := o.last.Shape().Dimensions
	return []int{d[0], d[3], d[1], d[2]}
}

// evaluation is a graph that is being built.
type evaluation struct {
	*Network
	g      *Graph
	scope  *model.Scope
	pass   backbone.Pass
	dtype  dtypes.DType // Of the computation.
	values map[string]*operand
	node   *node
	in     []*operand // Of the node; nil where it has none.
	host   int        // Elements of all constants on the host.
	flop   int        // Floating-point operations.
}

// Features builds the graph from images [N, H, W, 3] to the features [N, F], float32. The images' type, float32 or
// bfloat16, is that of the computation; normalizations, softmax, averages and weights are float32.
//
// Batch normalization takes its running averages at inference, in frozen passes, and where neither its scale nor its
// shift is trained.
func (n *Network) Features(scope *model.Scope, images *Node, pass backbone.Pass) *Node {
	return n.evaluation(scope, images, pass).run(nil, n.output)[0]
}

func (n *Network) evaluation(scope *model.Scope, images *Node, pass backbone.Pass) *evaluation {
	return &evaluation{Network: n, g: images.Graph(), scope: scope, pass: pass, dtype: images.DType(),
		values: map[string]*operand{n.input: {last: images}}}
}

// run builds the graph of the values of some names. given has values that are not computed.
func (e *evaluation) run(given map[string]*operand, want ...string) []*Node {
	n := e.Network
	for name, o := range given {
		e.values[name] = o
	}
	needed := map[string]bool{}
	for _, name := range want {
		needed[name] = true
	}
	runs := make([]bool, len(n.nodes))
	for i, node := range slices.Backward(n.nodes) {
		for _, out := range node.out {
			runs[i] = runs[i] || needed[out] && given[out] == nil
		}
		for _, in := range node.in {
			needed[in] = needed[in] || runs[i]
		}
	}
	for i, node := range n.nodes {
		if runs[i] {
			e.apply(node)
		}
	}
	out := make([]*Node, len(want))
	for i, name := range want {
		if o := e.value(name); name == n.output {
			out[i] = ConvertDType(e.plain(o), dtypes.Float32)
		} else if out[i] = o.last; o.last == nil {
			out[i] = e.plain(o)
		}
	}
	return out
}

// apply computes a node and checks the size of what it gives. It panics with the node's name.
func (e *evaluation) apply(node *node) {
	defer func() {
		if r := recover(); r != nil {
			exceptions.Panicf("%s: %.200s", node, firstLine(r))
		}
	}()
	e.node, e.in = node, make([]*operand, max(6, len(node.in)))
	for i, name := range node.in {
		if name != "" {
			e.in[i] = e.value(name)
		}
	}
	if out := e.onHost(); out != nil {
		if e.host += out.size(); e.host > maxHost {
			exceptions.Panicf("the constants of the graph have more than %d elements", maxHost)
		}
		e.values[node.out[0]] = &operand{known: out}
		return
	}
	op := operators[node.op]
	if op.apply == nil {
		exceptions.Panicf("this operator is not supported: networks for images of timm, torchvision and transformers " +
			"export with torch.onnx.export(…, dynamo=True, optimize=False)")
	}
	for i := range op.inputs {
		if e.in[i] == nil {
			exceptions.Panicf("has %d inputs, want at least %d", len(node.in), op.inputs)
		}
	}
	out := op.apply(e)
	for i, name := range node.out {
		if name != "" && i < len(out) {
			e.values[name] = out[i]
			if out[i].parts == nil {
				e.fits(out[i].dims())
			}
		}
	}
}

func firstLine(r any) string {
	var text string
	if err, is := r.(error); is {
		text = err.Error()
	} else {
		text = fmt.Sprint(r)
	}
	for i, c := range text {
		if c == '\n' {
			return text[:i]
		}
	}
	return text
}

// value returns the value of a name.
func (e *evaluation) value(name string) *operand {
	if v, ok := e.values[name]; ok {
		return v
	}
	t := e.tensors[name]
	if t == nil {
		exceptions.Panicf("an output %.80q that this operator does not give here", name)
	}
	v := &operand{known: t}
	if e.role[name] != constant {
		v = &operand{n: e.weight(name)}
	} else if t.kind != float32Type || t.size() <= maxConstant {
		e.host += t.size()
	}
	e.values[name] = v
	return v
}

// weight returns the node of a variable.
func (e *evaluation) weight(name string) *Node {
	v := e.scope.Store().GetVariable(variablePath(name))
	if v == nil {
		exceptions.Panicf("onnx: no variable %s: Init comes first", name)
	}
	return e.adapt(name, v.NodeValue(e.g))
}

// plain returns the node with the axes of the file.
func (e *evaluation) plain(o *operand) *Node {
	switch {
	case o.n != nil:
	case o.last != nil:
		o.n = TransposeAllAxes(o.last, 0, 3, 1, 2)
	case o.known == nil:
		exceptions.Panicf("a sequence where a tensor is expected")
	case o.known.kind == float32Type || o.known.kind == float64Type:
		values := make([]float32, o.known.size())
		for i, x := range o.known.floats() {
			values[i] = float32(x)
		}
		o.n = Const(e.g, tensors.FromFlatDataAndDimensions(values, o.known.dims...))
	case o.known.kind == boolType:
		values := make([]bool, o.known.size())
		for i, x := range o.known.floats() {
			values[i] = x != 0
		}
		o.n = Const(e.g, tensors.FromFlatDataAndDimensions(values, o.known.dims...))
	default:
		values := make([]int32, o.known.size())
		for i, x := range o.known.floats() {
			values[i] = int32(max(math.MinInt32, min(x, math.MaxInt32)))
		}
		o.n = Const(e.g, tensors.FromFlatDataAndDimensions(values, o.known.dims...))
	}
	return o.n
}

// typed returns the node with the axes of the file, of the type of the computation.
func (e *evaluation) typed(o *operand) *Node { return ConvertDType(e.plain(o), e.dtype) }

// image returns the node with its channels last, of the type of the computation.
func (e *evaluation) image(o *operand) *Node {
	if o.last == nil {
		if len(o.dims()) != 4 {
			exceptions.Panicf("of a tensor of shape %v: want images [N, C, H, W]", o.dims())
		}
		o.last = TransposeAllAxes(e.plain(o), 0, 2, 3, 1)
	}
	return ConvertDType(o.last, e.dtype)
}

// integers returns the values of an operand that must be known; nil for none.
func (e *evaluation) integers(o *operand) []int {
	if o == nil {
		return nil
	}
	if o.known == nil {
		exceptions.Panicf("a shape, axis or index depends on images or weights: export with a fixed height and width")
	}
	out := make([]int, 0, o.known.size())
	for _, x := range o.known.floats() {
		out = append(out, int(max(-1<<40, min(x, 1<<40)))) // An index to the end is the largest int64.
	}
	return out
}

// axes returns the axes that a node names by an attribute or its i-th input, each from 0 to rank−1.
func (e *evaluation) axes(i, rank int) []int {
	axes := slices.Clone(e.node.attributes["axes"].ints)
	if i < len(e.in) && e.in[i] != nil {
		axes = e.integers(e.in[i])
	}
	for j, a := range axes {
		axes[j] = axisOf(a, rank)
	}
	slices.Sort(axes)
	return slices.Compact(axes)
}

// axisOf returns an axis or index from 0 to rank−1.
func axisOf(axis, rank int) int {
	if axis < -rank || axis >= rank {
		exceptions.Panicf("axis or index %d of %d", axis, rank)
	}
	return (axis + rank) % rank
}

// OpenSize returns the side of the images of the network: that of the file, of its metadata, or 224 pixels.
func (n *Network) OpenSize() int {
	if p, err := n.Preprocessing(); err == nil && p.Crop > 0 {
		return p.Crop
	}
	return 224
}

// probe builds the graph once and sets the width.
func (n *Network) probe() error {
	size := n.Size
	for i := range size {
		if size[i] == 0 {
			size[i] = n.OpenSize()
		}
	}
	_, err := n.Build(size)
	return err
}

// Build builds the graph of images of a size in inference on the Go backend, without running it, and returns the number
// of floating-point operations of its convolutions and matrix products for an image. The error says why the network
// cannot take such images.
func (n *Network) Build(size [2]int) (flop int, err error) {
	defer errs.Catch(&err)
	const batch = 2
	err = n.graph(size, batch, func(e *evaluation) error {
		features := e.run(nil, n.output)[0]
		for _, node := range e.g.Nodes() {
			if node.NumOutputs() != 1 {
				continue
			}
			if err := sized(node.Shape().Dimensions, maxElements); err != nil {
				return fmt.Errorf("a value in %s is %w", node.Type(), err)
			}
		}
		if features.Rank() != 2 || features.Shape().Dim(0) != batch {
			return fmt.Errorf("the output %.80q is of shape %s: want features [N, F], so export the network without its "+
				"classifier and with pooling", n.output, features.Shape())
		}
		if n.Width == 0 { // While the file is read; networks do not change.
			n.Width = features.Shape().Dim(1)
		}
		flop = e.flop / batch
		return nil
	})
	return flop, err
}

// graph begins a graph of images of a size in inference on the Go backend, which is not run.
func (n *Network) graph(size [2]int, batch int, use func(e *evaluation) error) error {
	b, err := backend.Go()
	if err != nil {
		return err
	}
	store := model.NewStore()
	defer store.Finalize()
	for _, name := range n.variables {
		store.VariableWithShape(variablePath(name), shapes.Make(dtypes.Float32, n.tensors[name].dims...), nil)
	}
	g := NewGraph(b, "onnx")
	defer g.Finalize()
	model.SetStore(g, store)
	images := Parameter(g, "images", shapes.Make(dtypes.Float32, batch, size[0], size[1], 3))
	return use(n.evaluation(store.RootScope(), images, backbone.Pass{}))
}
