package backbone_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

func initialized(t *testing.T, dim int, seed uint64) *model.Store {
	t.Helper()
	store := model.NewStore()
	if err := backbone.Init(store, backbone.Small, dim, seed); err != nil {
		t.Fatal(err)
	}
	return store
}

// TestWeightsRoundTrip checks that what is written is read, bit by bit, and that writing it again gives the same file.
func TestWeightsRoundTrip(t *testing.T) {
	store := initialized(t, 5, 1)
	written, err := backbone.EncodeWeights(store, backbone.Small, map[string]string{"steps": "7"})
	if err != nil {
		t.Fatal(err)
	}
	other := initialized(t, 5, 2)
	meta, err := backbone.DecodeWeights(written, other, backbone.LoadOptions{Arch: backbone.Small, Dim: 5})
	if err != nil {
		t.Fatal(err)
	}
	if meta["steps"] != "7" || meta["arch"] != "small" || meta["format"] != "pt" {
		t.Errorf("metadata %v", meta)
	}
	for v := range store.IterVariables() {
		w := other.GetVariable(v.Path())
		was, is := tensors.MustCopyFlatData[float32](v.MustValue()), tensors.MustCopyFlatData[float32](w.MustValue())
		if !slices.Equal(was, is) ||
			v.Trainable != w.Trainable {
			t.Errorf("%s has changed", v.Path())
		}
	}
	first := written
	second, err := backbone.EncodeWeights(other, backbone.Small, map[string]string{"steps": "7"})
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("a second file differs from the first (%v)", err)
	}
	empty := model.NewStore()
	if _, err := backbone.DecodeWeights(first, empty, backbone.LoadOptions{Arch: backbone.Small, Dim: 5}); err != nil {
		t.Errorf("into an empty store: %v", err)
	}
	if n := len(backbone.Trainable(empty)); n != len(backbone.Trainable(store)) {
		t.Errorf("into an empty store: %d trainable variables", n)
	}
}

// TestWeightsLayout checks by hand that a kernel's value [o, c, h, w] on file is the variable's [h, w, c, o].
func TestWeightsLayout(t *testing.T) {
	store := initialized(t, 2, 1)
	data, err := backbone.EncodeWeights(store, backbone.Small, nil)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.Uint64(data)
	var header map[string]struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	if size%8 != 0 {
		t.Errorf("the data are not aligned: a header of %d bytes", size)
	}
	e := header["conv1.weight"]
	if e.DType != "F32" || !slices.Equal(e.Shape, []int{16, 3, 5, 5}) {
		t.Fatalf("conv1.weight is %+v", e)
	}
	const o, c, h, w = 7, 2, 4, 1
	at := int(8+size) + e.Offsets[0] + 4*(((o*3+c)*5+h)*5+w)
	want := store.GetVariable("/conv1/weight").MustValue().Value().([][][][]float32)[h][w][c][o]
	var got float32
	if err := binary.Read(bytes.NewReader(data[at:]), binary.LittleEndian, &got); err != nil || got != want {
		t.Errorf("value [7, 2, 4, 1] is %g on file, %g in memory (%v)", got, want, err)
	}
}

