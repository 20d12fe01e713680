package stored

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
)

// newMake is the command of a cluster's tasks; see [slurm.Task].
func newMake(a *app.App) *cobra.Command {
	var jobs, sum string
	var task, of int
	cmd := &cobra.Command{
		Use: "make", Short: "Train the runs of a task", Hidden: true, Args: cobra.NoArgs,
		RunE: app.WithStore(a.Store, func(ctx context.Context, store *runs.Store, _ []string) error {
			return slurm.Task(ctx, store, jobs, sum, task, of, runs.OpenTrainer, a.Note,
				func(p runs.Progress) { a.Line.Show("%s", app.Training(p)) })
		}),
	}
	cmd.Flags().StringVar(&jobs, "jobs", "", "file of the jobs")
	cmd.Flags().StringVar(&sum, "sum", "", "SHA-256 of the file")
	cmd.Flags().IntVar(&task, "task", 0, "number of the task")
	cmd.Flags().IntVar(&of, "of", 1, "number of all tasks")
	return cmd
}
