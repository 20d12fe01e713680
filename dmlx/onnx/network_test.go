package onnx

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

// networks are those of testdata/networks.py.
var networks = strings.Fields("resnet18 resnet50 efficientnet_lite0 mobilenetv2 mobilenetv3 convnext vit_tiny " +
	"vit_any vit_registers dinov2 dinov3 clip siglip swin deit3")

// reference is what PyTorch computes with a network.
type reference struct {
	raw     []byte
	info    map[string]json.RawMessage
	tensors map[string]values
}

func (r *reference) number(t *testing.T, key string) float64 {
	var v float64
	if err := json.Unmarshal(r.info[key], &v); err != nil {
		t.Fatal(key, err)
	}
	return v
}

// referenceOf reads a network of testdata or of the folder DMLX_ONNX_NETWORKS, or has DMLX_PYTHON make it.
func referenceOf(t *testing.T, name string) *reference {
	t.Helper()
	dir := "testdata"
	if _, err := os.Stat(filepath.Join(dir, name+".onnx")); err != nil {
		switch python := os.Getenv("DMLX_PYTHON"); {
		case os.Getenv("DMLX_ONNX_NETWORKS") != "":
			dir = os.Getenv("DMLX_ONNX_NETWORKS")
		case python != "" && !testing.Short():
			dir = t.TempDir()
			if out, err := exec.Command(python, "testdata/networks.py", dir, name).CombinedOutput(); err != nil {
				t.Skipf("DMLX_PYTHON lacks torch, timm, transformers or onnx: %v\n%s", err, out)
			}
		default:
			t.Skip("set DMLX_PYTHON to a Python with torch, timm, transformers, onnx, onnxscript and safetensors")
		}
	}
	r := &reference{}
	var err error
	if r.raw, err = os.ReadFile(filepath.Join(dir, name+".onnx")); err != nil {
		t.Fatal(err)
	}
	info, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(info, &r.info); err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(filepath.Join(dir, name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	r.tensors = decode(t, weights)
	return r
}

type values struct {
	Shape  []int
	Values []float32
}

// decode reads a safetensors file of float32.
func decode(t *testing.T, raw []byte) map[string]values {
	size := binary.LittleEndian.Uint64(raw)
	var header map[string]struct {
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	out := map[string]values{}
	for name, h := range header {
		v := values{Shape: h.Shape}
		for b := range slices.Chunk(raw[8+size:][h.Offsets[0]:h.Offsets[1]], 4) {
			v.Values = append(v.Values, math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
		out[name] = v
	}
	return out
}

// TestPyTorch compares features, gradients and ten steps with PyTorch's in float64.
func TestPyTorch(t *testing.T) {
	for _, name := range networks {
		t.Run(name, func(t *testing.T) {
			r := referenceOf(t, name)
			net, err := Read(r.raw)
			if err != nil {
				t.Fatal(err)
			}
			if len(net.Notes) > 0 {
				t.Error(net.Notes)
			}
			backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
				if testing.Short() && !backendtest.IsGo(b) && name != "vit_tiny" {
					t.Skip("XLA takes seconds to compile it")
				}
				for _, prefix := range []string{"", "train."} {
					if _, there := r.tensors[prefix+"x"]; !there {
						continue
					}
					x, target := r.tensors[prefix+"x"], r.tensors[prefix+"target"]
					store := model.NewStore()
					if err := net.Init(store, nil); err != nil {
						t.Fatal(err)
					}
					weights := net.Parameters()
					exec, err := model.NewExec(b, store, func(scope *model.Scope, x, target *Node) []*Node {
						f := net.Features(scope, x, backbone.Pass{Training: prefix != "", Again: true})
						length := Sqrt(ReduceAndKeep(Square(f), ReduceSum, -1))
						loss := ReduceAllMean(ReduceSum(Mul(Div(f, length), target), -1))
						var nodes []*Node
						for _, w := range weights {
							nodes = append(nodes, store.GetVariable(variablePath(w.Name)).NodeValue(x))
						}
						return append([]*Node{f}, Gradient(loss, nodes...)...)
					})
					if err != nil {
						t.Fatal(err)
					}
					out, err := exec.Call(tensors.FromFlatDataAndDimensions(x.Values, x.Shape...),
						tensors.FromFlatDataAndDimensions(target.Values, target.Shape...))
					if err != nil {
						t.Fatal(err)
					}
					far, largest := 0.0, 0.0
					for i, v := range tensors.MustCopyFlatData[float32](out[0]) {
						want := r.tensors[prefix+"features"].Values[i]
						far, largest = max(far, math.Abs(float64(v-want))), max(largest, math.Abs(float64(want)))
					}
					far /= largest
					square, all := 0.0, 0.0
					for i, w := range weights {
						want, there := r.tensors[prefix+"grad."+w.Name]
						if !there {
							t.Fatalf("PyTorch has no gradient of %s", w.Name)
						}
						for j, v := range tensors.MustCopyFlatData[float32](out[1+i]) {
							d := float64(v - want.Values[j])
							square, all = square+d*d, all+float64(want.Values[j])*float64(want.Values[j])
						}
					}
					gradient := math.Sqrt(square / all)
					f32, g32 := r.number(t, prefix+"features32"), r.number(t, prefix+"gradients32")
					t.Logf("%s %s: features %.1e (PyTorch's float32 %.1e), gradients %.1e (%.1e)", b.Name(), prefix, far, f32,
						gradient, g32)
					times := 2.5
					if prefix != "" { // The Go backend adds up the values of a channel one after the other.
						times = 4
					}
					if far > max(1e-6, times*f32) || gradient > max(2e-6, times*g32) {
						t.Errorf("too far from PyTorch's float64")
					}
					exec.Finalize()
					store.Finalize()
				}
			})
		})
	}
}

// TestWrite checks that a network with its own weights is written as it was read, with other weights as a network that
// has them, and with a head as one that ends in embeddings.
func TestWrite(t *testing.T) {
	raw, err := os.ReadFile("testdata/dinov3.onnx")
	if err != nil {
		t.Fatal(err)
	}
	net, err := Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	store := model.NewStore()
	defer store.Finalize()
	if err := net.Init(store, nil); err != nil {
		t.Fatal(err)
	}
	same, err := net.Write(store, nil, nil)
	if err != nil || len(same) < len(raw)*99/100 { // All but the exporter's remarks.
		t.Errorf("%d bytes of %d (%v)", len(same), len(raw), err)
	}
	reread, err := Read(same)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := reread.Write(store, nil, nil); err != nil || !bytes.Equal(again, same) {
		t.Errorf("%d bytes, then %d (%v)", len(same), len(again), err)
	}
	v := store.GetVariable("/norm/bias")
	changed := slices.Repeat([]float32{3}, net.Width)
	if err := v.SetValue(tensors.FromFlatDataAndDimensions(changed, net.Width)); err != nil {
		t.Fatal(err)
	}
	head := &Linear{"fc", make([]float32, 2*net.Width), []float32{3, 4}}
	written, err := net.Write(store, head, map[string]string{"source": "a test", "dim": "2"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(written)
	if err != nil {
		t.Fatal(err)
	}
	if again.Width != 2 || again.output != "embeddings" || again.Metadata["source"] != "a test" ||
		!slices.Equal(again.tensors["norm.bias"].float32s(), changed) {
		t.Errorf("width %d, output %s, metadata %v", again.Width, again.output, again.Metadata["source"])
	}
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	other := model.NewStore()
	defer other.Finalize()
	if err := again.Init(other, nil); err != nil {
		t.Fatal(err)
	}
	exec, err := model.NewExec(b, other, func(scope *model.Scope, x *Node) *Node {
		return again.Features(scope, x, backbone.Pass{})
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call(tensors.FromFlatDataAndDimensions(make([]float32, 32*32*3), 1, 32, 32, 3))
	if err != nil {
		t.Fatal(err)
	}
	got := tensors.MustCopyFlatData[float32](out[0]) // The bias, scaled to length 1.
	if math.Abs(float64(got[0]-0.6)) > 1e-6 || math.Abs(float64(got[1]-0.8)) > 1e-6 {
		t.Error(got)
	}
	if _, err := net.Write(store, &Linear{Bias: []float32{1}}, nil); err == nil {
		t.Error("no error about a head of another size")
	}
}
