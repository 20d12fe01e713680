package train

import (
	"sync"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// Trainer trains networks and embeds images on one backend. It keeps the steps that it has compiled, which XLA takes seconds
// for: runs that differ in seed, data or learning rate share them, one at a time. Any number of goroutines may use it.
type Trainer struct {
	*backend.Choice

	mu   sync.Mutex
	idle []*compiledStep // At most maxIdle, the latest last.
}

// New returns a trainer on a backend. Close frees what it has compiled.
func New(choice *backend.Choice) *Trainer { return &Trainer{Choice: choice} }

// Open returns a trainer on the backend that [backend.Open] finds.
func Open() (*Trainer, error) {
	choice, err := backend.Open()
	if err != nil {
		return nil, err
	}
	return New(choice), nil
}

// Close frees the compiled steps that are not in use. The trainer stays usable.
func (t *Trainer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.idle {
		s.free()
	}
	t.idle = nil
}

// compiledStep is a compiled graph, of training or of evaluation, with the variables that it was built on.
type compiledStep struct {
	key          stepKey
	objective    objective // The zero value, for evaluation.
	weights      *model.Store
	exec         *model.Exec // nil if there are micro-batches.
	microBatches *microBatches
}

// stepKey is what a graph depends on, beside the shapes of its inputs.
type stepKey struct {
	backend compute.Backend
	arch    backbone.Arch
	dim     int
	rule    string // Its identity; empty for evaluation and for a loss.
	loss    string // As [Config.Objective] says it.
	proxies int    // How many it has.
	images  int    // Of a class in a batch, where a miner goes through them.
	memory  Memory
}

// maxIdle is how many compiled steps a trainer keeps.
const maxIdle = 8

// compiled returns a kept step of the key, whose weights are to be overwritten, or builds one. The caller gives it back by
// keep, or frees it after a failure.
func (t *Trainer) compiled(key stepKey, build func(s *compiledStep) error) (*compiledStep, error) {
	key.backend = t.Backend
	t.mu.Lock()
	for i := len(t.idle) - 1; i >= 0; i-- {
		if s := t.idle[i]; s.key == key {
			t.idle = append(t.idle[:i], t.idle[i+1:]...)
			t.mu.Unlock()
			return s, nil
		}
	}
	t.mu.Unlock()
	s := &compiledStep{key: key, weights: model.NewStore()}
	return s, build(s)
}

// keep keeps a step for the next run that it fits.
func (t *Trainer) keep(s *compiledStep) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = append(t.idle, s)
	if len(t.idle) > maxIdle {
		t.idle[0].free()
		t.idle = append(t.idle[:0], t.idle[1:]...)
	}
}

// free frees the memory of a step.
func (s *compiledStep) free() {
	if s.microBatches != nil {
		s.microBatches.free()
	} else {
		s.exec.Finalize()
	}
	s.weights.Finalize()
}

// trainingStep returns a step that trains by an objective; see [compiledStep.run].
func (t *Trainer) trainingStep(c Config, by objective) (*compiledStep, error) {
	key := stepKey{arch: backbone.Arch(c.Arch), dim: c.Dim, rule: c.Rule, memory: c.Memory}
	if by.loss != nil {
		key.loss, key.proxies, key.images = c.Objective(), by.proxies, c.ImagesPerClass
	}
	return t.compiled(key, func(s *compiledStep) (err error) {
		s.objective = by
		if key.memory.MicroBatch > 0 {
			s.microBatches, err = newMicroBatches(s)
			return err
		}
		s.exec, err = model.NewExec(t.Backend, s.weights, func(scope *model.Scope, in []*Node) *Node {
			inputs := stepInputs{pixels: in[0], colors: in[1], rate: in[2], batchInputs: by.batchInputs(in[3:])}
			_, outcome := stepGraph(scope, key, by, inputs)
			return outcome
		})
		return err
	})
}

// evaluationStep returns a step that takes pixels and colors and returns the normalized embeddings [B, dim].
func (t *Trainer) evaluationStep(c Config) (*compiledStep, error) {
	key := stepKey{arch: backbone.Arch(c.Arch), dim: c.Dim}
	return t.compiled(key, func(s *compiledStep) (err error) {
		s.exec, err = model.NewExec(t.Backend, s.weights, func(scope *model.Scope, pixels, colors *Node) *Node {
			return dmlx.Normalize(key.embed(scope, pixels, colors, backbone.Pass{}))
		})
		return err
	})
}
