package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// PretrainOptions are the options of [Pretrain]. The zero value is the recipe of the weights in this repository.
type PretrainOptions struct {
	Epochs   int            // 0: 26.
	Batch    int            // 0: 128.
	Seed     uint64         // Of the weights, the order of images and their augmentation.
	Progress func(Progress) // Called after each step; ViolationRate is the classification error.

	classes int // Fewer classes, for tests.
}

// The recipe of [Pretrain]: Nesterov momentum, weight decay on all weights, and the one-cycle schedule of Smith as
// PyTorch implements it. The learning rate rises over the first 30 % of the steps and falls to almost 0, each by half
// a cosine.
const (
	pretrainRate      = 0.2
	pretrainMomentum  = 0.9
	pretrainDecay     = 5e-4
	pretrainSmoothing = 0.1 // Of the labels.
	pretrainRise      = 0.3
	pretrainPad       = 2
)

// PretrainResult is the result of [Pretrain].
type PretrainResult struct {
	Weights []byte  // A safetensors file without a last layer.
	Error   float64 // Share of the training images that are misclassified in the last epoch.
	Seconds float64
}

// Pretrain trains the small network by cross-entropy on [datasets.Pretraining], whose classes are in no test set.
func Pretrain(ctx context.Context, choice *backend.Choice, o PretrainOptions) (*PretrainResult, error) {
	r, err := pretrain(ctx, choice, o)
	return r, errs.Error(err)
}

func pretrain(ctx context.Context, choice *backend.Choice, o PretrainOptions) (*PretrainResult, error) {
	started := time.Now()
	if o.Epochs == 0 {
		o.Epochs = 26
	}
	if o.Batch == 0 {
		o.Batch = 128
	}
	if o.Epochs < 0 || o.Batch < 0 {
		return nil, fmt.Errorf("%d epochs of batches of %d: want positive numbers", o.Epochs, o.Batch)
	}
	im, err := datasets.Pretraining(datasets.Options{TrainClasses: o.classes})
	if err != nil {
		return nil, err
	}
	perEpoch := im.N / o.Batch
	if perEpoch == 0 {
		return nil, fmt.Errorf("a batch of %d is more than the %d images", o.Batch, im.N)
	}
	set := &datasets.Set{Name: "pretraining", Train: im}
	set.Mean, set.Std = im.Stats()
	const arch = backbone.Small
	weights := model.NewStore()
	defer weights.Finalize()
	classes := len(im.Names)
	if err := backbone.Init(weights, arch, classes, o.Seed); err != nil {
		return nil, err
	}
	variables := backbone.Trainable(weights)
	optimizer := Optimizer{Momentum: pretrainMomentum, Nesterov: true, WeightDecay: pretrainDecay}
	graph := func(scope *model.Scope, pixels, labels, colors, rate *Node) *Node {
		logits := arch.Embed(scope, samples.Scaled(pixels, colors), classes, backbone.Pass{Training: true})
		logProbabilities := LogSoftmax(logits, -1)
		target := OneHot(labels, classes, dtypes.Float32)
		right := ReduceSum(Mul(target, logProbabilities), -1)
		loss := Neg(ReduceAllMean(Add(MulScalar(right, 1-pretrainSmoothing),
			MulScalar(ReduceMean(logProbabilities, -1), pretrainSmoothing))))
		nodes := nodesOf(variables, loss)
		rates := slices.Repeat([]*Node{rate}, len(nodes))
		optimizer.update(weights, variables, nodes, rates, Gradient(loss, nodes...), nil)
		wrong := ReduceAllMean(ConvertDType(NotEqual(ArgMax(logits, -1, dtypes.Int32), labels), dtypes.Float32))
		return Stack([]*Node{wrong, loss}, 0)
	}
	step, err := model.NewExec(choice.Backend, weights, graph)
	if err != nil {
		return nil, err
	}
	defer step.Finalize()

	order := &sampler{sampling.Sampler{Seed: o.Seed},
		samples.Augmentation{Crop: samples.PadCrop, Pad: pretrainPad, Flip: true}}
	out := &PretrainResult{}
	colors := samples.Images(set).Affine()
	steps := o.Epochs * perEpoch
	var pace pace
	for epoch := range o.Epochs {
		perm := sampling.Stream(o.Seed, sampling.Classes, uint64(epoch)).Perm(im.N)
		wrong := 0.0
		for i := range perEpoch {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("stopped in epoch %d of %d: %w", epoch+1, o.Epochs, ctx.Err())
			}
			at := epoch*perEpoch + i
			some := perm[i*o.Batch : (i+1)*o.Batch]
			b := batch{samples: make([]byte, o.Batch*im.Size*im.Size*3), labels: make([]int32, o.Batch)}
			for k, image := range some {
				b.labels[k] = int32(im.Labels[image])
			}
			if err := samples.ImageSplit(im).Read(b.samples, some, order.augment(at)); err != nil {
				return nil, err
			}
			pixels := tensors.FromFlatDataAndDimensions(b.samples, o.Batch, im.Size, im.Size, 3)
			outcome, err := step.Call1(pixels, b.labels, colors, float32(oneCycle(at, steps)))
			if err != nil {
				return nil, err
			}
			values, err := tensors.CopyFlatData[float32](outcome)
			if err := errors.Join(err, outcome.FinalizeAll(), pixels.FinalizeAll()); err != nil {
				return nil, err
			}
			if math.IsNaN(float64(values[1])) {
				return nil, fmt.Errorf("the loss is not finite in step %d", at+1)
			}
			wrong += float64(values[0])
			if o.Progress != nil {
				p := Progress{Epoch: epoch + 1, Epochs: o.Epochs, Step: at + 1, Steps: steps, ViolationRate: wrong / float64(i+1)}
				p.StepRate, p.Left = pace.at(p.Step, p.Steps)
				o.Progress(p)
			}
		}
		out.Error = wrong / float64(perEpoch)
	}
	for _, name := range []string{"/fc/weight", "/fc/bias"} { // Each training starts with a random last layer.
		if err := weights.DeleteVariable(name); err != nil {
			return nil, err
		}
	}
	out.Weights, err = backbone.EncodeWeights(weights, arch, map[string]string{
		"recipe": fmt.Sprintf("dmlx pretrain: %d epochs, batch %d, seed %d, backend %s",
			o.Epochs, o.Batch, o.Seed, choice.Name),
	})
	out.Seconds = time.Since(started).Seconds()
	return out, err
}

