package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
)

// Slurm sends runs of the smoke preset through Slurm and returns the throughput. Their store is a temporary folder in
// dir, which the nodes must share. It fails if a run is missing or was trained twice, or if the context ends, which
// cancels the jobs.
func Slurm(ctx context.Context, dir string, results int,
	send func(context.Context, *runs.Store, []runs.Job) error) ([]Measurement, error) {
	dir, err := os.MkdirTemp(dir, ".bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := runs.OpenStore(dir)
	if err != nil {
		return nil, err
	}
	spec, err := presetSpec("smoke", "minicar")
	if err != nil {
		return nil, err
	}
	var specs []runs.Spec
	for range results {
		specs = append(specs, spec)
		spec.Seed++
	}
	start := time.Now()
	if err := send(ctx, store, runs.Jobs(specs...)); err != nil {
		if stopped := ctx.Err(); stopped != nil { // Other runs would continue, but the folder of these is removed.
			err = fmt.Errorf("stopped; the queued runs are canceled: %w", stopped)
		}
		return nil, errors.Join(err, endAll(context.WithoutCancel(ctx), store))
	}
	wall := time.Since(start)
	entries, err := store.List()
	if err != nil {
		return nil, err
	}
	finished, trained := 0, 0.0
	for _, e := range entries {
		if e.Result != nil {
			finished++
			trained += e.Result.Seconds
		}
	}
	if finished != results || len(entries) != results {
		return nil, fmt.Errorf("%d runs were sent, but the store has %d finished runs of %d", results, finished, len(entries))
	}
	size := fmt.Sprintf("%d smoke runs", results)
	return []Measurement{
		measured("slurm, all of them", size, "s", wall.Seconds()),
		measured("slurm, a minute", size, "runs", float64(results)/wall.Minutes()),
		measured("slurm, training of one", size, "s", trained/float64(results)),
	}, nil
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
