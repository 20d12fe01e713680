// Package loop goes through the positives of a batch's anchors inside a graph, one of each anchor at a time, so that
// what has to be done for every positive pair with every negative takes the memory of one matrix and not of B³ numbers.
package loop

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Step is what a step of [Positives] sees.
type Step struct {
	// 1 at the positive of each anchor whose turn it is, float32 [B, B]; no 1 for an anchor that has no more.
	Chosen  *Node
	Any     *Node   // 1 for the anchors that have one, float32 [B, 1].
	Carried []*Node // What the step before returned.
	Fixed   []*Node

	ones *Node
}

// Sum is the sum of each row of x [B, B], as [B, 1].
func (t Step) Sum(x *Node) *Node { return MatMul(x, t.ones) }

// Value is a float32 that a step may use.
func (t Step) Value(v float64) *Node { return Const(t.ones.Graph(), float32(v)) }

// Positives carries values through as many steps as the anchor with most positives has: first for every anchor's first
// positive [B, B], then for their second ones, in the order of columns. A step returns what is carried on, of the same
// shapes. It has no gradient.
//
// A step must not use AddScalar, OnesLike and their kind, ReduceSum or ReduceMax; use [Step.Value] and [Step.Sum]
// instead. GoMLX keeps the scalars of a graph for reuse, and go-xla its reductions, wherever they were made, and
// neither may pass between a loop and the graph around it.
func Positives(positive *Node, carried, fixed []*Node, step func(t Step) []*Node) []*Node {
	g := positive.Graph()
	n := positive.Shape().Dimensions[1]
	matrix := shapes.Make(dtypes.Int32, n, n)
	among := ConvertDType(positive, dtypes.Float32)
	ones := Ones(g, shapes.Make(dtypes.Float32, n, 1))
	earlier := ConvertDType(LessThan(Iota(g, matrix, 0), Iota(g, matrix, 1)), dtypes.Float32)
	rank := Where(positive, MatMul(among, earlier), MulScalar(OnesLike(among), -1)) // How many positives come before.
	count := ReduceAndKeep(among, ReduceSum, 1)
	// One loop begins where the last of the graph has ended: the Go backend's workers may wait for each other for ever
	// when several run at once.
	zero := Zeros(g, shapes.Make(dtypes.Float32))
	if last, is := g.State(ended{}).(*Node); is {
		zero = Sub(last, last)
	}
	state := append([]*Node{zero, ReduceAllMax(count), rank, count, ones}, fixed...)
	const own = 5
	state = append(state, carried...)
	for i, x := range state {
		state[i] = StopGradient(x)
	}
	parameters := func(g *Graph) []*Node {
		out := make([]*Node, len(state))
		for i, x := range state {
			out[i] = Parameter(g, fmt.Sprintf("state%d", i), x.Shape())
		}
		return out
	}
	more := NewClosure(g, func(g *Graph) []*Node {
		s := parameters(g)
		return []*Node{LessThan(s[0], s[1])}
	})
	body := NewClosure(g, func(g *Graph) []*Node {
		s := parameters(g)
		t := Step{Chosen: ConvertDType(Equal(s[2], s[0]), dtypes.Float32),
			Any:   ConvertDType(LessThan(s[0], s[3]), dtypes.Float32),
			Fixed: s[own : own+len(fixed)], Carried: s[own+len(fixed):], ones: s[4]}
		return append(append([]*Node{Add(s[0], t.Value(1))}, s[1:own+len(fixed)]...), step(t)...)
	})
	out := While(more, body, state...)
	g.AttachState(ended{}, StopGradient(out[0]))
	out = out[own+len(fixed):]
	for i, x := range out {
		out[i] = StopGradient(x)
	}
	return out
}

// ended is where a graph keeps how many steps its last loop took.
type ended struct{}
