package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gomlx/compute"
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

// operand is a value of the graph: one that is known while the graph is built, a node, or a sequence. The node of an
// image has its channels last, as this library computes.
type operand struct {
	known *tensor
	n     *Node // As in the file.
	last  *Node // [N, H, W, C] for [N, C, H, W].
	parts []*operand
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

// isImage reports whether there is only the node with the channels last.
func (o *operand) isImage() bool { return o.last != nil && o.n == nil }

// evaluation is a graph that is being built.
type evaluation struct {
	*Network
	g       *Graph
	scope   *model.Scope
	pass    backbone.Pass
	dtype   dtypes.DType // Of the computation.
	exact   dtypes.DType // Of what is computed more exactly, float32 or float64.
	values  map[string]*operand
	node    *node
	in      []*operand // Of the node; nil where it has none.
	host    int        // Elements of all that is computed while the graph is built.
	flop    int        // Floating-point operations.
	folding bool
	given   []any // The values of the constants, where they are folded.
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
		exact: dtypes.Float32, values: map[string]*operand{n.input: {last: images}}}
}

// run builds the graph of the values of some names. given has values that are not computed.
func (e *evaluation) run(given map[string]*operand, want ...string) []*Node {
	n := e.Network
	maps.Copy(e.values, given)
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
			text, _, _ := strings.Cut(errs.Panicked(r).Error(), "\n")
			exceptions.Panicf("%s: %.200s", node, text)
		}
	}()
	e.node, e.in = node, make([]*operand, max(6, len(node.in)))
	for i, name := range node.in {
		if name != "" {
			e.in[i] = e.value(name)
		}
	}
	op, found := operators[node.op]
	if !found {
		exceptions.Panicf("this operator is not supported: networks for images of timm, torchvision and transformers " +
			"export with torch.onnx.export(…, dynamo=True, optimize=False)")
	} else if from := since[node.op]; e.opset < from {
		exceptions.Panicf("this operator is supported from opset %d on, and the file is of opset %d: export with "+
			"opset_version=18 or later", from, e.opset)
	}
	for i := range op.inputs {
		if e.in[i] == nil {
			exceptions.Panicf("has %d inputs, want at least %d", len(node.in), op.inputs)
		}
	}
	outs := []*operand{e.folded(op)}
	if outs[0] == nil {
		outs[0] = op.apply(e)
	}
	if node.op == "Split" {
		outs = outs[0].parts
	}
	for i, name := range node.out {
		if name != "" && i < len(outs) {
			if e.values[name] = outs[i]; outs[i].parts == nil {
				e.fits(outs[i].dims())
			}
		}
	}
}

// folded computes a node of small known values by the Go backend, in float64: shapes, indices, and constants such as
// the angles of rotary embeddings. They stay float64 until they enter the graph. It is nil for other nodes.
func (e *evaluation) folded(op operator) *operand {
	c := &evaluation{Network: e.Network, node: e.node, dtype: dtypes.Float64, exact: dtypes.Float64, folding: true}
	for i := range e.node.in {
		if c.in = append(c.in, nil); e.in[i] != nil {
			if t := e.in[i].known; t == nil || t.size() > maxConstant {
				return nil
			}
			c.in[i] = &operand{known: e.in[i].known}
		}
	}
	if op.kind == never || len(e.node.in) == 0 {
		return nil
	}
	c.in = append(c.in, make([]*operand, 6)...)
	b, err := backend.Go()
	if err != nil {
		panic(err)
	}
	c.g = NewGraph(b, "constants")
	defer c.g.Finalize()
	y := op.apply(c)
	if y.known != nil {
		return y
	}
	for _, x := range c.g.Nodes() {
		if err := sized(x.Shape().Dimensions, maxHost); err != nil {
			exceptions.Panicf("gives a constant %v", err)
		}
		e.counts(x.Shape().Size())
	}
	e.counts(maxHost / maxFolded)
	out := c.plain(y)
	if err := sized(out.Shape().Dimensions, maxConstant); err != nil {
		exceptions.Panicf("gives a constant %v", err)
	}
	if err := c.g.Compile(out); err != nil {
		panic(err)
	}
	t := &tensor{dims: slices.Clone(out.Shape().Dimensions), x: tensors.MustCopyFlatData[float64](c.g.Run(c.given...)[0])}
	kind := op.kind
	if kind == ofFirst {
		kind = c.in[0].known.kind
	}
	return &operand{known: t.as(kind)}
}

