package experiment

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/brief"
	"github.com/gradient-surgery/dml/dmlx/internal/npy"
)

// Progress is what a run tells while it works, once a step.
type Progress struct {
	Hash          string
	Spec          Spec
	Run, Runs     int // Which of how many runs of a study, from 1; 0 for a run of its own.
	Epoch, Epochs int // The epoch under way, from 1.
	Step, Steps   int // Steps done, of the whole run.
	StepRate      float64
	ViolationRate float64 // Share of this epoch's triplets so far with S_an > S_ap.
	Left          time.Duration
	// Decoded of Images image files are decoded, before the first step of the first run on them; or Embedded of Images images are
	// embedded for the measures, after the last step. During the steps all three are 0.
	Decoded, Embedded, Images int
}

// OnImages tells in words how many images are decoded or embedded; it is empty during the steps.
func (p Progress) OnImages() string {
	switch {
	case p.Embedded > 0:
		return fmt.Sprintf("%d of %d images embedded", p.Embedded, p.Images)
	case p.Images > 0:
		return fmt.Sprintf("%d of %d images decoded", p.Decoded, p.Images)
	}
	return ""
}

// Stage tells in words how far a run is: its images, or its epoch, pace and violations.
func (p Progress) Stage() string {
	if text := p.OnImages(); text != "" {
		return text
	}
	return fmt.Sprintf("epoch %d/%d, %.0f steps/s, violations %.0f %%", p.Epoch, p.Epochs, p.StepRate, 100*p.ViolationRate)
}

// Run trains and evaluates what a spec says, or reads the result if the store has it. It goes on from a checkpoint of the
// same backend, and begins anew without one. If ctx is done it stops at the next step: the epoch under way is lost, and
// the same call goes on from its beginning. A run that diverges is a result too; see [Result.Diverged]. progress, if not
// nil, is called after each step, while images are decoded before and embedded after, and must return soon.
func Run(ctx context.Context, choice *backend.Choice, store *Store, spec Spec, progress func(Progress)) (r *Result, err error) {
	defer brief.Catch(&err)
	return run(ctx, choice, store, spec, progress)
}

func run(ctx context.Context, choice *backend.Choice, store *Store, spec Spec, progress func(Progress)) (*Result, error) {
	if err := spec.Ready(); err != nil {
		return nil, err
	}
	hash := spec.Hash()
	unlock, err := store.lock(ctx, hash)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if r, found, err := store.lookupLocked(spec); err != nil || found {
		return r, err
	}
	set, err := openSetWith(spec, store.during(ctx, spec, progress))
	if err != nil {
		return nil, err
	}
	t, err := newTrainer(choice, set, spec)
	if err != nil {
		return nil, err
	}
	r, err := t.run(ctx, store, progress)
	if err == nil || errors.Is(err, ctx.Err()) {
		t.engine.release()
	} else { // What it holds may be half of a step's.
		t.engine.drop()
	}
	return r, err
}

// during is how a run opens its data set.
func (s *Store) during(ctx context.Context, spec Spec, progress func(Progress)) Opening {
	return Opening{Context: ctx, Warn: s.Warn, Decoded: func(_ string, done, total int) {
		if progress != nil {
			progress(Progress{Hash: spec.Hash(), Spec: spec, Epochs: spec.Epochs, Steps: spec.Steps(), Decoded: done, Images: total})
		}
	}}
}

// trainer holds one run while it is made.
type trainer struct {
	spec    Spec
	choice  *backend.Choice
	set     *datasets.Set
	heldOut map[int64]bool // Training classes that are not trained on.
	sampler *sampler
	by      descent
	classes map[int64]int32 // Of a loss: the number of each class that is trained on, by its label.
	engine  *engine
	dir     string
	started time.Time // When the seconds began to count that are not in state.Seconds.
	state   checkpoint
}

func newTrainer(choice *backend.Choice, set *datasets.Set, spec Spec) (*trainer, error) {
	t := &trainer{spec: spec, choice: choice, set: set, started: time.Now()}
	var err error
	if t.heldOut, err = heldOut(set.Train.Labels, spec.HeldOut); err != nil {
		return nil, fmt.Errorf("%s: %w", set.Name, err)
	}
	t.sampler, err = newSampler(set.Train.Labels, t.heldOut, spec.ClassesPerBatch, spec.ImagesPerClass, spec.Pad, spec.Seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set.Name, err)
	}
	if !measurable(set) {
		return nil, fmt.Errorf("%s: no test image has another of its class to be found; want classes of two images or more", set.Name)
	}
	if spec.Loss != "" {
		t.classes = numbering(set.Train.Labels, t.heldOut)
	}
	if t.by, err = newDescent(spec, len(t.classes)); err != nil {
		return nil, err
	}
	t.engine, err = training(choice.Backend, spec, t.by)
	return t, err
}

