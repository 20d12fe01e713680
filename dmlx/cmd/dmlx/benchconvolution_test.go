package main

import (
	"context"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// convolutionLayer is a convolution of ResNet-18 at 224 pixels; peer/bench.py has the same.
type convolutionLayer struct {
	pixels, in, out, kernel, stride int
	times                           float64 // Number of such layers.
}

var convolutionLayers = []convolutionLayer{
	{224, 3, 64, 7, 2, 1},
	{56, 64, 64, 3, 1, 4},
	{56, 64, 128, 3, 2, 1},
	{28, 128, 128, 3, 1, 3},
	{28, 128, 256, 3, 2, 1},
	{14, 256, 256, 3, 1, 3},
	{14, 256, 512, 3, 2, 1},
	{7, 512, 512, 3, 1, 3},
}

// The lines of a layer.
const (
	convolutionLine = "convolution and its gradients"
	productsLine    = "products of a convolution and its gradients"
)

// convolution times the convolutions of ResNet-18 and their gradients, which take most of a training step: layer by
// layer, and their sum without the three 1×1 convolutions. Images need no gradient.
func (s *session) convolution(ctx context.Context) error {
	const batch = 16
	var total float64
	for _, l := range convolutionLayers {
		after := l.pixels / l.stride
		x, kernel, v := noise(batch, l.pixels, l.pixels, l.in), noise(l.kernel, l.kernel, l.in, l.out), noise(batch, after,
			after, l.out)
		times, err := s.repeat(ctx, func(in []*graph.Node) []*graph.Node {
			x, kernel, v := in[0], in[1], in[2]
			y := backbone.Convolution(x, kernel, l.stride, l.kernel/2)
			by := []*graph.Node{kernel, x}
			if l.in == 3 {
				by = by[:1]
			}
			// The first output is copied to the host: a number, since nothing else may be paid for.
			out := []*graph.Node{graph.Slice(y, graph.AxisElem(0), graph.AxisElem(0), graph.AxisElem(0), graph.AxisElem(0)), y}
			return append(out, graph.Gradient(graph.ReduceAllSum(graph.Mul(y, v)), by...)...)
		}, x, kernel, v)
		if err != nil {
			return err
		}
		size := fmt.Sprintf("%d to %d, %d×%d/%d, %d px, B=%d", l.in, l.out, l.kernel, l.kernel, l.stride, l.pixels, batch)
		line := measured(convolutionLine, size, "ms", times...)
		s.report(line)
		total += l.times * line.Value
		if err := s.layerProducts(ctx, l, batch, size); err != nil {
			return err
		}
	}
	s.report(measured("convolutions of a training step", fmt.Sprintf("resnet18, B=%d, 224 px", batch), "ms", total))
	return nil
}

// layerProducts times matrix products of as many operations as a layer's convolution and its gradients take: an
// unfolded image by the kernel, an unfolded gradient of the output by the kernel, and the two for the kernel's.
func (s *session) layerProducts(ctx context.Context, l convolutionLayer, batch int, size string) error {
	pixels := batch * (l.pixels / l.stride) * (l.pixels / l.stride)
	window := l.kernel * l.kernel
	x, kernel, v := matrix(pixels, window*l.in), matrix(window*l.in, l.out), matrix(pixels, l.out)
	in, times := []any{x, kernel, v}, 2.0 // How many products.
	if l.in > 3 {
		in, times = append(in, matrix(pixels, window*l.out), matrix(window*l.out, l.in)), 3
	}
	milliseconds, err := s.repeat(ctx, func(in []*graph.Node) []*graph.Node {
		x, kernel, v := in[0], in[1], in[2]
		g := graph.MatMul(graph.Transpose(v, 0, 1), x)
		out := []*graph.Node{graph.Slice(g, graph.AxisElem(0), graph.AxisElem(0)), g, graph.MatMul(x, kernel)}
		if len(in) > 3 {
			out = append(out, graph.MatMul(in[3], in[4]))
		}
		return out
	}, in...)
	if err != nil {
		return err
	}
	s.reportProducts(productsLine, size, times*2*float64(pixels)*float64(window*l.in)*float64(l.out)/1e9, milliseconds)
	s.least[convolutionLine] = productsLine
	return nil
}

func matrix(rows, columns int) *tensors.Tensor {
	values, _ := gaussian(rows, columns)
	return tensors.FromFlatDataAndDimensions(values, rows, columns)
}

// noise returns a tensor of standard normal numbers.
func noise(n, height, width, channels int) *tensors.Tensor {
	values, _ := gaussian(n*height*width, channels)
	return tensors.FromFlatDataAndDimensions(values, n, height, width, channels)
}
