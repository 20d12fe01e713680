// Package presets fills in the specs of runs: how large the network is, which data sets take the paper's roles, how
// long a training is, and at which learning rate.
//
// [Parse] returns a [Preset] by name: smoke, quick, full or paper. [Preset.ObjectiveSpec] returns the spec of a rule or
// loss, ready for runs.Run, and [Preset.Train] trains it. The learning rate of a rule or loss is that of its data set
// by [Preset].Rate, measured once for the built-in presets. [Of] goes the other way, from a spec to the name of
// its preset.
//
// [Preset.With] changes settings of all runs, and [Load] reads a preset of the user's own from a TOML file. An
// [Objective] is a rule or loss as a value, which may have functions of the user's own, with a label and a rate.
package presets
