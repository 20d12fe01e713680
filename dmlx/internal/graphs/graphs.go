// Package graphs runs GoMLX graphs so that what goes wrong in them is an error of one line, and has the few operations
// that rules, losses and miners share.
package graphs

import (
	"reflect"
	"runtime"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// Build wraps a function that builds a graph of the caller's parts: whatever these panic with becomes an error, since
// GoMLX recovers from errors alone, and waits forever for a graph that another panic left half built.
func Build(fn func(in []*Node) []*Node) func(in []*Node) []*Node {
	return func(in []*Node) []*Node {
		defer func() {
			if r := recover(); r != nil {
				panic(errs.Panicked(r))
			}
		}()
		return fn(in)
	}
}

// Run builds a graph, runs it once and returns its results.
func Run(b compute.Backend, fn func(in []*Node) []*Node, args ...any) (out []*tensors.Tensor, err error) {
	defer errs.Catch(&err)
	exec, err := NewExec(b, Build(fn))
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	return exec.Call(args...)
}

// Floats copies a float32 result to the host.
func Floats(t *tensors.Tensor) []float32 { return tensors.MustCopyFlatData[float32](t) }

// Column returns x [N] as [N, 1], which broadcasts over a second axis.
func Column(x *Node) *Node { return InsertAxes(x, -1) }

// Only returns x where the mask is, and 0 elsewhere. It is no product: what is left out may be infinite.
func Only(mask, x *Node) *Node { return Where(mask, x, ZerosLike(x)) }

// Index returns positions along an axis, int32 of the shape of x.
func Index(x *Node, axis int) *Node {
	return Iota(x.Graph(), shapes.Make(dtypes.Int32, x.Shape().Dimensions...), axis)
}

// Leaf returns x with a gradient of its own and none for what it was made from.
func Leaf(x *Node) *Node { return Identity(StopGradient(x)) }

// Source returns the file and the line on which a function begins; "" and 0 if that is not known.
func Source(function any) (file string, line int) {
	if f := runtime.FuncForPC(reflect.ValueOf(function).Pointer()); f != nil {
		return f.FileLine(f.Entry())
	}
	return "", 0
}
