package main

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

// lossLine returns the name of a loss's measurement, which bench.py refers to.
func lossLine(name string) string { return "loss " + name + " forward and backward" }

// losses times each loss and its gradient with respect to the unnormalized embeddings and proxies, for one batch. The
// matrix products that losses of a kind cannot do without are timed too.
func (s *session) losses(ctx context.Context) error {
	n, dim := 512, 512
	if testing.Short() {
		n, dim = quickBatch[0], quickBatch[1]
	}
	products := make(map[int]string) // The lines of products, by the number of proxies.
	for _, about := range losses.All() {
		l, err := losses.Parse(about.Name)
		if err != nil {
			return err
		}
		k := losses.PerClass(l)
		all := lossInputs(n, dim, k)
		if products[k] == "" {
			if products[k], err = s.products(ctx, all[0].(*tensors.Tensor), all[2:]); err != nil {
				return err
			}
		}
		s.least[lossLine(about.Name)] = products[k]
		times, err := s.repeat(ctx, func(in []*graph.Node) []*graph.Node { return lossAndGradients(l, in) }, all...)
		if err != nil {
			return fmt.Errorf("loss %s: %w", l, err)
		}
		s.report(measured(lossLine(about.Name), fmt.Sprintf("B=%d D=%d", n, dim), "ms", times...))
	}
	return nil
}

// lossInputs returns a batch of n embeddings and their labels and, if k > 0, k proxies of each class and these classes.
func lossInputs(n, dim, k int) []any {
	values, labels := gaussian(n, dim)
	in := []any{tensors.FromFlatDataAndDimensions(values, n, dim), tensors.FromFlatDataAndDimensions(labels, n)}
	if k == 0 {
		return in
	}
	of := make([]int64, k*(int(labels[n-1])+1))
	for i := range of {
		of[i] = int64(i / k)
	}
	proxies, _ := gaussian(len(of), dim)
	slices.Reverse(proxies) // They are others than the embeddings.
	return append(in, tensors.FromFlatDataAndDimensions(proxies, len(of), dim),
		tensors.FromFlatDataAndDimensions(of, len(of)))
}

// lossAndGradients returns a loss and its gradients with respect to the embeddings and, if it has them, the proxies. in
// has the embeddings and their labels and, with proxies, these and their classes.
func lossAndGradients(l losses.Loss, in []*graph.Node) []*graph.Node {
	var proxies, of *graph.Node
	if len(in) > 2 {
		proxies, of = in[2], in[3]
	}
	loss := dmlx.ComposeLoss(dmlx.NewLossBatch(in[0], in[1], proxies, of), l.Of)
	raw, rawProxies := loss.Raw()
	if rawProxies == nil {
		return []*graph.Node{loss.Value, raw}
	}
	return []*graph.Node{loss.Value, raw, rawProxies}
}

// products times the products of the similarities and of the gradients of a loss: S = x xᵀ and M x, or with proxies p
// S = x pᵀ, M p and Mᵀ x. It returns the name of the line.
func (s *session) products(ctx context.Context, x *tensors.Tensor, proxies []any) (string, error) {
	n, dim := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	args, others, times, name := []any{x}, n, 2, "products of a loss of pairs"
	if len(proxies) > 0 {
		p := proxies[0].(*tensors.Tensor)
		args, others, times = append(args, p), p.Shape().Dimensions[0], 3
		name = fmt.Sprintf("products of a loss with %d proxies", others)
	}
	milliseconds, err := s.repeat(ctx, func(in []*graph.Node) []*graph.Node {
		x, other := in[0], in[len(in)-1]
		s := graph.MatMul(x, graph.Transpose(other, 0, 1))
		g := graph.MatMul(s, other)
		out := []*graph.Node{graph.ReduceAllSum(graph.Slice(g, graph.AxisElem(0))), s, g}
		if len(in) > 1 {
			out = append(out, graph.MatMul(graph.Transpose(s, 0, 1), x))
		}
		return out
	}, args...)
	if err != nil {
		return "", err
	}
	s.reportProducts(name, fmt.Sprintf("B=%d D=%d", n, dim), float64(times*2*n*others*dim)/1e9, milliseconds)
	return name, nil
}

// reportProducts reports the time and the pace of matrix products.
func (s *session) reportProducts(name, size string, gflop float64, milliseconds []float64) {
	size = fmt.Sprintf("%.3g GFLOP, %s", gflop, size)
	line := measured(name, size, "ms", milliseconds...)
	s.report(line)
	s.report(measured(name, size, "GFLOP/s", 1000*gflop/line.Value))
}
