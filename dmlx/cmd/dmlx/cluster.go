package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/progress"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
)

// cluster holds the flags of a command whose runs a cluster can train.
type cluster struct {
	on     string
	dryRun bool
	slurm.Options
}

// flags adds all of them to a command.
func (c *cluster) flags(f *pflag.FlagSet) {
	f.StringVar(&c.on, "on", "", "where runs are trained: slurm, as a job array with one run per task "+
		"(default: this machine)")
	f.BoolVar(&c.dryRun, "dry-run", false, "print the submission without submitting it")
	f.BoolVar(&c.Queued, "follow", false, "follow the runs that are queued already; submit nothing")
	c.slurmFlags(f)
}

// slurmFlags adds the flags for Slurm.
func (c *cluster) slurmFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Partition, "partition", "", "Slurm's partition to run on")
	f.StringVar(&c.Gres, "gres", "", "generic resources of a task, as in gpu:1 (default: a GPU for each of "+
		"several --devices)")
	f.StringVar(&c.Time, "time", "",
		"time limit of a task, as in 2:00:00; a longer run continues in another task")
	f.IntVar(&c.MaxParallel, "max-parallel", 0, "tasks at a time (default: Slurm's own limit)")
	f.StringArrayVar(&c.Sbatch, "sbatch", nil, "another option of sbatch, as in --sbatch=--qos=low; may be repeated")
	f.IntVar(&c.Retries, "retries", 2, "how many times a failed run is tried again")
	f.BoolVar(&c.NoProbe, "no-probe", false, "do not check first that the nodes share the run store")
}

// check checks that the flags fit together.
func (c *cluster) check(f *pflag.FlagSet) error {
	switch c.on {
	case "slurm":
		if f.Changed("jobs") {
			return usagef("--jobs is for runs on this machine: use --max-parallel with --on slurm")
		}
		for _, name := range []string{"out", "write-bundled"} {
			if c.dryRun && f.Changed(name) {
				return usagef("--dry-run trains no runs and writes nothing: leave out --%s", name)
			}
		}
		return nil
	case "":
		for _, name := range []string{"partition", "gres", "time", "max-parallel", "sbatch", "no-probe", "retries",
			"dry-run", "follow"} {
			if f.Changed(name) {
				return usagef("--%s is for runs on a cluster: add --on slurm", name)
			}
		}
		return nil
	}
	return usagef("--on %s: want slurm, or no --on to train on this machine", c.on)
}

// dry prints the submission without submitting it.
func (c *cluster) dry(ctx context.Context, a *app, store *runs.Store, jobs []runs.Job) error {
	s, err := slurm.Plan(ctx, store, jobs, c.Options)
	if err != nil {
		return err
	}
	type run struct {
		Run        string    `json:"run"`
		Histograms bool      `json:"histograms,omitempty"`
		Queued     string    `json:"queued,omitempty"`
		Spec       runs.Spec `json:"spec"`
	}
	runs := []run{}
	queued := 0
	for _, t := range s.Tasks {
		runs = append(runs, run{t.Hash, t.Histograms, t.QueuedIn, t.Spec})
		if t.QueuedIn != "" {
			queued++
		}
	}
	body := fmt.Sprintf("%d runs are missing in %s; %d of them are queued already", len(runs), store.Dir, queued)
	if commands := s.Commands(); len(commands) > 0 {
		body += "\n\n" + strings.Join(commands, "\n") + "\n\n" + strings.TrimSpace(s.Script())
	}
	return a.print(map[string]any{"store": store.Dir, "runs": runs, "commands": s.Commands(), "script": s.Script()}, body)
}

// elsewhere returns a function that trains runs on the cluster and shows their progress.
func (c *cluster) elsewhere(a *app, store *runs.Store) func(context.Context, []runs.Job) error {
	return func(ctx context.Context, jobs []runs.Job) error {
		if len(jobs) == 0 {
			return nil
		}
		if c, err := backend.Open(); err == nil {
			a.adviseSIMD(c) // The cluster runs this very program.
		}
		defer a.line.End()
		o := c.Options
		if o.Retries == 0 {
			o.Retries = -1 // No retries; 0 would mean the default.
		}
		a.tell(&o)
		s, err := slurm.Submit(ctx, store, jobs, o)
		if err != nil {
			return err
		}
		err = s.Follow(ctx, o)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("stopped following; the runs continue, the same command follows them again, and dmlx "+
				"runs cancel cancels them: %w", ctx.Err())
		}
		return err
	}
}

// tell shows the progress of a cluster and prints its events.
func (a *app) tell(o *slurm.Options) {
	o.Say = a.note
	o.Progress = func(s slurm.Status) { a.line.Show("slurm: %3.0f %%  %s", 100*s.Fraction, s) }
}

// newQueue lists the submissions of the store.
func newQueue(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:     "queue",
		Short:   "Show the runs of this store that a cluster trains",
		Example: "  dmlx runs queue --store /shared/runs\n  dmlx runs queue --follow --store /shared/runs",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := a.store()
			if err != nil {
				return err
			}
			if follow {
				var o slurm.Options
				a.tell(&o)
				err := slurm.Watch(cmd.Context(), store, o)
				a.line.End()
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
				status, err := s.Status(cmd.Context())
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
			return a.print(map[string]any{"store": store.Dir, "submissions": out}, body)
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "show their progress until all are done")
	return cmd
}

// newCancel cancels submissions of the store.
func newCancel(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "cancel [NAME…]",
		Short:   "Cancel the runs of this store that a cluster trains: all, or submissions named as in dmlx runs queue",
		Example: "  dmlx runs cancel --store /shared/runs",
		RunE: func(cmd *cobra.Command, names []string) error {
			store, err := a.store()
			if err != nil {
				return err
			}
			var chosen []*slurm.Submission
			for _, name := range names {
				s, err := slurm.Open(store, name)
				if err != nil {
					return err
				}
				chosen = append(chosen, s)
			}
			if len(names) == 0 {
				if chosen, err = slurm.Unfinished(store); err != nil {
					return err
				}
			}
			ended := []string{}
			for _, s := range chosen {
				if err := s.Cancel(cmd.Context()); err != nil {
					return err
				}
				ended = append(ended, s.ID)
			}
			return a.print(map[string]any{"cancelled": ended},
				fmt.Sprintf("canceled %d submissions; their finished runs are kept", len(ended)))
		},
	}
}

// newMake and newProbe are the commands of a cluster's tasks; see [slurm.Worker].
func newMake(a *app) *cobra.Command {
	var manifest string
	var task int
	cmd := &cobra.Command{
		Use: "make", Short: "Train the run of a task", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := slurm.Worker{Open: runs.OpenTrainer, Say: a.note,
				Progress: func(p runs.Progress) { a.line.Show("%s", progress.Training(p)) }}
			return w.Run(cmd.Context(), manifest, task)
		},
	}
	cmd.Flags().StringVar(&manifest, "manifest", "", "manifest of the submission")
	cmd.Flags().IntVar(&task, "task", 0, "number of the task")
	return cmd
}

func newProbe(a *app) *cobra.Command {
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