func (t *trainer) run(ctx context.Context, store *Store, progress func(Progress)) (*Result, error) {
	if err := t.open(store); err != nil {
		return nil, err
	}
	if err := t.train(ctx, progress); err != nil {
		return nil, err
	}
	return t.finish(ctx, progress)
}

// train does the epochs that are left. Batches are prepared ahead, to the device, and a step's outcome is read behind the next one.
func (t *trainer) train(ctx context.Context, progress func(Progress)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := t.prepare(ctx, t.state.Epoch*t.spec.StepsPerEpoch, t.spec.Steps())
	var pace pace
	colours := colours(t.set)
	for epoch := t.state.Epoch; epoch < t.spec.Epochs && t.state.Diverged == ""; epoch++ {
		sum := tally{trace: epoch >= t.spec.Epochs-tracedEpochs}
		rate := tensors.FromScalar(float32(t.spec.rate(epoch)))
		proxyRate := tensors.FromScalar(float32(t.spec.proxyRate(epoch)))
		var pending *tensors.Tensor
		for i := range t.spec.StepsPerEpoch {
			b, more := <-batches // Which ends when ctx does.
			if !more || ctx.Err() != nil {
				return fmt.Errorf("stopped in epoch %d of %d; the same run goes on from there: %w", epoch+1, t.spec.Epochs, ctx.Err())
			}
			if b.err != nil {
				return fmt.Errorf("step %d: %w", epoch*t.spec.StepsPerEpoch+i+1, b.err)
			}
			v := stepValues{images: b.images, labels: b.labels, colours: colours, rate: rate, proxyRate: proxyRate}
			if t.by.noise {
				v.noise = noise(len(b.labels), epoch*t.spec.StepsPerEpoch+i, t.spec.Seed)
			}
			out, err := t.engine.step(v)
			b.free()
			if err != nil {
				return fmt.Errorf("step %d: %w", epoch*t.spec.StepsPerEpoch+i+1, err)
			}
			if err := sum.add(pending); err != nil {
				return err
			}
			pending = out
			if progress != nil {
				progress(t.progress(epoch, i+1, &pace, &sum))
			}
		}
		if err := sum.add(pending); err != nil {
			return err
		}
		if err := t.endEpoch(epoch+1, &sum); err != nil {
			return err
		}
	}
	return nil
}

// uploaded is a batch on the device, or why it is not there.
type uploaded struct {
	images []*tensors.Tensor // As of [engine.upload].
	labels []int32
	err    error
}

func (u uploaded) free() { free(u.images) }

// prepare draws the batches of steps from…to−1 and copies them to the device, each on a goroutine of its own, which ends with ctx.
func (t *trainer) prepare(ctx context.Context, from, to int) <-chan uploaded {
	drawn := ahead(ctx, func(yield func(batch) bool) {
		for step := from; step < to && yield(t.draw(step)); step++ {
		}
	}, func(batch) {})
	return ahead(ctx, func(yield func(uploaded) bool) {
		for b := range drawn {
			images, err := t.engine.upload(b, t.set.Train.Size)
			if !yield(uploaded{images, b.labels, err}) {
				return
			}
		}
	}, uploaded.free)
}

// ahead computes values before they are taken, one that waits and one behind it, on a goroutine that ends with ctx. A value that it
// then holds is dropped.
func ahead[T any](ctx context.Context, values iter.Seq[T], drop func(T)) <-chan T {
	out := make(chan T, 1)
	go func() {
		defer close(out)
		for v := range values {
			select {
			case out <- v:
			case <-ctx.Done():
				drop(v)
				return
			}
		}
	}()
	return out
}

// draw reads the batch of a step, with the numbers of its classes for labels where a loss is trained by.
func (t *trainer) draw(step int) batch {
	draws := t.sampler.batch(step)
	b := load(t.set.Train, draws)
	if t.classes != nil {
		for i, d := range draws {
			b.labels[i] = t.classes[t.set.Train.Labels[d.image]] // The sampler draws from the classes that are there alone.
		}
	}
	return b
}

func (t *trainer) progress(epoch, step int, pace *pace, sum *tally) Progress {
	p := Progress{
		Hash: t.state.Run, Spec: t.spec, Epoch: epoch + 1, Epochs: t.spec.Epochs,
		Step: epoch*t.spec.StepsPerEpoch + step, Steps: t.spec.Steps(), ViolationRate: sum.violationRate(),
	}
	p.StepRate, p.Left = pace.at(p.Step, p.Steps)
	return p
}

