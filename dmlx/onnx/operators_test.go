package onnx

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// TestPadOfImages checks that images with their channels last are padded as those are that a Reshape has made plain.
func TestPadOfImages(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	images := make([]float32, 2*8*8*3)
	for i := range images {
		images[i] = float32(i)
	}
	pads, fill := int64s("p", 0, 1, 2, 0, 0, 0, 3, 4), tensorOf("v", 0.5)
	var values [2][]float32
	for i, parts := range [][][]byte{
		{nodeOf("Pad", "images p v > c"), nodeOf("Flatten", "c > features")},
		{int64s("s", 0, 3, 8, 8), nodeOf("Flatten", "images > f"), nodeOf("Reshape", "f s > x"),
			nodeOf("Pad", "x p v > c"), nodeOf("Flatten", "c > features")},
	} {
		n, err := Read(fileOf(append(parts, pads, fill)...))
		if err != nil {
			t.Fatal(err)
		}
		out, err := ExecOnce(b, func(x *Node) *Node {
			return n.Features(model.NewStore().RootScope(), x, backbone.Pass{})
		}, tensors.FromFlatDataAndDimensions(images, 2, 8, 8, 3))
		if err != nil {
			t.Fatal(err)
		}
		values[i] = tensors.MustCopyFlatData[float32](out)
	}
	if len(values[0]) != 2*4*13*12 || !slices.Equal(values[0], values[1]) {
		t.Errorf("%d values, and %d plain ones, or different ones", len(values[0]), len(values[1]))
	}
}

