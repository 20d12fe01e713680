package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/internal/brief"
)

// Training is one training run: what is trained, on which images, and where its files are kept.
type Training struct {
	Config
	// ID identifies the run in its checkpoint: a training goes on only from a checkpoint with its own ID.
	ID  string
	Set *datasets.Set
	// HeldOut, if not 0, keeps every so many-th training class out of training. Its images are ranked against each other at the end.
	HeldOut int
	// Dir is the folder of the checkpoint, metrics, triplets and embeddings. It must exist.
	Dir string
	// Progress, if not nil, is called after each step and while images are embedded; it must return soon.
	Progress func(Progress)
	// Warn, if not nil, is told in one line what was found damaged and set aside.
	Warn func(message string)
}

// Train trains and evaluates. It goes on from a checkpoint of the same ID and backend in the folder, and begins anew without
// one. If ctx is done it stops at the next step: the epoch under way is lost, and the same call goes on from its beginning. A
// training that diverges has an outcome too; see [Measures].Diverged.
func (t *Trainer) Train(ctx context.Context, training Training) (out *Outcome, err error) {
	defer brief.Catch(&err)
	s, err := t.newSession(training)
	if err != nil {
		return nil, err
	}
	out, err = s.run(ctx)
	if err == nil || errors.Is(err, ctx.Err()) {
		t.keep(s.step)
	} else { // What it holds may be half of a step's.
		s.step.free()
	}
	return out, err
}

// session is a training while it runs.
type session struct {
	Training
	trainer   *Trainer
	heldOut   map[int64]bool // Training classes that are not trained on.
	sampler   *sampler
	objective objective
	classes   map[int64]int32 // Of a loss: the number of each class that is trained on, by its label.
	step      *compiledStep
	started   time.Time // When the seconds began to count that are not in state.Seconds.
	state     Checkpoint
}

func (t *Trainer) newSession(training Training) (*session, error) {
	s := &session{Training: training, trainer: t, started: time.Now()}
	set := training.Set
	var err error
	if s.heldOut, err = HeldOutClasses(set.Train.Labels, training.HeldOut); err != nil {
		return nil, fmt.Errorf("%s: %w", set.Name, err)
	}
	if s.sampler, err = training.Config.sampler(set, s.heldOut); err != nil {
		return nil, err
	}
	if !hasMatch(set) {
		return nil, fmt.Errorf("%s: no test image has another of its class to be found; want classes of two images or more", set.Name)
	}
	if s.Loss != "" {
		s.classes = numberClasses(set.Train.Labels, s.heldOut)
	}
	if s.objective, err = newObjective(s.Config, len(s.classes)); err != nil {
		return nil, err
	}
	s.step, err = t.trainingStep(s.Config, s.objective)
	return s, err
}

func (s *session) run(ctx context.Context) (*Outcome, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if err := s.train(ctx); err != nil {
		return nil, err
	}
	return s.finish(ctx)
}

// train does the epochs that are left. Batches are prepared ahead, to the device, and a step's outcome is read behind the next one.
func (s *session) train(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := s.prepare(ctx, s.state.Epoch*s.StepsPerEpoch, s.Steps())
	var pace pace
	colors := colorScale(s.Set)
	for epoch := s.state.Epoch; epoch < s.Epochs && s.state.Diverged == ""; epoch++ {
		sum := tally{trace: epoch >= s.Epochs-tracedEpochs}
		rate := tensors.FromScalar(float32(s.Rate(epoch)))
		proxyRate := tensors.FromScalar(float32(s.proxyRate(epoch)))
		var pending *tensors.Tensor
		for i := range s.StepsPerEpoch {
			b, more := <-batches // Which ends when ctx does.
			if !more || ctx.Err() != nil {
				return fmt.Errorf("stopped in epoch %d of %d; the same run goes on from there: %w", epoch+1, s.Epochs, ctx.Err())
			}
			if b.err != nil {
				return fmt.Errorf("step %d: %w", epoch*s.StepsPerEpoch+i+1, b.err)
			}
			v := stepValues{images: b.images, labels: b.labels, colors: colors, rate: rate, proxyRate: proxyRate}
			if s.objective.noise {
				v.noise = minerNoise(len(b.labels), epoch*s.StepsPerEpoch+i, s.Seed)
			}
			out, err := s.step.run(v)
			b.free()
			if err != nil {
				return fmt.Errorf("step %d: %w", epoch*s.StepsPerEpoch+i+1, err)
			}
			if err := sum.add(pending); err != nil {
				return err
			}
			pending = out
			if s.Progress != nil {
				s.Progress(s.progress(epoch, i+1, &pace, &sum))
			}
		}
		if err := sum.add(pending); err != nil {
			return err
		}
		if err := s.endEpoch(epoch+1, &sum); err != nil {
			return err
		}
	}
	return nil
}

