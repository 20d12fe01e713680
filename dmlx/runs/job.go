package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Job is a run to train and, if Histograms is set, its [Histograms] to compute. It is a plain value, so that another
// process or machine can do it.
type Job struct {
	Spec       Spec `json:"spec"`
	Histograms bool `json:"histograms,omitempty"`
	// Devices is the number of devices that the rows of a batch are divided among; see [train.Trainer.OnDevices]. 0 is
	// that of the trainer.
	Devices int `json:"devices,omitempty"`
	// Keep is the number of bytes for what the frozen part of a network gives; see [train.Trainer.Keeping].
	Keep int64 `json:"keep,omitempty"`
	// Measure = n > 0 measures Recall@1 after every n-th epoch; see [train.Training].Every.
	Measure int `json:"measure,omitempty"`
}

// Jobs returns jobs that train specs, without histograms.
func Jobs(specs ...Spec) []Job {
	return slice.Map(specs, func(s Spec) Job { return Job{Spec: s} })
}

// Run does the job, or reads what the store has of it; see [Run].
func (j Job) Run(ctx context.Context, trainer *train.Trainer, store *Store, progress func(Progress)) error {
	if err := j.Spec.Ready(); err != nil {
		return err
	}
	trainer, err := j.on(trainer)
	if err != nil {
		return err
	}
	t := task{Job: j, hash: j.Spec.Hash()}
	if j.Histograms {
		_, err = computeHistograms(ctx, trainer, store, t, progress)
	} else {
		_, err = runTasks(ctx, trainer, store, []task{t}, progress)
	}
	return err
}

// on returns a trainer with the devices and the disk of the job.
func (j Job) on(t *train.Trainer) (*train.Trainer, error) {
	t, err := t.OnDevices(j.Devices)
	if err == nil && j.Keep > 0 {
		t = t.Keeping(j.Keep)
	}
	return t, err
}

// task is a job whose spec is [Spec.Ready], with its hash.
type task struct {
	Job
	hash   string
	trains bool // Whether a run is trained for it. Progress counts these.
}

// Done reports whether the store has the output of the job. Bundled results do not count.
func (j Job) Done(store *Store) (bool, error) {
	hash := j.Spec.Hash()
	if j.Histograms {
		p, _, err := store.histograms(hash, j.Spec)
		return p != nil, err
	}
	_, found, err := store.lookupAs(hash, j.Spec)
	return found, err
}

// Check returns an error if another process could not do the job from its JSON alone.
func (j Job) Check() error {
	if j.Spec.WeightsPath() != "" {
		return fmt.Errorf("run %s starts from the weights in %s, but its spec contains only their digest: train it in a "+
			"process that is given the file",
			j.Spec.Hash(), j.Spec.WeightsPath())
	}
	raw, err := json.Marshal(j)
	if err != nil {
		return errors.Join(err, j.Spec.Validate())
	}
	var read Job
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	if err := read.Spec.Validate(); err != nil {
		return fmt.Errorf("run %s cannot be trained from its spec alone: %w", j.Spec.Hash(), err)
	}
	return nil
}

// Light reports whether XLA takes longer to compile a training of the spec for a CPU, 2 to 4 s, than the Go backend
// takes for all of it: the small network, trained on one device on at most 256 images of 32 × 32 pixels in all, with
// vectorized kernels, as in a notebook, on twice as many.
func (s Spec) Light(devices int) bool {
	images := 256
	if backend.SIMD {
		images = 512
	}
	return (devices == 0 || devices == 1) && s.Arch == string(backbone.Small) && s.Model == "" && s.Head == "" &&
		s.Steps()*s.Batch()*s.Size*s.Size <= images*32*32
}

// OpenTrainer returns the trainer of [train.OpenLight] if all jobs are light, and otherwise that of [train.Open].
func OpenTrainer(jobs ...Job) (*train.Trainer, error) {
	if len(jobs) == 0 || slices.ContainsFunc(jobs, func(j Job) bool { return !j.Spec.Light(j.Devices) }) {
		return train.Open()
	}
	return train.OpenLight()
}
