package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// jobsBench are the ways to make several runs that are measured against each other.
//
// What was seen on two cores of an AMD EPYC (virtual; XLA on the CPU; four runs of quick minicar, of two rules; other
// load held off by the scheduler), in seconds of the clock, for runs of 300 steps (once, with the processor's seconds)
// and of 120 steps (twice, the lower):
//
//	                                          300 steps   120 steps
//	one process, one at a time                51 (85)     27
//	one process, two at once                  60 (103)    30
//	two at once, a process each               50 (95)     29
//	two at once, a process each, one thread   52 (98)
//	one process, one at a time, one thread    77 (80)
//
// So two at once in one process take 12 to 18 % longer than one after the other. In a process each they take no longer
// but for what each has to compile anew, and gain nothing either: one run keeps 1.6 of two cores busy. A thread each is
// no better, and gives other numbers, since how XLA adds up depends on how many threads it has: so threads are left as
// they are, and a run's numbers do not depend on how many are made at once. More than two cores were not to be had for
// measuring.
var jobsBench = []struct {
	name     string
	jobs     int
	separate bool
}{
	{"one process, one at a time", 1, false}, {"one process, two at once", 2, false}, {"two at once, a process each", 2,
		true},
}

// jobsEpochs is the length of its runs, in epochs of the quick preset.
const jobsEpochs = 4

func (b *session) jobs(ctx context.Context) error {
	p, err := presets.Parse("quick")
	if err != nil {
		return err
	}
	var jobs []runs.Job
	for _, name := range []string{"cos/con/con", "ours"} {
		rule, err := dmlx.ParseRule(name)
		if err != nil {
			return err
		}
		for seed := range uint64(2) {
			spec, err := p.Spec("minicar", rule, seed+1)
			if err != nil {
				return err
			}
			spec.Epochs = jobsEpochs
			jobs = append(jobs, runs.Job{Spec: spec})
		}
	}
	once := func(way int) (float64, error) {
		w := jobsBench[way]
		dir, err := os.MkdirTemp("", "dmlx-bench-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		store, err := runs.OpenStore(dir)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if !w.separate {
			err := b.Spawn(ctx, store, jobs, w.jobs)
			return time.Since(start).Seconds(), err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(w.jobs)
		for j := range slices.Chunk(jobs, 1) {
			group.Go(func() error { return b.Spawn(ctx, store, j, 1) })
		}
		err = group.Wait()
		return time.Since(start).Seconds(), err
	}
	seconds := make([][]float64, len(jobsBench))
	for range 2 { // In turns, so that other load is shared.
		for way := range jobsBench {
			s, err := once(way)
			if err != nil {
				return err
			}
			seconds[way] = append(seconds[way], s)
		}
	}
	for way, w := range jobsBench {
		b.report(measured(w.name, fmt.Sprintf("%d quick runs, %d steps", len(jobs), jobs[0].Spec.Steps()), "s",
			seconds[way]...))
	}
	return nil
}
