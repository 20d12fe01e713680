package slurm

import (
	"context"
	"errors"
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Task does the jobs of one task of an array, one after the other: those in the lines task, task+of, … of a file with
// the given checksum, which [Submission.Submit] wrote. The script calls it by the command line
//
//	dmlx runs make --store DIR --jobs FILE --sum SHA256 --task N --of N
//
// Jobs that are done are skipped, and so are runs that another process trains. A job that fails does not keep the next
// from being done. If ctx is done and epochs were trained, its error is returned: the same task goes on from there.
// Without one the next start would come no further, and the error says so.
func Task(ctx context.Context, store *runs.Store, file, sum string, task, of int,
	open func(...runs.Job) (*train.Trainer, error), say func(string), progress func(runs.Progress)) error {
	raw, err := durable.ReadAtMost(file, durable.MaxText)
	if err != nil {
		return err
	}
	if durable.Sum(raw) != sum {
		return fmt.Errorf("%s has changed since it was submitted: submit again", file)
	}
	jobs, err := durable.ParseLines[runs.Job](raw)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if of < 1 || task < 0 || task >= min(of, len(jobs)) {
		return fmt.Errorf("%s has %d jobs, and no task %d of %d", file, len(jobs), task, of)
	}
	var failed []error
	advanced := false
	for ; task < len(jobs) && ctx.Err() == nil; task += of {
		j, hash := jobs[task], jobs[task].Spec.Hash()
		name := fmt.Sprintf("run %s (%s on %s, seed %d)", hash, j.Spec.Objective.String(), j.Spec.DataName(), j.Spec.Seed)
		if done, err := j.Done(store); err != nil {
			return err
		} else if done {
			say(name + " is in the store")
			continue
		}
		if busy, err := store.Locked(hash); err == nil && busy {
			say(name + " is trained by another process")
			continue
		}
		before := store.Entry(hash).Epoch
		trainer, err := open(j)
		if err == nil {
			say(fmt.Sprintf("%s: on %s", name, trainer))
			err = j.Run(ctx, trainer, store, progress)
		}
		e := store.Entry(hash)
		advanced = advanced || e.Result != nil || e.Epoch > before
		switch {
		case err == nil:
			say(name + " is done")
		case ctx.Err() != nil && advanced:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%s was stopped before an epoch ended; if the time limit did it, raise it by --time", name)
		default:
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(failed, ctx.Err())...)
}
