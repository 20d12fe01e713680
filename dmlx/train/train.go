package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Training describes one training: the config, the data set, and the folder of its files.
type Training struct {
	Config
	// ID identifies the training in its checkpoint. Train resumes only from a checkpoint with this ID.
	ID   string
	Data *samples.Data
	// HeldOut = n > 0 holds every n-th training class out of training, for a validation recall at the end.
	HeldOut int
	// Dir is an existing folder for the checkpoint, metrics, triplets and embeddings; see the package comment.
	Dir string
	// Progress, if not nil, is called after each step and while images are embedded. Training waits for it.
	Progress func(Progress)
	// Every = n > 0 measures Recall@1 after every n-th epoch; see [Epoch].Recall. It changes no weights.
	Every int
	// Warn, if not nil, is called with one line about a damaged checkpoint that was set aside.
	Warn func(message string)

	last *onnx.Linear // What the last layer starts from; nil for a random one.
}

// Train trains a network, evaluates it and writes both to training.Dir. It resumes from a checkpoint with the same
// ID, data and backend in this folder, and otherwise starts anew. When ctx is done it stops at the next step and
// returns the error of ctx; the next call resumes at the start of the interrupted epoch and ends with the same
// weights. A training that diverges is no error: see [Measures].Diverged. With [Options].Start the network is then the
// one that it started from, and [heads.NetworkChoice] says why.
func (t *Trainer) Train(ctx context.Context, training Training) (out *Outcome, err error) {
	defer errs.Catch(&err)
	if training.HeadStart != "" {
		outs, err := t.TrainTogether(ctx, []Training{training})
		if err != nil {
			return nil, err
		}
		return outs[0], nil
	}
	training, done, err := t.divided(ctx, training)
	if err != nil {
		return nil, err
	}
	defer done()
	s, err := t.newSession(training)
	if err != nil {
		return nil, err
	}
	defer s.compiling.Wait()
	if err = s.open(); err == nil && s.Start != "" {
		err = s.chooseTraining(ctx, training)
	}
	if err == nil {
		if s.compilesAhead() {
			s.compiling.Go(func() { _ = s.compileEvaluation() }) // If it fails, the evaluation compiles and returns the error.
		}
		err = s.train(ctx)
	}
	if err == nil {
		err = s.fallBack(ctx, training)
	}
	if err == nil {
		out, err = s.finish(ctx)
	}
	if err == nil || errors.Is(err, ctx.Err()) {
		t.keep(s.step)
	} else { // The failure may have left its variables half updated.
		s.step.free()
	}
	return out, err
}

// session is the state of a training while it runs.
type session struct {
	Training
	trainer *Trainer
	heldOut map[int64]bool // Labels of the training classes that are held out.
	sampler *sampler
	classes map[int64]int32 // The number of each class that is trained on, by label.
	step    *compiledStep
	started time.Time // Start of the time that state.Seconds does not include yet.
	state   Checkpoint

	chosen *chosenHead // nil for other trainings.

	compiling sync.WaitGroup // Of [session.compileEvaluation].
}

func (t *Trainer) newSession(training Training) (*session, error) {
	s := &session{trainer: t, started: time.Now()}
	var err error
	if s.Training, s.heldOut, s.sampler, err = training.selected(); err != nil {
		return nil, err
	}
	s.classes = samples.NumberClasses(s.Data.Train.Labels(), s.heldOut)
	if err := s.Config.FitsDevices(t.DeviceCount()); err != nil {
		return nil, err
	}
	s.step, err = t.trainingStep(s.Config, len(s.classes))
	return s, err
}

// Fits returns an error if a config cannot be trained on a data set of which every heldOutEvery-th class is held out
// (0: none): if there are too few classes or images for its batches, or too few held-out classes to measure.
func (c Config) Fits(data *samples.Data, heldOutEvery int) error {
	_, _, _, err := Training{Config: c, Data: data, HeldOut: heldOutEvery}.selected()
	return err
}

// selected returns the training with config and data prepared for each other, the classes that are held out, and the
// batches.
func (t Training) selected() (_ Training, heldOut map[int64]bool, batches *sampler, err error) {
	if err = t.Data.Check(); err == nil {
		t.Config, t.Data, err = t.prepared(t.Data)
	}
	if err != nil {
		return t, nil, nil, err
	}
	if heldOut, err = samples.HeldOut(t.Data.Train.Labels(), t.HeldOut); err == nil {
		err = t.fitsStart(t.Data, heldOut)
	}
	if err != nil {
		return t, nil, nil, fmt.Errorf("%s: %w", t.Data.Name, err)
	}
	batches, err = t.sampler(t.Data, heldOut)
	if err == nil && !t.Data.HasMatch() {
		err = fmt.Errorf("%s: no test image has another image of its class: want at least two images per class",
			t.Data.Name)
	}
	return t, heldOut, batches, err
}

