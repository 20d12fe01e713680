package onnx

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// Cut divides a network into a body, which depends on no trained weight, and a tail: what the body gives for an image
// is the same in all steps.
type Cut struct {
	Names []string // Of the values between body and tail.
	Width int      // Their number for an image.

	network *Network
	size    [2]int
	shapes  [][]int // Of the values, without the batch; those of images have their channels last.
	image   []bool
}

// Cut finds the values that depend on images but on no trained weight, and that the rest is computed from. It is nil if
// there are none, or if they do not have a row for each image. Batch normalization counts as frozen where neither its
// scale nor its shift is trained.
func (n *Network) Cut(size [2]int, trained func(name string) bool) (c *Cut, err error) {
	changing, ofImages := map[string]bool{}, map[string]bool{n.input: true}
	for _, w := range n.Parameters() {
		changing[w.Name] = trained(w.Name) || n.adapted[w.Name] != nil
	}
	c = &Cut{network: n, size: size}
	for _, node := range n.nodes {
		inputs := node.in
		switch node.op { // Types and shapes never change.
		case "Shape":
			inputs = nil
		case "CastLike":
			inputs = inputs[:1]
		}
		changes := slices.ContainsFunc(inputs, func(name string) bool { return changing[name] })
		images := slices.ContainsFunc(inputs, func(name string) bool { return ofImages[name] })
		for _, out := range node.out {
			changing[out], ofImages[out] = changes, images
		}
		for _, in := range inputs {
			if changes && ofImages[in] && !changing[in] && !slices.Contains(c.Names, in) {
				c.Names = append(c.Names, in)
			}
		}
	}
	if !changing[n.output] {
		c.Names = []string{n.output}
	}
	if len(c.Names) == 0 || slices.Contains(c.Names, n.input) {
		return nil, nil
	}
	ok := true
	err = n.graph(size, func(e *evaluation) error {
		for i, x := range e.run(nil, c.Names...) {
			dims := x.Shape().Dimensions
			if len(dims) == 0 || dims[0] != probeBatch || !x.DType().IsFloat() {
				ok = false
				return nil
			}
			o := e.value(c.Names[i])
			c.shapes = append(c.shapes, slices.Clone(dims[1:]))
			c.image = append(c.image, o.last != nil && c.Names[i] != n.output)
			c.Width += product(dims[1:])
		}
		return nil
	})
	if err != nil || !ok {
		return nil, err
	}
	return c, nil
}

// Body computes what lies between body and tail, [N, Width], of images [N, H, W, 3].
func (c *Cut) Body(scope *model.Scope, images *Node) *Node {
	parts := c.network.evaluation(scope, images, backbone.Pass{}).run(nil, c.Names...)
	for i, x := range parts {
		parts[i] = Reshape(x, x.Shape().Dim(0), -1)
	}
	return Concatenate(parts, 1)
}

// Tail computes the features [N, F] of what [Cut.Body] gives.
func (c *Cut) Tail(scope *model.Scope, kept *Node, pass backbone.Pass) *Node {
	batch := kept.Shape().Dim(0)
	// Shapes in the body are taken from images that are not there; nothing else is computed from them.
	images := Zeros(kept.Graph(), kept.Shape())
	images = BroadcastToDims(Reshape(Slice(images, AxisRange(0, 1), AxisRange(0, 1)), 1, 1, 1, 1), batch, c.size[0],
		c.size[1], 3)
	given, from := map[string]*operand{}, 0
	for i, name := range c.Names {
		width := product(c.shapes[i])
		x := Slice(kept, AxisRange(), AxisRange(from, from+width))
		from += width
		x = Reshape(x, append([]int{batch}, c.shapes[i]...)...)
		if c.image[i] {
			given[name] = &operand{last: x}
		} else {
			given[name] = &operand{n: x}
		}
	}
	if len(c.Names) == 1 && c.Names[0] == c.network.output {
		return ConvertDType(given[c.Names[0]].n, dtypes.Float32)
	}
	return c.network.evaluation(scope, images, pass).run(given, c.network.output)[0]
}
