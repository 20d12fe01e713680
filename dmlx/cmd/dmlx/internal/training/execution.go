// Package training has the commands that train: train, reproduce and rates. They share one way: plan the runs, check
// them, then print, submit or train those that are missing, and compare all.
package training

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/jobs"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// execution is what train, reproduce and rates share, and the flags for it. All of them plan their runs, check them,
// then print, submit or train those that are missing, and compare all. A command plans and compares in its own way.
type execution struct {
	*app.App
	runs.Options
	on    cluster
	out   string // Folder for tables and pictures; "" writes none.
	flags *pflag.FlagSet
	light bool // Whether the light backend serves the runs; see [runs.Spec.Light].

	store *runs.Store                    // Set by begin.
	open  func() (*train.Trainer, error) // Opens the backend; set by begin.
}

// add adds the flags.
func (x *execution) add(f *pflag.FlagSet) {
	x.flags = f
	x.AddStore(f)
	f.IntVar(&x.Jobs, "jobs", 0, "runs at a time, each in a process (default: as many as cores and memory allow)")
	app.AddDevices(f, &x.Devices)
	f.Var((*cli.ByteSize)(&x.Keep), "keep", "disk space, as in 8GB, to compute the frozen part of a network once for "+
		"each image (default: none)")
	f.IntVar(&x.Measure, "measure", 0, "measure Recall@1 after every n-th epoch, of the held-out classes or else of the "+
		"test set, for runs show (default: at the end alone)")
	x.on.flags(f)
	f.StringVar(&x.out, "out", "", "folder for tables (Markdown, CSV, LaTeX, HTML) and pictures (SVG, PDF, PNG)")
}

// check checks the flags, before any work.
func (x *execution) check() error {
	if x.CachedOnly && x.on.on != "" {
		return cli.Usagef("--cached-only trains no runs: leave out --on")
	}
	if x.Measure < 0 {
		return cli.Usagef("--measure %d; want a number of epochs, 1 for each", x.Measure)
	}
	return cmp.Or(x.on.check(x.flags), cli.CheckOutDir(x.out))
}

// begin opens the store and says where and how the missing runs of a preset are trained.
func (x *execution) begin(preset presets.Preset) (err error) {
	open := x.App.Store
	if x.CachedOnly {
		open = x.App.ReadStore
	}
	if x.store, err = open(); err != nil {
		return err
	}
	if err := setJobs(&x.Options, x.store, preset); err != nil {
		return err
	}
	x.open = func() (*train.Trainer, error) {
		on, err := x.BackendOn(x.Devices, x.light)
		if file := preset.Base.NetworkFile; err == nil && file != "" {
			var n *onnx.Network
			if n, err = weights.OpenNetwork(file); err == nil {
				err = x.SayNetwork(file, n, on)
			}
		}
		return on, err
	}
	if x.on.on != "" {
		x.Submit = x.on.submit(x.App, x.store)
	}
	return nil
}

// show shows the progress of all runs, after the name of what they are for.
func (x *execution) show(name string) {
	x.Progress = report.Overall(func(done float64, text string) { x.Line.Show("%s%3.0f %%  %s", name, 100*done, text) })
}

// setJobs checks --jobs and completes the options that depend on it. A spec does not contain a file of weights, so that
// runs of a preset with one are trained one after the other in this process. So are heads on features unless --jobs is
// given: their seeds train side by side.
func setJobs(o *runs.Options, store *runs.Store, preset presets.Preset) error {
	file := preset.Base.WeightsPath()
	switch {
	case o.Jobs < 0 || o.Jobs > jobs.Max:
		return cli.Usagef("--jobs %d: want a number of runs, at most %d, or 0 for as many as this machine can train", o.Jobs,
			jobs.Max)
	case file != "" && o.Jobs > 1:
		return cli.Usagef("--jobs %d with the weights in %s: want one job, since other processes do not know the file",
			o.Jobs, file)
	case file != "":
		o.Jobs = 1
	case o.Jobs > 0 || !preset.Base.HasFeatures():
		jobs.Set(o, store)
	}
	return nil
}

// NewJob is the command of the processes that [jobs.Spawn] starts.
func NewJob(a *app.App) *cobra.Command {
	var parallel int
	cmd := &cobra.Command{
		Use: "job", Hidden: true, Short: "Train the runs that standard input lists", Args: cobra.NoArgs,
	}
	cmd.RunE = app.WithStore(a.Store, func(ctx context.Context, store *runs.Store, _ []string) error {
		return jobs.Serve(ctx, cmd.InOrStdin(), a.Stdout, store, parallel)
	})
	cmd.Flags().IntVar(&parallel, "jobs", 1, "runs at a time in this process")
	return cmd
}