// train performs the remaining epochs.
func (s *session) train(ctx context.Context) error {
	return trainSessions(ctx, []*session{s}, func(v []stepValues) ([]outcome, error) {
		out, err := s.step.run(v[0])
		return []outcome{outcomeOf(out)}, err
	}, func(epoch int, sums []tally) error { return s.endEpoch(ctx, epoch, &sums[0], true) })
}

// trainSessions performs the remaining epochs of trainings of equal length, which have done the same number of them, by
// steps that belong to all. It calls end after each epoch, and stops when all have diverged. Batches are prepared in
// advance, and the outcome of a step is read after the next step has started, so that the device does not wait.
func trainSessions(
	ctx context.Context, sessions []*session, run func([]stepValues) ([]outcome, error),
	end func(epoch int, sums []tally) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inputs := slice.Map(sessions, func(s *session) *inputs { return s.inputs(ctx) })
	first := sessions[0]
	running := func(s *session) bool { return s.state.Diverged == "" }
	for epoch := first.state.Epoch; epoch < first.Epochs && slices.ContainsFunc(sessions, running); epoch++ {
		sums, pending := make([]tally, len(sessions)), make([]outcome, len(sessions))
		for k, s := range sessions {
			sums[k].trace = epoch >= s.Epochs-tracedEpochs
			if err := s.step.reseed(s.Seed, epoch); err != nil {
				return err
			}
		}
		for i := range first.StepsPerEpoch {
			step := epoch*first.StepsPerEpoch + i
			values := make([]stepValues, len(sessions))
			for k, in := range inputs {
				var err error
				if values[k], err = in.next(ctx, step); err != nil {
					return err
				}
			}
			out, err := run(values)
			for _, v := range values {
				free(v.images)
			}
			if err != nil {
				return fmt.Errorf("step %d: %w", step+1, err)
			}
			for k, s := range sessions {
				if err := sums[k].add(pending[k]); err != nil {
					return err
				}
				if s.Progress != nil {
					s.Progress(s.progress(epoch, i+1, &inputs[k].pace, &sums[k]))
				}
			}
			pending = out
		}
		for k := range sessions {
			if err := sums[k].add(pending[k]); err != nil {
				return err
			}
		}
		if err := end(epoch+1, sums); err != nil {
			return err
		}
	}
	return nil
}

// inputs are the inputs of the steps of a training.
type inputs struct {
	*session
	batches <-chan batch
	affine  mesh.Value
	held    // The settings.
	pace    Pace
}

// inputs returns the inputs of the remaining steps. One goroutine reads images and another copies them to the devices;
// both end with ctx.
func (s *session) inputs(ctx context.Context) *inputs {
	read := prefetch(ctx, func(yield func(batch) bool) {
		for step := s.state.Epoch * s.StepsPerEpoch; step < s.Steps(); step++ {
			b, err := s.sampler.load(s.Data.Train, s.classes, step)
			if b.err = err; !yield(b) || err != nil {
				return
			}
		}
	}, batch.free)
	copied := prefetch(ctx, func(yield func(batch) bool) {
		for b := range read {
			if b.err == nil {
				b.images, b.err = s.step.upload(b, s.Data.Train.Shape())
			}
			if b.samples = nil; !yield(b) {
				return
			}
		}
	}, batch.free)
	return &inputs{session: s, batches: copied, affine: s.step.mesh.Replicate(s.Data.Affine())}
}

// next returns the inputs of a step, which must be the one after the last.
func (s *inputs) next(ctx context.Context, step int) (v stepValues, err error) {
	replicate := s.step.mesh.Replicate
	b, more := <-s.batches // Closed when ctx is done.
	if !more || ctx.Err() != nil {
		epoch := step/s.StepsPerEpoch + 1
		return v, fmt.Errorf("stopped in epoch %d of %d; the same run resumes from there: %w", epoch, s.Epochs, ctx.Err())
	}
	if b.err != nil {
		return v, fmt.Errorf("step %d: %w", step+1, b.err)
	}
	v = stepValues{images: b.images, affine: s.affine}
	v.labels = replicate(tensors.FromFlatDataAndDimensions(b.labels, len(b.labels)))
	v.settings = s.held.of(s.step.mesh, s.settings(s.step.objective.options, step))
	if s.step.objective.Noise {
		v.noise = replicate(objectives.Noise(len(b.labels), step, s.Seed))
	}
	return v, nil
}

