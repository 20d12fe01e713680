package training

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
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
	f.StringVar(&c.on, "on", "", "where runs are trained: slurm, as a job array of the missing runs (default: this "+
		"machine)")
	f.BoolVar(&c.dryRun, "dry-run", false, "print the job's script without submitting it")
	f.BoolVar(&c.Wait, "wait", false, "wait until the job has ended, as sbatch --wait does, and go on")
	f.StringVar(&c.Partition, "partition", "", "Slurm's partition to run on")
	f.StringVar(&c.Gres, "gres", "", "generic resources of a task, as in gpu:1 (default: a GPU for each of "+
		"several --devices)")
	f.StringVar(&c.Time, "time", "",
		"time limit of a task, as in 2:00:00; a longer run is requeued and goes on")
	f.IntVar(&c.MaxParallel, "max-parallel", 0, "tasks at a time (default: Slurm's own limit)")
	f.StringArrayVar(&c.Sbatch, "sbatch", nil, "another option of sbatch, as in --sbatch=--qos=low; may be repeated")
}

// check checks that the flags fit together.
func (c *cluster) check(f *pflag.FlagSet) error {
	switch c.on {
	case "slurm":
		if f.Changed("jobs") {
			return cli.Usagef("--jobs is for runs on this machine: use --max-parallel with --on slurm")
		}
		for _, name := range []string{"out", "write-bundled"} {
			if !c.Wait && f.Changed(name) {
				return cli.Usagef("--on slurm submits the runs and ends: add --wait, or leave out --%s and give it when they are "+
					"there", name)
			}
		}
		return nil
	case "":
		for _, name := range []string{"partition", "gres", "time", "max-parallel", "sbatch", "wait", "dry-run"} {
			if f.Changed(name) {
				return cli.Usagef("--%s is for runs on a cluster: add --on slurm", name)
			}
		}
		return nil
	}
	return cli.Usagef("--on %s: want slurm, or no --on to train on this machine", c.on)
}

// submitted is the JSON of a job array.
type submitted struct {
	Store  string   `json:"store"`
	Runs   []string `json:"runs"`
	Busy   int      `json:"busy"` // Missing runs that are trained now.
	Job    string   `json:"job"`
	Dir    string   `json:"dir"` // Of the script and the logs.
	Script string   `json:"script"`
}

// submit returns a function that submits runs to the cluster, or with --dry-run prints the script. It returns when they
// are trained, or else [cli.ErrElsewhere].
func (c *cluster) submit(a *app.App, store *runs.Store) func(context.Context, []runs.Job) error {
	return func(ctx context.Context, jobs []runs.Job) error {
		if len(jobs) == 0 && !c.dryRun {
			return nil
		}
		o := c.Options
		if o.Wait {
			o.Say = a.Note
		}
		s, err := slurm.Plan(store, jobs, o)
		if err != nil {
			return err
		}
		id, text := "", "nothing was submitted"
		if c.dryRun {
			text = fmt.Sprintf("%d runs are missing in %s\n\n%s", len(s.Jobs), store.Dir, strings.TrimSpace(s.Script))
		} else if id, err = s.Submit(ctx); err != nil || o.Wait {
			return err
		} else if len(s.Jobs) > 0 {
			text = fmt.Sprintf("submitted %d runs as job %s, with its script and logs in %s\n  squeue --job %s\n  sacct "+
				"--job %s\nThe same command shows the results when they are there, and submits what is missing then.",
				len(s.Jobs), id, s.Dir, id, id)
		}
		if s.Busy > 0 {
			text = fmt.Sprintf("%d runs are trained now and not submitted again\n%s", s.Busy, text)
		}
		missing := slice.Map(s.Jobs, func(j runs.Job) string { return j.Spec.Hash() })
		return cmp.Or(a.Print(submitted{store.Dir, missing, s.Busy, id, s.Dir, s.Script}, text), cli.ErrElsewhere)
	}
}
