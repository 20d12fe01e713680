package backbone

import (
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// recomputed is [block.apply], but for what it keeps: its gradient computes the block a second time, from its input and
// weights, instead of holding on to what is inside. GoMLX's own Checkpoint does not reach into ops with hand-written
// gradients, as batch normalization is, which take nodes of the first computation.
//
// To autodiff the block is one op, so its weights are inputs of that op as x is.
func (b block) recomputed(scope *model.Scope, x *Node, pass Pass) *Node {
	inputs, position := []*Node{x}, make(map[string]int)
	add := func(scope *model.Scope, name string) {
		v := variable(scope, name)
		position[v.Path()] = len(inputs)
		inputs = append(inputs, v.NodeValue(x))
	}
	convolutions := b.main
	if b.downsample != nil {
		convolutions = append(convolutions[:len(convolutions):len(convolutions)], *b.downsample)
	}
	for _, c := range convolutions {
		add(at(scope, c.conv), "weight")
		add(at(scope, c.norm), "weight")
		add(at(scope, c.norm), "bias")
	}
	apply := func(in []*Node, pass Pass) *Node {
		given := func(scope *model.Scope, name string) *Node { return in[position[variable(scope, name).Path()]] }
		return b.apply(scope, given, in[0], pass)
	}
	var of *Node // What came in for the gradients that are known.
	var gradients []*Node
	each := make([]func(v *Node) *Node, len(inputs))
	for i := range each {
		each[i] = func(v *Node) *Node {
			if v != of {
				of = v
				// Together with the gradient that comes in: neither merged with the first computation, nor done before its time.
				late := OptimizationBarriers(append([]*Node{v}, inputs...)...)
				y := apply(late[1:], Pass{Training: true, Again: true, Frozen: pass.Frozen})
				gradients = Gradient(ReduceAllSum(Mul(y, StopGradient(late[0]))), late[1:]...)
			}
			return gradients[i]
		}
	}
	return withGradients(func(in []*Node) *Node { return apply(in, pass) }, each, inputs...)
}
