package train

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
	"github.com/gradient-surgery/dml/dmlx/internal/brief"
	"github.com/gradient-surgery/dml/dmlx/internal/npy"
)

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

// Outcome is what a training ended with.
type Outcome struct {
	Measures
	Seconds float64           // Of training and evaluation, without those of stopped attempts' lost epochs.
	Files   map[string]string // The files that it wrote beside the checkpoint, with their SHA-256.
}

// Measures are those of the test set after the last epoch, as fractions. Without Recall, the training diverged to values that
// are not finite.
type Measures struct {
	Recall map[int]float64 `json:"recall,omitempty"`
	// HeldOutRecall is the recall of the training classes that are held out, ranked against each other.
	HeldOutRecall map[int]float64 `json:"held_out_recall,omitempty"`

	MAPAtR      float64 `json:"map_at_r"`
	RPrecision  float64 `json:"r_precision"`
	Queries     int     `json:"queries"`
	LoneQueries int     `json:"lone_queries"`
	// Overlap is how much the histograms of nearest-positive and nearest-negative similarities share (Figure 4).
	Overlap float64 `json:"overlap"`
	// Compact is the share of test anchors with both similarities above 0.9 (Figure 5).
	Compact float64 `json:"compact"`

	// Diverged says how the training went wrong, if it did: such a result is shown and never averaged.
	Diverged string `json:"diverged,omitempty"`
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
	trainer *Trainer
	heldOut map[int64]bool // Training classes that are not trained on.
	sampler *sampler
	by      objective
	classes map[int64]int32 // Of a loss: the number of each class that is trained on, by its label.
	step    *compiledStep
	started time.Time // When the seconds began to count that are not in state.Seconds.
	state   Checkpoint
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
	if !measurable(set) {
		return nil, fmt.Errorf("%s: no test image has another of its class to be found; want classes of two images or more", set.Name)
	}
	if s.Loss != "" {
		s.classes = numbering(set.Train.Labels, s.heldOut)
	}
	if s.by, err = newObjective(s.Config, len(s.classes)); err != nil {
		return nil, err
	}
	s.step, err = t.trainingStep(s.Config, s.by)
	return s, err
}

// sampler returns the sampler of the batches, or what is wrong with them on a data set.
func (c Config) sampler(set *datasets.Set, without map[int64]bool) (*sampler, error) {
	s, err := newSampler(set.Train.Labels, without, c.ClassesPerBatch, c.ImagesPerClass, c.Pad, c.Seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set.Name, err)
	}
	return s, nil
}

