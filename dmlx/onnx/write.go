package onnx

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// Head is a linear layer from features to embeddings: weight [dim, F], row by row, and bias [dim].
type Head struct{ Weight, Bias []float32 }

// Write returns the file with the weights of a store: the same graph, with all names. With a head, the output is
// "embeddings", scaled to length 1. meta is added to the metadata of the file. What exporters say of nodes and values,
// as stack traces with the paths of their machine, is left out.
func (n *Network) Write(store *model.Store, head *Head, meta map[string]string) (out []byte, err error) {
	defer errs.Catch(&err)
	if head != nil && (len(head.Bias) == 0 || len(head.Weight) != len(head.Bias)*n.Width) {
		return nil, fmt.Errorf("a head of %d weights and %d biases for %d features", len(head.Weight), len(head.Bias),
			n.Width)
	}
	err = fields(n.raw, func(x field) error {
		switch {
		case x.number == 7:
			graph, err := n.writeGraph(x.data, store, head)
			out = message(out, 7, graph)
			return err
		case x.number == 14 && replaced(x, meta):
			return nil
		}
		out = x.append(out)
		return nil
	})
	return writeMetadata(out, meta), err
}

// replaced reports whether a pair of the metadata has a key of meta.
func replaced(pair field, meta map[string]string) (found bool) {
	_ = fields(pair.data, func(x field) error { // Read has parsed it.
		_, there := meta[string(x.data)]
		found = found || x.number == 1 && there
		return nil
	})
	return found
}

// remarks are the numbers of doc_string and metadata_props in the graph's nodes, inputs, outputs and values.
var remarks = map[protowire.Number][]protowire.Number{1: {6, 9}, 11: {3, 4}, 12: {3, 4}, 13: {3, 4}}

// without returns a message without the fields of some numbers.
func without(data []byte, numbers []protowire.Number) (out []byte, err error) {
	err = fields(data, func(x field) error {
		if !slices.Contains(numbers, x.number) {
			out = x.append(out)
		}
		return nil
	})
	return out, err
}

func (n *Network) writeGraph(graph []byte, store *model.Store, head *Head) (out []byte, err error) {
	err = fields(graph, func(x field) error {
		switch {
		case x.number == 12 && head != nil: // The output is another one.
			return nil
		case x.number == 5:
			t, err := parseTensor(x.data)
			if err != nil {
				return err
			}
			if n.role[t.name] == constant {
				break
			}
			v := store.GetVariable(variablePath(t.name))
			if v == nil {
				return fmt.Errorf("no variable %s to write", t.name)
			}
			value, err := v.Value()
			if err != nil {
				return err
			}
			out = tensorField(out, t.name, tensors.MustCopyFlatData[float32](value), t.dims...)
			return nil
		case remarks[x.number] != nil:
			x.data, err = without(x.data, remarks[x.number])
			if err != nil {
				return err
			}
		}
		out = x.append(out)
		return nil
	})
	if err != nil || head == nil {
		return out, err
	}
	return writeEmbeddings(out, n.output, n.Width, []Linear{{"fc", head.Weight, head.Bias}}), nil
}

// Linear is a linear layer with a name: weight [out, in], row by row, and bias [out].
type Linear struct {
	Name         string
	Weight, Bias []float32
}

// WriteLayers returns a file (opset 17) of linear layers, with ReLU between them: from "features", float32 [N, width],
// times scale plus shift, [width] or nil, to "embeddings", scaled to length 1. meta are its metadata.
func WriteLayers(width int, scale, shift []float32, layers []Linear, meta map[string]string) ([]byte, error) {
	in := width
	for _, l := range layers {
		if len(l.Bias) == 0 || in == 0 || len(l.Weight) != in*len(l.Bias) {
			return nil, fmt.Errorf("layer %s of %d weights and %d biases for %d values", l.Name, len(l.Weight), len(l.Bias), in)
		}
		in = len(l.Bias)
	}
	graph, x := message(nil, 2, []byte("head")), "features"
	if scale != nil {
		graph = tensorField(tensorField(graph, "scale", scale, width), "shift", shift, width)
		graph = message(graph, 1, writtenNode("Mul", "scaled", nil, x, "scale"))
		graph, x = message(graph, 1, writtenNode("Add", "standardized", nil, "scaled", "shift")), "standardized"
	}
	graph = message(writeEmbeddings(graph, x, width, layers), 11, value("features", width))
	file := message(message(number(nil, 1, 8), 2, []byte("dmlx")), 7, graph)
	return writeMetadata(message(file, 8, number(message(nil, 1, nil), 2, 17)), meta), nil
}

// writeEmbeddings adds layers to a graph, behind a value of some width, and its output "embeddings" of length 1.
func writeEmbeddings(out []byte, x string, width int, layers []Linear) []byte {
	for i, l := range layers {
		if i > 0 {
			out, x = message(out, 1, writtenNode("Relu", x+".relu", nil, x)), x+".relu"
		}
		weight, bias := l.Name+".weight", l.Name+".bias"
		out = tensorField(tensorField(out, weight, l.Weight, len(l.Bias), width), bias, l.Bias, len(l.Bias))
		out = message(out, 1, writtenNode("Gemm", l.Name, integerOption("transB", 1), x, weight, bias))
		x, width = l.Name, len(l.Bias)
	}
	out = message(out, 1, writtenNode("LpNormalization", "embeddings", integerOption("axis", 1), x))
	return message(out, 12, value("embeddings", width))
}

// writtenNode is a NodeProto, whose output has its name.
func writtenNode(op, out string, attribute []byte, in ...string) []byte {
	var b []byte
	for _, name := range in {
		b = message(b, 1, []byte(name))
	}
	b = message(message(message(b, 2, []byte(out)), 3, []byte(out)), 4, []byte(op))
	if attribute != nil {
		b = message(b, 5, attribute)
	}
	return b
}

// integerOption is an AttributeProto of type 2, INT.
func integerOption(name string, v uint64) []byte {
	return number(number(message(nil, 1, []byte(name)), 3, v), 20, 2)
}

// value is a ValueInfoProto, float32 [N, width].
func value(name string, width int) []byte {
	shape := message(message(nil, 1, message(nil, 2, []byte("N"))), 1, number(nil, 1, uint64(width)))
	return message(message(nil, 1, []byte(name)), 2, message(nil, 1, message(number(nil, 1, float32Type), 2, shape)))
}

func writeMetadata(out []byte, meta map[string]string) []byte {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		out = message(out, 14, message(message(nil, 1, []byte(key)), 2, []byte(meta[key])))
	}
	return out
}

// append writes a field as it was read.
func (x field) append(b []byte) []byte {
	switch {
	case x.data == nil:
		return number(b, x.number, x.v)
	case x.width == 0:
		return message(b, x.number, x.data)
	}
	typ := protowire.Fixed32Type
	if x.width == 8 {
		typ = protowire.Fixed64Type
	}
	return append(protowire.AppendTag(b, x.number, typ), x.data...)
}

func tensorField(b []byte, name string, values []float32, dims ...int) []byte {
	var t []byte
	for _, d := range dims {
		t = number(t, 1, uint64(d))
	}
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return message(b, 5, message(message(number(t, 2, float32Type), 8, []byte(name)), 9, raw))
}

func number(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func message(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}
