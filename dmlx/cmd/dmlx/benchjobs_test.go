package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/jobs"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// jobsBench lists the ways to train several runs.
//
// Measured on two virtual cores of an AMD EPYC with XLA on the CPU, for four runs of quick minicar by two rules, in
// seconds of the clock: runs of 300 steps once, with CPU seconds in parentheses, and the faster of two repetitions with
// runs of 120 steps:
//
//	                                          300 steps   120 steps
//	one process, one at a time                51 (85)     27
//	one process, two at once                  60 (103)    30
//	two at once, a process each               50 (95)     29
//	two at once, a process each, one thread   52 (98)
//	one process, one at a time, one thread    77 (80)
//
// Two runs at a time in one process take 12 to 18 % longer than one after the other. In a process each they take about
// as long, since one run keeps 1.6 of two cores busy and each process compiles its graphs again. One thread per process
// is no faster, and changes the results, since the order of XLA's sums depends on the number of threads. Therefore the
// number of threads is not changed, and results do not depend on the number of runs at a time. Machines with more cores
// were not measured.
var jobsBench = []struct {
	name     string
	jobs     int
	separate bool
}{
	{"one process, one at a time", 1, false},
	{"one process, two at once", 2, false},
	{"two at once, a process each", 2, true},
}

// jobsEpochs is the number of epochs of the runs.
const jobsEpochs = 4

func (s *session) jobs(ctx context.Context) error {
	p, err := presets.Parse("quick")
	if err != nil {
		return err
	}
	var list []runs.Job
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
			list = append(list, runs.Job{Spec: spec})
		}
	}
	once := func(way int) (float64, error) {
		w := jobsBench[way]
		store, err := runs.OpenStore(s.b.TempDir())
		if err != nil {
			return 0, err
		}
		start := time.Now()
		if !w.separate {
			err := jobs.Spawn(ctx, store, list, w.jobs, nil, nil)
			return time.Since(start).Seconds(), err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(w.jobs)
		for j := range slices.Chunk(list, 1) {
			group.Go(func() error { return jobs.Spawn(ctx, store, j, 1, nil, nil) })
		}
		err = group.Wait()
		return time.Since(start).Seconds(), err
	}
	seconds := make([][]float64, len(jobsBench))
	for range 2 { // In turns, so that other load affects all alike.
		for way := range jobsBench {
			took, err := once(way)
			if err != nil {
				return err
			}
			seconds[way] = append(seconds[way], took)
		}
	}
	for way, w := range jobsBench {
		s.report(measured(w.name, fmt.Sprintf("%d quick runs, %d steps", len(list), list[0].Spec.Steps()), "s",
			seconds[way]...))
	}
	return nil
}
