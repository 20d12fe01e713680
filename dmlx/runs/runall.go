package runs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/train"
)

// Options of [Reproduce].
type Options struct {
	// Jobs is how many runs are made at once; 0 is 1. In one process they share the backend's threads, and each other's time: on
	// two cores two at once take longer than one after the other ("dmlx bench --only jobs").
	Jobs int
	// Apart, if there is one, makes a job in a process of its own and returns when the store has it.
	RunProcess func(ctx context.Context, job Job, progress func(Progress)) error
	// Seeds are taken instead of the preset's.
	Seeds []uint64
	// Fresh does without the results that are shipped with the program.
	IgnoreBundled bool
	// Have makes no runs: cells keep those that are there.
	CachedOnly bool
	// Elsewhere, if there is one, makes what is missing in place of this process, on other machines say, and returns when the
	// store has it. Its error is handed on as it is.
	Submit func(context.Context, []Job) error
	// Progress is told of each step of a run that is made, one call at a time.
	Progress func(Progress)
}

// RunAll has the results of specs, in their order, and tells how many of them were made: those that the store or the program
// has are read, the others are made as the options say, each once. With [Options.Have] those are nil.
func RunAll(ctx context.Context, choose func() (*train.Trainer, error), store *Store, specs []Spec, o Options) (results []*Result, ran int, err error) {
	find := store.Lookup
	if o.IgnoreBundled {
		find = store.lookup
	}
	results = make([]*Result, len(specs))
	slots := make(map[string][]int) // Where the results of a missing run are wanted, by its hash.
	var missing []Spec
	for i, spec := range specs {
		r, found, err := find(spec)
		if err != nil {
			return nil, 0, err
		}
		if found {
			results[i] = r
			continue
		}
		hash := spec.Hash()
		if slots[hash] == nil {
			missing = append(missing, spec)
		}
		slots[hash] = append(slots[hash], i)
	}
	if o.CachedOnly || len(missing) == 0 {
		return results, 0, nil
	}
	if choose, err = o.submit(ctx, store, Jobs(missing...), choose); err != nil {
		return nil, 0, err
	}
	trainer, err := choose()
	if err != nil {
		return nil, 0, err
	}
	runs, err := forEachSpec(ctx, o, missing, "", func(ctx context.Context, i int, progress func(Progress)) (*Result, error) {
		err := o.runJob(ctx, trainer, store, Job{Spec: missing[i]}, func(p Progress) {
			p.Run, p.Runs = i+1, len(missing)
			progress(p)
		})
		if err != nil {
			return nil, err
		}
		return mustBeStored(store.lookup(missing[i]))
	})
	if err != nil {
		return nil, 0, err
	}
	for i, r := range runs {
		for _, slot := range slots[missing[i].Hash()] {
			results[slot] = r
		}
	}
	return results, len(runs), nil
}

// made is what a job left in the store; that it is not there is an error.
func mustBeStored(r *Result, found bool, err error) (*Result, error) {
	if err == nil && !found {
		err = errors.New("it was made, but the store has no sound result of it")
	}
	return r, err
}

// send has jobs made elsewhere, if that is wished, and then replaces choose: all is in the store, and no backend needed.
func (o Options) submit(ctx context.Context, store *Store, jobs []Job, choose func() (*train.Trainer, error)) (func() (*train.Trainer, error), error) {
	nothing := func() (*train.Trainer, error) { return nil, nil }
	if o.Submit == nil {
		if o.RunProcess != nil {
			return nothing, nil
		}
		return choose, nil
	}
	if err := o.Submit(ctx, jobs); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if done, err := j.Done(store); err != nil {
			return nil, err
		} else if !done {
			return nil, fmt.Errorf("run %s is not in %s, though it was to be made elsewhere", j.Spec.Hash(), store.Dir)
		}
	}
	return nothing, nil
}

// work makes a job, apart if that is wished; the store then has it.
func (o Options) runJob(ctx context.Context, trainer *train.Trainer, store *Store, job Job, progress func(Progress)) error {
	if o.RunProcess == nil || o.Submit != nil {
		return job.Run(ctx, trainer, store, progress)
	}
	return o.RunProcess(ctx, job, progress)
}

// forEachSpec does a piece of work for each spec, as many at once as the options say, and hands its progress on, one call at
// a time. The first error, which says whose it is, ends all of them.
func forEachSpec[T any](ctx context.Context, o Options, specs []Spec, what string, do func(ctx context.Context, i int, progress func(Progress)) (T, error)) ([]T, error) {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.Jobs))
	var mu sync.Mutex
	out := make([]T, len(specs))
	for i, spec := range specs {
		if running.Err() != nil {
			break
		}
		group.Go(func() (err error) {
			out[i], err = do(running, i, func(p Progress) {
				if o.Progress == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				o.Progress(p)
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s%s on %s, seed %d: %w", what, spec.Objective(), spec.Data, spec.Seed, err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, ctx.Err()
}