// oneCycle returns the learning rate of a step: it rises from a 25th of the maximum to the maximum and falls to
// almost 0.
func oneCycle(step, steps int) float64 {
	const low, end = pretrainRate / 25, pretrainRate / 25 / 1e4
	cosine := func(from, to, share float64) float64 { return to + (from-to)/2*(1+math.Cos(math.Pi*share)) }
	top := pretrainRise*float64(steps) - 1
	if at := float64(step); at <= top {
		return cosine(low, pretrainRate, at/top)
	}
	return cosine(pretrainRate, end, (float64(step)-top)/(float64(steps-1)-top))
}

// FeatureRecall returns Recall@1 of the test images of a data set by the features of the small network with the given
// weights, without metric learning.
func FeatureRecall(ctx context.Context, choice *backend.Choice, weights []byte, data string) (float64, error) {
	set, err := datasets.Open(data, datasets.Options{Size: 32})
	if err != nil {
		return 0, err
	}
	images := samples.Images(set)
	of := []samples.Split{images.Test}
	if images.Gallery != nil {
		of = append(of, images.Gallery)
	}
	embedded, err := smallFeatures(ctx, choice, weights, images, of...)
	if err != nil {
		return 0, err
	}
	var gallery *retrieval.Embeddings
	if images.Gallery != nil {
		gallery = embedded[1]
	}
	return recallAt1(ctx, choice, data, embedded[0], gallery)
}

// PretrainedFeatures returns the features, [N, F], of the training and the test images of a data set by the small
// network with the given weights, for a head to be trained on; see [samples.Features]. The images are 32 × 32 pixels.
// Test features have no gallery: where images have one, it is part of the test set, whose images are all ranked
// against each other.
func PretrainedFeatures(
	ctx context.Context, choice *backend.Choice, weights []byte, set *datasets.Set,
) (training, test *samples.Array, err error) {
	images := samples.Images(set)
	of := []samples.Split{images.Train, images.Test}
	if images.Gallery != nil {
		of = append(of, images.Gallery)
	}
	embedded, err := smallFeatures(ctx, choice, weights, images, of...)
	if err != nil {
		return nil, nil, err
	}
	array := func(all ...*retrieval.Embeddings) *samples.Array {
		a := &samples.Array{Dims: []int{all[0].Dim}}
		for _, e := range all {
			a.Values, a.Classes = append(a.Values, e.Values...), append(a.Classes, e.Labels...)
		}
		return a
	}
	return array(embedded[0]), array(embedded[1:]...), nil
}

// smallFeatures returns the features of samples by the small network with the given weights.
func smallFeatures(
	ctx context.Context, choice *backend.Choice, weights []byte, images *samples.Data, of ...samples.Split,
) (all []*retrieval.Embeddings, err error) {
	defer errs.Catch(&err)
	store := model.NewStore()
	defer store.Finalize()
	const arch = backbone.Small
	if _, err := backbone.DecodeWeights(weights, store, backbone.LoadOptions{Arch: arch, WithoutHead: true}); err != nil {
		return nil, err
	}
	exec, err := model.NewExec(choice.Backend, store, func(scope *model.Scope, pixels, colors *Node) *Node {
		return arch.Features(scope, samples.Scaled(pixels, colors), backbone.Pass{})
	})
	if err != nil {
		return nil, errs.Error(err)
	}
	defer exec.Finalize()
	step := &compiledStep{key: stepKey{backend: choice.Backend}, exec: exec}
	for _, samples := range of {
		e, err := embedAll(ctx, step, images, samples, arch.Width(), nil)
		if err != nil {
			return nil, errs.Error(err)
		}
		all = append(all, e)
	}
	return all, nil
}
