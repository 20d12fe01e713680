// Package train trains an embedding network by a rule or a loss, and evaluates it. [Trainer.Train] is the whole of it:
// a [Training] goes in, that is a [Config], a data set and a folder, and an [Outcome] comes out; see the Examples.
// Package runs keeps trainings, and presets.Train is one call for a data set or a folder of images.
//
// # Who sets what
//
// A Config has the rule or loss ([objectives.Objective]), the network and its initial weights
// ([Config.WithStart]; [Config.WithModel] and [Config.WithHead] for others), and the numbers of the training. Package
// presets fills in configs for data sets. The caller opens the images. Package runs adds the images to the config
// (runs.Spec), hashes both to an ID and a folder, and stores the outcome. The [backend.Choice] belongs to the Trainer
// and is no part of a config. Only it makes equal configs differ in their numbers, by rounding.
//
// # Checkpoints
//
// [Checkpoint] describes the files of a training. There is one checkpoint, at the end of the last complete epoch.
//
// # GoMLX
//
// The package uses graphs with automatic differentiation (core/graph), tensors (core/tensors), and variables with
// compiled graphs (ml/model). It does not use the following parts, as of GoMLX 0.28.8:
//
//   - ml/train: its Trainer can accumulate gradients, but takes the loss of each micro-batch by itself, whereas the
//     triplets of a step here span all micro-batches. Its Loop takes no context that could stop it. Rules themselves
//     work with ml/train; see the examples of package dmlx.
//   - ml/train/optimizer: an optimizer has one learning rate and one weight decay for all variables; SGD has no
//     momentum. See [optim.Optimizer].
//   - ml/model/checkpoint: its format is GoMLX's own, without checksums. Here other programs read the weights
//     (safetensors with PyTorch's names), and a run killed at any moment must resume to the same bits.
//   - ml/dataset: OnDevice and Buffer prefetch too, but yield tensors for ml/train. If its consumer stops early,
//     OnDevice calls the stop function of iter.Pull2 while its own goroutine may be in next, which iter forbids.
//
// # For maintainers: reading order
//
// The files follow one image from the data set to the result:
//
//   - batch: sampler.go selects the images of a step, package samples reads and augments them, train.go prefetches them
//     to the device;
//   - rule: package objectives parses the rule or the loss of a config, and puts its gradient behind the embeddings;
//   - step: step.go builds the graph of a step, with the options that stepoptions.go reads from a config, microbatch.go
//     that of one with less memory, and trainer.go compiles and caches them;
//   - options: options.go has them all, packages optim, samples and objectives what their texts mean;
//   - run: train.go has the loop over steps, epoch.go the end of an epoch, checkpoint.go what it writes and how a
//     training resumes;
//   - result: evaluate.go embeds the test set and measures it, outcome.go lists the measures and files.
//
// model.go trains a network of your own in place of a backbone, and head.go one of package heads, a small one on frozen
// features. blocks.go trains heads that are chosen, and together.go takes the steps of
// several in one graph.
//
// start.go chooses the last layer of a pretrained network, and whether it is trained, by trials on a part of the
// classes.
//
// devices.go divides the rows of a batch among several devices, by dmlx/internal/mesh.
package train
