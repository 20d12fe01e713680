package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Steps are steps of training on given batches from given weights: those of [Trainer.Train] without data set and
// sampler. They serve to compare training with another implementation, step by step.
type Steps struct {
	Arch    backbone.Arch
	Network string // In place of Arch: the path of the ONNX file of a network, see [Config.WithNetwork].
	// Weights are the initial ones with the last layer, fc: a safetensors file with PyTorch's names, or those of Network.
	Weights   []byte
	Objective objectives.Objective // A loss has no proxies.
	LR        float64
	// Options are those of a training with an epoch for each step. Without a schedule the learning rate is constant.
	// Augment must be empty.
	Options Options
	// Precision is that of the network: "" for float32, or [BFloat16].
	Precision string

	Count, Batch, Size int // Numbers of steps and of images in a batch, and the side of an image in pixels.

	Pixels    []uint8 // [Count, Batch, Size, Size, 3], 0…255.
	Labels    []int64 // [Count, Batch]. Only equality matters.
	Mean, Std [3]float32
}

// StepsResult is the result of [Steps.Take].
type StepsResult struct {
	Dim        int
	Embeddings []float32 // Normalized embeddings of each batch before its step: [Count, Batch, Dim].
	Weights    []byte    // The final weights and running averages: a safetensors file.
}

// Take performs the steps. It stops between two steps when ctx is done.
func (s *Steps) Take(ctx context.Context, choice *backend.Choice) (out *StepsResult, err error) {
	defer errs.Catch(&err)
	dim, err := s.check()
	if err != nil {
		return nil, err
	}
	config, err := s.config(dim)
	if err != nil {
		return nil, err
	}
	obj, err := newObjective(config, 0)
	if err != nil {
		return nil, err
	}
	step := compiledStep{key: config.network(), weights: model.NewStore()}
	step.key.memory = config.Memory
	defer step.weights.Finalize()
	if err := step.decode(s.Weights, 0); err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if err := step.markTrained(config.Options); err != nil {
		return nil, err
	}
	take := func(scope *model.Scope, in []*graph.Node) (*graph.Node, *graph.Node) {
		return stepGraph(scope, step.key, obj, obj.stepInputs(in))
	}
	exec, err := model.NewExec(choice.Backend, step.weights, take)
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	colors := samples.Images(&datasets.Set{Mean: s.Mean, Std: s.Std}).Affine()
	number := samples.NumberClasses(s.Labels, nil) // An int64 label may not fit an int32.
	labels := slice.Map(s.Labels, func(label int64) int32 { return number[label] })
	out = &StepsResult{Dim: dim}
	pixels := len(s.Pixels) / s.Count
	for i := range s.Count {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("stopped before step %d of %d: %w", i+1, s.Count, err)
		}
		var one *mesh.Mesh
		v := stepValues{
			images: []mesh.Value{
				one.Replicate(tensors.FromFlatDataAndDimensions(s.Pixels[i*pixels:(i+1)*pixels], s.Batch, s.Size, s.Size, 3)),
			},
			labels:   one.Replicate(tensors.FromFlatDataAndDimensions(labels[i*s.Batch:(i+1)*s.Batch], s.Batch)),
			affine:   one.Replicate(colors),
			noise:    one.Replicate(objectives.Noise(s.Batch, s.Batch+obj.options.bank.Rows(), i, 0)),
			settings: new(held).of(one, config.settings(obj.options, i)),
		}
		embeddings, last, err := exec.Call2(one.Arguments(v.all(obj)...)...)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		f, err := tensors.CopyFlatData[float32](embeddings)
		if err := errors.Join(err, embeddings.FinalizeAll()); err != nil {
			return nil, err
		}
		var sum tally
		if err := sum.add(outcomeOf(last)); err != nil {
			return nil, err
		}
		if sum.notFinite > 0 {
			return nil, fmt.Errorf("step %d is not finite: take a lower learning rate than %g", i+1, s.LR)
		}
		out.Embeddings = append(out.Embeddings, f...)
	}
	p := backbone.Preprocessing{Resize: s.Size, Crop: s.Size, Mean: s.Mean, Std: s.Std}
	out.Weights, err = step.encode(p.Metadata())
	return out, err
}

// config returns the config of a training with an epoch for each step.
func (s *Steps) config(dim int) (c Config, err error) {
	if s.Options.Augment != "" {
		return c, fmt.Errorf("augmentation %q: the batches are given, and not augmented", s.Options.Augment)
	}
	by, err := s.Objective.Parsed() // The zero value is a rule.
	if err != nil {
		return c, err
	}
	c = Config{
		Objective: by, Arch: string(s.Arch), Weights: Random, Dim: dim, ClassesPerBatch: s.Batch,
		ImagesPerClass: 1, LR: s.LR, Epochs: s.Count, StepsPerEpoch: 1, Memory: Memory{Precision: s.Precision},
		Options: s.Options,
	}
	if c.Proxies() > 0 {
		return c, fmt.Errorf("loss %s has proxies, which the given weights do not have", c.Loss)
	}
	if s.Options.Schedule == "" {
		c.Schedule = "constant"
	}
	if s.Network != "" {
		if c, err = c.WithNetwork(s.Network); err != nil {
			return c, err
		}
	}
	if c, err = c.canonicalOptions(); err == nil {
		err = c.Validate()
	}
	if err == nil && s.Network != "" {
		images := &datasets.Images{N: len(s.Labels), Size: s.Size, Pixels: s.Pixels}
		c, _, err = c.prepared(samples.Images(&datasets.Set{Name: "the batches", Train: images, Mean: s.Mean, Std: s.Std}))
	}
	return c, err
}

// check reports what is wrong with the steps, and returns the dimension of the embedding.
func (s *Steps) check() (dim int, err error) {
	if s.Network != "" && s.Arch != "" {
		return 0, fmt.Errorf("the network is both %s and the file %s: want one of them", s.Arch, s.Network)
	}
	if s.Count < 1 || s.Batch < 1 || s.Size < 1 {
		return 0, fmt.Errorf("%d steps of %d images of %d pixels: want at least one of each", s.Count, s.Batch, s.Size)
	}
	if want := s.Count * s.Batch; len(s.Labels) != want {
		return 0, fmt.Errorf("%d labels for %d steps of %d images: want %d", len(s.Labels), s.Count, s.Batch, want)
	}
	if want := s.Count * s.Batch * s.Size * s.Size * 3; len(s.Pixels) != want {
		return 0, fmt.Errorf("%d values of pixels for %d steps of %d images of %d×%d×3: want %d",
			len(s.Pixels), s.Count, s.Batch, s.Size, s.Size, want)
	}
	for c := range 3 {
		if m, d := s.Mean[c], s.Std[c]; m-m != 0 || !(d > 0) || d-d != 0 {
			return 0, fmt.Errorf("colors of mean %v and deviation %v: want finite ones, and deviations above 0", s.Mean, s.Std)
		}
	}
	if dim, err = backbone.HeadDim(s.Weights); err != nil {
		return 0, fmt.Errorf("weights: %w", err)
	}
	return dim, nil
}
