package presets

import (
	"cmp"
	"context"
	"os"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Train trains a network by a rule on a data set, by name or as a folder of images, and returns its measures. The
// setting is that of the quick preset with seed 1; [Preset.Train] has others, and losses. The run is in the folder
// DMLX_STORE, by default "runs" in the working directory, so that the next call reads it. An interrupted one goes on.
//
// It trains on the backend that [runs.OpenTrainer] chooses: import package backend/xla to have XLA, or else it is the
// Go backend.
func Train(ctx context.Context, data string, rule dmlx.Rule) (*runs.Result, error) {
	quick, err := Parse("quick")
	if err != nil {
		return nil, err
	}
	o, err := objectives.ByRule(rule)
	if err != nil {
		return nil, err
	}
	return quick.Train(ctx, data, Objective{Objective: o}, 1)
}

// Train trains an objective with the settings of the preset and a seed, as the function [Train] does.
func (p Preset) Train(ctx context.Context, data string, o Objective, seed uint64) (*runs.Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if p.Context == nil {
		p.Context = ctx
	}
	spec, err := p.ObjectiveSpec(data, o, seed)
	if err != nil {
		return nil, err
	}
	if err := spec.HasTriplets(); err != nil {
		return nil, err
	}
	store, err := runs.OpenStore(cmp.Or(os.Getenv("DMLX_STORE"), "runs"))
	if err != nil {
		return nil, err
	}
	if r, found, err := store.Lookup(spec); err != nil || found {
		return r, err
	}
	trainer, err := runs.OpenTrainer(runs.Jobs(spec)...)
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	return runs.Run(ctx, trainer, store, spec, nil)
}
