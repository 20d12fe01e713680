package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// cluster is the flags of a command whose runs may be made by a cluster.
type cluster struct {
	on     string
	dryRun bool
	slurm.Options
}

// flags adds them to a command.
func (c *cluster) flags(f *pflag.FlagSet) {
	f.StringVar(&c.on, "on", "", "where runs are trained: slurm, as a job array with one run a task (default: here)")
	f.BoolVar(&c.dryRun, "dry-run", false, "print what would be submitted, and submit nothing")
	f.BoolVar(&c.Queued, "follow", false, "follow what is queued already; submit nothing")
	c.slurmFlags(f)
}

// slurmFlags adds those that say how Slurm is to make the runs.
func (c *cluster) slurmFlags(f *pflag.FlagSet) {
	f.StringVar(&c.Partition, "partition", "", "Slurm's partition to run on")
	f.StringVar(&c.Gres, "gres", "", "what a task needs, as in gpu:1")
	f.StringVar(&c.Time, "time", "",
		"how long a task may take at once, as in 2:00:00; a run that takes longer goes on in another turn")
	f.IntVar(&c.MaxParallel, "max-parallel", 0, "tasks at a time (default: as many as Slurm lets)")
	f.StringArrayVar(&c.Sbatch, "sbatch", nil, "a further option of sbatch, as in --sbatch=--qos=low; may be repeated")
	f.IntVar(&c.Retries, "retries", 2, "how often a run that fails is tried again")
	f.BoolVar(&c.NoProbe, "no-probe", false, "do not check first whether the nodes see the run store")
}

// check tells whether the flags fit together.
func (c *cluster) check(f *pflag.FlagSet) error {
	switch c.on {
	case "slurm":
		if f.Changed("jobs") {
			return usagef("--jobs is for runs that are made here: leave it out, or --on; --max-parallel bounds a cluster's")
		}
		for _, name := range []string{"out", "ship"} {
			if c.dryRun && f.Changed(name) {
				return usagef("--dry-run makes no runs and writes nothing: leave out --%s", name)
			}
		}
		return nil
	case "":
		for _, name := range []string{"partition", "gres", "time", "max-parallel", "sbatch", "no-probe", "retries",
			"dry-run", "follow"} {
			if f.Changed(name) {
				return usagef("--%s is for runs that a cluster makes: add --on slurm", name)
			}
		}
		return nil
	}
	return usagef("--on %s: there is slurm; without --on, runs are made here", c.on)
}

// dry prints what would be submitted.
func (c *cluster) dry(ctx context.Context, a *app, store *runs.Store, jobs []runs.Job) error {
	s, err := slurm.Plan(ctx, store, jobs, c.Options)
	if err != nil {
		return err
	}
	type run struct {
		Run      string    `json:"run"`
		Portrait bool      `json:"portrait,omitempty"`
		Queued   string    `json:"queued,omitempty"`
		Spec     runs.Spec `json:"spec"`
	}
	runs := []run{}
	queued := 0
	for _, t := range s.Tasks {
		runs = append(runs, run{t.Hash, t.Histograms, t.QueuedIn, t.Spec})
		if t.QueuedIn != "" {
			queued++
		}
	}
	text := fmt.Sprintf("%d runs are missing in %s, %d of them are queued already", len(runs), store.Dir, queued)
	if commands := s.Commands(); len(commands) > 0 {
		text += "\n\n" + strings.Join(commands, "\n") + "\n\n" + strings.TrimSpace(s.Script())
	}
	return a.print(map[string]any{"store": store.Dir, "runs": runs, "commands": s.Commands(), "script": s.Script()}, text)
}

// elsewhere makes runs on the cluster and shows how far they are.
func (c *cluster) elsewhere(a *app, store *runs.Store) func(context.Context, []runs.Job) error {
	return func(ctx context.Context, jobs []runs.Job) error {
		if len(jobs) == 0 {
			return nil
		}
		if c, err := backend.Open(); err == nil {
			a.adviseSIMD(c) // The program that is sent is this one.
		}
		line := a.line
		defer line.end()
		o := c.Options
		if o.Retries == 0 {
			o.Retries = -1 // Which is none; 0 is the default there.
		}
		a.tell(&o, line)
		s, err := slurm.Submit(ctx, store, jobs, o)
		if err != nil {
			return err
		}
		err = s.Follow(ctx, o)
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("no longer following; the runs go on, the same command comes back to them, and dmlx runs "+
				"cancel ends them: %w", ctx.Err())
		}
		return err
	}
}

// tell shows on a line how far a cluster is, and prints what happens.
func (a *app) tell(o *slurm.Options, line *liveLine) {
	o.Say = func(text string) {
		line.end()
		a.logf("%s", text)
	}
	o.Progress = func(s slurm.Status) { line.show("slurm: %3.0f %%  %s", 100*s.Fraction, s) }
}

// newQueue lists what is queued for the store.
func newQueue(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:     "queue",
		Short:   "Show what a cluster trains for the store; --follow until it is done",
		Example: "  dmlx runs queue --follow --store /shared/runs",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := a.store()
			if err != nil {
				return err
			}
			if follow {
				line := a.line
				var o slurm.Options
				a.tell(&o, line)
				err := slurm.Watch(cmd.Context(), store, o)
				line.end()
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
			var text strings.Builder
			w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
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
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Name, l.User, l.Date, status)
			}
			_ = w.Flush() // A strings.Builder does not fail.
			body := strings.TrimRight(text.String(), "\n")
			if len(out) == 0 {
				body = "nothing is queued for " + store.Dir
			}
			return a.print(map[string]any{"store": store.Dir, "submissions": out}, body)
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "stay until all of it is done")
	return cmd
}

// newCancel cancels what is queued for the store.
func newCancel(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "cancel [NAME…]",
		Short:   "Cancel what a cluster trains for the store: all of it, or submissions by their names in dmlx runs queue",
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
				fmt.Sprintf("canceled %d submissions; what they have made is kept", len(ended)))
		},
	}
}

// newMake and newProbe are what a cluster's tasks call; see [slurm.Worker].
func newMake(a *app) *cobra.Command {
	var manifest string
	var task int
	cmd := &cobra.Command{
		Use: "make", Short: "Do a task of a submission", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line := a.line
			w := slurm.Worker{Open: train.Open, Say: func(text string) { a.logf("%s", text) },
				Progress: func(p runs.Progress) { line.show("%s", training(p)) }}
			return w.Run(cmd.Context(), manifest, task)
		},
	}
	cmd.Flags().StringVar(&manifest, "manifest", "", "its manifest")
	cmd.Flags().IntVar(&task, "task", 0, "the task's number")
	return cmd
}

func newProbe(a *app) *cobra.Command {
	var dir, nonce string
	cmd := &cobra.Command{
		Use: "probe", Short: "Answer a probe", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return slurm.Worker{Open: train.Open}.Probe(dir, nonce)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "its folder")
	cmd.Flags().StringVar(&nonce, "nonce", "", "what the folder is known by")
	return cmd
}
