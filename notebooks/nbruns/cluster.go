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

// Slurm has the runs that a report lacks made by a cluster's queue: it is what [runs.Options.Submit] wants. The cell
// tells how far they are, Stop leaves them to the cluster, and the same cell comes back to them. Tasks run the dmlx command of
// the checkout that the cells use, which is built for that, unless o names a program.
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
			defer os.RemoveAll(dir) // It is sent from a copy in the store.
			o.Program = filepath.Join(dir, "dmlx")
			if err := build(ctx, o.Program); err != nil {
				return err
			}
		}
		return told(o, func(o slurm.Options) error { return slurm.Run(ctx, store, jobs, o) })
	}
}

// Follow tells in the cell how far the runs are that a cluster makes for the store, whoever sent them, until all are done.
func Follow(store *runs.Store, o slurm.Options) error {
	open, err := slurm.Unfinished(store)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		fmt.Println("nothing is queued for the run store")
		return nil
	}
	return told(o, func(o slurm.Options) error { return slurm.Watch(nb.Context(), store, o) })
}

// told follows something with a line in the cell.
func told(o slurm.Options, follow func(slurm.Options) error) error {
	line := nb.NewProgress("Slurm")
	o.Say = func(text string) { fmt.Println(text) }
	last := ""
	o.Progress = func(s slurm.Status) {
		last = s.String()
		line.Set(min(s.Fraction, 0.999), last) // The bar goes at the end.
	}
	err := follow(o)
	switch {
	case err == nil:
		line.Done(last)
	case last != "":
		line.Done(last + "; not followed any more")
	}
	return err
}

// build compiles dmlx from the code that the cells use: GoNB's workspace has it, and outside GoNB the module around.
func build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/gradient-surgery/dml/dmlx/cmd/dmlx")
	cmd.Dir = os.Getenv(protocol.GONB_TMP_DIR_ENV)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("dmlx, which the cluster's tasks are to run, cannot be built: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
