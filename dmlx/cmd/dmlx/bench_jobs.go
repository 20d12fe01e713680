package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/experiment"
)

// jobsBench are the ways to make several runs that are measured against each other.
//
// What was seen on two cores of an AMD EPYC (virtual, XLA 2.21 on the CPU, 4 runs of 300 steps of quick minicar, of two rules; the rest
// of the machine held off by its scheduler; one measurement, seconds of the clock and of the processor):
//
//	one process, one at a time                 51 s    85 s
//	one process, two at once                   60 s   103 s
//	two at once, a process each                50 s    95 s
//	two at once, a process each, one thread    52 s    98 s
//	one process, one at a time, one thread     77 s    80 s
//
// So two runs in one process are in each other's way: 18 % slower than one after the other. In a process each they are not, and no
// faster either: on two cores there is nothing to gain by more than one at a time. A thread each is no better, and gives other
// numbers: how XLA adds up depends on how many threads it has. Therefore threads are left as they are, so that a run's numbers
// do not depend on how many are made at once.
var jobsBench = []struct {
	name     string
	jobs     int
	separate bool
}{
	{"one process, one at a time", 1, false}, {"one process, two at once", 2, false}, {"two at once, a process each", 2, true},
}

// jobsEpochs is the length of its runs, in epochs of the quick preset.
const jobsEpochs = 4

func benchJobs(ctx context.Context, a *app, _ *backend.Choice, _ []measurement, report func(measurement)) error {
	p, err := experiment.ParsePreset("quick")
	if err != nil {
		return err
	}
	var jobs []experiment.Job
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
			jobs = append(jobs, experiment.Job{Spec: spec})
		}
	}
	once := func(way int) (float64, error) {
		w := jobsBench[way]
		dir, err := os.MkdirTemp("", "dmlx-bench-")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		store, err := experiment.OpenStore(dir)
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if !w.separate {
			err := a.spawn(ctx, store, jobs, w.jobs, nil, nil)
			return time.Since(start).Seconds(), err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(w.jobs)
		for j := range slices.Chunk(jobs, 1) {
			group.Go(func() error { return a.spawn(ctx, store, j, 1, nil, nil) })
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
		report(measured(w.name, fmt.Sprintf("%d quick runs, %d steps", len(jobs), jobs[0].Spec.Steps()), "s", seconds[way]...))
	}
	return nil
}
