// Package runs trains specs and caches their results.
//
// A run is a value: its [Spec] contains everything that decides its numbers, and the hash of the spec names the run.
// [Run] returns the result of a spec. It trains only if the [Store] does not have that result yet. If training is
// stopped or killed, the same call resumes at the last checkpoint and gives the bit-identical result. [RunAll] does
// this for many specs: in this process, in several processes, or on a cluster (package slurm). Package presets makes
// specs, package paper makes the tables and figures of the paper from results.
//
//	store, err := runs.OpenStore("runs")
//	preset, err := presets.Parse("quick")
//	spec, err := preset.Spec("minicar", dmlx.Rule{Direction: dmlx.DirectionCosOrth}, 1)
//	trainer, err := train.Open()
//	result, err := runs.Run(ctx, trainer, store, spec, nil)
//
// The examples of [Store] and [RunAll] are complete programs. Each run has a directory in the store, named by its hash:
//
//	spec.json                          the Spec
//	metrics.jsonl                      one line per epoch: a train.Epoch
//	checkpoint/state.json              the last checkpoint; it names its weights file
//	checkpoint/weights-N.safetensors   the weights after epoch N
//	triplets/epoch-N.npy               S_ap and S_an of the valid triplets of each of the last five epochs, [n, 2]
//	embeddings.npy, labels.npy         the test set, [images, dim] float32 and [images] int64
//	gallery_embeddings.npy, …          the gallery, if the data set has one
//	result.json                        the Result, written last: a run without it is unfinished
//	histograms.json                    the Histograms, if they were computed
//
// Outside these directories the store has .locks (a file per lock) and .slurm (package slurm).
// A directory needs nothing outside itself: to move a run to another store, copy it, and [Store.Verify] says
// whether it arrived whole. [Bundled] are the results that come with the program; [Store.Lookup] finds them, too.
package runs
