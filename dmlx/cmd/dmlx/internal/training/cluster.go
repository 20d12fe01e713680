package training

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/stored"
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
			return cli.Usagef("--jobs is for runs on this machine: use --max-parallel with --on slurm")
		}
		for _, name := range []string{"out", "write-bundled"} {
			if c.dryRun && f.Changed(name) {
				return cli.Usagef("--dry-run trains no runs and writes nothing: leave out --%s", name)
			}
		}
		return nil
	case "":
		for _, name := range []string{"partition", "gres", "time", "max-parallel", "sbatch", "no-probe", "retries",
			"dry-run", "follow"} {
			if f.Changed(name) {
				return cli.Usagef("--%s is for runs on a cluster: add --on slurm", name)
			}
		}
		return nil
	}
	return cli.Usagef("--on %s: want slurm, or no --on to train on this machine", c.on)
}

// dry prints the submission without submitting it.
func (c *cluster) dry(ctx context.Context, a *cli.App, store *runs.Store, jobs []runs.Job) error {
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
	return a.Print(map[string]any{"store": store.Dir, "runs": runs, "commands": s.Commands(), "script": s.Script()}, body)
}

// elsewhere returns a function that trains runs on the cluster and shows their progress.
func (c *cluster) elsewhere(a *cli.App, store *runs.Store) func(context.Context, []runs.Job) error {
	return func(ctx context.Context, jobs []runs.Job) error {
		if len(jobs) == 0 {
			return nil
		}
		if c, err := backend.Open(); err == nil {
			a.AdviseSIMD(c) // The cluster runs this very program.
		}
		defer a.Line.End()
		o := c.Options
		if o.Retries == 0 {
			o.Retries = -1 // No retries; 0 would mean the default.
		}
		stored.Tell(a, &o)
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