// held keeps numbers on the devices, since most stay the same for many steps.
type held struct {
	values []float32
	on     mesh.Value
}

func (h *held) of(m *mesh.Mesh, values []float32) mesh.Value {
	if !slices.Equal(h.values, values) {
		h.values, h.on = values, m.Replicate(tensors.FromFlatDataAndDimensions(values, len(values)))
	}
	return h.on
}

// prefetch computes the values of a sequence in a goroutine: one value waits in the channel while the next is
// computed. The goroutine ends with ctx; drop frees a value that nobody will receive.
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

func (s *session) progress(epoch, step int, pace *Pace, sum *tally) Progress {
	p := Progress{
		Epoch: epoch + 1, Epochs: s.Epochs,
		Step: epoch*s.StepsPerEpoch + step, Steps: s.Steps(), ViolationRate: sum.violationRate(),
	}
	p.StepRate, p.Left = pace.At(float64(p.Step), float64(p.Steps))
	return p
}

// Progress reports the state of a training after a step, or between batches of images that are decoded or embedded.
type Progress struct {
	Epoch, Epochs int           // The current epoch, counted from 1, and their number.
	Step, Steps   int           // Steps done, and those of the whole training.
	StepRate      float64       // Steps per second; 0 while unknown.
	ViolationRate float64       // Share of the triplets of this epoch with S_an > S_ap.
	Left          time.Duration // Estimated time that is left; 0 while unknown.
	// Before the first step, Decoded of Images image files have been decoded. After the last step, Embedded of Images
	// images have been embedded. During the steps all three are 0.
	Decoded, Embedded, Images int
	// Trial tells that it is of a training that classes are held out of, to choose by; see [Options].Start.
	Trial bool
	// Kept is the number of images of which the frozen part of the network has been computed; see [Trainer.Keeping].
	Kept int
}

// OnImages returns how many images have been decoded or embedded, as text, and "" during the steps.
func (p Progress) OnImages() string {
	switch {
	case p.Kept > 0:
		return fmt.Sprintf("frozen part of the network computed for %d images", p.Kept)
	case p.Embedded > 0:
		return fmt.Sprintf("%d of %d images embedded", p.Embedded, p.Images)
	case p.Images > 0:
		return fmt.Sprintf("%d of %d images decoded", p.Decoded, p.Images)
	}
	return ""
}

// Stage returns the state as text: the images decoded or embedded, or the epoch, speed and violations.
func (p Progress) Stage() string {
	if text := p.OnImages(); text != "" {
		return text
	}
	stage := fmt.Sprintf("epoch %d/%d", p.Epoch, p.Epochs)
	if p.Trial {
		stage = "on held-out classes, " + stage
	}
	if speed := p.Speed(); speed != "" {
		stage += ", " + speed
	}
	if p.ViolationRate > 0 { // Trainings side by side count them at the end of an epoch.
		stage += fmt.Sprintf(", violations %.0f %%", 100*p.ViolationRate)
	}
	return stage
}

// Speed returns the pace of the steps as text, "" while it is unknown.
func (p Progress) Speed() string {
	switch {
	case p.StepRate <= 0:
		return ""
	case p.StepRate < 1:
		return fmt.Sprintf("%.1f s/step", 1/p.StepRate)
	case p.StepRate < 10:
		return fmt.Sprintf("%.1f steps/s", p.StepRate)
	}
	return fmt.Sprintf("%.0f steps/s", p.StepRate)
}

// Pace measures the speed of steps, or of runs, by the last half to three quarters of them. The first steps compile, so
// that the speed is unknown until there are others.
type Pace struct{ start, from, next mark }

type mark struct {
	done float64
	at   time.Time
}

// At returns the speed per second and the time that is left after a step; both are 0 while unknown.
func (p *Pace) At(done, all float64) (rate float64, left time.Duration) {
	now := mark{done, time.Now()}
	if p.start.at.IsZero() {
		p.start, p.from, p.next = now, now, now
	}
	if made := done - p.start.done; made > 1.9*(p.next.done-p.start.done) { // Twice, but for rounding.
		p.from, p.next = p.next, now
	}
	seconds := now.at.Sub(p.from.at).Seconds()
	if p.from == p.start || seconds <= 0 {
		return 0, 0
	}
	rate = (done - p.from.done) / seconds
	return rate, time.Duration((all - done) / rate * float64(time.Second)).Round(time.Second)
}
