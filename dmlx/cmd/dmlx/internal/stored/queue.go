package stored

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/progress"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
)

// Tell shows the progress of a cluster and prints its events.
func Tell(a *cli.App, o *slurm.Options) {
	o.Say = a.Note
	o.Progress = func(s slurm.Status) { a.Line.Show("slurm: %3.0f %%  %s", 100*s.Fraction, s) }
}

// newQueue lists the submissions of the store.
func newQueue(a *cli.App) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:     "queue",
		Short:   "Show the runs of this store that a cluster trains",
		Example: "  dmlx runs queue --store /shared/runs\n  dmlx runs queue --follow --store /shared/runs",
		Args:    cobra.NoArgs,
		RunE: a.WithStore(func(ctx context.Context, store *runs.Store, _ []string) error {
			if follow {
				var o slurm.Options
				Tell(a, &o)
				err := slurm.Watch(ctx, store, o)
				a.Line.End()
				if err != nil {
					return err
				}
			}
			open, err := slurm.Unfinished(store)
			if err != nil {
				return err
			}
			type listed struct {
				Name string       `json:"name"`
				User string       `json:"user"`
				Date string       `json:"date"`
				Jobs slurm.Status `json:"status"`
			}
			out := []listed{}
			var rows []string
			for _, s := range open {
				status, err := s.Status(ctx)
				if err != nil {
					return err
				}
				if status.Done == status.Jobs {
					continue
				}
				l := listed{s.ID, s.User, s.Date.Local().Format("2006-01-02 15:04"), status}
				out = append(out, l)
				rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", l.Name, l.User, l.Date, status))
			}
			body := text.Table(rows...)
			if len(out) == 0 {
				body = "nothing is queued for " + store.Dir
			}
			return a.Print(map[string]any{"store": store.Dir, "submissions": out}, body)
		}),
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "show their progress until all are done")
	return cmd
}

// newCancel cancels submissions of the store.
func newCancel(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "cancel [NAME…]",
		Short:   "Cancel the runs of this store that a cluster trains: all, or submissions named as in dmlx runs queue",
		Example: "  dmlx runs cancel --store /shared/runs",
		RunE: a.WithStore(func(ctx context.Context, store *runs.Store, names []string) error {
			var chosen []*slurm.Submission
			for _, name := range names {
				s, err := slurm.Open(store, name)
				if err != nil {
					return err
				}
				chosen = append(chosen, s)
			}
			if len(names) == 0 {
				var err error
				if chosen, err = slurm.Unfinished(store); err != nil {
					return err
				}
			}
			ended := []string{}
			for _, s := range chosen {
				if err := s.Cancel(ctx); err != nil {
					return err
				}
				ended = append(ended, s.ID)
			}
			return a.Print(map[string]any{"cancelled": ended},
				fmt.Sprintf("canceled %d submissions; their finished runs are kept", len(ended)))
		}),
	}
}

// newMake and newProbe are the commands of a cluster's tasks; see [slurm.Worker].
func newMake(a *cli.App) *cobra.Command {
	var manifest string
	var task int
	cmd := &cobra.Command{
		Use: "make", Short: "Train the run of a task", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := slurm.Worker{Open: runs.OpenTrainer, Say: a.Note,
				Progress: func(p runs.Progress) { a.Line.Show("%s", progress.Training(p)) }}
			return w.Run(cmd.Context(), manifest, task)
		},
	}
	cmd.Flags().StringVar(&manifest, "manifest", "", "manifest of the submission")
	cmd.Flags().IntVar(&task, "task", 0, "number of the task")
	return cmd
}

func newProbe(a *cli.App) *cobra.Command {
	var dir, nonce string
	cmd := &cobra.Command{
		Use: "probe", Short: "Answer whether this node sees the run store", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return slurm.Worker{Open: runs.OpenTrainer}.Probe(dir, nonce)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the probe")
	cmd.Flags().StringVar(&nonce, "nonce", "", "random name that the folder must contain")
	return cmd
}
