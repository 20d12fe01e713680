package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/experiment"
)

// presetFlags are what flags change of a preset: how it takes its data, and how its runs save memory and time.
type presetFlags struct {
	partial, skipBad bool
	thrift           experiment.Thrift
}

func (p *presetFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&p.partial, "allow-partial", false, "take published sets that are not whole; it is part of the run")
	f.BoolVar(&p.skipBad, "skip-bad", false, "leave out images that cannot be read; it is part of the run")
	f.StringVar(&p.thrift.Precision, "precision", "", "of the network while it is trained: bf16, in half the memory (default float32)")
	f.IntVar(&p.thrift.Piece, "piece", 0, "images of a batch on the device at a time; triplets are of the whole batch, batch normalisation of a piece")
	f.BoolVar(&p.thrift.Recompute, "recompute", false, "keep the inputs of residual blocks alone, and compute the rest again")
}

// preset is that of --preset, by default quick, with what its flags change.
func (p presetFlags) preset(a *app) (experiment.Preset, error) {
	preset, err := experiment.ParsePreset(cmp.Or(a.preset, "quick"))
	preset.AllowPartial, preset.SkipBad, preset.Thrift, preset.Opening = p.partial, p.skipBad, p.thrift, a.opening()
	return preset, err
}
