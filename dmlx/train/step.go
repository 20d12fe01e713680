package train

import (
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// objective is the objective of a config for its batches, with the options of its steps.
type objective struct {
	objectives.Surgery
	options stepOptions
}

// newObjective returns the objective of a config for a number of training classes.
func newObjective(c Config, classes int) (obj objective, err error) {
	if obj.options, err = c.stepOptions(); err == nil {
		obj.Surgery, err = c.Surgery(c.ImagesPerClass, classes)
	}
	return obj, err
}

// stepValues are the inputs of a step: the images as [compiledStep.upload] returns them, the labels, int32 [B], scale
// and shift of the images as [samples.Data.Affine] returns them, and the settings of the step, see [Config.settings]. A
// miner that samples also takes noise of the shape of S. All but the images are replicated. The caller keeps the
// tensors.
type stepValues struct {
	images                          []mesh.Value
	labels, affine, settings, noise mesh.Value
}

// batchValues returns the values of [batchInputs], in their order.
func (v stepValues) batchValues(obj objective) []mesh.Value {
	in := []mesh.Value{v.labels, v.settings}
	if obj.Noise {
		in = append(in, v.noise)
	}
	return in
}

// all returns all values, in the order of [objective.stepInputs].
func (v stepValues) all(obj objective) []mesh.Value {
	return append([]mesh.Value{v.images[0], v.affine}, v.batchValues(obj)...)
}

// run performs a step and changes the weights. It returns the outcome, one vector: S_ap [B], S_an [B] and validity
// [B] of the triplets that a rule would mine, for losses too, and then the length of the gradient of all weights and
// proxies.
func (e *compiledStep) run(v stepValues) (*tensors.Tensor, error) {
	if e.microBatches != nil {
		return e.microBatches.run(e.objective, v)
	}
	return e.mesh.Call1(e.exec, v.all(e.objective)...)
}

// upload copies the samples of a batch, which have the given shape, to the devices, as one value or one for each
// micro-batch. It may be called while a step runs. go-xla waits for the end of each step, so a copy between two steps
// would leave a GPU idle.
func (e *compiledStep) upload(b batch, sample shapes.Shape) ([]mesh.Value, error) {
	n := len(b.labels)
	if e.microBatches != nil {
		n = e.microBatches.size
	}
	shape := batchShape(n, sample)
	var images []mesh.Value
	for pixels := range slices.Chunk(b.samples, int(shape.ByteSize())) {
		x, err := e.mesh.CopyRows(e.key.backend, shape, pixels)
		if err != nil {
			free(images)
			return nil, err
		}
		images = append(images, x)
	}
	return images, nil
}

// batchShape returns the shape of n samples.
func batchShape(n int, sample shapes.Shape) shapes.Shape {
	return shapes.Make(sample.DType, append([]int{n}, sample.Dimensions...)...)
}

// batchInputs are the inputs of a step that belong to the whole batch, not to a micro-batch.
type batchInputs struct {
	labels, settings, noise *Node
	lane                    string // The path of the scope of the variables; "" for the root.
}

// stepInputs are those of [stepValues.all].
func (obj objective) stepInputs(in []*Node) stepInputs {
	return stepInputs{samples: in[0], affine: in[1], batchInputs: obj.batchInputs(in[2:])}
}

func (obj objective) batchInputs(in []*Node) batchInputs {
	b := batchInputs{labels: in[0], settings: in[1]}
	if obj.Noise {
		b.noise = in[2]
	}
	return b
}

// stepInputs are the inputs of the graph of a step.
type stepInputs struct {
	samples, affine *Node
	batchInputs
}

// stepGraph builds the graph of a step. It returns the normalized embeddings of the batch before the update, [B,
// dim], and the outcome that [compiledStep.run] describes.
func stepGraph(scope *model.Scope, key stepKey, obj objective, in stepInputs) (embeddings, outcome *Node) {
	raw := key.embed(scope, in.samples, in.affine, backbone.Pass{Training: true, Frozen: obj.options.frozen})
	o := newLossGraph(scope.Store(), obj, raw, in.batchInputs)
	variables := obj.options.trainable(scope.Store())
	variables = slices.DeleteFunc(variables, func(v *model.Variable) bool {
		return !strings.HasPrefix(v.Path(), in.lane+"/")
	})
	rates := obj.options.rates(variables, in.settings)
	if o.proxies != nil {
		variables, rates = append(variables, o.proxies), append(rates, settingAt(in.settings, proxyRate))
	}
	nodes := nodesOf(variables, raw)
	gradients := Gradient(o.total, nodes...)
	obj.options.optimizer.Update(scope.Store(), variables, nodes, rates, gradients, in.settings)
	return o.embeddings, Concatenate(append(o.outcome, Reshape(Sqrt(squaredNorm(gradients)), 1)), 0)
}

// embed returns the embeddings [B, dim] of x [B, ...], before normalization.
func (k stepKey) embed(scope *model.Scope, x, affine *Node, pass backbone.Pass) *Node {
	pass.Recompute = k.memory.Recompute
	if k.tail != nil {
		return backbone.Linear(scope.At("fc"), k.tail.tail(scope, x, pass))
	}
	images := samples.Scaled(x, affine)
	if k.memory.Precision == BFloat16 {
		images = ConvertDType(images, dtypes.BFloat16)
	}
	if k.own != nil {
		return k.own.embed(scope, images, pass)
	}
	return k.arch.Embed(scope, images, k.dim, pass)
}

// lossGraph is a scalar with the gradient of the objective, and what a step reports about the batch.
type lossGraph struct {
	embeddings *Node           // Normalized, [B, dim].
	outcome    []*Node         // S_ap, S_an and validity of the triplets, [B] each.
	total      *Node           // A scalar. Only its gradient has a meaning: that of the rule or loss.
	proxies    *model.Variable // nil without proxies.
}

// proxiesPath is the path of the proxies in their scope; see [backbone.Proxies].
const proxiesPath = "/proxies/weight"

// newLossGraph applies the rule or loss to embeddings x [B, dim] as the network returns them.
func newLossGraph(store *model.Store, obj objective, x *Node, in batchInputs) (o lossGraph) {
	of := objectives.Inputs{X: x, Labels: in.labels, Noise: in.noise}
	if o.proxies = store.GetVariable(in.lane + proxiesPath); o.proxies != nil {
		of.Proxies = o.proxies.NodeValue(x)
	}
	f, p, batch := obj.Of(of)
	if o.embeddings, o.total = f, ReduceAllSum(f); p != nil {
		o.total = Add(o.total, ReduceAllSum(p))
	}
	o.outcome = []*Node{batch.Sap, batch.San, ConvertDType(batch.Triplets.Valid, dtypes.Float32)}
	return o
}

// nodesOf returns the values of variables in the graph of in.
func nodesOf(variables []*model.Variable, in *Node) []*Node {
	return slice.Map(variables, func(v *model.Variable) *Node { return v.NodeValue(in) })
}

// squaredNorm returns the sum of the squares of all gradients, a scalar.
func squaredNorm(gradients []*Node) *Node {
	// One reduction compiles twice as fast as one per variable.
	flat := slice.Map(gradients, func(gradient *Node) *Node { return Reshape(gradient, -1) })
	return ReduceAllSum(Square(Concatenate(flat, 0)))
}
