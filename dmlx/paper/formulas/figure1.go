// Package formulas checks what the paper says of gradients by its formulas: Figure 1, the lengths of Figure 2, and the
// appendix. The op and autodiff compute them on small batches, and nothing is trained.
package formulas

import (
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/figures"
)

// Figure 1's batch and loss. The batch is small enough to look at; circle loss has a pair weight and a triplet
// weight that both depend on the triplet.
const (
	stepData, stepLoss             = "minicar", "table1-circle"
	stepClasses, stepImages        = 4, 4
	stepDim                        = 32
	stepSeed                uint64 = 1
)

// Figure1 draws Figure 1 from a batch of drawn images and the network at the start of a run of the quick preset. It
// computes on the Go backend, so that the picture does not depend on the backend that trains. difference is the largest
// one between the gradient of the loss and that of its rule, relative to the largest entry.
func Figure1() (f *figures.Figure, difference float64, err error) {
	b, err := backend.Go()
	if err != nil {
		return nil, 0, err
	}
	set, err := datasets.Open(stepData, datasets.Options{})
	if err != nil {
		return nil, 0, err
	}
	batch, err := DrawBatch(set, stepClasses, stepImages, stepSeed)
	if err != nil {
		return nil, 0, err
	}
	n, err := FirstStep(b, stepDim, stepSeed)
	if err != nil {
		return nil, 0, err
	}
	defer n.Close()
	loss, err := LossOf(stepLoss)
	if err != nil {
		return nil, 0, err
	}
	step, err := n.Step(batch, loss)
	if err != nil {
		return nil, 0, err
	}
	if f, err = figures.Framework(*step); err != nil {
		return nil, 0, err
	}
	f.Provenance = fmt.Sprintf("%d classes × %d images of %s · small network, bundled weights, before its first step · "+
		"Go backend", stepClasses, stepImages, stepData)
	return f, max(step.DifferenceM, step.DifferenceG), nil
}

// LossOf returns a loss of Table 1 whose gradient is an exact multiple of its rule's.
func LossOf(name string) (dmlx.Loss, error) {
	for _, l := range dmlx.Losses {
		if l.Name == name && l.Constant(dmlx.Options{}) != 0 {
			return l, nil
		}
	}
	return dmlx.Loss{}, fmt.Errorf("no loss %q whose gradient is a rule's", name)
}

// LossGradient is a loss on a batch, differentiated by autodiff: its value, M = ∂L/∂S + (∂L/∂S)ᵀ [N, N], for
// which ∂L/∂F = M F, and ∂L/∂F [N, D] itself, differentiated independently.
type LossGradient struct {
	Value float64
	M, G  []float32
}

// Differentiate evaluates a loss on a batch, with its triplets mined or as given, and differentiates it by autodiff. M
// is zero for a loss of distances, which does not depend on S.
func Differentiate(b compute.Backend, e dissect.Embeddings, l dmlx.Loss, o dmlx.Options) (*LossGradient, error) {
	d, err := dissect.Rule(b, e, l.Rule(o)) // Checks the embeddings, and finds the triplets.
	if err != nil {
		return nil, err
	}
	if len(d.Triplets) == 0 {
		return nil, fmt.Errorf("loss %s: the batch has no triplet", l.Name)
	}
	out, err := graphs.Run(b, func(in []*Node) []*Node {
		f := dmlx.Normalize(in[0])
		batch := dmlx.NewBatchOf(f, in[1], tripletsOf(f.Graph(), d.Triplets), o)
		s := MatMul(f, Transpose(f, 0, 1))
		loss := l.Of(batch, f, s)
		g := Gradient(loss, f)[0]
		return []*Node{loss, g, dmlx.LossMatrix(loss, s)}
	}, tensors.FromFlatDataAndDimensions(e.Values, e.N, e.Dim), tensors.FromFlatDataAndDimensions(e.Labels, e.N))
	if err != nil {
		return nil, fmt.Errorf("loss %s: %w", l.Name, err)
	}
	return &LossGradient{Value: float64(graphs.Floats(out[0])[0]), G: graphs.Floats(out[1]), M: graphs.Floats(out[2])}, nil
}

func tripletsOf(g *Graph, triplets []dissect.Triplet) dmlx.Triplets {
	n := len(triplets)
	anchor, positive, negative, valid := make([]int32, n), make([]int32, n), make([]int32, n), make([]bool, n)
	for i, t := range triplets {
		anchor[i], positive[i], negative[i], valid[i] = int32(t.Anchor), int32(t.Positive), int32(t.Negative), true
	}
	return dmlx.Triplets{Anchor: Const(g, anchor), Positive: Const(g, positive), Negative: Const(g, negative),
		Valid: Const(g, valid)}
}

// Step measures all that Figure 1 shows: the embeddings of a batch, a loss's rule and the loss itself at the
// embeddings, and the gradients of both at the network's weights. The loss must be a function of S.
func (n *Network) Step(batch *ImageBatch, l dmlx.Loss) (*figures.Step, error) {
	e, err := n.Embed(batch)
	if err != nil {
		return nil, err
	}
	o := dmlx.Options{}
	rule := l.Rule(o)
	d, err := dissect.Rule(n.backend, e, rule)
	if err != nil {
		return nil, err
	}
	auto, err := Differentiate(n.backend, e, l, o)
	if err != nil {
		return nil, err
	}
	bySurgery, err := n.Backpropagate(batch, BySurgery(rule))
	if err != nil {
		return nil, err
	}
	byLoss, err := n.Backpropagate(batch, ByLoss(l, o))
	if err != nil {
		return nil, err
	}
	c := l.Constant(o)
	s := &figures.Step{
		Images: batch.Images()[:min(len(batch.Indices), 16)],
		PerRow: 4, Labels: e.Labels, Dim: e.Dim, F: d.F, S: d.S, Rule: rule.Name(), M: d.M, G: d.G,
		Loss: l.Name, Formula: formulas[l.Name], Value: auto.Value, LossM: auto.M, LossG: auto.G, Constant: c,
		DifferenceM: largestDifference(auto.M, d.M, c), DifferenceG: largestDifference(auto.G, d.G, c),
	}
	for _, t := range d.Triplets {
		s.Triplets = append(s.Triplets, figures.StepTriplet{Anchor: t.Anchor, Positive: t.Positive, Negative: t.Negative,
			Sap: float64(t.Sap), San: float64(t.San), PairPositive: float64(t.PairPositive),
			PairNegative: float64(t.PairNegative), Weight: float64(t.Weight)})
	}
	for i, name := range Stages {
		s.Stages = append(s.Stages, figures.StepStage{Name: name, Rule: bySurgery.Norms[i], Loss: byLoss.Norms[i]})
	}
	return s, nil
}

// formulas are labels for losses, a line each, of one triplet.
var formulas = map[string][]figures.Markup{
	"triplet-cos":   {"log(1 + exp($z$))", `$z = \tau\,(S_{an}-S_{ap})$`},
	"table1-circle": {"log(1 + exp($z$))", `$z = \tau\,(S_{an}^2-S_{ap}(2-S_{ap}))$`},
	"triplet-euc":   {`max($D_{ap}^2-D_{an}^2+4$, 0)`},
}