func TestWeightsWithAnotherHead(t *testing.T) {
	data, err := backbone.EncodeWeights(initialized(t, 10, 1), backbone.Small, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := initialized(t, 4, 2)
	head := tensors.MustCopyFlatData[float32](store.GetVariable("/fc/weight").MustValue())
	o := backbone.LoadOptions{Arch: backbone.Small, WithoutHead: true}
	if _, err := backbone.DecodeWeights(data, store, o); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(head, tensors.MustCopyFlatData[float32](store.GetVariable("/fc/weight").MustValue())) {
		t.Error("the head has changed")
	}
	stem := func(s *model.Store) []float32 {
		return tensors.MustCopyFlatData[float32](s.GetVariable("/conv1/weight").MustValue())
	}
	if !slices.Equal(stem(store), stem(initialized(t, 1, 1))) {
		t.Error("the stem is not the file's")
	}
}

// TestWeightsErrors checks that one error lists all that is wrong, and that nothing is loaded then.
func TestWeightsErrors(t *testing.T) {
	good, err := backbone.EncodeWeights(initialized(t, 4, 1), backbone.Small, nil)
	if err != nil {
		t.Fatal(err)
	}
	edited := func(edit func(header map[string]any)) []byte {
		size := binary.LittleEndian.Uint64(good)
		var header map[string]any
		if err := json.Unmarshal(good[8:8+size], &header); err != nil {
			t.Fatal(err)
		}
		edit(header)
		text, err := json.Marshal(header)
		if err != nil {
			t.Fatal(err)
		}
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), good[8+size:]...)
	}
	field := func(header map[string]any, name string) map[string]any { return header[name].(map[string]any) }
	for _, c := range []struct {
		name string
		data []byte
		dim  int
		want []string // nil: no error.
	}{
		{"good", good, 4, nil},
		{"num_batches_tracked", edited(func(h map[string]any) {
			h["bn1.num_batches_tracked"] = map[string]any{"dtype": "I64", "shape": []int{}, "data_offsets": []int{0, 8}}
		}), 4, nil},
		{"several", edited(func(h map[string]any) {
			delete(h, "bn1.weight")
			delete(h, "layer2.0.conv1.weight")
			h["classifier.weight"] = h["fc.weight"]
			field(h, "conv1.weight")["shape"] = []int{16, 5, 5, 3}
			field(h, "fc.bias")["dtype"] = "I32"
		}), 4, []string{"2 missing (bn1.weight, layer2.0.conv1.weight)", "1 unexpected (classifier.weight)",
			"2 misshapen", "conv1.weight is F32 [16 5 5 3], want F32 [16 3 5 5]", "fc.bias is I32 [4], want F32 [4]"}},
		{"head", good, 5, []string{"fc.weight is F32 [4 128], want F32 [5 128]", "fc.bias"}},
		{"dim", good, 0, []string{"embedding of 0 dimensions"}},
		{"short", good[:5], 4, []string{"not a safetensors file"}},
		{"cut header", good[:100], 4, []string{"not a safetensors file"}},
		{"cut data", good[:len(good)-1], 4, []string{"not a safetensors file"}},
		{"extent", edited(func(h map[string]any) { field(h, "fc.bias")["data_offsets"] = []int{8, 4} }), 4,
			[]string{"fc.bias at 8:4"}},
		{"size", edited(func(h map[string]any) { field(h, "fc.bias")["shape"] = []int{1 << 40, 1 << 40} }), 4,
			[]string{"fc.bias of shape"}},
		{"text", []byte("version https://git-lfs.github.com/spec/v1"), 4,
			[]string{"not a safetensors file, nor one of torch.save: it is "}},
		{"network", []byte("\x08\x0a\x12\x07pytorch"), 4,
			[]string{"nor one of torch.save: it is the network of an ONNX file"}},
		{"noise", []byte("\xe1\x03abcdefghij"), 4, []string{"nor one of torch.save: a header of "}},
	} {
		store := initialized(t, 4, 2)
		before := tensors.MustCopyFlatData[float32](store.GetVariable("/conv1/weight").MustValue())
		_, err := backbone.DecodeWeights(c.data, store, backbone.LoadOptions{Arch: backbone.Small, Dim: c.dim})
		if c.want == nil {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in %q", c.name, part, err)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: not one line: %q", c.name, err)
		}
		if !slices.Equal(before, tensors.MustCopyFlatData[float32](store.GetVariable("/conv1/weight").MustValue())) {
			t.Errorf("%s: half loaded", c.name)
		}
	}
	if _, err := backbone.EncodeWeights(model.NewStore(), backbone.Small, nil); err == nil ||
		!strings.Contains(err.Error(), "conv1.weight") {
		t.Errorf("saving an empty store: %v", err)
	}
}

// TestPretrained loads the shipped weights.
func TestPretrained(t *testing.T) {
	store := initialized(t, 32, 1)
	o := backbone.LoadOptions{Arch: backbone.Small, WithoutHead: true}
	if _, err := backbone.DecodeWeights(backbone.Pretrained(), store, o); err != nil {
		t.Error(err)
	}
}
