package presets

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	if s.Custom() {
		return "train its own rule or loss by runs.Run in your program"
	}
	if _, err := s.Parsed(); err != nil {
		return fmt.Sprintf("use the version of the program that has its rule or loss (%v)", err)
	}
	preset, sizes, found := sizeFlags(s)
	if !found || s.HasFeatures() || s.Decay != 0 { // The command has no flags for these.
		return "train its spec by runs.Run"
	}
	objective := fmt.Sprintf("--rule '%s'", s.Objective)
	if s.Loss != "" {
		objective = fmt.Sprintf("--loss '%s'", strings.TrimPrefix(s.Objective.String(), "loss "))
	}
	data := s.Data
	if !runs.IsPublished(data) && !slices.Contains(datasets.Names(), data) {
		data = "'" + data + "'"
	}
	text := fmt.Sprintf("dmlx train --preset %s --data %s %s --seeds %d --lr %g", preset, data, objective, s.Seed, s.LR)
	if text += sizes; s.HeldOut != 0 {
		text += fmt.Sprintf(" --held-out %d", s.HeldOut)
	}
	set := func(is bool, setting string) {
		if is {
			text += " --set '" + setting + "'"
		}
	}
	set(s.ProxyLR != 0, fmt.Sprintf("proxy_lr=%g", s.ProxyLR))
	for _, f := range train.OptionFields {
		value := *f.Of(&s.Options)
		set(value != "", strings.ReplaceAll(f.Flag, "-", "_")+"="+value)
	}
	set(s.HeadLR != 0, fmt.Sprintf("head_lr=%g", s.HeadLR))
	set(s.Precision != "", "precision="+s.Precision)
	set(s.MicroBatch != 0, fmt.Sprintf("micro_batch=%d", s.MicroBatch))
	set(s.Recompute, "recompute")
	set(s.AllowPartial, "allow_partial")
	set(s.SkipBad, "skip_bad")
	set(s.CropBoxes, "crop_boxes")
	if strings.Contains(sizes, " --weights ") {
		return text
	}
	digest, err := train.Config{Arch: s.Arch}.StartDigest()
	if s.Weights == train.Pretrained && s.NetworkFile == "" && (err != nil || digest != s.WeightsDigest) {
		text += fmt.Sprintf(" --weights FILE, with the weights of digest %s", s.WeightsDigest)
	}
	return text
}

// sizeFlags returns the preset with the fewest flags that a spec's sizes need beside it, and these. found is false if
// the classes or the padding are those of no preset, for which there are no flags.
func sizeFlags(s runs.Spec) (preset, flags string, found bool) {
	fewest := 0
	for _, p := range presets {
		z := p.sizeOf(s.Data)
		if z.TrainClasses != s.TrainClasses || z.TestClasses != s.TestClasses ||
			s.Augment == "" && s.Pad != p.Base.Pad {
			continue
		}
		n, text := 0, ""
		for _, f := range []struct {
			name       string
			have, want any
		}{
			{"batch", [2]int{z.Batch, z.ImagesPerClass}, [2]int{s.Batch(), s.ImagesPerClass}},
			{"dim", z.Dim, s.Dim}, {"epochs", z.Epochs, s.Epochs}, {"steps", z.StepsPerEpoch, s.StepsPerEpoch},
			{"size", p.Base.Size, s.Size}, {"arch", p.Base.Arch, cmp.Or(s.Arch, s.NetworkFile)},
			{"weights", p.Base.Weights, s.Weights},
		} {
			if f.have == f.want {
				continue
			}
			n++
			if f.name == "batch" {
				f.want = fmt.Sprintf("%dx%d", s.ClassesPerBatch, s.ImagesPerClass)
			}
			if f.name == "steps" || f.name == "size" {
				text += fmt.Sprintf(" --set %s=%v", f.name, f.want)
				continue
			}
			text += fmt.Sprintf(" --%s %v", f.name, f.want)
		}
		if !found || n < fewest {
			preset, flags, found, fewest = p.Name, text, true, n
		}
	}
	return preset, flags, found
}
