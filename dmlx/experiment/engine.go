package experiment

import (
	"slices"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
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
	weights *model.Store
	exec    *model.Exec
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
}

// maxIdle is how many engines are kept, the latest.
const maxIdle = 8

var (
	idleMu sync.Mutex
	idle   []*engine
)

// borrow gives an idle engine of the key, whose weights are to be overwritten, or builds one.
func borrow(key engineKey, build func(weights *model.Store) (*model.Exec, error)) (*engine, error) {
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
	var err error
	e.exec, err = build(e.weights)
	return e, err
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
	e.exec.Finalize()
	e.weights.Finalize()
}

// training lends an engine for a step of training by a rule or a loss. Its graph takes pixels, uint8 [B, H, W, 3], labels,
// int32 [B], colours, as [colours] gives them, and the learning rate, a scalar; for a loss then also the rate of its proxies,
// if it has any, and what its miner draws from, if it does, [B, B]. It changes the weights and returns, as one vector, what
// is to be known about the step: S_ap [B], S_an [B] and validity [B] of the triplets that a rule mines, whatever is trained
// by, and the length of the gradient of all weights, with that of the proxies.
func training(b compute.Backend, spec Spec, by descent) (*engine, error) {
	key := engineKey{backend: b, arch: backbone.Arch(spec.Arch), dim: spec.Dim, rule: spec.Rule}
	if by.loss != nil {
		key.loss, key.proxies, key.images = spec.Objective(), by.proxies, spec.ImagesPerClass
	}
	return borrow(key, func(weights *model.Store) (*model.Exec, error) {
		return model.NewExec(b, weights, func(scope *model.Scope, in []*Node) *Node {
			s := stepInputs{pixels: in[0], labels: in[1], colours: in[2], rate: in[3]}
			more := in[4:]
			if by.proxies > 0 {
				s.proxyRate, more = more[0], more[1:]
			}
			if by.noise {
				s.noise = more[0]
			}
			_, outcome := stepGraph(scope, key, by, s)
			return outcome
		})
	})
}

// stepInputs are what the graph of [training] takes.
type stepInputs struct{ pixels, labels, colours, rate, proxyRate, noise *Node }

// stepGraph builds a step of [training]: what it returns is the outcome, beside the batch's normalised embeddings as they
// were before the step.
func stepGraph(scope *model.Scope, key engineKey, by descent, in stepInputs) (embeddings, outcome *Node) {
	raw := key.arch.Embed(scope, normalizeColours(in.pixels, in.colours), key.dim, backbone.Pass{Training: true})
	variables := backbone.Trainable(scope.Store())
	rates := slices.Repeat([]*Node{in.rate}, len(variables))
	var triplets *dmlx.Batch
	var total *Node // Its value means nothing; its gradient is the rule's or the loss's.
	if by.loss == nil {
		f, parts := dmlx.Surgery(raw, in.labels, by.rule)
		embeddings, triplets, total = f, parts.Batch, ReduceAllSum(f)
	} else {
		var proxies *Node
		if v := backbone.Proxies(scope.Store()); v != nil {
			variables, rates = append(variables, v), append(rates, in.proxyRate)
			proxies = v.NodeValue(raw)
		}
		f, p := by.surgery(raw, in.labels, proxies, in.noise)
		embeddings, triplets, total = f, dmlx.NewBatch(f, in.labels, dmlx.Options{}), ReduceAllSum(f)
		if p != nil {
			total = Add(total, ReduceAllSum(p))
		}
	}
	nodes := make([]*Node, len(variables))
	for i, v := range variables {
		nodes[i] = v.NodeValue(in.pixels)
	}
	flat := make([]*Node, len(variables)) // One reduction compiles in half the time of one per variable.
	for i, gradient := range Gradient(total, nodes...) {
		variables[i].SetNodeValue(Sub(nodes[i], Mul(rates[i], gradient)))
		flat[i] = Reshape(gradient, -1)
	}
	norm := Sqrt(ReduceAllSum(Square(Concatenate(flat, 0))))
	valid := ConvertDType(triplets.Triplets.Valid, dtypes.Float32)
	return embeddings, Concatenate([]*Node{triplets.Sap, triplets.San, valid, Reshape(norm, 1)}, 0)
}

// evaluation lends an engine that takes pixels and colours and returns the normalised embeddings [B, dim].
func evaluation(b compute.Backend, spec Spec) (*engine, error) {
	key := engineKey{backend: b, arch: backbone.Arch(spec.Arch), dim: spec.Dim}
	return borrow(key, func(weights *model.Store) (*model.Exec, error) {
		return model.NewExec(b, weights, func(scope *model.Scope, pixels, colours *Node) *Node {
			return dmlx.Normalize(key.arch.Embed(scope, normalizeColours(pixels, colours), key.dim, backbone.Pass{}))
		})
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