// draw reads the batch of a step, with the numbers of its classes for labels where a loss is trained by.
func (s *session) readBatch(step int) batch {
	draws := s.sampler.batch(step)
	b := load(s.Set.Train, draws)
	if s.classes != nil {
		for i, d := range draws {
			b.labels[i] = s.classes[s.Set.Train.Labels[d.image]] // The sampler draws from the classes that are there alone.
		}
	}
	return b
}

// prepare draws the batches of steps from…to−1 and copies them to the device, each on a goroutine of its own, which ends with ctx.
func (s *session) prepare(ctx context.Context, from, to int) <-chan deviceBatch {
	drawn := prefetch(ctx, func(yield func(batch) bool) {
		for step := from; step < to && yield(s.readBatch(step)); step++ {
		}
	}, func(batch) {})
	return prefetch(ctx, func(yield func(deviceBatch) bool) {
		for b := range drawn {
			images, err := s.step.upload(b, s.Set.Train.Size)
			if !yield(deviceBatch{images, b.labels, err}) {
				return
			}
		}
	}, deviceBatch.free)
}

// uploaded is a batch on the device, or why it is not there.
type deviceBatch struct {
	images []*tensors.Tensor // As of [compiledStep.upload].
	labels []int32
	err    error
}

func (u deviceBatch) free() { free(u.images) }

// ahead computes values before they are taken, one that waits and one behind it, on a goroutine that ends with ctx. A value that it
// then holds is dropped.
func prefetch[T any](ctx context.Context, values iter.Seq[T], drop func(T)) <-chan T {
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

func (s *session) progress(epoch, step int, pace *pace, sum *tally) Progress {
	p := Progress{
		Epoch: epoch + 1, Epochs: s.Epochs,
		Step: epoch*s.StepsPerEpoch + step, Steps: s.Steps(), ViolationRate: sum.violationRate(),
	}
	p.StepRate, p.Left = pace.at(p.Step, p.Steps)
	return p
}

// StepProgress is what training reports, once a step.
type Progress struct {
	Epoch, Epochs int // The epoch under way, from 1.
	Step, Steps   int // Steps done, of the whole run.
	StepRate      float64
	ViolationRate float64 // Share of this epoch's triplets so far with S_an > S_ap.
	Left          time.Duration
	// Decoded of Images image files are decoded, before the first step; or Embedded of Images images are embedded for the
	// measures, after the last step. During the steps all three are 0.
	Decoded, Embedded, Images int
}

// OnImages tells how many images are decoded or embedded; it is empty during the steps.
func (p Progress) OnImages() string {
	switch {
	case p.Embedded > 0:
		return fmt.Sprintf("%d of %d images embedded", p.Embedded, p.Images)
	case p.Images > 0:
		return fmt.Sprintf("%d of %d images decoded", p.Decoded, p.Images)
	}
	return ""
}

// Stage tells how far a run is: its images, or its epoch, pace and violations.
func (p Progress) Stage() string {
	if text := p.OnImages(); text != "" {
		return text
	}
	return fmt.Sprintf("epoch %d/%d, %.0f steps/s, violations %.0f %%", p.Epoch, p.Epochs, p.StepRate, 100*p.ViolationRate)
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
