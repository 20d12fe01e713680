package presets

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// The command of a bundled run has the flags in which its spec differs from the preset's.
func TestCommandOfBundledRun(t *testing.T) {
	t.Parallel()
	bundled, err := runs.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	var run *runs.Result
	for _, x := range bundled {
		if x.Spec.Data == "minicar" && x.Spec.HeldOut == 0 && Of(x.Spec) == "quick" && (run == nil || x.Hash < run.Hash) {
			run = x
		}
	}
	text := WithCommand(&runs.MissingError{Text: "no files", Spec: run.Spec}).Error()
	want := "no files; to train it: dmlx train --preset quick --data minicar --rule '" + run.Spec.Rule + "' --seeds"
	if !strings.HasPrefix(text, want) {
		t.Errorf("%s; want %s…", text, want)
	}
	p, err := Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	rule, err := run.Spec.ParsedRule()
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Spec("minicar", rule, run.Spec.Seed)
	if again.LR = run.Spec.LR; err != nil || again.Hash() != run.Hash {
		t.Errorf("the command trains run %s and not %s, %v", again.Hash(), run.Hash, err)
	}
}

func TestTrainCommand(t *testing.T) {
	t.Parallel()
	p, err := Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := p.Spec("minicar", dmlx.Rule{}, 7)
	if err != nil {
		t.Fatal(err)
	}
	plain := fmt.Sprintf("dmlx train --preset quick --data minicar --rule 'cos/con/con' --seeds 7 --lr %g", spec.LR)
	for want, edit := range map[string]func(*runs.Spec){
		plain: func(*runs.Spec) {},
		plain + " --set 'precision=bf16' --set 'micro_batch=8' --set 'recompute'": func(s *runs.Spec) {
			s.Memory = train.Memory{Precision: train.BFloat16, MicroBatch: 8, Recompute: true}
		},
		strings.Replace(plain, "con'", "con, miner hard'", 1) + " --set 'optimizer=adamw?weight-decay=0.05' " +
			"--set 'schedule=cosine?warmup=20' --set 'freeze_bn=all' --set 'augment=resized-crop+flip' " +
			"--set 'head_lr=0.5'": func(s *runs.Spec) {
			s.Miner, s.Pad = "hard", 0
			s.Options = train.Options{Optimizer: "adamw?weight-decay=0.05", Schedule: "cosine?warmup=20", HeadLR: 0.5,
				FreezeBN: train.FreezeAll, Augment: "resized-crop+flip"}
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
		},
		plain + " --batch 4x8 --dim 64 --set size=24 --weights random": func(s *runs.Spec) {
			s.ClassesPerBatch, s.Dim, s.Size, s.Weights, s.WeightsDigest = 4, 64, 24, train.Random, ""
		},
		plain + " --epochs 2 --set 'augment=flip'": func(s *runs.Spec) {
			s.Epochs, s.Augment, s.Pad = 2, "flip", 0
		},
		plain + " --held-out 4":      func(s *runs.Spec) { s.HeldOut = 4 },
		"train its spec by runs.Run": func(s *runs.Spec) { s.Decay = 0.8 },
		"train its own rule or loss by runs.Run in your program": func(s *runs.Spec) {
			s.Objective = objectives.Objective{Loss: "mine#0123abcd"}
		},
		"use the version of the program that has its rule or loss (rule \"cos/new/con\": no pair weight \"new\"; there are " +
			"con, euc, lin, lin-ms, sig, sig-ms)": func(s *runs.Spec) {
			s.Objective = objectives.Objective{Rule: "cos/new/con"}
		},
		plain + " --weights FILE, with the weights of digest 0123":   func(s *runs.Spec) { s.WeightsDigest = "0123" },
		strings.Replace(plain, "minicar", "'/some photos/birds'", 1): func(s *runs.Spec) { s.Data = "/some photos/birds" },
	} {
		s := spec
		edit(&s)
		if got := TrainCommand(s); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}

	// The flags of another size make the same run.
	small, err := p.With(Settings{Batch: 32, ImagesPerClass: 8, Dim: 64, Size: 24, Weights: train.Random, LR: spec.LR})
	if err != nil {
		t.Fatal(err)
	}
	spec.ClassesPerBatch, spec.Dim, spec.Size, spec.Weights, spec.WeightsDigest = 4, 64, 24, train.Random, ""
	if same, err := small.Spec("minicar", dmlx.Rule{}, 7); err != nil || same.Hash() != spec.Hash() {
		t.Errorf("%s, want %s, %v", same.Canonical(), spec.Canonical(), err)
	}
}
