package train

import (
	"errors"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// microBatches are the graphs of a step that embeds one micro-batch at a time. Its memory is that of a micro-batch,
// but its triplets are those of the whole batch (gradient caching: Gao et al. 2021, "Scaling Deep Contrastive
// Learning Batch Size under Memory Limited Setup"):
//
//   - embed all micro-batches without keeping what the backward pass needs;
//   - compute the gradient of the objective at all embeddings of the batch;
//   - embed each micro-batch again and propagate its rows of that gradient to the weights, adding up the results;
//   - update the weights.
//
// Batch normalization uses the statistics of a micro-batch, so Memory.MicroBatch is part of a config. Its running
// averages are updated in the first pass, once for each micro-batch.
type microBatches struct {
	size       int
	mesh       *mesh.Mesh
	embed      *model.Exec // Samples of a micro-batch, scale → embeddings before normalization.
	gradient   *model.Exec // All embeddings, [batchInputs] → outcome, gradient at each micro-batch.
	accumulate *model.Exec // Samples of a micro-batch, scale, its gradient; adds to the sums.
	update     *model.Exec // Settings, outcome → outcome; updates weights, clears sums.
}

func newMicroBatches(e *compiledStep) (*microBatches, error) {
	p, b, obj := &microBatches{size: e.key.memory.MicroBatch, mesh: e.mesh}, e.key.backend, e.objective
	var errs [4]error
	p.embed, errs[0] = model.NewExec(b, e.weights, func(scope *model.Scope, samples, affine *Node) *Node {
		return e.key.embed(scope, samples, affine, backbone.Pass{Training: true, Frozen: obj.options.frozen})
	})
	p.gradient, errs[1] = model.NewExec(b, e.weights, func(scope *model.Scope, in []*Node) []*Node {
		n := slices.IndexFunc(in, func(x *Node) bool { return x.Rank() != 2 })
		whole, batch := Concatenate(in[:n], 0), obj.batchInputs(in[n:])
		o := newLossGraph(scope.Store(), obj, whole, batch)
		at := []*Node{whole}
		if o.proxies != nil {
			at = append(at, o.proxies.NodeValue(whole))
		}
		gradients := Gradient(o.total, at...)
		rest := ScalarZero(whole.Graph(), whole.DType())
		if o.proxies != nil {
			obj.options.optimizer.Update(scope.Store(), []*model.Variable{o.proxies}, at[1:],
				[]*Node{settingAt(batch.settings, proxyRate)}, gradients[1:], batch.settings)
			rest = squaredNorm(gradients[1:])
		}
		return append([]*Node{Concatenate(append(o.outcome, Reshape(rest, 1)), 0)}, Split(gradients[0], 0, n)...)
	})
	p.accumulate, errs[2] = model.NewExec(b, e.weights, func(scope *model.Scope, samples, affine, gradient *Node) *Node {
		pass := backbone.Pass{Training: true, Again: true, Frozen: obj.options.frozen}
		x := e.key.embed(scope, samples, affine, pass)
		variables := obj.options.trainable(scope.Store())
		for i, g := range Gradient(ReduceAllSum(Mul(x, gradient)), nodesOf(variables, x)...) {
			sum := gradientSum(scope, variables[i])
			sum.SetNodeValue(Add(sum.NodeValue(x), g))
		}
		return ScalarZero(x.Graph(), x.DType())
	})
	p.update, errs[3] = model.NewExec(b, e.weights, func(scope *model.Scope, settings, outcome *Node) *Node {
		variables := obj.options.trainable(scope.Store())
		sums := slice.Map(variables, func(v *model.Variable) *model.Variable { return gradientSum(scope, v) })
		gradients := nodesOf(sums, outcome)
		rates := obj.options.rates(variables, settings)
		obj.options.optimizer.Update(scope.Store(), variables, nodesOf(variables, outcome), rates, gradients, settings)
		for i, s := range sums {
			s.SetNodeValue(ZerosLike(gradients[i]))
		}
		last := outcome.Shape().Dim(0) - 1
		norm := Sqrt(Add(Slice(outcome, AxisRangeToEnd(last)), Reshape(squaredNorm(gradients), 1)))
		return Concatenate([]*Node{Slice(outcome, AxisRange(0, last)), norm}, 0)
	})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	// Each device has all embeddings of the batch and their gradients. It embeds its rows of a micro-batch.
	const all, rows = mesh.Replicated, mesh.Rows
	p.mesh.Shard(p.embed, []mesh.Layout{rows, all}, []mesh.Layout{all})
	p.mesh.Shard(p.gradient, []mesh.Layout{all}, []mesh.Layout{all})
	p.mesh.Shard(p.accumulate, []mesh.Layout{rows, all, all}, []mesh.Layout{all})
	p.mesh.Shard(p.update, []mesh.Layout{all, all}, []mesh.Layout{all})
	return p, nil
}

// gradientSum returns the variable that adds up the gradients of a weight over micro-batches. It starts at zero.
func gradientSum(scope *model.Scope, weight *model.Variable) *model.Variable {
	name := strings.ReplaceAll(weight.Path(), "/", ".")
	sums := scope.Store().RootScope().At("sums")
	return sums.VariableWithValue(name, tensors.FromShape(weight.Shape())).SetTrainable(false)
}

// run performs a step as [compiledStep.run] does.
func (p *microBatches) run(obj objective, v stepValues) (outcome *tensors.Tensor, err error) {
	var embeddings []mesh.Value
	defer func() { free(embeddings) }()
	for _, x := range v.images {
		out, err := p.mesh.Call(p.embed, x, v.affine)
		if err != nil {
			return nil, err
		}
		embeddings = append(embeddings, out[0])
	}
	out, err := p.mesh.Call(p.gradient, append(slices.Clone(embeddings), v.batchValues(obj)...)...)
	if err != nil {
		return nil, err
	}
	defer free(out)
	for i, x := range v.images {
		if _, err := p.mesh.Call1(p.accumulate, x, v.affine, out[1+i]); err != nil {
			return nil, err
		}
	}
	return p.mesh.Call1(p.update, v.settings, out[0])
}

func free(all []mesh.Value) {
	for _, v := range all {
		v.Free()
	}
}

func (p *microBatches) free() {
	for _, exec := range []*model.Exec{p.embed, p.gradient, p.accumulate, p.update} {
		exec.Finalize()
	}
}
