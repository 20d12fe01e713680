package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// presetFlags are what flags change in a preset: how it takes its data, and how its runs save memory and time.
type presetFlags struct {
	partial, skipBad bool
	thrift           train.Memory
}

func (p *presetFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&p.partial, "allow-partial", false, "take published sets that are not whole; it is part of the run")
	f.BoolVar(&p.skipBad, "skip-bad", false, "leave out images that cannot be read; it is part of the run")
	f.StringVar(&p.thrift.Precision, "precision", "",
		"of the network in training: bf16, in half the memory (default float32)")
	f.IntVar(&p.thrift.MicroBatch, "micro-batch", 0,
		"images on the device at a time (default: the batch); triplets are of the whole batch, batch normalization is not")
	f.IntVar(&p.thrift.MicroBatch, "piece", 0, "the former name of --micro-batch")
	_ = f.MarkHidden("piece") // Fails for a flag that is not there.
	f.BoolVar(&p.thrift.Recompute, "recompute", false,
		"keep the inputs of residual blocks alone, and compute the rest again")
}

// preset returns the preset of --preset, by default quick, with what its flags change.
func (p presetFlags) preset(a *app) (presets.Preset, error) {
	preset, err := presets.Parse(cmp.Or(a.preset, "quick"))
	preset.AllowPartial, preset.SkipBad = p.partial, p.skipBad
	preset.Memory, preset.DataOptions = p.thrift, a.opening()
	return preset, err
}