// Fits tells why a config could not be trained on a data set of which every heldOut-th class is held out (0: none): classes
// or images too few for its batches, or too few classes left to measure.
func (c Config) Fits(set *datasets.Set, heldOutEvery int) error {
	without, err := HeldOutClasses(set.Train.Labels, heldOutEvery)
	if err != nil {
		return fmt.Errorf("%s: %w", set.Name, err)
	}
	_, err = c.sampler(set, without)
	return err
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
func (t *session) train(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := t.prepare(ctx, t.state.Epoch*t.StepsPerEpoch, t.Steps())
	var pace pace
	colors := colors(t.Set)
	for epoch := t.state.Epoch; epoch < t.Epochs && t.state.Diverged == ""; epoch++ {
		sum := tally{trace: epoch >= t.Epochs-tracedEpochs}
		rate := tensors.FromScalar(float32(t.Rate(epoch)))
		proxyRate := tensors.FromScalar(float32(t.proxyRate(epoch)))
		var pending *tensors.Tensor
		for i := range t.StepsPerEpoch {
			b, more := <-batches // Which ends when ctx does.
			if !more || ctx.Err() != nil {
				return fmt.Errorf("stopped in epoch %d of %d; the same run goes on from there: %w", epoch+1, t.Epochs, ctx.Err())
			}
			if b.err != nil {
				return fmt.Errorf("step %d: %w", epoch*t.StepsPerEpoch+i+1, b.err)
			}
			v := stepValues{images: b.images, labels: b.labels, colors: colors, rate: rate, proxyRate: proxyRate}
			if t.by.noise {
				v.noise = noise(len(b.labels), epoch*t.StepsPerEpoch+i, t.Seed)
			}
			out, err := t.step.run(v)
			b.free()
			if err != nil {
				return fmt.Errorf("step %d: %w", epoch*t.StepsPerEpoch+i+1, err)
			}
			if err := sum.add(pending); err != nil {
				return err
			}
			pending = out
			if t.Progress != nil {
				t.Progress(t.progress(epoch, i+1, &pace, &sum))
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
	images []*tensors.Tensor // As of [compiledStep.upload].
	labels []int32
	err    error
}

func (u uploaded) free() { free(u.images) }

// prepare draws the batches of steps from…to−1 and copies them to the device, each on a goroutine of its own, which ends with ctx.
func (t *session) prepare(ctx context.Context, from, to int) <-chan uploaded {
	drawn := ahead(ctx, func(yield func(batch) bool) {
		for step := from; step < to && yield(t.draw(step)); step++ {
		}
	}, func(batch) {})
	return ahead(ctx, func(yield func(uploaded) bool) {
		for b := range drawn {
			images, err := t.step.upload(b, t.Set.Train.Size)
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
func (t *session) draw(step int) batch {
	draws := t.sampler.batch(step)
	b := load(t.Set.Train, draws)
	if t.classes != nil {
		for i, d := range draws {
			b.labels[i] = t.classes[t.Set.Train.Labels[d.image]] // The sampler draws from the classes that are there alone.
		}
	}
	return b
}

func (t *session) progress(epoch, step int, pace *pace, sum *tally) Progress {
	p := Progress{
		Epoch: epoch + 1, Epochs: t.Epochs,
		Step: epoch*t.StepsPerEpoch + step, Steps: t.Steps(), ViolationRate: sum.violationRate(),
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
func (t *session) endEpoch(epoch int, sum *tally) error {
	mean := func(v float64, n int) float64 { return v / float64(max(n, 1)) }
	e := Epoch{
		Epoch: epoch, Step: epoch * t.StepsPerEpoch, LR: t.Rate(epoch - 1),
		Triplets: sum.triplets, EmptyBatches: sum.empty, ViolationRate: sum.violationRate(),
		Sap: mean(sum.sap, sum.triplets), San: mean(sum.san, sum.triplets), GradientNorm: mean(sum.norm, sum.steps),
	}
	switch {
	case sum.notFinite > 0:
		t.state.Diverged = fmt.Sprintf("not finite from step %d on", e.Step-t.StepsPerEpoch+sum.notFinite)
		e.Sap, e.San, e.GradientNorm = 0, 0, 0 // JSON has no NaN, and they mean nothing.
	case epoch == t.Epochs && e.Sap > collapsedAbove && e.San > collapsedAbove && e.ViolationRate >= 0.5:
		t.state.Diverged = fmt.Sprintf("collapsed: mean S_ap %.3f, S_an %.3f in the last epoch", e.Sap, e.San)
	}
	if sum.trace && sum.notFinite == 0 {
		if err := os.MkdirAll(filepath.Join(t.Dir, TripletsDir), 0o777); err != nil {
			return err
		}
		if err := npy.WriteFloat32(tripletsPath(t.Dir, epoch), sum.traced, len(sum.traced)/2, 2); err != nil {
			return err
		}
		if err := t.state.addTriplets(t.Dir, epoch); err != nil {
			return err
		}
	}
	t.state.Epoch = epoch
	t.state.Epochs = append(t.state.Epochs, e)
	t.state.Seconds += time.Since(t.started).Seconds()
	t.started = time.Now()
	return t.save()
}

const TripletsDir = "triplets"

// tracePath is the file of an epoch's triplets: float32 [n, 2], S_ap and S_an.
func tripletsPath(dir string, epoch int) string {
	return filepath.Join(dir, TripletsDir, fmt.Sprintf("epoch-%03d.npy", epoch))
}

// Epoch is a line of metrics.jsonl: what one epoch of training was like. Means are over its valid triplets.
type Epoch struct {
	Epoch int     `json:"epoch"` // From 1.
	Step  int     `json:"step"`  // Steps done at its end.
	LR    float64 `json:"lr"`
	// Triplets counts the valid ones; EmptyBatches the batches that had none and so moved nothing.
	Triplets     int `json:"triplets"`
	EmptyBatches int `json:"empty_batches"`
	// ViolationRate is the share of triplets with S_an > S_ap.
	ViolationRate float64 `json:"violation_rate"`
	Sap           float64 `json:"s_ap"`
	San           float64 `json:"s_an"`
	// GradientNorm is the mean over steps of the length of the gradient of all weights.
	GradientNorm float64 `json:"gradient_norm"`
}
