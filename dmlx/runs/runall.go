package runs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Options control [RunAll] and [AllHistograms].
type Options struct {
	// Jobs is the number of runs trained at once; 0 is 1. Runs in one process share its processors: on two cores two runs
	// at once take longer than one after the other (BenchmarkJobs of cmd/dmlx).
	Jobs int
	// Devices is the number of devices that the rows of each batch are divided among, or [train.AllDevices]; 0 is that of
	// the trainer, by default one. It changes only the rounding; see [train.Trainer.OnDevices].
	Devices int
	// Keep is the number of bytes for what the frozen part of a network gives for each image; see
	// [train.Trainer.Keeping].
	Keep int64
	// RunProcess, if not nil, does a job in a process of its own and returns when the store has the result.
	RunProcess func(ctx context.Context, job Job, progress func(Progress)) error
	// Seeds replace the seeds of the preset.
	Seeds []uint64
	// IgnoreBundled trains runs even if their results are bundled with the program.
	IgnoreBundled bool
	// CachedOnly trains nothing: only results that exist are returned.
	CachedOnly bool
	// Submit, if not nil, has the missing jobs done elsewhere, for example on a cluster, and returns when the store has
	// the results. Its error is returned unchanged.
	Submit func(context.Context, []Job) error
	// Progress, if not nil, is called after each training step, one call at a time.
	Progress func(Progress)
}

// RunAll returns the results of specs, in their order, and how many of them were trained. Results in the store or
// bundled with the program are read; the others are trained as the options say, each once. All of them are checked
// before the first is trained. With [Options].CachedOnly the missing results are nil. choose opens the backend; it is
// called only if this process trains.
func RunAll(
	ctx context.Context, choose func() (*train.Trainer, error), store *Store, specs []Spec, o Options,
) (results []*Result, ran int, err error) {
	results = make([]*Result, len(specs))
	slots := make(map[string][]int) // Positions of a missing run in specs, by its hash.
	var missing []task
	for i, spec := range specs {
		hash := spec.Hash()
		r, found, err := store.find(hash, spec, !o.IgnoreBundled)
		if err != nil {
			return nil, 0, err
		}
		if found {
			results[i] = r
			continue
		}
		if slots[hash] == nil {
			missing = append(missing, task{o.job(spec, false), hash, true})
		}
		slots[hash] = append(slots[hash], i)
	}
	if o.CachedOnly || len(missing) == 0 {
		return results, 0, nil
	}
	if err := o.do(ctx, choose, store, missing); err != nil {
		return nil, 0, err
	}
	for _, t := range missing {
		r, found, err := store.lookupAs(t.hash, t.Spec)
		if err == nil && !found {
			err = errors.New("training ended, but the store has no valid result")
		}
		if err != nil {
			return nil, 0, of(t.Spec, "", err)
		}
		for _, slot := range slots[t.hash] {
			results[slot] = r
		}
	}
	return results, len(missing), nil
}

// job returns the job for a spec, as the options say.
func (o Options) job(spec Spec, histograms bool) Job {
	return Job{Spec: spec, Histograms: histograms, Devices: o.Devices, Keep: o.Keep}
}

// do does jobs of one kind, as many at once as the options say, so that the store has their results. The first error
// stops all of them; it names the spec.
func (o Options) do(
	ctx context.Context, choose func() (*train.Trainer, error), store *Store, tasks []task,
) error {
	choose, err := o.submit(ctx, store, tasks, choose)
	if err != nil {
		return err
	}
	trainer, err := choose()
	if err != nil {
		return err
	}
	what, run, count := "", make([]int, len(tasks)), 0
	for i, t := range tasks {
		if t.Histograms {
			what = "histograms of "
		}
		if t.trains {
			count++
			run[i] = count
		}
	}
	if what == "" && o.RunProcess == nil && o.Submit == nil && o.Devices == 0 && trainer.DeviceCount() == 1 {
		if err := o.trainGroups(ctx, trainer, store, tasks); err != nil {
			return err
		}
	}
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.Jobs))
	var mu sync.Mutex
	for i, t := range tasks {
		if running.Err() != nil {
			break
		}
		group.Go(func() error {
			err := o.runTask(running, trainer, store, t, func(p Progress) {
				if o.Progress == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				p.Run, p.Runs = run[i], count
				o.Progress(p)
			})
			return of(t.Spec, what, err)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// of returns an error with the spec that it is of. An interrupt stays as it is.
func of(spec Spec, what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s%s on %s, seed %d: %w", what, spec.Objective.String(), spec.DataName(), spec.Seed, err)
}

// trainGroups trains those specs that can be trained side by side. The others, and their results, are left to [Run].
func (o Options) trainGroups(ctx context.Context, trainer *train.Trainer, store *Store, tasks []task) error {
	for _, group := range sideBySide(tasks) {
		var some []task
		number := make(map[string]int)
		for _, i := range group {
			some = append(some, tasks[i])
			number[tasks[i].hash] = i + 1
		}
		_, err := runTasks(ctx, trainer, store, some, func(p Progress) {
			if p.Run, p.Runs = number[p.Hash], len(tasks); o.Progress != nil {
				o.Progress(p)
			}
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			err = fmt.Errorf("%s on %s, seeds side by side: %w", some[0].Spec.Objective, some[0].Spec.DataName(), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// submit checks all jobs, and has them done elsewhere if the options say so. It returns the function that opens the
// backend for this process, which opens none if other processes do the work.
func (o Options) submit(
	ctx context.Context, store *Store, tasks []task, choose func() (*train.Trainer, error),
) (func() (*train.Trainer, error), error) {
	jobs := slice.Map(tasks, func(t task) Job { return t.Job })
	noBackend := func() (*train.Trainer, error) { return nil, nil }
	if err := o.Check(ctx, store, jobs); err != nil {
		return nil, err
	}
	if o.Submit == nil {
		unlock, _, err := store.tryWriteLock(tasks[0].hash)
		if err != nil { // The store cannot be written. Told before a backend is opened.
			return nil, err
		}
		unlock()
		if o.RunProcess != nil {
			return noBackend, nil
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
			return nil, fmt.Errorf("run %s was submitted, but its result is not in %s", j.Spec.Hash(), store.Dir)
		}
	}
	return noBackend, nil
}

// runTask does a task, in a process of its own if the options say so. The store then has its result.
func (o Options) runTask(
	ctx context.Context, trainer *train.Trainer, store *Store, t task, progress func(Progress),
) error {
	if o.RunProcess == nil || o.Submit != nil {
		return t.run(ctx, trainer, store, progress)
	}
	return o.RunProcess(ctx, t.Job, progress)
}