// pace is how fast steps are done, from the second on: the first one compiles.
type pace struct {
	first int
	began time.Time
}

// at tells the steps per second and the time left once a step is done; both are 0 while nothing is known.
func (p *pace) at(step, steps int) (rate float64, left time.Duration) {
	if p.began.IsZero() {
		p.first, p.began = step, time.Now()
		return 0, 0
	}
	rate = float64(step-p.first) / time.Since(p.began).Seconds()
	return rate, time.Duration(float64(steps-step) / rate * float64(time.Second)).Round(time.Second)
}

// tracedEpochs is how many of the last epochs keep their triplets: Figure 5's first column.
const tracedEpochs = 5

// tally adds up the steps of an epoch.
type tally struct {
	steps, triplets, violations, empty int
	sap, san, norm                     float64
	notFinite                          int // The first step, from 1, whose outcome is not finite; 0 if all are.
	trace                              bool
	traced                             []float32 // S_ap, S_an of each triplet.
}

// add reads a step's outcome, as the graph of [training] returns it; nil is no step.
func (s *tally) add(out *tensors.Tensor) error {
	if out == nil {
		return nil
	}
	values, err := tensors.CopyFlatData[float32](out)
	if err := errors.Join(err, out.FinalizeAll()); err != nil {
		return err
	}
	n := len(values) / 3
	s.steps++
	norm := float64(values[3*n])
	finite := !math.IsNaN(norm) && !math.IsInf(norm, 0)
	found, nonzero := 0, false
	for i := range n {
		if values[2*n+i] == 0 {
			continue
		}
		found++
		p, q := values[i], values[n+i]
		finite = finite && p == p && q == q
		nonzero = nonzero || p != 0 || q != 0
		s.sap += float64(p)
		s.san += float64(q)
		if q > p {
			s.violations++
		}
		if s.trace {
			s.traced = append(s.traced, p, q)
		}
	}
	s.triplets += found
	if found == 0 {
		s.empty++
	}
	s.norm += norm
	// Embeddings so long that their squares are infinite are normalised to zero.
	if found > 0 && !nonzero {
		finite = false
	}
	if !finite && s.notFinite == 0 {
		s.notFinite = s.steps
	}
	return nil
}

func (s *tally) violationRate() float64 { return float64(s.violations) / float64(max(s.triplets, 1)) }

// A last epoch in which both mean similarities are above collapsedAbove and a negative is nearer than the positive for
// at least half of the anchors has collapsed: the network embeds everything in one place.
const collapsedAbove = 0.95

// endEpoch writes the epoch's metrics, triplets and checkpoint. From then on it is not lost.
func (t *trainer) endEpoch(epoch int, sum *tally) error {
	mean := func(v float64, n int) float64 { return v / float64(max(n, 1)) }
	e := Epoch{
		Epoch: epoch, Step: epoch * t.spec.StepsPerEpoch, LR: t.spec.rate(epoch - 1),
		Triplets: sum.triplets, EmptyBatches: sum.empty, ViolationRate: sum.violationRate(),
		Sap: mean(sum.sap, sum.triplets), San: mean(sum.san, sum.triplets), GradientNorm: mean(sum.norm, sum.steps),
	}
	switch {
	case sum.notFinite > 0:
		t.state.Diverged = fmt.Sprintf("not finite from step %d on", e.Step-t.spec.StepsPerEpoch+sum.notFinite)
		e.Sap, e.San, e.GradientNorm = 0, 0, 0 // JSON has no NaN, and they mean nothing.
	case epoch == t.spec.Epochs && e.Sap > collapsedAbove && e.San > collapsedAbove && e.ViolationRate >= 0.5:
		t.state.Diverged = fmt.Sprintf("collapsed: mean S_ap %.3f, S_an %.3f in the last epoch", e.Sap, e.San)
	}
	if sum.trace && sum.notFinite == 0 {
		if err := os.MkdirAll(filepath.Join(t.dir, traceDir), 0o777); err != nil {
			return err
		}
		if err := npy.WriteFloat32(tracePath(t.dir, epoch), sum.traced, len(sum.traced)/2, 2); err != nil {
			return err
		}
	}
	t.state.Epoch = epoch
	t.state.Epochs = append(t.state.Epochs, e)
	t.state.Seconds += time.Since(t.started).Seconds()
	t.started = time.Now()
	return t.save()
}

const traceDir = "triplets"

// tracePath is the file of an epoch's triplets: float32 [n, 2], S_ap and S_an.
func tracePath(dir string, epoch int) string {
	return filepath.Join(dir, traceDir, fmt.Sprintf("epoch-%03d.npy", epoch))
}