// counts adds elements to those that are computed while the graph is built.
func (e *evaluation) counts(elements int) {
	if e.host += elements; e.host > maxHost {
		exceptions.Panicf("the constants of the graph have more than %d elements", maxHost)
	}
}

// as returns a constant as one of a type. Whole numbers are cut off, and must be finite.
func (t *tensor) as(kind int) *tensor {
	if typeSizes[kind] == 0 {
		exceptions.Panicf("to the type %d, which is not supported: export in float32", kind)
	}
	out := &tensor{kind: kind, dims: t.dims, x: slices.Clone(t.floats())}
	for i, x := range out.x {
		switch kind {
		case boolType:
			if x != 0 {
				out.x[i] = 1
			}
		case int32Type, int64Type:
			if out.x[i] = math.Trunc(x); x-x != 0 {
				exceptions.Panicf("a whole number that is %g", x)
			}
		}
	}
	return out
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
	}
	e.values[name] = v
	return v
}

// variable returns the variable of a tensor.
func (e *evaluation) variable(name string) *model.Variable {
	v := e.scope.Store().GetVariable(variablePath(name))
	if v == nil {
		exceptions.Panicf("onnx: no variable %s: Init comes first", name)
	}
	return v
}

// weight returns the node of a variable.
func (e *evaluation) weight(name string) *Node { return e.adapt(name, e.variable(name).NodeValue(e.g)) }

