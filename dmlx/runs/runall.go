package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/samples"
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
	// Measure = n > 0 measures Recall@1 after every n-th epoch of runs that are trained; see [train.Training].Every.
	Measure int
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
			missing = append(missing, task{Job{spec, false, o.Devices, o.Keep, o.Measure}, hash, true})
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

// do does jobs of one kind, as many at once as the options say, so that the store has their results. Chosen heads that
// differ only in the seed are trained side by side, at most 30, whose results are written together. The first
// error stops all of them; it names the spec.
func (o Options) do(ctx context.Context, choose func() (*train.Trainer, error), store *Store, tasks []task) error {
	jobs := slice.Map(tasks, func(t task) Job { return t.Job })
	if err := o.Check(ctx, store, jobs); err != nil {
		return err
	}
	if o.Submit != nil {
		if err := o.Submit(ctx, jobs); err != nil {
			return err
		}
		for _, j := range jobs {
			if done, err := j.Done(store); err != nil {
				return err
			} else if !done {
				return fmt.Errorf("run %s is not in %s: its task has failed, or another process still trains it", j.Spec.Hash(),
					store.Dir)
			}
		}
		return nil
	}
	unlock, _, err := store.tryLock(tasks[0].hash)
	if err != nil { // The store cannot be written. Told before a backend is opened.
		return err
	}
	unlock()
	var trainer *train.Trainer // nil if other processes do the work.
	if o.RunProcess == nil {
		if trainer, err = choose(); err == nil {
			trainer, err = jobs[0].on(trainer)
		}
		if err != nil {
			return err
		}
	}
	together := o.RunProcess == nil && !jobs[0].Histograms && o.Devices == 0 && trainer.DeviceCount() == 1
	var groups [][]task
	last, number, count := make(map[string]int), make(map[string]int), 0
	for _, t := range tasks {
		if t.trains {
			count++
			number[t.hash] = count
		}
		key, s := t.hash, t.Spec
		if together && s.HeadStart != "" {
			s.Seed = 0
			key = string(s.Canonical())
		}
		at, known := last[key]
		if !known || len(groups[at]) == 30 {
			at, groups = len(groups), append(groups, nil)
			last[key] = at
		}
		groups[at] = append(groups[at], t)
	}
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(max(1, o.Jobs))
	var mu sync.Mutex
	for _, some := range groups {
		if running.Err() != nil {
			break
		}
		group.Go(func() error {
			progress := func(p Progress) {
				if o.Progress != nil {
					mu.Lock()
					defer mu.Unlock()
					p.Run, p.Runs = number[p.Hash], count
					o.Progress(p)
				}
			}
			what, first := "", some[0]
			var err error
			switch {
			case first.Histograms:
				what = "histograms of "
			case len(some) > 1:
				what = fmt.Sprintf("%d runs side by side from ", len(some))
			}
			switch {
			case o.RunProcess != nil:
				err = o.RunProcess(running, first.Job, progress)
			case first.Histograms:
				_, err = computeHistograms(running, trainer, store, first, progress)
			default:
				_, err = runTasks(running, trainer, store, some, progress)
			}
			return of(first.Spec, what, err)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// Check returns an error if one of the jobs cannot be done, before the first of them is: if its spec is not valid, has
// no triplets or does not fit its devices or its data set, or if another process cannot do it. Jobs that are done
// elsewhere are not compared with their data set, which may be there alone. [RunAll] and [AllHistograms] call it for
// the missing runs.
func (o Options) Check(ctx context.Context, store *Store, jobs []Job) error {
	checked := make(map[string]bool)
	for _, j := range jobs {
		s := j.Spec
		err := cmp.Or(s.Ready(), s.HasTriplets(), s.FitsDevices(j.Devices))
		if err == nil && (o.Submit != nil || o.RunProcess != nil) {
			err = j.Check()
		}
		// Seeds, rules and rates do not matter to the data set.
		key := fmt.Sprint(s.Data, s.DataDigest, s.Size, s.TrainClasses, s.TestClasses, s.HeldOut, s.Reading,
			s.ClassesPerBatch, s.ImagesPerClass, s.Loss == "", s.Model, s.Head)
		if err == nil && o.Submit == nil && !checked[key] {
			checked[key] = true
			var data *samples.Data
			if data, _, err = TrainingData(s, store.dataOptions(ctx, s, o.Progress)); err == nil {
				err = s.Config.Fits(data, s.HeldOut)
			}
		}
		if err != nil {
			return of(s, "", err)
		}
	}
	return nil
}

// of returns an error with the spec that it is of. An interrupt stays as it is.
func of(spec Spec, what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s%s on %s, seed %d: %w", what, spec.Objective.String(), spec.DataName(), spec.Seed, err)
}
