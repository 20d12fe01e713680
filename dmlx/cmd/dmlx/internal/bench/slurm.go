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

// Slurm sends runs of the smoke preset through Slurm and returns their pace. They lie in a folder below dir, which must
// be on a file system that the nodes see and is removed again. It fails if a run is missing or was trained twice, or if
// the context ends, which cancels the jobs.
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
		if stopped := ctx.Err(); stopped != nil { // Elsewhere the runs go on; here their folder is removed.
			err = fmt.Errorf("stopped, and what was queued is canceled: %w", stopped)
		}
		return nil, errors.Join(err, endAll(context.WithoutCancel(ctx), store))
	}
	wall := time.Since(start)
	entries, err := store.List()
	if err != nil {
		return nil, err
	}
	made, trained := 0, 0.0
	for _, e := range entries {
		if e.Result != nil {
			made++
			trained += e.Result.Seconds
		}
	}
	if made != results || len(entries) != results {
		return nil, fmt.Errorf("%d runs were sent, and the store has %d finished ones of %d", results, made, len(entries))
	}
	size := fmt.Sprintf("%d smoke runs", results)
	return []Measurement{
		measured("slurm, all of them", size, "s", wall.Seconds()),
		measured("slurm, a minute", size, "runs", float64(results)/wall.Minutes()),
		measured("slurm, training of one", size, "s", trained/float64(results)),
	}, nil
}

// endAll cancels what is queued for a store, and waits until none of it runs; not for ever.
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