// TestOperators compares each operator with ONNX Runtime at each opset that changed it: the same values, or an error
// that names the operator, and never values where ONNX Runtime has none.
func TestOperators(t *testing.T) {
	t.Parallel()
	python := os.Getenv("DMLX_PYTHON")
	if python == "" {
		t.Skip("set DMLX_PYTHON to a Python with onnx and onnxruntime")
	}
	dir := t.TempDir()
	args := append([]string{"testdata/operators.py", dir, strconv.Itoa(newest)}, slices.Sorted(maps.Keys(operators))...)
	if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		t.Skipf("DMLX_PYTHON lacks onnx or onnxruntime: %v\n%s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var given struct {
		Images []float32
		Cases  []struct {
			Op, File, Error string
			Opset           int
			Features        []float32
		}
	}
	if err := json.Unmarshal(raw, &given); err != nil {
		t.Fatal(err)
	}
	images := make([]float32, len(given.Images)) // [2, 8, 8, 3] of [2, 3, 8, 8].
	for i, x := range given.Images {
		images[i/192*192+i%64*3+i/64%3] = x
	}
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	compared := map[string]bool{}
	for _, c := range given.Cases {
		raw, err := os.ReadFile(filepath.Join(dir, c.File))
		if err != nil {
			t.Fatal(err)
		}
		n, err := Read(raw)
		switch {
		case err != nil && (c.Error != "" || strings.Contains(err.Error(), "("+c.Op+")")):
			if c.Error == "" {
				t.Logf("%s: refused: %v", c.File, err)
			}
			continue
		case err != nil || c.Error != "" && c.Op != "Clip": // Which ONNX Runtime refuses where its limits cross.
			t.Errorf("%s: %v, and ONNX Runtime: %q", c.File, err, c.Error)
			continue
		}
		store := model.NewStore()
		if err := n.Init(store, nil); err != nil {
			t.Fatal(err)
		}
		exec, err := model.NewExec(b, store, func(scope *model.Scope, x *Node) *Node {
			return n.Features(scope, x, backbone.Pass{})
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(images, 2, 8, 8, 3))
		if err != nil {
			t.Errorf("%s: %v", c.File, err)
			continue
		}
		got := tensors.MustCopyFlatData[float32](out[0])
		for i, want := range c.Features {
			if len(got) != len(c.Features) || !(math.Abs(float64(got[i]-want)) <= 2e-6*max(1, math.Abs(float64(want)))) {
				t.Errorf("%s: value %d of %d is %g, want %g of %d", c.File, i, len(got), got[min(i, len(got)-1)], want,
					len(c.Features))
				break
			}
		}
		compared[c.Op] = true
		exec.Finalize()
		store.Finalize()
	}
	for op := range operators {
		if !compared[op] {
			t.Errorf("%s was not compared: testdata/operators.py needs a case", op)
		}
	}
}

// TestOpsets checks what is read of files of each opset, without Python: those that are not known are refused, as are
// operators at opsets at which they mean something else, and modes of training.
func TestOpsets(t *testing.T) {
	t.Parallel()
	file := func(opset int, parts ...[]byte) []byte {
		return append(opsetOf(opset), fileOf(parts...)[len(opsetOf(18)):]...)
	}
	of := func(op string, attributes ...[]byte) [][]byte {
		node := nodeOf(op, "images s s m v > y", attributes...)
		return [][]byte{tensorOf("s", 1, 3), tensorOf("m", 0, 3), tensorOf("v", 1, 3), node, nodeOf("Flatten",
			"y > features")}
	}
	normalization := of("BatchNormalization")
	listed := func(names string) []byte {
		return bytesField(file(18, normalization...), 14, text(text(nil, 1, "parameters"), 2, names))
	}
	computed := slices.Concat([][]byte{tensorOf("s", 1, 3), tensorOf("m0", 0, 3), tensorOf("v", 1, 3),
		nodeOf("Identity", "m0 > m")}, normalization[3:])
	second := append(of("BatchNormalization"), portOf(12, "y", float32Type, 0, 3, 8, 8))
	unary := func(op string) [][]byte {
		return [][]byte{nodeOf(op, "images > y"), nodeOf("Flatten", "y > features")}
	}
	for _, c := range []struct {
		raw        []byte
		want, note string
	}{
		{file(99, normalization...), "opset 99: want one from 7 to", ""},
		{file(6, normalization...), "opset 6: want", ""},
		{file(19, unary("Gelu")...), "(Gelu): this operator is supported from opset 20 on", ""},
		{file(20, unary("Gelu")...), "", ""},
		{file(8, unary("Erf")...), "from opset 9 on", ""},
		{file(18, normalization...), "", "does not list"},
		{file(18, of("BatchNormalization", intAttribute("training_mode", 1))...), "in training mode", ""},
		{file(8, of("BatchNormalization", intAttribute("spatial", 0))...), "in training mode", ""},
		{file(18, computed...), "computes its running average \"m\"", ""},
		{listed(`["model.s", "model.m"]`), "none of the 2 metadata parameters, such as \"model.s\"", ""},
		{listed(`["s", "model.m"]`), "", "1 of the 2 parameters"},
		{listed(`[]`), "", ""},
		{file(18, second...), "", "Of 2 outputs the first, \"features\""},
	} {
		n, err := Read(c.raw)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v, want %q", err, c.want)
		case c.want == "" && (err != nil || c.note != "" && !strings.Contains(strings.Join(n.Notes, " "), c.note)):
			t.Errorf("%v, want a network that says %q", err, c.note)
		}
	}
	for op, from := range since {
		if _, found := operators[op]; !found || from <= oldest || from > newest {
			t.Errorf("%s from %d", op, from)
		}
	}
}

// A network that subtracts the batch's mean mixes its images; one that subtracts each image's own does not.
func TestMixes(t *testing.T) {
	t.Parallel()
	mean := func(axis int) []byte {
		parts := [][]byte{nodeOf("ReduceMean", "images > m", intsAttribute("axes", axis), intAttribute("keepdims", 1)),
			nodeOf("Sub", "images m > y"), nodeOf("Flatten", "y > features")}
		return append(opsetOf(17), fileOf(parts...)[len(opsetOf(18)):]...)
	}
	plain, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	best, err := backend.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []compute.Backend{plain, best.Backend} {
		for axis, want := range map[int]bool{0: true, 1: false, 3: false} {
			n, err := Read(mean(axis))
			if err != nil {
				t.Fatal(err)
			}
			if mixes, err := n.Mixes(b); err != nil || mixes != want {
				t.Errorf("mean over axis %d: %v, %v; want %v", axis, mixes, err, want)
			}
		}
	}
	for _, file := range []string{"vit_tiny", "resnet18", "dinov3", "efficientnet_lite0", "vit_any"} {
		raw, err := os.ReadFile(filepath.Join("testdata", file+".onnx"))
		if err != nil {
			t.Fatal(err)
		}
		n, err := Read(raw)
		if err != nil {
			t.Fatal(err)
		}
		if mixes, err := n.Mixes(plain); err != nil || mixes {
			t.Errorf("%s: %v, %v", file, mixes, err)
		}
	}
}
