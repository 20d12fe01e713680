package backbone

import (
	"fmt"
	"maps"
	"strings"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/internal/onnxpb"
)

// EncodeONNX gives a network as an ONNX model (opset 17), which ONNX Runtime, OpenCV and others run: from "images",
// float32 [N, 3, H, W], normalized as [Preprocessing] says, any number of any size, to "embeddings", float32 [N, dim],
// which are scaled to length 1, or for a dim of 0 to "features", the means over the image [N, F] before the last layer.
// meta becomes the model's metadata beside "arch". A network without variables in the store is an error.
//
// GoMLX v0.28.8 exports graphs itself (ml/model/onnx), but only from its backend on ONNX Runtime, a C library that is
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
		x = g.node("MaxPool", "pool", x, onnxpb.Ints("kernel_shape", 3, 3), onnxpb.Ints("pads", 1, 1, 1, 1),
			onnxpb.Ints("strides", 2, 2))
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
			g.tensor("fc.bias")}, "\n"), onnxpb.Int("transB", 1))
		out, width = "embeddings", dim
		g.node("LpNormalization", out, x, onnxpb.Int("axis", 1), onnxpb.Int("p", 2))
	} else {
		g.node("Flatten", out, x)
	}
	if g.err != nil {
		return nil, g.err
	}
	g.out = onnxpb.Message(g.out, 2, string(a))
	g.out = onnxpb.Message(g.out, 11, onnxpb.Value("images", "N", 3, "H", "W"))
	g.out = onnxpb.Message(g.out, 12, onnxpb.Value(out, "N", width))
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta["arch"] = string(a)
	return onnxpb.Model(g.out, meta), nil
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
	node := onnxpb.Node(op, name, strings.Split(inputs, "\n"), attributes...)
	g.out = onnxpb.Message(g.out, 1, node)
	return name
}

// tensor adds a parameter's values under its name, which it returns.
func (g *onnxGraph) tensor(name string) string {
	p, known := g.params[name]
	values, err := get(g.store, p)
	if g.err == nil && (err != nil || !known || values == nil) {
		g.err = fmt.Errorf("no variable for %s to export (%v): Init or DecodeWeights comes first", name, err)
	}
	g.out = onnxpb.Message(g.out, 5, onnxpb.Tensor(name, values, p.Shape...))
	return name
}

// convolution adds a convolution with its batch normalization by the running averages.
func (g *onnxGraph) convolution(c convolution, x string) string {
	k, pad := c.kernel, c.kernel/2
	x = g.node("Conv", c.conv, x+"\n"+g.tensor(c.conv+".weight"), onnxpb.Ints("kernel_shape", k, k),
		onnxpb.Ints("pads", pad, pad, pad, pad), onnxpb.Ints("strides", c.stride, c.stride))
	for _, name := range []string{"weight", "bias", "running_mean", "running_var"} {
		x += "\n" + g.tensor(c.norm+"."+name)
	}
	return g.node("BatchNormalization", c.norm, x, onnxpb.Float("epsilon", Epsilon))
}
