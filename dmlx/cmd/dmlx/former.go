package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
)

// formerCommands are commands that dmlx no longer has, and what stands in their place.
var formerCommands = map[string]string{
	"runs cancel": "scancel JOB cancels a job; its finished runs are kept",
	"runs queue":  "squeue and sacct tell of the job whose number --on slurm printed",
	"runs export": "a run is a folder of the store: copy it by rsync or tar",
	"runs import": "copy the folders of runs into the store by rsync or tar, then check them by dmlx runs verify",
	"runs merge":  "copy the folders of runs into the store by rsync or tar, then check them by dmlx runs verify",
	"bench": "in a clone of the repository, go test ./dmlx/cmd/dmlx -run '^$' -bench 'Step|ResNet|Input|Recall' " +
		"measures this machine",
	"train steps": "in a clone of the repository, DMLX_TEST_STEPS=1 with the tests of ./dmlx/train takes steps on " +
		"given batches",
}

// formerFlags are flags that no command has any more, and what stands in their place.
var formerFlags = map[string]string{
	"follow":   "squeue and sacct tell of the job, and the same command shows what is there",
	"retries":  "the same command submits again what has failed",
	"no-probe": "nothing is probed; the run store must be in a folder that the nodes share",
	"estimate": "the progress of a command shows the time left",
}

// addFormer adds a hidden command for each former one. It fails with the sentence that says what to use instead.
func addFormer(root *cobra.Command) {
	for path, instead := range formerCommands {
		parent := root
		for word := range strings.SplitSeq(path, " ") {
			below, _, err := parent.Find([]string{word})
			if err != nil || below == parent {
				below = &cobra.Command{Use: word, Hidden: true}
				parent.AddCommand(below)
			}
			parent = below
		}
		parent.DisableFlagParsing = true // Its flags went with it.
		parent.PersistentPreRunE = func(*cobra.Command, []string) error { return nil }
		parent.RunE = func(*cobra.Command, []string) error { return cli.Usagef("dmlx %s is gone: %s", path, instead) }
	}
}
