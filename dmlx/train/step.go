package train

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// stepValues are what a step takes: images, as [compiledStep.upload] gives them, labels, int32 [B], colors, as [colors] gives them,
// and the learning rate, a scalar; of a loss also the rate of its proxies, if it has any, and what its miner draws from, if
// it does, [B, B]. The tensors stay the caller's.
type stepValues struct {
	images                         []*tensors.Tensor
	labels                         []int32
	colors, rate, proxyRate, noise *tensors.Tensor
}

// of are the values that [batchInputs] of an objective take, in their order.
func (v stepValues) batchValues(by objective) []any {
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
func (e *compiledStep) run(v stepValues) (*tensors.Tensor, error) {
	if e.microBatches != nil {
		return e.microBatches.run(e.objective, v)
	}
	return e.exec.Call1(append([]any{v.images[0], v.colors, v.rate}, v.batchValues(e.objective)...)...)
}

// upload copies a batch's pixels, of images of size × size, to the device, where the steps of this engine take them: uint8
// [B, size, size, 3], in one tensor or by pieces. It may be called while a step runs: go-xla waits for the end of each, so that what
// is copied between them keeps a GPU waiting.
func (e *compiledStep) upload(b batch, size int) ([]*tensors.Tensor, error) {
	n := len(b.labels)
	if e.microBatches != nil {
		n = e.microBatches.size
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

// batchInputs are what a step takes for the whole batch.
type batchInputs struct{ labels, proxyRate, noise *Node }

func (by objective) batchInputs(in []*Node) (b batchInputs) {
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
	pixels, colors, rate *Node
	batchInputs
}

// stepGraph builds a step: what it returns is the outcome, as of [compiledStep.run], beside the batch's normalised embeddings as
// they were before the step.
func stepGraph(scope *model.Scope, key stepKey, by objective, in stepInputs) (embeddings, outcome *Node) {
	raw := key.embed(scope, in.pixels, in.colors, backbone.Pass{Training: true})
	o := newLossGraph(scope.Store(), by, raw, in.batchInputs)
	variables := backbone.Trainable(scope.Store())
	rates := slices.Repeat([]*Node{in.rate}, len(variables))
	if o.proxies != nil {
		variables, rates = append(variables, o.proxies), append(rates, in.proxyRate)
	}
	nodes := nodesOf(variables, raw)
	gradients := Gradient(o.total, nodes...)
	applySGD(variables, nodes, rates, gradients)
	return o.embeddings, Concatenate(append(o.outcome, Reshape(Sqrt(squaredNorm(gradients)), 1)), 0)
}

// embed computes the embeddings [B, dim] of pixels, uint8 [B, H, W, 3], not normalised.
func (k stepKey) embed(scope *model.Scope, pixels, colors *Node, pass backbone.Pass) *Node {
	images := normalizeColors(pixels, colors)
	if k.memory.Precision == BFloat16 {
		images = ConvertDType(images, dtypes.BFloat16)
	}
	pass.Recompute = k.memory.Recompute
	return k.arch.Embed(scope, images, k.dim, pass)
}

// lossGraph is the scalar whose gradient a step takes, with what is read off the batch.
type lossGraph struct {
	embeddings *Node           // The batch's, normalised, [B, dim].
	outcome    []*Node         // S_ap, S_an and validity of its triplets, [B] each.
	total      *Node           // A scalar whose value means nothing; its gradient is the rule's or the loss's.
	proxies    *model.Variable // nil if there are none.
}

// newLossGraph puts the rule's or the loss's gradient behind embeddings x [B, dim] as the network gives them.
func newLossGraph(store *model.Store, by objective, x *Node, in batchInputs) (o lossGraph) {
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
func applySGD(variables []*model.Variable, nodes, rates, gradients []*Node) {
	for i, v := range variables {
		v.SetNodeValue(Sub(nodes[i], Mul(rates[i], gradients[i])))
	}
}

// squared is the squared length of all gradients together, a scalar.
func squaredNorm(gradients []*Node) *Node {
	flat := make([]*Node, len(gradients)) // One reduction compiles in half the time of one per variable.
	for i, gradient := range gradients {
		flat[i] = Reshape(gradient, -1)
	}
	return ReduceAllSum(Square(Concatenate(flat, 0)))
}

// colors is how a data set's pixels are normalised: scale and shift of each channel, float32 [2, 3].
func colorScale(set *datasets.Set) *tensors.Tensor {
	values := make([]float32, 6)
	for c := range 3 {
		values[c], values[3+c] = 1/(255*set.Std[c]), -set.Mean[c]/set.Std[c]
	}
	return tensors.FromFlatDataAndDimensions(values, 2, 3)
}

// normalizeColors makes pixels 0…255 [N, H, W, 3] into float32 of mean 0 and variance 1 over the training set.
func normalizeColors(pixels, colors *Node) *Node {
	row := func(i int) *Node { return Reshape(Slice(colors, AxisElem(i)), 1, 1, 1, 3) }
	return Add(Mul(ConvertDType(pixels, dtypes.Float32), row(0)), row(1))
}
