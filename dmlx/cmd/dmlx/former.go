package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
)

// formerCommands are commands that dmlx no longer has, and what stands in their place.
var formerCommands = map[string]string{
	"reproduce claims": "dmlx ledger --table Claims has each sentence of the paper with its verdict",
	"reproduce ledger": "it is a command of its own, as in dmlx ledger --table 3 --verdict undecided",
	"pretrain": "in a clone of the repository, go test ./dmlx/pretrain -run TestWeights -regen trains the weights " +
		"that the small network starts from",
	"data get": "dmlx data list has the address and the checksum of each archive: curl -C - -O URL fetches it, and tar " +
		"or unzip unpacks it into the folder data",
	"data info": "dmlx data list and verify tell of the published sets, dmlx train of a folder; fdupes and the like " +
		"find images that are there twice",
	"runs cancel": "scancel JOB cancels a job; its finished runs are kept",
	"runs look":   "dmlx lab run opens the notebook that shows what a run finds, and what it misses",
	"runs queue":  "squeue and sacct tell of the job whose number --on slurm printed",
	"runs export": "a run is a folder of the store: copy it by rsync or tar",
	"runs import": "copy the folders of runs into the store by rsync or tar, then check them by dmlx runs verify",
	"runs merge":  "copy the folders of runs into the store by rsync or tar, then check them by dmlx runs verify",
	"search":      "dmlx help optuna > tune.py writes a search by Optuna, and dmlx rates chooses learning rates",
	"bench": "in a clone of the repository, go test ./dmlx/cmd/dmlx -run '^$' -bench 'Step|ResNet|Input|Recall' " +
		"measures this machine",
	"train steps": "in a clone of the repository, DMLX_TEST_STEPS=1 with the tests of ./dmlx/train takes steps on " +
		"given batches",
	"weights peft": "dmlx weights onnx exports the network with its low-rank matrices merged",
	"weights get":  "dmlx train --arch resnet18 names the address of ImageNet weights, and where they belong",
	"gradient": "dmlx rule NAME --pytorch writes a module whose gradient is the rule's, or --jax one for JAX; in Go " +
		"it is dissect.Rule",
	"gallery": "dmlx embed writes the rows of a folder's images, which its help says how to search",
}

// formerFlags are flags that commands no longer have, and what stands in their place. Those that a key of presets
// replaces need no entry.
var formerFlags = map[string]string{
	"exchange":  "want it behind the loss, as in --loss 'ms, pair=lin-ms'",
	"miner":     "want it behind the rule or loss, as in --loss 'ms, miner ms'",
	"separated": "want --set coarse_grained=DATA",
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
