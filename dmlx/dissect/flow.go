package dissect

import (
	"errors"
	"fmt"
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Flow lets embeddings move by a rule or a loss alone, without a network behind them: gradient descent on the unit
// sphere under the composed gradient, with triplets mined anew at each step.
type Flow struct {
	name string // "rule …" or "the loss".
	// run takes a step down the gradients. It returns the embeddings, S_ap and S_an of their triplets and which of these
	// are valid, and the gradient; and for a loss with proxies, the proxies and their gradient. nil once the flow is
	// closed.
	run   func(s FlowState, gradient, gradientP []float32, rate float32) ([]*tensors.Tensor, error)
	state FlowState

	gradient, gradientP []float32 // At the state.
}

// FlowState is where the embeddings of a flow are, and what its triplets are like there. Without any valid triplet the
// means are 0.
type FlowState struct {
	Step       int
	N, Dim     int
	F          []float32 // [N, Dim], rows of length 1.
	P          []float32 // The proxies of a loss, rows of length 1; nil without any.
	Triplets   int       // How many are valid.
	Sap, San   float64   // Their mean similarities.
	Violations float64   // The share of them with S_an > S_ap.
}

// Flow begins a flow of the rule with the given options at the normalized embeddings of a batch. The gradient is the
// sum over the triplets, whatever Options.Sum says, so that a flow does not slow down as the batch grows. Embeddings
// that are not finite or have no direction, given triplets, and a part of the rule that fails are errors. The flow is
// to be closed, which does not close the rule.
func (c *Compiled) Flow(e Embeddings, o dmlx.Options) (*Flow, error) {
	if len(e.Triplets) > 0 {
		return nil, errors.New("flow: triplets are given, but it mines its own at each step")
	}
	if err := checkBatch(&e); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	o.Sum = true
	r := c.rule
	r.Options = o
	labels := tensors.FromFlatDataAndDimensions(slices.Clone(e.Labels), e.N)
	return newFlow("rule "+r.Name(), FlowState{N: e.N, Dim: e.Dim, F: e.Values},
		func(s FlowState, gradient, _ []float32, rate float32) ([]*tensors.Tensor, error) {
			return c.run("flow", o, func(in []*Node, p map[string]*Node) []*Node {
				next, labels := descended(in[0], in[1], in[2]), in[3]
				f := dmlx.Normalize(next)
				batch := dmlx.NewBatch(f, labels, o)
				batch.Parameters = p
				raw := Gradient(ReduceAllSum(dmlx.Inject(f, dmlx.Compose(batch, r).G)), next)[0]
				return []*Node{next, batch.Sap, batch.San, batch.Triplets.Valid, raw}
			}, tensors.FromFlatDataAndDimensions(s.F, s.N, s.Dim), tensors.FromFlatDataAndDimensions(gradient, s.N, s.Dim),
				tensors.FromScalar(rate), labels)
		})
}

// Flow begins a flow of the loss at the normalized embeddings and proxies. The gradient is the loss's times the number
// of embeddings, as that of a rule's flow is a sum. To close it does not close the loss. Errors are those of
// [Compiled.Flow] and [Loss].
func (l *CompiledLoss) Flow(e Embeddings, p Proxies) (*Flow, error) {
	if len(e.Triplets) > 0 {
		return nil, errors.New("flow: triplets are given, but it mines its own at each step")
	}
	if err := p.check(&e); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	labels := tensors.FromFlatDataAndDimensions(slices.Clone(e.Labels), e.N)
	classes := slices.Clone(p.Classes)
	return newFlow("the loss", FlowState{N: e.N, Dim: e.Dim, F: e.Values, P: p.Values},
		func(s FlowState, gradient, gradientP []float32, rate float32) ([]*tensors.Tensor, error) {
			args := []*tensors.Tensor{tensors.FromFlatDataAndDimensions(s.F, s.N, s.Dim),
				tensors.FromFlatDataAndDimensions(gradient, s.N, s.Dim), tensors.FromScalar(rate), labels}
			if p.N > 0 {
				args = append(args, tensors.FromFlatDataAndDimensions(s.P, p.N, s.Dim),
					tensors.FromFlatDataAndDimensions(gradientP, p.N, s.Dim), tensors.FromFlatDataAndDimensions(classes, p.N))
			}
			return l.run(lossKey{"flow", p.N > 0}, func(in []*Node) []*Node {
				rate := MulScalar(in[2], s.N)
				batch := []*Node{descended(in[0], in[1], rate), in[3]}
				if p.N > 0 {
					batch = append(batch, descended(in[4], in[5], rate), in[6])
				}
				raw, rawP := dmlx.ComposeLoss(lossBatch(batch, p.N > 0), l.loss).Raw()
				mined := dmlx.NewBatch(dmlx.Normalize(batch[0]), in[3], dmlx.Options{})
				out := []*Node{batch[0], mined.Sap, mined.San, mined.Triplets.Valid, raw}
				if p.N > 0 {
					out = append(out, batch[2], rawP)
				}
				return out
			}, args)
		})
}

// newFlow takes no step yet, but normalizes, and finds what fails.
func newFlow(name string, s FlowState,
	run func(s FlowState, gradient, gradientP []float32, rate float32) ([]*tensors.Tensor, error)) (*Flow, error) {
	f := &Flow{name: name, run: run, state: s, gradient: make([]float32, len(s.F)),
		gradientP: make([]float32, len(s.P))}
	if err := f.step(0); err != nil {
		return nil, fmt.Errorf("flow of %s: %w", name, err)
	}
	return f, nil
}

// descended is x, normalized, after a step down its gradient.
func descended(x, gradient, rate *Node) *Node {
	// Where and not the product alone: at rate 0 nothing moves, however bad the gradient is.
	step := Where(Equal(rate, ZerosLike(rate)), ZerosLike(x), Mul(gradient, rate))
	return dmlx.Normalize(Sub(dmlx.Normalize(x), step))
}

// Close ends the flow: no step follows.
func (f *Flow) Close() { f.run = nil }

// State is where the embeddings are.
func (f *Flow) State() FlowState {
	s := f.state
	s.F, s.P = slices.Clone(s.F), slices.Clone(s.P)
	return s
}

// Advance takes steps of gradient descent at a rate. Where a step would lead to values that are not finite, it fails
// and the flow stays where it was before that step.
func (f *Flow) Advance(steps int, rate float64) error {
	if f.run == nil {
		return errors.New("flow: it is closed")
	}
	if steps < 0 || !finite(float32(rate)) {
		return fmt.Errorf("flow: %d steps at the rate %v; want 0 or more steps, and a finite rate", steps, rate)
	}
	for range steps {
		if err := f.step(rate); err != nil {
			return fmt.Errorf("flow of %s, step %d: %w", f.name, f.state.Step+1, err)
		}
		f.state.Step++
	}
	return nil
}

func (f *Flow) step(rate float64) error {
	s := f.state
	out, err := f.run(s, f.gradient, f.gradientP, float32(rate))
	if err != nil {
		return err
	}
	s.F = graphs.Floats(out[0])
	if err := unitRows("embedding", s.F, s.Dim); err != nil {
		return err
	}
	if len(out) > 5 {
		s.P = graphs.Floats(out[5])
		if err := unitRows("proxy", s.P, s.Dim); err != nil {
			return err
		}
	}
	sap, san := graphs.Floats(out[1]), graphs.Floats(out[2])
	s.Triplets, s.Sap, s.San, s.Violations = means(sap, san, tensors.MustCopyFlatData[bool](out[3]))
	f.state, f.gradient = s, graphs.Floats(out[4])
	if s.P != nil {
		f.gradientP = graphs.Floats(out[6])
	}
	return nil
}

func unitRows(what string, values []float32, dim int) error {
	for i := range len(values) / dim {
		square := 0.0
		for _, v := range values[i*dim : (i+1)*dim] {
			square += float64(v) * float64(v)
		}
		if !(math.Abs(square-1) < 1e-3) { // NaN too.
			return fmt.Errorf("%s %d would not be of length 1 but %.3g", what, i, math.Sqrt(square))
		}
	}
	return nil
}
