package onnx

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/onnxpb"
)

// Write returns the file with the weights of a store: the same graph, with all names. With a head, a layer from
// features to embeddings, the output is "embeddings", scaled to length 1. meta is added to the metadata of the file.
// What exporters say of nodes and values, as stack traces with the paths of their machine, is left out.
func (n *Network) Write(store *model.Store, head *Linear, meta map[string]string) (out []byte, err error) {
	defer errs.Catch(&err)
	if head != nil && (len(head.Bias) == 0 || len(head.Weight) != len(head.Bias)*n.Width) {
		return nil, fmt.Errorf("a head of %d weights and %d biases for %d features", len(head.Weight), len(head.Bias),
			n.Width)
	}
	err = fields(n.raw, func(x field) error {
		switch {
		case x.number == 7:
			graph, err := n.writeGraph(x.data, store, head)
			out = onnxpb.Message(out, 7, graph)
			return err
		case x.number == 14:
			if _, replaced := meta[textOf(x.data)]; replaced {
				return nil
			}
		}
		out = append(out, x.raw...)
		return nil
	})
	return onnxpb.Metadata(out, meta), err
}

// remarks are the numbers of doc_string and metadata_props in the graph's nodes, inputs, outputs and values.
var remarks = map[protowire.Number][]protowire.Number{1: {6, 9}, 11: {3, 4}, 12: {3, 4}, 13: {3, 4}}

func (n *Network) writeGraph(graph []byte, store *model.Store, head *Linear) (out []byte, err error) {
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
			out = onnxpb.Message(out, 5, onnxpb.Tensor(t.name, tensors.MustCopyFlatData[float32](value), t.dims...))
			return nil
		case remarks[x.number] != nil:
			rest := []byte{}
			err := fields(x.data, func(part field) error {
				if !slices.Contains(remarks[x.number], part.number) {
					rest = append(rest, part.raw...)
				}
				return nil
			})
			out = onnxpb.Message(out, x.number, rest)
			return err
		}
		out = append(out, x.raw...)
		return nil
	})
	if err != nil || head == nil {
		return out, err
	}
	return writeEmbeddings(out, n.output, n.Width, nil, []Linear{*head}), nil
}

// Linear is a linear layer with a name: weight [out, in], row by row, and bias [out].
type Linear struct {
	Name         string
	Weight, Bias []float32
}

// WriteLayers returns a file (opset 17) of linear layers, with ReLU between them: from "features", float32 [N, width],
// times scale plus shift, [width] or nil, to "embeddings", scaled to length 1. The layer skip, if it is not nil, is
// beside the others, and added to the last. meta are its metadata.
func WriteLayers(width int, scale, shift []float32, skip *Linear, layers []Linear, meta map[string]string,
) ([]byte, error) {
	in := width
	for _, l := range layers {
		if len(l.Bias) == 0 || in == 0 || len(l.Weight) != in*len(l.Bias) {
			return nil, fmt.Errorf("layer %s of %d weights and %d biases for %d values", l.Name, len(l.Weight), len(l.Bias), in)
		}
		in = len(l.Bias)
	}
	if skip != nil && (len(skip.Weight) != width*in || len(skip.Bias) != in) {
		return nil, fmt.Errorf("layer %s of %d weights and %d biases from %d to %d values", skip.Name, len(skip.Weight),
			len(skip.Bias), width, in)
	}
	graph, x := onnxpb.Message(nil, 2, "head"), "features"
	if scale != nil {
		graph = onnxpb.Message(graph, 5, onnxpb.Tensor("scale", scale, width))
		graph = onnxpb.Message(graph, 5, onnxpb.Tensor("shift", shift, width))
		graph = onnxpb.Message(graph, 1, onnxpb.Node("Mul", "scaled", []string{x, "scale"}))
		graph = onnxpb.Message(graph, 1, onnxpb.Node("Add", "standardized", []string{"scaled", "shift"}))
		x = "standardized"
	}
	graph = onnxpb.Message(writeEmbeddings(graph, x, width, skip, layers), 11, onnxpb.Value("features", "N", width))
	return onnxpb.Model(graph, meta), nil
}

// writeEmbeddings adds layers to a graph, behind a value of some width, and its output "embeddings" of length 1. See
// [WriteLayers] for skip.
func writeEmbeddings(out []byte, x string, width int, skip *Linear, layers []Linear) []byte {
	node := func(op, name string, inputs []string, attributes ...[]byte) {
		out, x = onnxpb.Message(out, 1, onnxpb.Node(op, name, inputs, attributes...)), name
	}
	linear := func(l Linear) {
		weight, bias := l.Name+".weight", l.Name+".bias"
		out = onnxpb.Message(out, 5, onnxpb.Tensor(weight, l.Weight, len(l.Bias), len(l.Weight)/len(l.Bias)))
		out = onnxpb.Message(out, 5, onnxpb.Tensor(bias, l.Bias, len(l.Bias)))
		node("Gemm", l.Name, []string{x, weight, bias}, onnxpb.Int("transB", 1))
		width = len(l.Bias)
	}
	from := x
	for i, l := range layers {
		if i > 0 {
			node("Relu", x+".relu", []string{x})
		}
		linear(l)
	}
	if skip != nil {
		last := x
		x = from
		linear(*skip)
		node("Add", "sum", []string{last, x})
	}
	node("LpNormalization", "embeddings", []string{x}, onnxpb.Int("axis", 1))
	return onnxpb.Message(out, 12, onnxpb.Value("embeddings", "N", width))
}
