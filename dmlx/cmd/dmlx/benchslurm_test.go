package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/bench"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
)

// BenchmarkSlurm sends runs of the smoke preset through Slurm, to measure the throughput of a cluster. Their store is a
// temporary folder in DMLX_STORE, which the nodes must share. It fails if a run is missing or was trained twice.
//
//	dmlx/runs/slurm/slurmtest/slurm.sh start /tmp/slurm
//	SLURM_CONF=/tmp/slurm/slurm.conf DMLX_STORE=/tmp/slurm go test ./dmlx/cmd/dmlx -run '^$' -bench Slurm -slurm 1000
func BenchmarkSlurm(b *testing.B) {
	if *benchSlurm < 1 {
		b.Skip("-slurm N tells how many runs to send")
	}
	parent := os.Getenv("DMLX_STORE")
	if parent == "" {
		b.Fatal("DMLX_STORE is not set: want a folder that the nodes share")
	}
	benchmark(b, "slurm", 0, func(s *session, ctx context.Context) error { return s.slurm(ctx, parent, *benchSlurm) })
}

var benchSlurm = flag.Int("slurm", 0, "number of runs that BenchmarkSlurm sends through Slurm")

// slurm sends runs through Slurm. If the context ends, it cancels them.
func (s *session) slurm(ctx context.Context, parent string, results int) error {
	dir, err := os.MkdirTemp(parent, ".bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := runs.OpenStore(dir)
	if err != nil {
		return err
	}
	spec, err := bench.Spec("smoke", "minicar")
	if err != nil {
		return err
	}
	var specs []runs.Spec
	for range results {
		specs = append(specs, spec)
		spec.Seed++
	}
	start := time.Now()
	if err := slurm.Run(ctx, store, runs.Jobs(specs...), slurm.Options{}); err != nil {
		if stopped := ctx.Err(); stopped != nil { // Other runs would continue, but the folder of these is removed.
			err = fmt.Errorf("stopped; the queued runs are canceled: %w", stopped)
		}
		return errors.Join(err, endAll(context.WithoutCancel(ctx), store))
	}
	wall := time.Since(start)
	entries, err := store.List()
	if err != nil {
		return err
	}
	finished, trained := 0, 0.0
	for _, e := range entries {
		if e.Result != nil {
			finished++
			trained += e.Result.Seconds
		}
	}
	if finished != results || len(entries) != results {
		return fmt.Errorf("%d runs were sent, but the store has %d finished runs of %d", results, finished, len(entries))
	}
	size := fmt.Sprintf("%d smoke runs", results)
	s.report(bench.Measured("slurm, all of them", size, "s", wall.Seconds()))
	s.report(bench.Measured("slurm, a minute", size, "runs", float64(results)/wall.Minutes()))
	s.report(bench.Measured("slurm, training of one", size, "s", trained/float64(results)))
	return nil
}

// endAll cancels all submissions of a store and waits, at most half a minute each, until no run is left.
func endAll(ctx context.Context, store *runs.Store) error {
	open, err := slurm.Unfinished(store)
	if err != nil {
		return err
	}
	for _, s := range open {
		if err := s.Cancel(ctx); err != nil {
			return err
		}
		for range 150 {
			status, err := s.Status(ctx)
			if err != nil {
				return err
			}
			if status.Running+status.Pending == 0 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	return nil
}
