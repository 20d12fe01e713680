package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// presetFlags are the flags that change a preset: how its data are read and how its runs save memory.
type presetFlags struct {
	partial, skipBad bool
	memory           train.Memory
}

func (p *presetFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&p.partial, "allow-partial", false,
		"accept an incomplete copy of a published data set (changes the run's name)")
	f.BoolVar(&p.skipBad, "skip-bad", false, "leave out unreadable images (changes the run's name)")
	f.StringVar(&p.memory.Precision, "precision", "",
		"precision of the network in training: bf16 halves its memory (default float32)")
	f.IntVar(&p.memory.MicroBatch, "micro-batch", 0,
		"images on the device at a time; triplets are still mined in the whole batch, but batch normalization sees a "+
			"micro-batch (default: the batch)")
	f.BoolVar(&p.memory.Recompute, "recompute", false,
		"keep only the inputs of residual blocks and compute the rest again: less memory, more time")
}

// preset returns the preset of --preset, by default quick, changed by the flags.
func (p presetFlags) preset(a *app) (presets.Preset, error) {
	preset, err := presets.Parse(cmp.Or(a.preset, "quick"))
	preset.AllowPartial, preset.SkipBad = p.partial, p.skipBad
	preset.Memory, preset.DataOptions = p.memory, a.dataOptions()
	return preset, err
}
