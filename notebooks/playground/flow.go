package playground

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/figures"
	"github.com/gradient-surgery/dml/notebooks/sample"
)

// Flow shows embeddings that move on the unit circle or sphere by gradient descent on the embeddings themselves. The
// rule can be changed at any time.
type Flow struct {
	// Rule is the rule at first. Its custom parts can be chosen beside the paper's.
	Rule dmlx.Rule
	// Dim is the dimension at first: 2, the default, or 3.
	Dim int
}

// Run shows the panel until the context ends or End is pressed; a picture of the start and the last step stays. If no
// browser answers, it shows 250 steps of the rule.
func (f Flow) Run(ctx context.Context) error {
	b, err := backend.Go()
	if err != nil {
		return err
	}
	if f.Dim == 0 {
		f.Dim = 2
	}
	if f.Dim != 2 && f.Dim != 3 {
		return fmt.Errorf("flow: %d dimensions; want 2 or 3", f.Dim)
	}
	p, end := f.page(b)
	defer end()
	return p.run(ctx)
}

const (
	flowImages = 6  // Per class.
	trail      = 14 // Number of earlier frames in a path.
	// Steps shown of a flow that was not played.
	summaryFirst, summaryLast = 25, 250
)

func (f Flow) page(b compute.Backend) (p page, end func()) {
	choices := partsWith(f.Rule)
	controls := append(choices.controls(f.Rule, parameters),
		control{Name: "dim", Label: "embeddings on", Options: []string{"circle", "sphere"},
			Value: []string{"circle", "sphere"}[f.Dim-2]},
		slider("classes", "classes", 2, 14, 1, 4), slider("noise", "noise", 0, 2, 0.05, 0.7),
		slider("start", "start", 1, 20, 1, 1),
		slider("rate", "rate", 0.001, 0.2, 0.001, 0.03), slider("steps", "steps a frame", 1, 20, 1, 1),
		slider("turn", "turn", -180, 180, 5, 20),
		control{Name: "play", Label: "Play", Toggle: "Pause", Button: true},
		control{Name: "step", Label: "Step", Button: true},
		control{Name: "restart", Label: "Restart", Button: true})
	s := &stream{backend: b}
	draw := func(e event, fs func(r dmlx.Rule) (*figures.Figure, error)) view {
		r, off, err := choices.rule(e.Values, f.Rule.Options)
		if e.Values["dim"] == "circle" {
			off = append(off, "turn")
		}
		v := view{Off: off}
		var figure *figures.Figure
		if err == nil {
			figure, err = fs(r)
		}
		if err == nil {
			err = v.add(map[string]*figures.Figure{"flow": figure})
		}
		if err != nil {
			v.Problem, v.Pictures = err.Error(), nil
			return v
		}
		v.Note = fmt.Sprintf("%s, step %d: mean S_ap %.3f, mean S_an %.3f, negative nearer in %.0f %% of triplets",
			r.Name(), s.now.Step, s.now.Sap, s.now.San, 100*s.now.Violations)
		return v
	}
	last := page{controls: controls}.first()
	return page{title: "a rule's flow", pictures: []string{"flow"}, controls: controls,
		draw: func(e event) view {
			last = e
			return draw(e, func(r dmlx.Rule) (*figures.Figure, error) {
				if err := s.follow(e, r); err != nil {
					return nil, err
				}
				return s.figure(e.Values)
			})
		},
		final: func() view {
			return draw(last, func(dmlx.Rule) (*figures.Figure, error) { return s.summary(last.Values) })
		},
	}, s.close
}

// stream is a flow that continues when its rule changes.
type stream struct {
	backend compute.Backend
	start   [4]string // The values that determine the start.
	rule    string    // The name of flow's rule.
	flow    *dissect.Flow
	labels  []int64
	first   dissect.FlowState
	now     dissect.FlowState
	before  [][]float32
	offset  int // Steps before the rule last changed.
	history figures.History
}

func (s *stream) close() {
	if s.flow != nil {
		s.flow.Close()
		s.flow = nil
	}
}

