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
)

// Slurm returns a function for [runs.Options.Submit] that trains a report's missing runs on a Slurm cluster and waits
// until they have ended. Stop leaves the job in the queue; when the cell runs again, it submits what is missing then.
// Tasks run the dmlx command, built from the code that the cell uses, unless o names a program.
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
		o.Wait, o.Say = true, func(line string) { fmt.Println(line) }
		s, err := slurm.Plan(store, jobs, o)
		if err == nil {
			_, err = s.Submit(ctx)
		}
		return err
	}
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
