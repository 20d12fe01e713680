package train

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// TestNetworkLosses takes ten steps by each optimizer, and compares each loss with PyTorch's, which
// testdata/networks.py of the package onnx wrote, of the networks in the repository or of those in the folder
// DMLX_ONNX_NETWORKS.
func TestNetworkLosses(t *testing.T) {
	cases := [][2]string{{"vit_tiny", ""}, {"resnet18", ""}, {"efficientnet_lite0", "train."}}
	dir := cmp.Or(os.Getenv("DMLX_ONNX_NETWORKS"), "../onnx/testdata")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); !slices.Contains(cases, [2]string{name, "train."}) {
			cases = append(cases, [2]string{name, ""})
		}
	}
	slices.SortFunc(cases, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	for _, c := range slices.Compact(cases) {
		name, prefix := c[0], c[1]
		t.Run(name, func(t *testing.T) {
			for _, tr := range trainers() {
				if testing.Short() && tr.Name != "go" {
					continue // XLA takes seconds to compile it.
				}
				testNetworkLosses(t, tr, filepath.Join(dir, name), prefix)
			}
		})
	}
}

func testNetworkLosses(t *testing.T, tr *Trainer, file, prefix string) {
	raw, err := os.ReadFile(file + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var info map[string]json.RawMessage
	if err := json.Unmarshal(raw, &info); err != nil {
		t.Fatal(err)
	}
	net, err := weights.OpenNetwork(file + ".onnx")
	if err != nil {
		t.Fatal(err)
	}
	x, target := stored(t, file+".safetensors", prefix+"x"), stored(t, file+".safetensors", prefix+"target")
	store := model.NewStore()
	defer store.Finalize()
	if err := net.Init(store, nil); err != nil {
		t.Fatal(err)
	}
	// The network is compiled once, and each optimizer's update by itself.
	exec, err := model.NewExec(tr.Backend, store, func(scope *model.Scope, x, target *Node) []*Node {
		f := net.Features(scope, x, backbone.Pass{Training: prefix != ""})
		length := Sqrt(ReduceAndKeep(Square(f), ReduceSum, -1))
		loss := ReduceAllMean(ReduceSum(Mul(Div(f, length), target), -1))
		return append([]*Node{loss}, Gradient(loss, nodesOf(backbone.Trainable(store), x)...)...)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	rates := []float64{0.05, 1e-4}
	if text, there := info["rates"]; there {
		if err := json.Unmarshal(text, &rates); err != nil || len(rates) != 2 {
			t.Fatal(rates, err)
		}
	}
	for i, optimizer := range []string{"sgd", "adamw"} {
		var want, exact []float64
		err := errors.Join(json.Unmarshal(info[prefix+optimizer], &want),
			json.Unmarshal(info[prefix+optimizer+"64"], &exact))
		if err != nil || len(want) != 10 || len(exact) != 10 {
			t.Fatal(len(want), len(exact), err)
		}
		got, err := networkLosses(tr, net, store, exec, optimizer, rates[i], x, target)
		if err != nil {
			t.Fatal(err)
		}
		worst, own := 0.0, 0.0
		for i, v := range got {
			worst, own = max(worst, math.Abs(v-exact[i])), max(own, math.Abs(want[i]-exact[i]))
			if !(worst <= max(1e-5, 5*own)) {
				t.Fatalf("%s, %s, step %d: losses %v, PyTorch's %v, in float64 %v", tr.Name, optimizer, i, got, want, exact)
			}
		}
		t.Logf("%s, %s: %.1e from PyTorch in float64, which in float32 is %.1e off", tr.Name, optimizer, worst, own)
	}
}

// networkLosses returns the mean of the inner products of a network's normalized features with a target, which ten
// steps lower. gradients computes it, and its gradients.
func networkLosses(tr *Trainer, net *onnx.Network, store *model.Store, gradients *model.Exec, optimizer string,
	rate float64, x, target *tensors.Tensor) (losses []float64, err error) {
	config := tinyConfig()
	config.Epochs, config.Decay = 10, 1 // One rate.
	if config.LR = rate; optimizer == "adamw" {
		config.Optimizer = "adamw?weight-decay=0.01"
	}
	o, err := config.stepOptions()
	if err != nil {
		return nil, err
	}
	if err := net.Init(store, nil); err != nil {
		return nil, err
	}
	variables := backbone.Trainable(store) // Before the optimizer has its own.
	update, err := model.NewExec(tr.Backend, store, func(_ *model.Scope, in []*Node) *Node {
		settings, nodes := in[0], nodesOf(variables, in[0])
		o.optimizer.Update(store, variables, nodes, o.rates(variables, settings), in[1:], settings)
		return settings
	})
	if err != nil {
		return nil, err
	}
	defer update.Finalize()
	for i := range 10 {
		out, err := gradients.Call(x, target)
		if err != nil {
			return nil, err
		}
		losses = append(losses, float64(tensors.ToScalar[float32](out[0])))
		in := []any{config.settings(o, i)}
		for _, g := range out[1:] {
			in = append(in, g)
		}
		if _, err := update.Call(in...); err != nil {
			return nil, err
		}
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

// TestStepsOfNetwork takes steps of a network of a file on the batches of a training in part, which end at its weights.
func TestStepsOfNetwork(t *testing.T) {
	tr := trainers()[0]
	data := networkData(t, 32)
	c := networkConfig(t, testNetwork)
	c.Epochs, c.TrainOnly, c.FreezeBN, c.Augment = 1, `blocks\.3|conv_head`, FreezeStatistics, ""
	dir := t.TempDir()
	if _, err := tr.Train(t.Context(), Training{Config: c, ID: "own", Data: data, Dir: dir}); err != nil {
		t.Fatal(err)
	}
	want := lastWeights(t, dir)
	sampler, err := newSampler(data.Train.Labels(), nil, c.ClassesPerBatch, c.ImagesPerClass, c.Pad, c.Seed)
	if err != nil {
		t.Fatal(err)
	}
	prepared, _, err := c.prepared(data)
	if err != nil {
		t.Fatal(err)
	}
	half := [3]float32{0.5, 0.5, 0.5} // As the file has it.
	s := Steps{Network: testNetwork, LR: c.LR, Count: c.Steps(), Batch: c.Batch(), Size: 32, Mean: half, Std: half,
		Options: Options{TrainOnly: c.TrainOnly, FreezeBN: c.FreezeBN}}
	for i := range c.Steps() {
		b, err := sampler.load(data.Train, samples.NumberClasses(data.Train.Labels(), nil), i)
		if err != nil {
			t.Fatal(err)
		}
		s.Pixels = append(s.Pixels, b.samples...)
		for _, l := range b.labels {
			s.Labels = append(s.Labels, int64(l))
		}
	}
	start := model.NewStore()
	defer start.Finalize()
	if err := prepared.model.initialize(start, c.Seed); err != nil {
		t.Fatal(err)
	}
	if s.Weights, err = prepared.model.encode(start, nil); err != nil {
		t.Fatal(err)
	}
	end, err := s.Take(t.Context(), tr.Choice)
	if err != nil {
		t.Fatal(err)
	}
	stores := [3]*model.Store{start, model.NewStore(), model.NewStore()}
	for i, raw := range [][]byte{end.Weights, want} {
		defer stores[i+1].Finalize()
		if err := prepared.model.decode(raw, stores[i+1], 0); err != nil {
			t.Fatal(err)
		}
	}
	part, _ := c.part()
	for _, path := range prepared.model.paths {
		var v [3][]float32
		for i := range v {
			v[i] = tensors.MustCopyFlatData[float32](stores[i].GetVariable(path).MustValue())
		}
		worst := 0.0 // Training computes the frozen part by itself, so that products may be rounded otherwise.
		for i := range v[1] {
			worst = max(worst, math.Abs(float64(v[1][i]-v[2][i])))
		}
		if !(worst <= 1e-5) {
			t.Errorf("%s ends %.1e from where training does", path, worst)
		}
		name := backbone.TensorName(path)
		if !part.trains(name) && !slices.Equal(v[0], v[1]) {
			t.Errorf("%s is not trained, and has changed", name)
		}
	}
	for want, spoil := range map[string]func(s *Steps){
		"want one of them":     func(s *Steps) { s.Arch = backbone.Small },
		"matches none":         func(s *Steps) { s.Options.TrainOnly = "layer4" },
		"exported for 32 × 32": func(s *Steps) { s.Size, s.Pixels = 16, s.Pixels[:len(s.Pixels)/4] },
		"no such file":         func(s *Steps) { s.Network = "missing.onnx" },
		"not the weights of": func(s *Steps) {
			s.Network, s.Options = "../onnx/testdata/vit_tiny.onnx", Options{}
		},
	} {
		bad := s
		spoil(&bad)
		if _, err := bad.Take(t.Context(), tr.Choice); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
