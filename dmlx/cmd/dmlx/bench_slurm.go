package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/experiment"
	"github.com/gradient-surgery/dml/dmlx/experiment/slurm"
)

// newBenchSlurm measures how many runs a cluster's queue takes. It is a command of its own, since on a real cluster no one
// wants a thousand jobs by surprise.
func newBenchSlurm(a *app) *cobra.Command {
	var runs int
	var on cluster
	cmd := &cobra.Command{
		Use: "slurm", Short: "Send many runs of the smoke preset through Slurm and measure their pace",
		Long: "Send many runs of the smoke preset through Slurm and measure their pace, in a folder of the run store that is removed\n" +
			"again. It fails if one is missing or was made twice. With no cluster at hand, one on this machine will do, started by\n" +
			"dmlx/experiment/slurm/slurmtest/slurm.sh.",
		Example: "  dmlx/experiment/slurm/slurmtest/slurm.sh start /tmp/slurm\n  SLURM_CONF=/tmp/slurm/slurm.conf dmlx bench slurm --runs 1000\n" +
			"  dmlx/experiment/slurm/slurmtest/slurm.sh stop /tmp/slurm",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runs < 1 {
				return fmt.Errorf("--runs %d: want at least one", runs)
			}
			parent, err := a.store()
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp(parent.Dir, ".bench-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			store, err := experiment.OpenStore(dir)
			if err != nil {
				return err
			}
			spec, err := benchSpec("smoke", "minicar")
			if err != nil {
				return err
			}
			var specs []experiment.Spec
			for range runs {
				specs = append(specs, spec)
				spec.Seed++
			}
			start := time.Now()
			if err := on.elsewhere(a, store)(cmd.Context(), experiment.Jobs(specs...)); err != nil {
				if stopped := cmd.Context().Err(); stopped != nil { // Elsewhere the runs go on; here their folder goes.
					err = fmt.Errorf("stopped, and what was queued is cancelled: %w", stopped)
				}
				return errors.Join(err, endAll(context.WithoutCancel(cmd.Context()), store))
			}
			wall := time.Since(start)
			entries, err := store.List()
			if err != nil {
				return err
			}
			made, trained := 0, 0.0
			for _, e := range entries {
				if e.Result != nil {
					made++
					trained += e.Result.Seconds
				}
			}
			if made != runs || len(entries) != runs {
				return fmt.Errorf("%d runs were sent, and the store has %d finished ones of %d", runs, made, len(entries))
			}
			size := fmt.Sprintf("%d smoke runs", runs)
			lines := []measurement{
				measured("slurm, all of them", size, "s", wall.Seconds()),
				measured("slurm, a minute", size, "runs", float64(runs)/wall.Minutes()),
				measured("slurm, training of one", size, "s", trained/float64(runs)),
			}
			text := ""
			for _, l := range lines {
				text += l.String() + "\n"
			}
			return a.print(map[string]any{"lines": lines}, text[:len(text)-1])
		},
	}
	f := cmd.Flags()
	f.IntVar(&runs, "runs", 1000, "how many")
	on.slurmFlags(f)
	return cmd
}

// endAll cancels what is queued for a store, and waits until none of it runs; not for ever.
func endAll(ctx context.Context, store *experiment.Store) error {
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
