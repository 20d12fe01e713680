package dissect

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// Flow lets embeddings move by a rule alone, without a network behind them: gradient descent on the unit sphere under
// the composed gradient, with triplets mined anew at each step.
type Flow struct {
	rule   dmlx.Rule
	labels []int64
	of     *Compiled // nil once the flow is closed.
	close  func()
	state  FlowState
}

// FlowState is where the embeddings of a flow are, and what its triplets are like there. Without any valid triplet the
// means are 0.
type FlowState struct {
	Step       int
	N, Dim     int
	F          []float32 // [N, Dim], rows of length 1.
	Triplets   int       // How many are valid.
	Sap, San   float64   // Their mean similarities.
	Violations float64   // The share of them with S_an > S_ap.
}

// NewFlow begins a flow at the normalized embeddings of a batch. The gradient is the sum over the triplets, whatever
// Options.Sum says, so that a flow does not slow down as the batch grows. Embeddings that are not finite or have no
// direction, given triplets, and a part of the rule that fails are errors. The flow is to be closed.
func NewFlow(b compute.Backend, e Embeddings, r dmlx.Rule) (*Flow, error) {
	c := once(b, r)
	f, err := c.Flow(e, r.Options)
	if err != nil {
		c.Close()
		return nil, err
	}
	f.close = c.Close
	return f, nil
}

// Flow begins a flow of the rule with the given options, as [NewFlow] does. To close it does not close the rule.
func (c *Compiled) Flow(e Embeddings, o dmlx.Options) (*Flow, error) {
	if len(e.Triplets) > 0 {
		return nil, errors.New("flow: triplets are given, but it mines its own at each step")
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	o.Sum = true
	r := c.rule
	r.Options = o
	f := &Flow{rule: r, of: c, close: func() {}, labels: slices.Clone(e.Labels),
		state: FlowState{N: e.N, Dim: e.Dim, F: e.Values}}
	if err := f.step(0); err != nil { // Normalizes, and finds what fails.
		return nil, fmt.Errorf("flow of rule %s: %w", r.Name(), err)
	}
	return f, nil
}

// Close frees the flow's graph.
func (f *Flow) Close() {
	if f.of != nil {
		f.close()
		f.of = nil
	}
}

// State is where the embeddings are.
func (f *Flow) State() FlowState {
	s := f.state
	s.F = slices.Clone(s.F)
	return s
}

// Advance takes steps of gradient descent at a rate. Where a step would lead to values that are not finite, it fails
// and the flow stays where it was before that step.
func (f *Flow) Advance(steps int, rate float64) error {
	if f.of == nil {
		return errors.New("flow: it is closed")
	}
	if steps < 0 || !finite(float32(rate)) {
		return fmt.Errorf("flow: %d steps at the rate %v; want 0 or more steps, and a finite rate", steps, rate)
	}
	for range steps {
		if err := f.step(rate); err != nil {
			return fmt.Errorf("flow of rule %s, step %d: %w", f.rule.Name(), f.state.Step+1, err)
		}
		f.state.Step++
	}
	return nil
}

func (f *Flow) step(rate float64) error {
	s := f.state
	out, err := f.of.run("flow", f.rule.Options, func(in []*Node, p *dmlx.Parameters) []*Node {
		x, labels, rate := in[0], in[1], in[2]
		at := dmlx.Normalize(x)
		batch := dmlx.NewBatch(at, labels, f.rule.Options)
		batch.Parameters = p
		gradient := Gradient(ReduceAllSum(dmlx.Inject(at, dmlx.Compose(batch, f.rule).G)), x)[0]
		// Where and not the product alone: at rate 0 nothing moves, however bad the gradient is.
		step := Where(Equal(rate, ZerosLike(rate)), ZerosLike(x), Mul(gradient, rate))
		next := dmlx.Normalize(Sub(at, step))
		there := dmlx.NewBatch(next, labels, f.rule.Options)
		return []*Node{next, there.Sap, there.San, there.Triplets.Valid}
	}, tensors.FromFlatDataAndDimensions(s.F, s.N, s.Dim), tensors.FromFlatDataAndDimensions(f.labels, s.N),
		tensors.FromScalar(float32(rate)))
	if err != nil {
		return err
	}
	s.F = graphs.Floats(out[0])
	for i := range s.N {
		square := 0.0
		for _, v := range s.F[i*s.Dim : (i+1)*s.Dim] {
			square += float64(v) * float64(v)
		}
		if !(math.Abs(square-1) < 1e-3) { // NaN too.
			return fmt.Errorf("embedding %d would not be of length 1 but %.3g", i, math.Sqrt(square))
		}
	}
	sap, san := graphs.Floats(out[1]), graphs.Floats(out[2])
	s.Triplets, s.Sap, s.San, s.Violations = 0, 0, 0, 0
	for i, valid := range tensors.MustCopyFlatData[bool](out[3]) {
		if !valid {
			continue
		}
		s.Triplets++
		s.Sap += float64(sap[i])
		s.San += float64(san[i])
		if san[i] > sap[i] {
			s.Violations++
		}
	}
	if n := float64(s.Triplets); n > 0 {
		s.Sap, s.San, s.Violations = s.Sap/n, s.San/n, s.Violations/n
	}
	f.state = s
	return nil
}
