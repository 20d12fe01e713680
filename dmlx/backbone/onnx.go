package backbone

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/ml/model"
	"google.golang.org/protobuf/encoding/protowire"
)

// EncodeONNX gives a network as an ONNX model (opset 17), which ONNX Runtime, OpenCV and others run: from "images",
// float32 [N, 3, H, W], normalized as [Preprocessing] says, any number of any size, to "embeddings", float32 [N, dim],
// which are scaled to length 1, or for a dim of 0 to "features", the means over the image [N, F] before the last layer.
// meta becomes the model's metadata beside "arch". A network without variables in the store is an error.
//
// GoMLX v0.28.2 exports graphs itself (ml/model/onnx), but only from its backend on ONNX Runtime, a C library that is
// loaded at run time. A ResNet has eight kinds of operators, so they are written here.
func EncodeONNX(store *model.Store, a Arch, dim int, meta map[string]string) ([]byte, error) {
	n, ok := networks[a]
	if !ok {
		_, err := ParseArch(string(a))
		return nil, err
	}
	g := &onnxGraph{store: store, params: map[string]Param{}}
	for _, p := range a.Parameters(dim) {
		g.params[p.Name] = p
	}
	stem, blocks := n.layers()
	x := g.node("Relu", "stem", g.convolution(stem, "images"))
	if n.pool {
		x = g.node("MaxPool", "pool", x, ints("kernel_shape", 3, 3), ints("pads", 1, 1, 1, 1), ints("strides", 2, 2))
	}
	for i, b := range blocks {
		y := x
		for j, c := range b.main {
			if j > 0 {
				y = g.node("Relu", fmt.Sprintf("block%d.relu%d", i, j), y)
			}
			y = g.convolution(c, y)
		}
		if b.downsample != nil {
			x = g.convolution(*b.downsample, x)
		}
		x = g.node("Relu", fmt.Sprintf("block%d", i), g.node("Add", fmt.Sprintf("block%d.sum", i), y+"\n"+x))
	}
	x = g.node("GlobalAveragePool", "average", x)
	out, width := "features", n.features()
	if dim > 0 {
		x = g.node("Gemm", "fc", strings.Join([]string{g.node("Flatten", "flat", x), g.tensor("fc.weight"),
			g.tensor("fc.bias")}, "\n"), integer("transB", 1))
		out, width = "embeddings", dim
		g.node("LpNormalization", out, x, integer("axis", 1), integer("p", 2))
	} else {
		g.node("Flatten", out, x)
	}
	if g.err != nil {
		return nil, g.err
	}
	g.out = text(g.out, 2, string(a))
	g.out = message(g.out, 11, value("images", "N", 3, "H", "W"))
	g.out = message(g.out, 12, value(out, "N", width))

	var file []byte // A ModelProto of onnx.proto; the numbers are those of its fields.
	file = number(file, 1, 8)
	file = text(file, 2, "dmlx")
	file = message(file, 7, g.out)
	file = message(file, 8, number(text(nil, 1, ""), 2, 17))
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta["arch"] = string(a)
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		file = message(file, 14, text(text(nil, 1, key), 2, meta[key]))
	}
	return file, nil
}

// onnxGraph is a GraphProto that is being written.
type onnxGraph struct {
	store  *model.Store
	params map[string]Param
	out    []byte
	err    error
}

// node adds an operator with its inputs, separated by line ends, and returns its output, which has its name.
func (g *onnxGraph) node(op, name, inputs string, attributes ...[]byte) string {
	var b []byte
	for input := range strings.SplitSeq(inputs, "\n") {
		b = text(b, 1, input)
	}
	b = text(text(text(b, 2, name), 3, name), 4, op)
	for _, a := range attributes {
		b = message(b, 5, a)
	}
	g.out = message(g.out, 1, b)
	return name
}

// tensor adds a parameter's values under its name, which it returns.
func (g *onnxGraph) tensor(name string) string {
	p, known := g.params[name]
	values, err := get(g.store, p)
	if g.err == nil && (err != nil || !known || values == nil) {
		g.err = fmt.Errorf("no variable for %s to export (%v): Init or LoadWeights comes first", name, err)
	}
	var b []byte
	for _, d := range p.Shape {
		b = number(b, 1, d)
	}
	b = text(number(b, 2, 1), 8, name) // Type 1 is float32.
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	g.out = message(g.out, 5, message(b, 9, raw))
	return name
}

// convolution adds a convolution with its batch normalization by the running averages.
func (g *onnxGraph) convolution(c convolution, x string) string {
	k, pad := c.kernel, c.kernel/2
	x = g.node("Conv", c.conv, x+"\n"+g.tensor(c.conv+".weight"), ints("kernel_shape", k, k),
		ints("pads", pad, pad, pad, pad), ints("strides", c.stride, c.stride))
	for _, name := range []string{"weight", "bias", "running_mean", "running_var"} {
		x += "\n" + g.tensor(c.norm+"."+name)
	}
	epsilon := protowire.AppendTag(text(nil, 1, "epsilon"), 2, protowire.Fixed32Type)
	epsilon = number(protowire.AppendFixed32(epsilon, math.Float32bits(Epsilon)), 20, 1) // Type 1 is a float.
	return g.node("BatchNormalization", c.norm, x, epsilon)
}

// value is a ValueInfoProto: a float32 tensor with its axes, of which those with a name have any size.
func value(name string, axes ...any) []byte {
	var shape []byte
	for _, axis := range axes {
		switch d := axis.(type) {
		case int:
			shape = message(shape, 1, number(nil, 1, d))
		case string:
			shape = message(shape, 1, text(nil, 2, d))
		}
	}
	return message(text(nil, 1, name), 2, message(nil, 1, message(number(nil, 1, 1), 2, shape)))
}

// ints and integer are AttributeProtos.
func ints(name string, values ...int) []byte {
	b := text(nil, 1, name)
	for _, v := range values {
		b = number(b, 8, v)
	}
	return number(b, 20, 7)
}

func integer(name string, v int) []byte { return number(number(text(nil, 1, name), 3, v), 20, 2) }

// number, text and message append a field to a message.
func number(b []byte, field protowire.Number, v int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

func text(b []byte, field protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func message(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}
