package backbone

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// EncodeVariables returns a safetensors file of float32 variables of a store, for networks that are not of this
// package: each under its path with "." for "/", in its own layout. Equal values and metadata give equal bytes.
func EncodeVariables(store *model.Store, paths []string, meta map[string]string) (data []byte, err error) {
	defer errs.Catch(&err)
	if meta = maps.Clone(meta); meta == nil {
		meta = map[string]string{}
	}
	meta["format"] = "pt"
	out := newTensorFile(meta)
	for _, at := range paths {
		v := store.GetVariable(at)
		if v == nil {
			return nil, fmt.Errorf("no variable %s to save", at)
		}
		values, err := Values(v)
		if err != nil {
			return nil, err
		}
		out.put(TensorName(at), v.Shape().Dimensions, values)
	}
	return safetensors(out.header, out.body)
}

// SetVariable sets the values of a float32 variable, which it creates if the store lacks it.
func SetVariable(store *model.Store, path string, values []float32, dims []int, trainable bool) error {
	t := tensors.FromFlatDataAndDimensions(values, dims...)
	v := store.GetVariable(path)
	if v == nil {
		v = store.VariableWithValue(path, t)
	} else if err := v.SetValue(t); err != nil {
		return err
	}
	v.SetTrainable(trainable)
	return nil
}

// Values returns a copy of the values of a float32 variable.
func Values(v *model.Variable) (values []float32, err error) {
	t, err := v.Value()
	if err == nil {
		values, err = tensors.CopyFlatData[float32](t)
	}
	if err != nil {
		return nil, fmt.Errorf("variable %s: %w", v.Path(), err)
	}
	return values, nil
}

// tensorFile is a safetensors file before it is put together.
type tensorFile struct {
	header map[string]any
	body   []byte
}

func newTensorFile(meta map[string]string) *tensorFile {
	return &tensorFile{header: map[string]any{metadataKey: meta}}
}

func (f *tensorFile) put(name string, shape []int, values []float32) {
	begin := len(f.body)
	for _, x := range values {
		f.body = binary.LittleEndian.AppendUint32(f.body, math.Float32bits(x))
	}
	// A scalar's shape is written as [].
	f.header[name] = entry{DType: "F32", Shape: slices.Concat([]int{}, shape), Offsets: [2]int{begin, len(f.body)}}
}

// safetensors puts a file together.
func safetensors(header map[string]any, body []byte) ([]byte, error) {
	head, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	for len(head)%8 != 0 { // Aligns the data; the format allows trailing spaces.
		head = append(head, ' ')
	}
	out := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(head)+len(body)), uint64(len(head)))
	return append(append(out, head...), body...), nil
}

// TensorName returns the name of a variable in a file: "layer1.0.conv1.weight" for "/layer1/0/conv1/weight".
func TensorName(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
}

// DecodeVariables sets variables of a store to the tensors of a file that [EncodeVariables] wrote. Missing, unexpected
// and misshapen tensors are all listed in one error, and then nothing is set. A number of proxies, rows of dimension
// dim, is set, too; for 0 those of the file are ignored.
func DecodeVariables(data []byte, store *model.Store, paths []string, rows, dim int) (err error) {
	defer errs.Catch(&err)
	entries, _, body, err := parseSafetensors(data)
	if err != nil {
		return err
	}
	known := map[string]bool{proxiesName: true}
	var wrong []string
	for _, at := range paths {
		v := store.GetVariable(at)
		if v == nil {
			return fmt.Errorf("no variable %s to set", at)
		}
		name := TensorName(at)
		known[name] = true
		switch e, ok := entries[name]; {
		case !ok:
			wrong = append(wrong, "without "+name)
		case e.DType != "F32" || !slices.Equal(e.Shape, v.Shape().Dimensions):
			wrong = append(wrong, fmt.Sprintf("%s is %s %v, want F32 %v", name, e.DType, e.Shape, v.Shape().Dimensions))
		}
	}
	if e, ok := entries[proxiesName]; rows > 0 && (!ok || e.DType != "F32" || !slices.Equal(e.Shape, []int{rows, dim})) {
		wrong = append(wrong, fmt.Sprintf("%s is not F32 [%d %d]", proxiesName, rows, dim))
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if !known[name] {
			wrong = append(wrong, "unexpected "+name)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not the weights of this network: %s", strings.Join(wrong, "; "))
	}
	for _, at := range paths {
		v, e := store.GetVariable(at), entries[TensorName(at)]
		t := tensors.FromShape(v.Shape())
		if v.DType() != dtypes.Float32 {
			return fmt.Errorf("variable %s is %s: want float32", at, v.DType())
		}
		tensors.MustMutableFlatData(t, func(flat []float32) { copy(flat, e.values(body)) })
		if err := v.SetValue(t); err != nil {
			return err
		}
	}
	if rows > 0 {
		return SetProxies(store, entries[proxiesName].values(body), rows, dim)
	}
	return nil
}
