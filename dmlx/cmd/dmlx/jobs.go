package main

import (
	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/jobs"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// jobsUsage explains --jobs.
const jobsUsage = "runs at a time, each in a process of its own (default 0: as many as cores and memory allow)"

// setJobs checks --jobs and completes the options that depend on it.
func setJobs(o *runs.Options, store *runs.Store) error {
	if o.Jobs < 0 || o.Jobs > jobs.Max {
		return usagef("--jobs %d: want a number of runs, at most %d, or 0 for as many as this machine can train", o.Jobs,
			jobs.Max)
	}
	jobs.Set(o, store)
	return nil
}

// setJobsFor is [setJobs] for the runs of a preset. A spec does not contain a file of weights, so that such runs are
// trained one after the other in this process.
func setJobsFor(o *runs.Options, store *runs.Store, preset presets.Preset) error {
	file := preset.Base.WeightsPath()
	if file == "" {
		return setJobs(o, store)
	}
	if o.Jobs > 1 {
		return usagef("--jobs %d with the weights in %s: want one job, since other processes do not know the file", o.Jobs,
			file)
	}
	o.Jobs = 1
	return nil
}

// newJob is the command of the processes that [jobs.Spawn] starts.
func newJob(a *app) *cobra.Command {
	var parallel int
	cmd := &cobra.Command{
		Use: "job", Hidden: true, Short: "Train the runs that standard input lists", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := a.store()
			if err != nil {
				return err
			}
			return jobs.Serve(cmd.Context(), cmd.InOrStdin(), a.stdout, store, parallel)
		},
	}
	cmd.Flags().IntVar(&parallel, "jobs", 1, "runs at a time in this process")
	return cmd
}
