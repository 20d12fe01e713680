package nbruns

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/janpfeifer/gonb/gonbui/protocol"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// Slurm returns a function for [runs.Options.Submit] that trains a report's missing runs on a Slurm cluster. The cell
// shows their progress. Stop leaves the jobs in the queue, and running the cell again resumes watching them. Tasks
// run the dmlx command, built from the code that the cell uses, unless o names a program.
func Slurm(store *runs.Store, o slurm.Options) func(context.Context, []runs.Job) error {
	return func(ctx context.Context, jobs []runs.Job) error {
		if len(jobs) == 0 {
			return nil
		}
		if o.Program == "" {
			dir, err := os.MkdirTemp("", "dmlx-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir) // Tasks run a copy in the store.
			o.Program = filepath.Join(dir, "dmlx")
			if err := build(ctx, o.Program); err != nil {
				return err
			}
		}
		return withProgress(o, func(o slurm.Options) error { return slurm.Run(ctx, store, jobs, o) })
	}
}

// Follow shows in the cell the progress of all runs of the store that are on a cluster, whoever submitted them, until
// they are done.
func Follow(store *runs.Store, o slurm.Options) error {
	open, err := slurm.Unfinished(store)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		fmt.Println("no runs of the store are queued")
		return nil
	}
	return withProgress(o, func(o slurm.Options) error { return slurm.Watch(nb.Context(), store, o) })
}

// withProgress calls follow with a progress line in the cell.
func withProgress(o slurm.Options, follow func(slurm.Options) error) error {
	line := nb.NewProgress("Slurm")
	o.Say = func(text string) { fmt.Println(text) }
	last := ""
	o.Progress = func(s slurm.Status) {
		last = s.String()
		line.Set(min(s.Fraction, 0.999), last) // At 1 the bar disappears.
	}
	err := follow(o)
	switch {
	case err == nil:
		line.Done(last)
	case last != "":
		line.Done(last + "; no longer watched")
	}
	return err
}

// build compiles dmlx from the code that the cell uses: in GoNB's workspace, or else in the current module.
func build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/gradient-surgery/dml/dmlx/cmd/dmlx")
	cmd.Dir = os.Getenv(protocol.GONB_TMP_DIR_ENV)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the dmlx command for the cluster's tasks cannot be built: %w: %s", err,
			strings.TrimSpace(string(out)))
	}
	return nil
}
