package bench

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

// convolution times the convolutions of ResNet-18 and their gradients, which take most of a training step: layer by
// layer, and their sum without the three 1×1 convolutions. Images need no gradient.
func (b *session) convolution(ctx context.Context) error {
	const batch = 16
	var total float64
	for _, l := range convolutionLayers {
		after := l.pixels / l.stride
		x, kernel, v := noise(batch, l.pixels, l.pixels, l.in), noise(l.kernel, l.kernel, l.in, l.out), noise(batch, after,
			after, l.out)
		exec, err := graph.NewExec(b.Choice.Backend, func(x, kernel, v *graph.Node) []*graph.Node {
			y := backbone.Convolution(x, kernel, l.stride, l.kernel/2)
			by := []*graph.Node{kernel, x}
			if l.in == 3 {
				by = by[:1]
			}
			out := []*graph.Node{graph.ReduceAllSum(y)} // Sums are small to copy to the host.
			for _, gradient := range graph.Gradient(graph.ReduceAllSum(graph.Mul(y, v)), by...) {
				out = append(out, graph.ReduceAllSum(gradient))
			}
			return out
		})
		if err != nil {
			return err
		}
		times, err := repeatCall(ctx, exec, x, kernel, v)
		exec.Finalize()
		if err != nil {
			return err
		}
		size := fmt.Sprintf("%d to %d, %d×%d/%d, %d px, B=%d", l.in, l.out, l.kernel, l.kernel, l.stride, l.pixels, batch)
		line := measured("convolution and its gradients", size, "ms", times...)
		b.report(line)
		total += l.times * line.Value
	}
	b.report(measured("convolutions of a training step", fmt.Sprintf("resnet18, B=%d, 224 px", batch), "ms", total))
	return nil
}

// noise returns a tensor of standard normal numbers.
func noise(n, height, width, channels int) *tensors.Tensor {
	values, _ := gaussian(n*height*width, channels)
	return tensors.FromFlatDataAndDimensions(values, n, height, width, channels)
}
