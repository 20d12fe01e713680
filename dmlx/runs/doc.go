// Package experiment makes runs of specs and tables of runs.
//
// A [Spec] says all that decides a run; its hash names the run's directory in a [Store]. [Run] trains, evaluates and
// keeps the [Result]; stopped or killed at any moment, the same call goes on from the last epoch's checkpoint to the
// bit-identical result. A [Preset] sizes the specs, a [Study] enumerates those of a table, and [Reproduce] runs what the
// store lacks, here or elsewhere ([Options]; package slurm sends it to a cluster). [Store.Export] and [Store.Import] take
// runs to another store.
//
//	choice, err := backend.Open()
//	store, err := runs.OpenStore("runs")
//	preset, err := presets.Parse("quick")
//	spec, err := preset.Spec("minicar", dmlx.Rule{Direction: dmlx.DirectionCosOrth}, 1)
//	result, err := runs.Run(ctx, choice, store, spec, nil)
package runs
