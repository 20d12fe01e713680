package train

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/onnx"
)

// TestNetworkLosses takes ten steps by each optimizer on the Go backend, and compares each loss with PyTorch's in
// float32, which testdata/networks.py of the package onnx wrote.
func TestNetworkLosses(t *testing.T) {
	for _, c := range []struct{ network, prefix, optimizer string }{
		{"vit_tiny", "", "sgd"}, {"vit_tiny", "", "adamw"}, {"resnet18", "", "sgd"}, {"resnet18", "", "adamw"},
		{"efficientnet_lite0", "train.", "sgd"}, {"efficientnet_lite0", "train.", "adamw"},
	} {
		file := "../onnx/testdata/" + c.network
		raw, err := os.ReadFile(file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var info map[string]json.RawMessage
		var want []float64
		if err := json.Unmarshal(raw, &info); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(info[c.prefix+c.optimizer], &want); err != nil || len(want) != 10 {
			t.Fatal(len(want), err)
		}
		net, err := OpenNetwork(file + ".onnx")
		if err != nil {
			t.Fatal(err)
		}
		x, target := stored(t, file+".safetensors", c.prefix+"x"), stored(t, file+".safetensors", c.prefix+"target")
		config := tinyConfig()
		config.LR = 0.05
		if c.optimizer == adamW {
			config.Optimizer, config.LR = "adamw?weight-decay=0.01", 1e-4
		}
		options, err := config.stepOptions()
		if err != nil {
			t.Fatal(err)
		}
		tr := trainers()[0]
		got, err := networkLosses(tr, net, config, options, c.prefix != "", x, target)
		if err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for i, v := range got {
			worst = max(worst, math.Abs(v-want[i]))
		}
		if !(worst <= 2e-5) {
			t.Errorf("%s%s, %s: losses %v, PyTorch's %v", c.prefix, c.network, c.optimizer, got, want)
		}
	}
}

// networkLosses returns the mean of the inner products of a network's normalized features with a target, which ten
// steps lower.
func networkLosses(tr *Trainer, net *onnx.Network, config Config, o stepOptions, training bool,
	x, target *tensors.Tensor) (losses []float64, err error) {
	store := model.NewStore()
	defer store.Finalize()
	if err := net.Init(store, nil); err != nil {
		return nil, err
	}
	exec, err := model.NewExec(tr.Backend, store, func(scope *model.Scope, x, target, rate, settings *Node) *Node {
		f := net.Features(scope, x, backbone.Pass{Training: training})
		length := Sqrt(ReduceAndKeep(Square(f), ReduceSum, -1))
		loss := ReduceAllMean(ReduceSum(Mul(Div(f, length), target), -1))
		variables := o.trainable(store)
		nodes := nodesOf(variables, x)
		o.optimizer.update(store, variables, nodes, o.rates(variables, rate, settings), Gradient(loss, nodes...), settings)
		return loss
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	for i := range 10 {
		loss, err := exec.Call1(x, target, float32(config.LR), config.settings(o, i))
		if err != nil {
			return nil, err
		}
		losses = append(losses, float64(tensors.ToScalar[float32](loss)))
	}
	return losses, nil
}

// stored returns a tensor of a safetensors file of float32.
func stored(t *testing.T, file, name string) *tensors.Tensor {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	end := 8 + binary.LittleEndian.Uint64(raw)
	var header map[string]struct {
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw[8:end], &header); err != nil {
		t.Fatal(err)
	}
	var values []float32
	for b := range slices.Chunk(raw[end:][header[name].Offsets[0]:header[name].Offsets[1]], 4) {
		values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return tensors.FromFlatDataAndDimensions(values, header[name].Shape...)
}
