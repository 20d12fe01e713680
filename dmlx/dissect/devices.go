//go:build !js

// A browser is one device, and what divides a batch among several would make the page's program larger.

package dissect

import (
	"encoding/binary"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
)

// RuleOnDevices returns the gradient that a rule gives to the embeddings of a batch, as [Dissection].Raw, [N, Dim],
// with the rows of the batch divided evenly among the first devices of a backend. Triplets and pairs are of the whole
// batch. It returns an error if there are fewer devices, or if they do not divide the batch.
func RuleOnDevices(b compute.Backend, devices int, e Embeddings, r dmlx.Rule) (gradient []float32, err error) {
	defer errs.Catch(&err)
	if err := checkBatch(&e); err != nil {
		return nil, err
	}
	if has := b.NumDevices(); devices < 1 || devices > has {
		return nil, fmt.Errorf("%d devices: want 1 to %d, which the backend has", devices, has)
	}
	m, err := mesh.New(devices)
	if err != nil {
		return nil, err
	}
	arguments := batchArguments(e)
	exec, err := model.NewExec(b, model.NewStore(), func(_ *model.Scope, in []*Node) *Node {
		x := in[0]
		f := dmlx.Normalize(x)
		c := dmlx.Compose(ruleBatch(f, in, r.Options), r)
		return Gradient(ReduceAllSum(dmlx.Inject(f, c.G)), x)[0]
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	m.Shard(exec, []mesh.Layout{mesh.Rows, mesh.Replicated}, []mesh.Layout{mesh.Rows})
	raw, err := binary.Append(nil, binary.NativeEndian, e.Values)
	if err != nil {
		return nil, err
	}
	x, err := m.CopyRows(b, shapes.Make(dtypes.Float32, e.N, e.Dim), raw)
	if err != nil {
		return nil, err
	}
	defer x.Free()
	inputs := []mesh.Value{x}
	for _, t := range arguments[1:] {
		inputs = append(inputs, m.Replicate(t))
	}
	out, err := m.Call(exec, inputs...)
	if err != nil {
		return nil, fmt.Errorf("rule %s: %w", r.Name(), err)
	}
	return mesh.TakeRows(out[0])
}
