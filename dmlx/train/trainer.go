package train

import (
	"slices"
	"sync"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
)

// Trainer trains networks and embeds images on one backend. It caches compiled steps, since XLA takes seconds to
// compile one: trainings that differ only in seed, data or learning rate share a step, one after the other. A trainer
// may be used by several goroutines at once. Its zero value has no backend; use [New] or [Open].
type Trainer struct {
	*backend.Choice
	devices   int   // See [Trainer.OnDevices]; 0 is 1.
	keepBytes int64 // See [Trainer.Keeping].
	*stepCache
}

// stepCache holds the compiled steps of trainers that differ only in the number of devices.
type stepCache struct {
	mu   sync.Mutex
	idle []*compiledStep // At most maxIdle, the latest last.

	choices choices // Of heads.
}

// New returns a trainer on the first device of a backend; see [Trainer.OnDevices] for more. [Trainer.Close] frees its
// compiled steps.
func New(choice *backend.Choice) *Trainer { return &Trainer{Choice: choice, stepCache: new(stepCache)} }

// Open returns a trainer on the backend that [backend.Open] chooses.
func Open() (*Trainer, error) { return on(backend.Open()) }

// OpenLight returns a trainer on the backend that [backend.OpenLight] chooses.
func OpenLight() (*Trainer, error) { return on(backend.OpenLight()) }

func on(choice *backend.Choice, err error) (*Trainer, error) {
	if err != nil {
		return nil, err
	}
	return New(choice), nil
}

// Close frees the cached steps that are not in use. The trainer can still be used afterwards.
func (t *Trainer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.idle {
		s.free()
	}
	t.idle = nil
	t.choices.free()
}

// compiledStep is a compiled step of training or of evaluation, with the variables that its graph refers to.
type compiledStep struct {
	key          stepKey
	objective    objective // Zero for evaluation.
	weights      *model.Store
	mesh         *mesh.Mesh  // nil on one device.
	exec         *model.Exec // nil if there are micro-batches.
	microBatches *microBatches
}

// stepKey holds all that a graph depends on, except the shapes of its inputs.
type stepKey struct {
	backend compute.Backend
	devices int
	arch    backbone.Arch
	model   string // The identity of a model of the user's own, in place of arch.
	dim     int
	by      string // The objective by its name; empty for evaluation.
	proxies int    // The number of proxies of the loss.
	images  int    // Images per class in a batch, which miners depend on.
	memory  Memory
	options Options // As [Options.key] returns them.

	split string // Of the network whose tail is computed, see [split]; empty for all of it.
	body  bool   // The body is computed.

	own  *ownModel // The model. Models with equal identities are equal.
	tail *split
}

// same reports whether two keys are of the same graph.
func (k stepKey) same(o stepKey) bool {
	k.own, o.own, k.tail, o.tail = nil, nil, nil, nil
	return k == o
}

// caches reports whether a step with the key is in the cache.
func (t *Trainer) caches(key stepKey) bool {
	key.backend, key.devices = t.Backend, t.DeviceCount()
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.idle, func(s *compiledStep) bool { return s.key.same(key) })
}

// maxIdle is the number of compiled steps that a trainer caches.
const maxIdle = 8

// compiled takes a step with the key from the cache, or builds one. The caller overwrites its weights, and then
// returns it with keep, or frees it after a failure.
func (t *Trainer) compiled(key stepKey, build func(s *compiledStep) error) (*compiledStep, error) {
	key.backend, key.devices = t.Backend, t.DeviceCount()
	t.mu.Lock()
	for i := len(t.idle) - 1; i >= 0; i-- {
		if s := t.idle[i]; s.key.same(key) {
			t.idle = append(t.idle[:i], t.idle[i+1:]...)
			t.mu.Unlock()
			return s, nil
		}
	}
	t.mu.Unlock()
	m, err := mesh.New(key.devices)
	if err != nil {
		return nil, err
	}
	s := &compiledStep{key: key, weights: model.NewStore(), mesh: m}
	return s, build(s)
}

