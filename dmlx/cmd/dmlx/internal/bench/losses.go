package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

// lossLine returns the name of a loss's measurement, which bench.py refers to.
func lossLine(name string) string { return "loss " + name + " forward and backward" }

// losses times each loss and its gradient with respect to the unnormalized embeddings and proxies, for one batch.
func (b *session) losses(ctx context.Context) error {
	const n, dim = 512, 512
	values, labels := gaussian(n, dim)
	classes := int(labels[n-1]) + 1
	args := []any{tensors.FromFlatDataAndDimensions(values, n, dim), tensors.FromFlatDataAndDimensions(labels, n)}
	rng := rand.New(rand.NewPCG(2, 1))
	for _, about := range losses.All() {
		l, err := losses.Parse(about.Name)
		if err != nil {
			return err
		}
		all := args
		if k := losses.PerClass(l); k > 0 {
			proxies, of := make([]float32, classes*k*dim), make([]int64, classes*k)
			for i := range proxies {
				proxies[i] = float32(rng.NormFloat64())
			}
			for i := range of {
				of[i] = int64(i / k)
			}
			all = append(all[:2:2], tensors.FromFlatDataAndDimensions(proxies, classes*k, dim),
				tensors.FromFlatDataAndDimensions(of, classes*k))
		}
		exec, err := graph.NewExec(b.Choice.Backend, func(in []*graph.Node) []*graph.Node {
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
		})
		if err != nil {
			return err
		}
		times, err := repeatCall(ctx, exec, all...)
		exec.Finalize()
		if err != nil {
			return fmt.Errorf("loss %s: %w", l, err)
		}
		b.report(measured(lossLine(about.Name), fmt.Sprintf("B=%d D=%d", n, dim), "ms", times...))
	}
	return nil
}
