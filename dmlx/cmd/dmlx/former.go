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
	"runs cancel": "scancel JOB cancels a job; its finished runs are kept",
	"runs queue":  "squeue and sacct tell of the job whose number --on slurm printed",
	"runs export": "a run is a folder of the store: copy it by rsync or tar",
	"runs import": "copy the folders of runs into the store by rsync or tar, then check them by dmlx runs verify",
	"runs merge":  "copy the folders of runs into the store by rsync or tar, then check them by dmlx runs verify",
	"search":      "dmlx help optuna > tune.py writes a search by Optuna, and dmlx rates chooses learning rates",
	"bench": "in a clone of the repository, go test ./dmlx/cmd/dmlx -run '^$' -bench 'Step|ResNet|Input|Recall' " +
		"measures this machine",
	"train steps": "in a clone of the repository, DMLX_TEST_STEPS=1 with the tests of ./dmlx/train takes steps on " +
		"given batches",
	"version":        "dmlx --version prints it, and dmlx doctor has the versions of the modules",
	"gallery export": "numpy.load reads rows.npy of an index, float32 [N, D], for FAISS and hnswlib",
}

// formerFlags are flags that commands no longer have, and what stands in their place.
var formerFlags = map[string]string{
	"follow":           "squeue and sacct tell of the job, and the same command shows what is there",
	"retries":          "the same command submits again what has failed",
	"no-probe":         "nothing is probed; the run store must be in a folder that the nodes share",
	"estimate":         "the progress of a command shows the time left",
	"exchange":         "want it behind the loss, as in --loss 'ms, pair=lin-ms'",
	"miner":            "want it behind the rule or loss, as in --loss 'ms, miner ms'",
	"seed":             "want --seeds, which may be one",
	"images-per-class": "want --batch, as in 8x4",
	"fine-grained":     "want --set fine_grained=DATA",
	"separated":        "want --set coarse_grained=DATA",
	"width":            "figures scale: LaTeX's width is enough",
	"typeface":         "want --print",
	"no-provenance":    "want --print",
	"preset":           "this command trains nothing; DMLX_PRESET is that of notebooks",
	"store":            "this command reads no runs",
	"steps":            "want --set steps=N",
	"size":             "want --set size=PIXELS",
	"options":          "want --set 'options=tau=2&sum'",
	"optimizer":        "want --set optimizer=adam",
	"schedule":         "want --set schedule=cosine",
	"head-lr":          "want --set head_lr=0.1",
	"freeze-bn":        "want --set freeze_bn=all",
	"augment":          "want --set augment=flip",
	"memory-bank":      "embeddings of former batches are no longer compared",
	"train-only":       "want --set train_only=REGEXP",
	"freeze":           "want --set freeze=REGEXP",
	"lora":             "want --set 'lora=attn\\.qkv\\.weight:8'",
	"precision":        "want --set precision=bf16",
	"recompute":        "want --set recompute=true",
	"proxy-lr":         "want --set proxy_lr=0.5",
	"allow-partial":    "want --set allow_partial=true",
	"skip-bad":         "want --set skip_bad=true",
	"crop-boxes":       "want --set crop_boxes=true",
	"restore":          "remove or rename the copy of a notebook, and the next start of dmlx lab brings it as shipped",
	"remove-kernel":    "jupyter kernelspec remove dmlx takes the kernel out of your own Jupyter",
	"keep":             "the archive is removed when it is unpacked; curl keeps one",
	"out":              "--matrix and --pairs write what a gradient is made of",
	"half":             "an index keeps its rows as float32",
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