// keep returns a step to the cache, and frees the oldest one if the cache is full.
func (t *Trainer) keep(s *compiledStep) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = append(t.idle, s)
	if len(t.idle) > maxIdle {
		t.idle[0].free()
		t.idle = append(t.idle[:0], t.idle[1:]...)
	}
}

// free frees the memory of a step on the device.
func (s *compiledStep) free() {
	if s.microBatches != nil {
		s.microBatches.free()
	} else {
		s.exec.Finalize()
	}
	s.weights.Finalize()
}

// network returns the part of a key that belongs to the network of a config.
func (c Config) network() stepKey {
	key := stepKey{arch: backbone.Arch(c.Arch), dim: c.Dim}
	if c.Model != "" || c.Head != "" {
		key.own, key.model = c.model, c.model.identity
	}
	if c.tail != nil {
		key.tail, key.split = c.tail, c.tail.name
	}
	return key
}

// initialize sets random weights of the network.
func (s *compiledStep) initialize(seed uint64) error {
	if s.key.own != nil {
		return s.key.own.initialize(s.weights, seed)
	}
	return backbone.Init(s.weights, s.key.arch, s.key.dim, seed)
}

// reseed sets the random numbers of a model of the user's own, such as those of dropout, at the start of an epoch, so
// that a checkpoint needs no state of them.
func (s *compiledStep) reseed(seed uint64, epoch int) error {
	if s.key.own == nil {
		return nil
	}
	return s.weights.SetRNGStateFromSeed(int64(sampling.Stream(seed, sampling.Model, uint64(epoch)).Uint64()))
}

// encode returns the weights of the network, and the proxies if there are any, as a safetensors file.
func (s *compiledStep) encode(metadata map[string]string) ([]byte, error) {
	if s.key.own != nil {
		return s.key.own.encode(s.weights, metadata)
	}
	return backbone.EncodeWeights(s.weights, s.key.arch, metadata)
}

// decode sets the weights of the network, and so many proxies, from a safetensors file.
func (s *compiledStep) decode(raw []byte, proxies int) error {
	if s.key.own != nil {
		return s.key.own.decode(raw, s.weights, proxies)
	}
	load := backbone.LoadOptions{Arch: s.key.arch, Dim: s.key.dim, Proxies: proxies}
	_, err := backbone.DecodeWeights(raw, s.weights, load)
	return err
}

// trainingStep returns a compiled step of training on a number of classes; see [compiledStep.run].
func (t *Trainer) trainingStep(c Config, classes int) (*compiledStep, error) {
	obj, err := newObjective(c, classes)
	if err != nil {
		return nil, err
	}
	key := c.network()
	key.by, key.proxies, key.images = c.Objective.String(), obj.Proxies, c.ImagesPerClass
	key.memory, key.options = c.Memory, c.Options.key()
	return t.compiled(key, func(s *compiledStep) (err error) {
		s.objective = obj
		if key.memory.MicroBatch > 0 {
			s.microBatches, err = newMicroBatches(s)
			return err
		}
		s.exec, err = model.NewExec(t.Backend, s.weights, func(scope *model.Scope, in []*Node) *Node {
			_, outcome := stepGraph(scope, key, obj, obj.stepInputs(in))
			return outcome
		})
		if err == nil {
			s.mesh.Shard(s.exec, []mesh.Layout{mesh.Rows, mesh.Replicated}, []mesh.Layout{mesh.Replicated})
		}
		return err
	})
}

// evaluationStep returns a compiled step from samples and their scale to normalized embeddings [B, dim].
func (t *Trainer) evaluationStep(c Config) (*compiledStep, error) {
	key := c.network()
	return t.compiled(key, func(s *compiledStep) (err error) {
		s.exec, err = model.NewExec(t.Backend, s.weights, func(scope *model.Scope, samples, affine *Node) *Node {
			return dmlx.Normalize(key.embed(scope, samples, affine, backbone.Pass{}))
		})
		if err == nil {
			s.mesh.Shard(s.exec, []mesh.Layout{mesh.Rows, mesh.Replicated}, []mesh.Layout{mesh.Rows})
		}
		return err
	})
}
