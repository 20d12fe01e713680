package experiment

import (
	"slices"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// engine is a graph with the variables that it was built on. XLA compiles a step of training for seconds, so engines are
// kept and lent out again: runs that differ in seed, data or learning rate share them, one at a time.
type engine struct {
	key     engineKey
	by      descent // Nothing, for evaluation.
	weights *model.Store
	exec    *model.Exec // nil if there are pieces.
	pieces  *pieces
}

// engineKey is what a graph depends on, beside the shapes of its inputs.
type engineKey struct {
	backend compute.Backend
	arch    backbone.Arch
	dim     int
	rule    string // Its identity; empty for evaluation, and where a loss is trained by:
	loss    string // That, as [Spec.Objective] says it.
	proxies int    // How many it has.
	images  int    // Of a class in a batch, where a miner goes through them.
	thrift  Thrift
}

// maxIdle is how many engines are kept, the latest.
const maxIdle = 8

var (
	idleMu sync.Mutex
	idle   []*engine
)

// borrow gives an idle engine of the key, whose weights are to be overwritten, or builds one.
func borrow(key engineKey, build func(e *engine) error) (*engine, error) {
	idleMu.Lock()
	for i := len(idle) - 1; i >= 0; i-- {
		if e := idle[i]; e.key == key {
			idle = append(idle[:i], idle[i+1:]...)
			idleMu.Unlock()
			return e, nil
		}
	}
	idleMu.Unlock()
	e := &engine{key: key, weights: model.NewStore()}
	return e, build(e)
}

// release gives an engine back. One that has failed is to be dropped instead.
func (e *engine) release() {
	idleMu.Lock()
	defer idleMu.Unlock()
	idle = append(idle, e)
	if len(idle) > maxIdle {
		idle[0].drop()
		idle = append(idle[:0], idle[1:]...)
	}
}

// drop frees an engine.
func (e *engine) drop() {
	if e.pieces != nil {
		e.pieces.drop()
	} else {
		e.exec.Finalize()
	}
	e.weights.Finalize()
}

// training lends an engine for steps of training by a rule or a loss; see [engine.step].
func training(b compute.Backend, spec Spec, by descent) (*engine, error) {
	key := engineKey{backend: b, arch: backbone.Arch(spec.Arch), dim: spec.Dim, rule: spec.Rule, thrift: spec.Thrift}
	if by.loss != nil {
		key.loss, key.proxies, key.images = spec.Objective(), by.proxies, spec.ImagesPerClass
	}
	return borrow(key, func(e *engine) (err error) {
		e.by = by
		if key.thrift.Piece > 0 {
			e.pieces, err = newPieces(e)
			return err
		}
		e.exec, err = model.NewExec(b, e.weights, func(scope *model.Scope, in []*Node) *Node {
			s := stepInputs{pixels: in[0], colours: in[1], rate: in[2], batchInputs: by.batchInputs(in[3:])}
			_, outcome := stepGraph(scope, key, by, s)
			return outcome
		})
		return err
	})
}

// stepValues are what a step takes: images, as [engine.upload] gives them, labels, int32 [B], colours, as [colours] gives them,
// and the learning rate, a scalar; of a loss also the rate of its proxies, if it has any, and what its miner draws from, if
// it does, [B, B]. The tensors stay the caller's.
type stepValues struct {
	images                          []*tensors.Tensor
	labels                          []int32
	colours, rate, proxyRate, noise *tensors.Tensor
}

// upload copies a batch's pixels, of images of size × size, to the device, where the steps of this engine take them: uint8
// [B, size, size, 3], in one tensor or by pieces. It may be called while a step runs: go-xla waits for the end of each, so that what
// is copied between them keeps a GPU waiting.
func (e *engine) upload(b batch, size int) ([]*tensors.Tensor, error) {
	n := len(b.labels)
	if e.pieces != nil {
		n = e.pieces.size
	}
	shape := shapes.Make(dtypes.Uint8, n, size, size, 3)
	var images []*tensors.Tensor
	for piece := range slices.Chunk(b.pixels, shape.Size()) {
		x, err := tensors.FromRaw(e.key.backend, 0, shape, piece)
		if err != nil {
			free(images)
			return nil, err
		}
		images = append(images, x)
	}
	return images, nil
}

// of are the values that [batchInputs] of a descent take, in their order.
func (v stepValues) of(by descent) []any {
	in := []any{tensors.FromFlatDataAndDimensions(v.labels, len(v.labels))}
	if by.proxies > 0 {
		in = append(in, v.proxyRate)
	}
	if by.noise {
		in = append(in, v.noise)
	}
	return in
}

// step changes the weights and returns, as one vector, what is to be known: S_ap [B], S_an [B] and validity [B] of the
// triplets that a rule mines, whatever is trained by, and the length of the gradient of all weights, with that of the
// proxies.
func (e *engine) step(v stepValues) (*tensors.Tensor, error) {
	if e.pieces != nil {
		return e.pieces.step(e.by, v)
	}
	return e.exec.Call1(append([]any{v.images[0], v.colours, v.rate}, v.of(e.by)...)...)
}

// batchInputs are what a step takes for the whole batch.
type batchInputs struct{ labels, proxyRate, noise *Node }

func (by descent) batchInputs(in []*Node) (b batchInputs) {
	b.labels, in = in[0], in[1:]
	if by.proxies > 0 {
		b.proxyRate, in = in[0], in[1:]
	}
	if by.noise {
		b.noise = in[0]
	}
	return b
}

// stepInputs are what the graph of a step takes.
type stepInputs struct {
	pixels, colours, rate *Node
	batchInputs
}

// stepGraph builds a step: what it returns is the outcome, as of [engine.step], beside the batch's normalised embeddings as
// they were before the step.
func stepGraph(scope *model.Scope, key engineKey, by descent, in stepInputs) (embeddings, outcome *Node) {
	raw := key.embed(scope, in.pixels, in.colours, backbone.Pass{Training: true})
	o := newObjective(scope.Store(), by, raw, in.batchInputs)
	variables := backbone.Trainable(scope.Store())
	rates := slices.Repeat([]*Node{in.rate}, len(variables))
	if o.proxies != nil {
		variables, rates = append(variables, o.proxies), append(rates, in.proxyRate)
	}
	nodes := nodesOf(variables, raw)
	gradients := Gradient(o.total, nodes...)
	descend(variables, nodes, rates, gradients)
	return o.embeddings, Concatenate(append(o.outcome, Reshape(Sqrt(squared(gradients)), 1)), 0)
}

// embed computes the embeddings [B, dim] of pixels, uint8 [B, H, W, 3], not normalised.
func (k engineKey) embed(scope *model.Scope, pixels, colours *Node, pass backbone.Pass) *Node {
	images := normalizeColours(pixels, colours)
	if k.thrift.Precision == BFloat16 {
		images = ConvertDType(images, dtypes.BFloat16)
	}
	pass.Recompute = k.thrift.Recompute
	return k.arch.Embed(scope, images, k.dim, pass)
}

// objective is what a step descends.
type objective struct {
	embeddings *Node           // The batch's, normalised, [B, dim].
	outcome    []*Node         // S_ap, S_an and validity of its triplets, [B] each.
	total      *Node           // A scalar whose value means nothing; its gradient is the rule's or the loss's.
	proxies    *model.Variable // nil if there are none.
}

// newObjective puts the rule's or the loss's gradient behind embeddings x [B, dim] as the network gives them.
func newObjective(store *model.Store, by descent, x *Node, in batchInputs) (o objective) {
	var batch *dmlx.Batch
	if by.loss == nil {
		f, parts := dmlx.Surgery(x, in.labels, by.rule)
		o.embeddings, batch, o.total = f, parts.Batch, ReduceAllSum(f)
	} else {
		var proxies *Node
		if o.proxies = backbone.Proxies(store); o.proxies != nil {
			proxies = o.proxies.NodeValue(x)
		}
		f, p := by.surgery(x, in.labels, proxies, in.noise)
		o.embeddings, batch, o.total = f, dmlx.NewBatch(f, in.labels, dmlx.Options{}), ReduceAllSum(f)
		if p != nil {
			o.total = Add(o.total, ReduceAllSum(p))
		}
	}
	o.outcome = []*Node{batch.Sap, batch.San, ConvertDType(batch.Triplets.Valid, dtypes.Float32)}
	return o
}

func nodesOf(variables []*model.Variable, in *Node) []*Node {
	nodes := make([]*Node, len(variables))
	for i, v := range variables {
		nodes[i] = v.NodeValue(in)
	}
	return nodes
}

// descend moves variables against their gradients.
func descend(variables []*model.Variable, nodes, rates, gradients []*Node) {
	for i, v := range variables {
		v.SetNodeValue(Sub(nodes[i], Mul(rates[i], gradients[i])))
	}
}

// squared is the squared length of all gradients together, a scalar.
func squared(gradients []*Node) *Node {
	flat := make([]*Node, len(gradients)) // One reduction compiles in half the time of one per variable.
	for i, gradient := range gradients {
		flat[i] = Reshape(gradient, -1)
	}
	return ReduceAllSum(Square(Concatenate(flat, 0)))
}

// evaluation lends an engine that takes pixels and colours and returns the normalised embeddings [B, dim].
func evaluation(b compute.Backend, spec Spec) (*engine, error) {
	key := engineKey{backend: b, arch: backbone.Arch(spec.Arch), dim: spec.Dim}
	return borrow(key, func(e *engine) (err error) {
		e.exec, err = model.NewExec(b, e.weights, func(scope *model.Scope, pixels, colours *Node) *Node {
			return dmlx.Normalize(key.embed(scope, pixels, colours, backbone.Pass{}))
		})
		return err
	})
}

// colours is how a data set's pixels are normalised: scale and shift of each channel, float32 [2, 3].
func colours(set *datasets.Set) *tensors.Tensor {
	values := make([]float32, 6)
	for c := range 3 {
		values[c], values[3+c] = 1/(255*set.Std[c]), -set.Mean[c]/set.Std[c]
	}
	return tensors.FromFlatDataAndDimensions(values, 2, 3)
}

// normalizeColours makes pixels 0…255 [N, H, W, 3] into float32 of mean 0 and variance 1 over the training set.
func normalizeColours(pixels, colours *Node) *Node {
	row := func(i int) *Node { return Reshape(Slice(colours, AxisElem(i)), 1, 1, 1, 3) }
	return Add(Mul(ConvertDType(pixels, dtypes.Float32), row(0)), row(1))
}
