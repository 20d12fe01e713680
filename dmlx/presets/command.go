package presets

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// WithCommand adds the command that trains the missing run to a [runs.MissingError], and returns other errors
// unchanged.
func WithCommand(err error) error {
	var missing *runs.MissingError
	if errors.As(err, &missing) {
		return fmt.Errorf("%w; to train it: %s", err, TrainCommand(missing.Spec))
	}
	return err
}

// TrainCommand returns the command that trains a spec, or a sentence if no command can.
func TrainCommand(s runs.Spec) string {
	if _, err := s.ParsedRule(); err != nil && s.Loss == "" {
		return "train the custom rule by runs.Run in your program"
	}
	preset := Of(s)
	if preset == "custom" || s.HasFeatures() || s.HeldOut != 0 || s.Decay != 0 { // The command has no flags for these.
		return "train its spec by runs.Run"
	}
	objective := fmt.Sprintf("--rule '%s'", s.Rule)
	if s.Loss != "" {
		objective = fmt.Sprintf("--loss '%s'", s.Loss)
		if s.Exchange != "" {
			objective += fmt.Sprintf(" --exchange '%s'", s.Exchange)
		}
		if s.ProxyLR != 0 {
			objective += fmt.Sprintf(" --proxy-lr %g", s.ProxyLR)
		}
	}
	data := s.Data
	if !runs.IsPublished(data) && !slices.Contains(datasets.Names(), data) {
		data = "'" + data + "'"
	}
	text := fmt.Sprintf("dmlx train --preset %s --data %s %s --seed %d --lr %g", preset, data, objective, s.Seed, s.LR)
	for _, f := range [][2]string{
		{"miner", s.Miner}, {"optimizer", s.Optimizer}, {"schedule", s.Schedule}, {"freeze-bn", s.FreezeBN},
		{"augment", s.Augment}, {"memory-bank", s.MemoryBank},
	} {
		if f[1] != "" {
			text += fmt.Sprintf(" --%s '%s'", f[0], f[1])
		}
	}
	if s.HeadLR != 0 {
		text += fmt.Sprintf(" --head-lr %g", s.HeadLR)
	}
	if s.Precision != "" {
		text += " --precision " + s.Precision
	}
	if s.MicroBatch != 0 {
		text += fmt.Sprintf(" --micro-batch %d", s.MicroBatch)
	}
	if s.Recompute {
		text += " --recompute"
	}
	if s.AllowPartial {
		text += " --allow-partial"
	}
	if s.SkipBad {
		text += " --skip-bad"
	}
	digest, err := train.Config{Arch: s.Arch}.StartDigest()
	if s.Weights == train.Pretrained && (err != nil || digest != s.WeightsDigest) {
		text += fmt.Sprintf(" --weights FILE, with the weights of digest %s", s.WeightsDigest)
	}
	return text
}
