package training

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func flaggedConfig(t *testing.T, args ...string) (train.Config, error) {
	t.Helper()
	var flags trainingFlags
	f := pflag.NewFlagSet("train", pflag.ContinueOnError)
	flags.add(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags.apply(train.Config{
		Objective: objectives.Objective{Rule: "cos/con/con"}, Arch: "small", Weights: train.Random, Dim: 8,
		ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 2,
		LR: 0.5, Epochs: 4, StepsPerEpoch: 5, Options: train.Options{Schedule: "cosine"},
	})
}

func TestTrainingFlags(t *testing.T) {
	t.Parallel()
	plain, err := flaggedConfig(t)
	if err != nil || plain.Options != (train.Options{Schedule: "cosine"}) || plain.Pad != 2 {
		t.Errorf("%+v, %v", plain, err)
	}
	got, err := flaggedConfig(t, "--optimizer", "adam?beta1=0.9", "--head-lr", "10x", "--freeze-bn", "all",
		"--augment", "resized-crop", "--memory-bank", "xbm", "--miner", "hard")
	want := train.Options{Optimizer: "adam", Schedule: "cosine", HeadLR: 5, FreezeBN: "all", Augment: "resized-crop",
		MemoryBank: "xbm?size=1024"}
	if err != nil || got.Options != want || got.Miner != "hard" || got.Pad != 0 || got.Validate() != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = flaggedConfig(t, "--schedule", "", "--head-lr", "0.25"); err != nil || got.Schedule != "" ||
		got.HeadLR != 0.25 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][2]string{
		{"--optimizer", "lion"}, {"--schedule", "step?at=2"}, {"--head-lr", "x"}, {"--head-lr", "-1"}, {"--freeze-bn", "yes"},
		{"--augment", "cutout"}, {"--memory-bank", "xbm?size=2"}, {"--miner", "ms"}, {"--lora", "qkv"},
		{"--lora", "qkv:4"},
	} {
		if _, err := flaggedConfig(t, bad[0], bad[1]); !cli.IsUsage(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want an error of the command line", bad, err)
		}
	}
}
