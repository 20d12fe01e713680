package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/train"
)

// Job is a piece of work that a table or figure lacks: a run, and with it the run's portrait where that is what it shows.
// It is a value that can be written down and done by another process or machine.
type Job struct {
	Spec       Spec `json:"spec"`
	Histograms bool `json:"portrait,omitempty"`
}

// Jobs are the runs of specs, without portraits.
func Jobs(specs ...Spec) []Job {
	out := make([]Job, len(specs))
	for i, s := range specs {
		out[i].Spec = s
	}
	return out
}

// Make does the job, or reads what the store has of it; see [Run].
func (j Job) Run(ctx context.Context, trainer *train.Trainer, store *Store, progress func(Progress)) error {
	var err error
	if j.Histograms {
		_, err = computeHistograms(ctx, trainer, store, j.Spec, progress)
	} else {
		_, err = Run(ctx, trainer, store, j.Spec, progress)
	}
	return err
}

// Done tells whether the store has what the job is to make. What is shipped with the program does not count.
func (j Job) Done(store *Store) (bool, error) {
	if j.Histograms {
		p, _, err := store.histograms(j.Spec)
		return p != nil, err
	}
	_, found, err := store.lookup(j.Spec)
	return found, err
}

// Check tells why another process could not do the job from what is written down of it, if so.
func (j Job) Check() error {
	if j.Spec.WeightsPath() != "" {
		return fmt.Errorf("run %s starts from weights of a file, %s, which its spec knows by their digest alone: only a process that is given the file can make it",
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
		return fmt.Errorf("run %s cannot be made from its spec alone: %w", j.Spec.Hash(), err)
	}
	return nil
}
