// Package mesh divides the rows of a batch over several devices of one backend, by GoMLX's AutoSharding.
//
// A program is written for the whole batch. XLA divides it: each device computes its rows, and XLA inserts the
// collectives where an operation needs other rows. So the similarity matrix, the triplets and the batch statistics are
// those of the whole batch. Weights are replicated.
package mesh

import (
	"fmt"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"
)

// Mesh is a number of devices, counted from device 0. A nil mesh is device 0 alone: its methods shard nothing and cost
// nothing. GoMLX compares meshes as pointers and variables keep theirs, so all graphs on one store need one mesh.
type Mesh struct {
	size             int
	rows, replicated *distributed.ShardingSpec
	mesh             *distributed.DeviceMesh
}

// New returns a mesh of n devices, and nil for n = 1.
func New(n int) (*Mesh, error) {
	if n == 1 {
		return nil, nil
	}
	devices, err := distributed.NewDeviceMesh([]int{n}, []string{"devices"})
	if err != nil {
		return nil, err
	}
	rows, err := distributed.NewShardingSpec(devices, distributed.AxisSpec{"devices"})
	if err != nil {
		return nil, err
	}
	return &Mesh{size: n, mesh: devices, rows: rows, replicated: distributed.NewReplicatedShardingSpec(devices)}, nil
}

// Size returns the number of devices.
func (m *Mesh) Size() int {
	if m == nil {
		return 1
	}
	return m.size
}

// Layout says what each device has of an input or output.
type Layout int

// The layouts.
const (
	Replicated Layout = iota // All of it.
	Rows                     // An equal share of its rows, the first axis.
)

// Shard sets the layouts of an exec's inputs and outputs. Of an exec that takes or returns a slice, the last layout is
// that of all further ones. The first outputs of a graph are the variables that it changes, so that Replicated must
// come first for such a graph. Variables are replicated.
func (m *Mesh) Shard(exec *model.Exec, inputs, outputs []Layout) {
	if m == nil {
		return
	}
	specs := func(layouts []Layout) []*distributed.ShardingSpec {
		out := make([]*distributed.ShardingSpec, len(layouts))
		for i, l := range layouts {
			out[i] = m.replicated
			if l == Rows {
				out[i] = m.rows
			}
		}
		return out
	}
	exec.AutoSharding(m.mesh).WithInputShardingSpecs(specs(inputs)...).WithOutputShardingSpecs(specs(outputs)...)
}

// Value is an input or output of a graph: the tensor of each device, in the order of the devices.
type Value []*tensors.Tensor

// Free frees the tensors early. The garbage collector frees those that fail.
func (v Value) Free() {
	for _, t := range v {
		if t != nil {
			_ = t.FinalizeAll()
		}
	}
}

// Replicate returns the value of a replicated input, given a tensor of the host, which becomes that of the first
// device. It panics if the tensor is not valid.
func (m *Mesh) Replicate(t *tensors.Tensor) Value {
	v := Value{t}
	for len(v) < m.Size() { // One tensor cannot be on two devices.
		clone, err := t.LocalClone()
		if err != nil {
			panic(err)
		}
		v = append(v, clone)
	}
	return v
}

// CopyRows copies an array of the host to the devices, an equal share of its rows to each, side by side. raw are its
// bytes. The number of rows must be a multiple of the number of devices.
func (m *Mesh) CopyRows(b compute.Backend, shape shapes.Shape, raw []byte) (Value, error) {
	n := m.Size()
	if shape.Dim(0)%n != 0 {
		return nil, fmt.Errorf("%d rows cannot be divided evenly among %d devices", shape.Dim(0), n)
	}
	if n == 1 {
		t, err := tensors.FromRaw(b, 0, shape, raw)
		return Value{t}, err
	}
	share := shape.Clone()
	share.Dimensions[0] /= n
	size := len(raw) / n
	v := make(Value, n)
	var group errgroup.Group
	for d := range n {
		group.Go(func() (err error) {
			v[d], err = tensors.FromRaw(b, compute.DeviceNum(d), share, raw[d*size:(d+1)*size])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		v.Free()
		return nil, err
	}
	return v, nil
}

// turn is held while a program runs on several devices. Two programs at once may start in another order on one device
// than on another. Each then waits in a collective for devices that run the other one, for ever.
var turn sync.Mutex

// Call runs an exec and returns its outputs.
func (m *Mesh) Call(exec *model.Exec, inputs ...Value) ([]Value, error) {
	n := m.Size()
	if n > 1 {
		turn.Lock()
		defer turn.Unlock()
	}
	flat, err := exec.Call(m.Arguments(inputs...)...)
	if err != nil {
		return nil, err
	}
	outputs := make([]Value, len(flat)/n)
	for i := range outputs {
		for d := range n {
			outputs[i] = append(outputs[i], flat[d*len(outputs)+i])
		}
	}
	return outputs, nil
}

// Arguments returns the arguments that an exec takes: all inputs of the first device, then all of the next one.
func (m *Mesh) Arguments(inputs ...Value) []any {
	out := make([]any, 0, m.Size()*len(inputs))
	for d := range m.Size() {
		for _, v := range inputs {
			out = append(out, v[d])
		}
	}
	return out
}

// Call1 is Call for an exec with one replicated output, of which it returns the tensor of the first device.
func (m *Mesh) Call1(exec *model.Exec, inputs ...Value) (*tensors.Tensor, error) {
	out, err := m.Call(exec, inputs...)
	if err != nil {
		return nil, err
	}
	out[0][1:].Free()
	return out[0][0], nil
}

// TakeRows returns all rows of an output with the layout Rows, and frees it.
func TakeRows(v Value) ([]float32, error) {
	defer v.Free()
	var out []float32
	for _, t := range v {
		values, err := tensors.CopyFlatData[float32](t)
		if err != nil {
			return nil, err
		}
		out = append(out, values...)
	}
	return out, nil
}
