package presets

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// WithCommand returns the error, with the command that trains what is missing if it is a [MissingError].
func WithCommand(err error) error {
	var missing *runs.MissingError
	if errors.As(err, &missing) {
		return fmt.Errorf("%w; to train it: %s", err, TrainCommand(missing.Spec))
	}
	return err
}

// makeCommand returns the command that trains a spec.
func TrainCommand(s runs.Spec) string {
	if _, err := s.ParsedRule(); err != nil && s.Loss == "" {
		return "run it again by the rule in your program (runs.Run)"
	}
	preset := Of(s)
	if preset == "custom" || s.HeldOut != 0 || s.Decay != 0 { // Of which train has no flags.
		return "run it again by runs.Run with its spec"
	}
	by := fmt.Sprintf("--rule '%s'", s.Rule)
	if s.Loss != "" {
		by = fmt.Sprintf("--loss '%s'", s.Loss)
		for _, f := range [][2]string{{"miner", s.Miner}, {"exchange", s.Exchange}} {
			if f[1] != "" {
				by += fmt.Sprintf(" --%s '%s'", f[0], f[1])
			}
		}
		if s.ProxyLR != 0 {
			by += fmt.Sprintf(" --proxy-lr %g", s.ProxyLR)
		}
	}
	data := s.Data
	if !runs.IsPublished(data) && !slices.Contains(datasets.Names(), data) {
		data = "'" + data + "'"
	}
	text := fmt.Sprintf("dmlx train --preset %s --data %s %s --seed %d --lr %g", preset, data, by, s.Seed, s.LR)
	if s.Precision != "" {
		text += " --precision " + s.Precision
	}
	if s.MicroBatch != 0 {
		text += fmt.Sprintf(" --piece %d", s.MicroBatch)
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
	if digest, err := (train.Config{Arch: s.Arch}).StartDigest(); s.Weights == train.Pretrained && (err != nil || digest != s.WeightsDigest) {
		text += fmt.Sprintf(" --weights FILE, with the weights of digest %s", s.WeightsDigest)
	}
	return text
}
