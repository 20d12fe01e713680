package backbone_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// fields are the values of a protobuf message by their numbers: []byte, or uint64 for numbers.
func fields(t *testing.T, b []byte) map[protowire.Number][]any {
	t.Helper()
	out := map[protowire.Number][]any{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		var v any
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(b)
			v = uint64(bits)
		default:
			v, n = protowire.ConsumeBytes(b)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b, out[field] = b[n:], append(out[field], v)
	}
	return out
}

func first(f map[protowire.Number][]any, field protowire.Number) string {
	return string(f[field][0].([]byte))
}

// evaluate runs an ONNX file on images [N, H, W, 3] by what ONNX's documents say of its operators.
func evaluate(t *testing.T, b compute.Backend, file []byte, images *tensors.Tensor) []float32 {
	t.Helper()
	g := fields(t, fields(t, file)[7][0].([]byte))
	exec, err := NewExec(b, func(images *Node) *Node {
		values := map[string]*Node{"images": images}
		for _, raw := range g[5] {
			f := fields(t, raw.([]byte))
			var dims []int
			for _, d := range f[1] {
				dims = append(dims, int(d.(uint64)))
			}
			data := f[9][0].([]byte)
			flat := make([]float32, len(data)/4)
			for i := range flat {
				flat[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			}
			values[first(f, 8)] = ConstTensor(images.Graph(), tensors.FromFlatDataAndDimensions(flat, dims...))
		}
		for _, raw := range g[1] {
			f := fields(t, raw.([]byte))
			op, name := first(f, 4), first(f, 2)
			var in []*Node
			for _, input := range f[1] {
				x := values[string(input.([]byte))]
				if x == nil {
					panic(fmt.Errorf("%s reads %s, which nothing has given", name, input))
				}
				in = append(in, x)
			}
			attributes := map[string][]int{}
			for _, a := range f[5] {
				of := fields(t, a.([]byte))
				for _, v := range slices.Concat(of[2], of[3], of[8]) {
					attributes[first(of, 1)] = append(attributes[first(of, 1)], int(v.(uint64)))
				}
			}
			var y *Node
			switch x := in[0]; op {
			case "Conv":
				k, pads := attributes["kernel_shape"], attributes["pads"]
				if !slices.Equal(k, in[1].Shape().Dimensions[2:]) || len(pads) != 4 {
					panic(fmt.Errorf("%s: kernel %v of %s, pads %v", name, k, in[1].Shape(), pads))
				}
				y = backbone.Convolution(x, TransposeAllAxes(in[1], 2, 3, 1, 0), attributes["strides"][1], pads[3])
			case "BatchNormalization":
				row := func(i int) *Node { return Reshape(in[i], 1, 1, 1, -1) }
				epsilon := math.Float32frombits(uint32(attributes["epsilon"][0]))
				scale := Div(row(1), Sqrt(AddScalar(row(4), float64(epsilon))))
				y = Add(Mul(Sub(x, row(3)), scale), row(2))
			case "Relu":
				y = MaxScalar(x, 0)
			case "MaxPool":
				y = backbone.MaxPooling(x, attributes["kernel_shape"][0], attributes["strides"][0], attributes["pads"][0])
			case "Add":
				y = Add(x, in[1])
			case "GlobalAveragePool":
				y = ReduceAndKeep(x, ReduceMean, 1, 2)
			case "Flatten":
				y = Reshape(x, x.Shape().Dim(0), -1)
			case "Gemm":
				y = Add(MatMul(x, Transpose(in[1], 0, 1)), InsertAxes(in[2], 0))
			case "LpNormalization":
				y = Div(x, Sqrt(ReduceAndKeep(Square(x), ReduceSum, 1)))
			}
			values[first(f, 3)] = y
		}
		return values[first(fields(t, g[12][0].([]byte)), 1)]
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call(images)
	if err != nil {
		t.Fatal(err)
	}
	return tensors.MustCopyFlatData[float32](out[0])
}

// The exported network computes what the network does. peer/exported.py holds it against ONNX Runtime and torchvision.
func TestEncodeONNX(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arch      backbone.Arch
		size, dim int
	}{{backbone.Small, 32, 5}, {backbone.Small, 27, 0}, {backbone.ResNet18, 40, 3}} {
		if testing.Short() && c.arch != backbone.Small {
			continue
		}
		store := model.NewStore()
		if err := backbone.Init(store, c.arch, max(c.dim, 1), 1); err != nil {
			t.Fatal(err)
		}
		for v := range store.IterVariables() { // Averages that are not those of Init.
			if name := v.Name(); name == "running_mean" || name == "running_var" {
				values := tensors.MustCopyFlatData[float32](v.MustValue())
				for i := range values {
					values[i] += 0.1 * float32(i%7)
				}
				if err := v.SetValue(tensors.FromValue(values)); err != nil {
					t.Fatal(err)
				}
			}
		}
		pixels := make([]float32, 2*c.size*c.size*3)
		for i := range pixels {
			pixels[i] = float32(math.Sin(float64(i * i)))
		}
		images := tensors.FromFlatDataAndDimensions(pixels, 2, c.size, c.size, 3)
		exec, err := model.NewExec(b, store, func(scope *model.Scope, x *Node) *Node {
			if c.dim == 0 {
				return c.arch.Features(scope, x, backbone.Pass{})
			}
			return dmlx.Normalize(c.arch.Embed(scope, x, c.dim, backbone.Pass{}))
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Call1(images)
		if err != nil {
			t.Fatal(err)
		}
		want := tensors.MustCopyFlatData[float32](out)
		file, err := backbone.EncodeONNX(store, c.arch, c.dim, c.arch.Preprocessing().Metadata())
		if err != nil {
			t.Fatal(err)
		}
		got := evaluate(t, b, file, images)
		if len(got) != len(want) || slices.Max(want) <= 0 {
			t.Fatalf("%s: %d values, want %d", c.arch, len(got), len(want))
		}
		for i, w := range want {
			if math.Abs(float64(got[i]-w)) > 1e-5*float64(slices.Max(want)) {
				t.Errorf("%s of %d pixels: value %d is %g, want %g", c.arch, c.size, i, got[i], w)
				break
			}
		}
		meta := map[string]string{}
		for _, p := range fields(t, file)[14] {
			f := fields(t, p.([]byte))
			meta[first(f, 1)] = first(f, 2)
		}
		if p, found, err := backbone.PreprocessingOf(meta); !found || err != nil || p != c.arch.Preprocessing() ||
			meta["arch"] != string(c.arch) {
			t.Errorf("metadata %v: %v", meta, err)
		}
		again, err := backbone.EncodeONNX(store, c.arch, c.dim, c.arch.Preprocessing().Metadata())
		if err != nil || !slices.Equal(file, again) {
			t.Errorf("a second file differs: %v", err)
		}
	}
	if _, err := backbone.EncodeONNX(model.NewStore(), backbone.Small, 4, nil); err == nil ||
		!strings.Contains(err.Error(), "no variable for conv1.weight") {
		t.Errorf("an empty store: %v", err)
	}
	if _, err := backbone.EncodeONNX(model.NewStore(), "vgg", 4, nil); err == nil ||
		!strings.Contains(err.Error(), "no network") {
		t.Errorf("an unknown network: %v", err)
	}
}