// follow applies an event.
func (s *stream) follow(e event, r dmlx.Rule) error {
	start := [4]string{e.Values["dim"], e.Values["classes"], e.Values["noise"], e.Values["start"]}
	if s.flow == nil || start != s.start || slices.Contains(e.Press, "restart") {
		batch, err := startOf(e.Values)
		if err != nil {
			return err
		}
		if err := s.begin(batch, r); err != nil {
			return err
		}
		s.start, s.labels, s.offset, s.first, s.before = start, batch.Labels, 0, s.flow.State(), nil
		s.history = figures.History{}
		s.arrive()
	} else if r.Name() != s.rule {
		if err := s.begin(dissect.Embeddings{Values: s.now.F, N: s.now.N, Dim: s.now.Dim, Labels: s.labels}, r); err != nil {
			return err
		}
		s.offset = s.now.Step
	}
	if !slices.Contains(e.Press, "play") && !slices.Contains(e.Press, "step") {
		return nil
	}
	steps, err := e.Values.number("steps")
	if err != nil {
		return err
	}
	rate, err := e.Values.number("rate")
	if err != nil {
		return err
	}
	return s.advance(int(steps), rate)
}

// begin starts a flow; on an error the old one stays.
func (s *stream) begin(from dissect.Embeddings, r dmlx.Rule) error {
	flow, err := dissect.NewFlow(s.backend, from, r.Traced())
	if err != nil {
		return err
	}
	s.close()
	s.flow, s.rule = flow, r.Name()
	return nil
}

func (s *stream) advance(steps int, rate float64) error {
	err := s.flow.Advance(steps, rate)
	s.before = append(s.before, s.now.F)
	if len(s.before) > trail {
		s.before = s.before[1:]
	}
	s.arrive()
	return err
}

// arrive records the state of the flow.
func (s *stream) arrive() {
	s.now = s.flow.State()
	s.now.Step += s.offset
	h := &s.history
	h.Steps, h.Sap, h.San = append(h.Steps, s.now.Step), append(h.Sap, s.now.Sap), append(h.San, s.now.San)
	if len(h.Steps) > 600 { // Keeps every other point.
		thin := figures.History{}
		for i := 0; i < len(h.Steps); i += 2 {
			thin.Steps, thin.Sap, thin.San = append(thin.Steps, h.Steps[i]), append(thin.Sap, h.Sap[i]),
				append(thin.San, h.San[i])
		}
		*h = thin
	}
}

// startOf returns the embeddings at the start.
func startOf(v values) (dissect.Embeddings, error) {
	classes, err1 := v.number("classes")
	noise, err2 := v.number("noise")
	seed, err3 := v.number("start")
	if err := errors.Join(err1, err2, err3); err != nil {
		return dissect.Embeddings{}, err
	}
	dim := slices.Index([]string{"circle", "sphere"}, v["dim"]) + 2
	if dim < 2 || classes < 1 || classes > 100 {
		return dissect.Embeddings{}, fmt.Errorf("%s classes on a %q; want 1 to 100 classes on a circle or sphere",
			v["classes"], v["dim"])
	}
	return sample.Batch(int(classes), flowImages, dim, noise, uint64(seed)), nil
}

func (s *stream) swarm(at dissect.FlowState, before [][]float32, v values) figures.Swarm {
	turn, _ := strconv.ParseFloat(v["turn"], 64) // An invalid angle is 0.
	return figures.Swarm{Title: fmt.Sprintf("step %d", at.Step), Dim: at.Dim, Points: at.F, Labels: s.labels,
		Before: before, Turn: turn}
}

func (s *stream) figure(v values) (*figures.Figure, error) {
	return figures.Flow(s.history, s.swarm(s.now, s.before, v))
}

// summary draws the picture that stays: the start and the last step. A flow that was not played is played first.
func (s *stream) summary(v values) (*figures.Figure, error) {
	if s.flow == nil {
		return nil, errors.New("the flow has not started")
	}
	if s.now.Step > 0 {
		return figures.Flow(s.history, s.swarm(s.first, nil, v), s.swarm(s.now, s.before, v))
	}
	rate, err := v.number("rate")
	if err != nil {
		return nil, err
	}
	swarms := []figures.Swarm{s.swarm(s.first, nil, v)}
	for s.now.Step < summaryLast {
		if err := s.advance(1, rate); err != nil {
			return nil, err
		}
		if s.now.Step == summaryFirst || s.now.Step == summaryLast {
			swarms = append(swarms, s.swarm(s.now, slices.Clone(s.before), v))
		}
	}
	return figures.Flow(s.history, swarms...)
}