// plain returns the node with the axes of the file. That of a constant is floating-point, whatever its type.
func (e *evaluation) plain(o *operand) *Node {
	switch {
	case o.n != nil:
	case o.last != nil:
		o.n = TransposeAllAxes(o.last, 0, 3, 1, 2)
	case o.known == nil:
		exceptions.Panicf("a sequence where a tensor is expected")
	case e.folding:
		o.n = Parameter(e.g, fmt.Sprint(len(e.given)), shapes.Make(dtypes.Float64, o.known.dims...))
		e.given = append(e.given, tensors.FromFlatDataAndDimensions(o.known.floats(), o.known.dims...))
	default:
		o.n = Const(e.g, tensors.FromFlatDataAndDimensions(o.known.float32s(), o.known.dims...))
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

// known returns the value of an operand that must be known; nil for none.
func (o *operand) integers() []int {
	if o == nil {
		return nil
	}
	if o.known == nil || o.known.size() > maxConstant {
		exceptions.Panicf("a shape, axis or index depends on images or weights: export with a fixed height and width")
	}
	return o.known.integers()
}

// scalar returns the number that the i-th input is, and or without it.
func (e *evaluation) scalar(i int, or float64) float64 {
	o := e.in[i]
	if o == nil {
		return or
	}
	if o.known == nil || o.known.size() != 1 {
		exceptions.Panicf("input %d is no constant number", i)
	}
	return o.known.floats()[0]
}

// list returns the whole numbers that a node names by an attribute or its i-th input.
func (e *evaluation) list(name string, i int) []int {
	if e.in[i] != nil {
		return e.in[i].integers()
	}
	return e.node.integers(name)
}

// axes returns the axes that a node names by an attribute or its i-th input, each from 0 to rank−1.
func (e *evaluation) axes(i, rank int) []int {
	axes := slices.Clone(e.list("axes", i))
	for j, a := range axes {
		axes[j] = axisOf(a, rank)
	}
	slices.Sort(axes)
	return slices.Compact(axes)
}

// axis returns the axis that an attribute names, from 0 to rank−1.
func (e *evaluation) axis(or, rank int) int { return axisOf(e.node.integer("axis", or), rank) }

// axisOf returns an axis or index from 0 to rank−1.
func axisOf(axis, rank int) int {
	if axis < -rank || axis >= rank {
		exceptions.Panicf("axis or index %d of %d", axis, rank)
	}
	return (axis + rank) % rank
}

// fits panics if a shape is too large for a value.
func (e *evaluation) fits(dims []int) {
	if err := sized(dims, maxElements); err != nil {
		exceptions.Panicf("gives a tensor %v", err)
	}
}

// OpenSize returns the side of the images of the network: that of the file, of its metadata, or 224 pixels.
func (n *Network) OpenSize() int {
	if p, err := n.Preprocessing(); err == nil && p.Crop > 0 {
		return p.Crop
	}
	return 224
}

// Build builds the graph of images of a size in inference on the Go backend, without running it, and returns the number
// of floating-point operations of its convolutions and matrix products for an image. The error says why the network
// cannot take such images.
func (n *Network) Build(size [2]int) (flop int, err error) {
	err = n.graph(size, func(e *evaluation) error {
		features := e.run(nil, n.output)[0]
		for _, node := range e.g.Nodes() {
			if node.NumOutputs() == 1 {
				if err := sized(node.Shape().Dimensions, maxElements); err != nil {
					return fmt.Errorf("a value in %s is %w", node.Type(), err)
				}
			}
		}
		if features.Rank() != 2 || features.Shape().Dim(0) != probeBatch {
			return fmt.Errorf("the output %.80q is of shape %s: want features [N, F], so export the network without its "+
				"classifier and with pooling", n.output, features.Shape())
		}
		if n.Width == 0 { // While the file is read; networks do not change.
			n.Width = features.Shape().Dim(1)
		}
		flop = e.flop / probeBatch
		return nil
	})
	return flop, err
}

// probeBatch is the number of images of a graph that is not run.
const probeBatch = 2

// graph begins a graph of images of a size in inference on the Go backend, which is not run.
func (n *Network) graph(size [2]int, use func(e *evaluation) error) (err error) {
	defer errs.Catch(&err)
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
	images := Parameter(g, "images", shapes.Make(dtypes.Float32, probeBatch, size[0], size[1], 3))
	return use(n.evaluation(store.RootScope(), images, backbone.Pass{}))
}

// Mixes tells whether the features of an image depend on the other images of its batch: two batches of noise that share
// the first image are computed on a backend.
func (n *Network) Mixes(b compute.Backend) (mixes bool, err error) {
	defer errs.Catch(&err)
	store := model.NewStore()
	defer store.Finalize()
	if err := n.Init(store, nil); err != nil {
		return false, err
	}
	exec, err := model.NewExec(b, store, func(scope *model.Scope, x *Node) *Node {
		return n.Features(scope, x, backbone.Pass{})
	})
	if err != nil {
		return false, err
	}
	defer exec.Finalize()
	h, w := cmp.Or(n.Size[0], n.OpenSize()), cmp.Or(n.Size[1], n.OpenSize())
	noise := rand.New(rand.NewPCG(1, 2))
	images := make([]float32, probeBatch*h*w*3)
	var first []float32
	for from := 0; from < len(images); from += len(images) / probeBatch { // The second time all but the first image.
		for i := range images[from:] {
			images[from+i] = float32(noise.NormFloat64())
		}
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(images, probeBatch, h, w, 3))
		if err != nil {
			return false, err
		}
		features := tensors.MustCopyFlatData[float32](out[0])[:n.Width]
		if first == nil {
			first = features
		}
		for i, v := range features { // Rounding may differ.
			mixes = mixes || math.Abs(float64(v-first[i])) > 1e-3*(1+math.Abs(float64(first[i])))
		}
	}
	return mixes, nil
}
