// Package pretrain trains the weights that the small network starts from, by cross-entropy, before any metric learning.
// [Features] are what the network says of images with such weights.
package pretrain

import (
	"cmp"
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
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/optim"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Options are the options of [Weights]. The zero value is the recipe of the weights in this repository.
type Options struct {
	Epochs   int                  // 0: 26.
	Batch    int                  // 0: 128.
	Seed     uint64               // Of the weights, the order of images and their augmentation.
	Progress func(train.Progress) // Called after each step; ViolationRate is the classification error.

	classes int // Fewer classes, for tests.
}

// The recipe of [Weights]: Nesterov momentum, weight decay on all weights, and the one-cycle schedule of Smith as
// PyTorch implements it. The learning rate rises over the first 30 % of the steps and falls to almost 0, each by half
// a cosine.
const (
	topRate   = 0.2
	momentum  = 0.9
	decay     = 5e-4
	smoothing = 0.1 // Of the labels.
	rise      = 0.3
	pad       = 2
)

// Result is the result of [Weights].
type Result struct {
	Weights []byte  // A safetensors file without a last layer.
	Error   float64 // Share of the training images that are misclassified in the last epoch.
	Seconds float64
}

// Weights trains the small network by cross-entropy on [datasets.Pretraining], whose classes are in no test set.
func Weights(ctx context.Context, choice *backend.Choice, o Options) (out *Result, err error) {
	defer errs.Catch(&err)
	started := time.Now()
	if o.Epochs, o.Batch = cmp.Or(o.Epochs, 26), cmp.Or(o.Batch, 128); o.Epochs < 0 || o.Batch < 0 {
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
	set := &datasets.Set{Train: im}
	set.Mean, set.Std = im.Stats()
	images := samples.Images(set)
	const arch = backbone.Small
	weights := model.NewStore()
	defer weights.Finalize()
	classes := len(im.Names)
	if err := backbone.Init(weights, arch, classes, o.Seed); err != nil {
		return nil, err
	}
	variables := backbone.Trainable(weights)
	optimizer := optim.Optimizer{Momentum: momentum, Nesterov: true, WeightDecay: decay}
	graph := func(scope *model.Scope, pixels, labels, colors, rate *Node) *Node {
		logits := arch.Embed(scope, samples.Scaled(pixels, colors), classes, backbone.Pass{Training: true})
		logProbabilities := LogSoftmax(logits, -1)
		target := OneHot(labels, classes, dtypes.Float32)
		right := ReduceSum(Mul(target, logProbabilities), -1)
		loss := Neg(ReduceAllMean(Add(MulScalar(right, 1-smoothing),
			MulScalar(ReduceMean(logProbabilities, -1), smoothing))))
		nodes := slice.Map(variables, func(v *model.Variable) *Node { return v.NodeValue(loss) })
		rates := slices.Repeat([]*Node{rate}, len(nodes))
		optimizer.Update(weights, variables, nodes, rates, Gradient(loss, nodes...), nil)
		wrong := ReduceAllMean(ConvertDType(NotEqual(ArgMax(logits, -1, dtypes.Int32), labels), dtypes.Float32))
		return Stack([]*Node{wrong, loss}, 0)
	}
	step, err := model.NewExec(choice.Backend, weights, graph)
	if err != nil {
		return nil, err
	}
	defer step.Finalize()

	out = &Result{}
	colors := images.Affine()
	steps := o.Epochs * perEpoch
	var pace train.Pace
	for epoch := range o.Epochs {
		perm := sampling.Stream(o.Seed, sampling.Classes, uint64(epoch)).Perm(im.N)
		wrong := 0.0
		for i := range perEpoch {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("stopped in epoch %d of %d: %w", epoch+1, o.Epochs, ctx.Err())
			}
			at := epoch*perEpoch + i
			some := perm[i*o.Batch : (i+1)*o.Batch]
			raw, labels := make([]byte, o.Batch*im.Size*im.Size*3), make([]int32, o.Batch)
			for k, image := range some {
				labels[k] = int32(im.Labels[image])
			}
			augment := &samples.Augment{Rand: sampling.Stream(o.Seed, sampling.Augment, uint64(at)),
				Augmentation: samples.Augmentation{Crop: samples.PadCrop, Pad: pad, Flip: true}}
			if err := images.Train.Read(raw, some, augment); err != nil {
				return nil, err
			}
			pixels := tensors.FromFlatDataAndDimensions(raw, o.Batch, im.Size, im.Size, 3)
			outcome, err := step.Call1(pixels, labels, colors, float32(oneCycle(at, steps)))
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
				p := train.Progress{Epoch: epoch + 1, Epochs: o.Epochs, Step: at + 1, Steps: steps,
					ViolationRate: wrong / float64(i+1)}
				p.StepRate, p.Left = pace.At(float64(p.Step), float64(p.Steps))
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
	const low, end = topRate / 25, topRate / 25 / 1e4
	cosine := func(from, to, share float64) float64 { return to + (from-to)/2*(1+math.Cos(math.Pi*share)) }
	top := rise*float64(steps) - 1
	if at := float64(step); at <= top {
		return cosine(low, topRate, at/top)
	}
	return cosine(topRate, end, (float64(step)-top)/(float64(steps-1)-top))
}

// FeatureRecall returns Recall@1 of the test images of a data set by the features of the small network with the given
// weights, without metric learning.
func FeatureRecall(ctx context.Context, choice *backend.Choice, weights []byte, data string) (float64, error) {
	set, err := datasets.Open(data, datasets.Options{Size: 32})
	if err != nil {
		return 0, err
	}
	images := samples.Images(set)
	of := &samples.Data{Name: data}
	for _, part := range []struct{ to, from *samples.Split }{{&of.Test, &images.Test}, {&of.Gallery, &images.Gallery}} {
		if *part.from == nil {
			continue
		}
		if *part.to, err = features(ctx, choice, weights, images, *part.from); err != nil {
			return 0, err
		}
	}
	return heads.FeatureRecall(ctx, choice.Backend, of)
}

// Features returns the features, [N, F], of the training and the test images of a data set by the small network with
// the given weights, for a head to be trained on; see [samples.Features]. The images are 32 × 32 pixels. Test features
// have no gallery: where images have one, it is part of the test set, whose images are all ranked against each other.
func Features(
	ctx context.Context, choice *backend.Choice, weights []byte, set *datasets.Set,
) (training, test *samples.Array, err error) {
	images := samples.Images(set)
	if training, err = features(ctx, choice, weights, images, images.Train); err == nil {
		test, err = features(ctx, choice, weights, images, images.Test)
	}
	if err != nil || images.Gallery == nil {
		return training, test, err
	}
	gallery, err := features(ctx, choice, weights, images, images.Gallery)
	if err == nil {
		test.Values, test.Classes = append(test.Values, gallery.Values...), slices.Concat(test.Classes, gallery.Classes)
	}
	return training, test, err
}

// features returns the features of a split of images by the small network with the given weights.
func features(
	ctx context.Context, choice *backend.Choice, weights []byte, images *samples.Data, of samples.Split,
) (out *samples.Array, err error) {
	defer errs.Catch(&err)
	store := model.NewStore()
	defer store.Finalize()
	const arch, rows = backbone.Small, 128
	if _, err := backbone.DecodeWeights(weights, store, backbone.LoadOptions{Arch: arch, WithoutHead: true}); err != nil {
		return nil, err
	}
	exec, err := model.NewExec(choice.Backend, store, func(scope *model.Scope, pixels, colors *Node) *Node {
		return arch.Features(scope, samples.Scaled(pixels, colors), backbone.Pass{})
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	out = &samples.Array{Dims: []int{arch.Width()}, Classes: of.Labels()}
	one := int(of.Shape().ByteSize())
	raw := make([]byte, rows*one)
	for some := range slices.Chunk(samples.All(of), rows) {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("stopped while images were embedded: %w", ctx.Err())
		}
		if err := of.Read(raw[:len(some)*one], some, nil); err != nil {
			return nil, err
		}
		pixels := tensors.FromFlatDataAndDimensions(raw, append([]int{rows}, of.Shape().Dimensions...)...)
		embedded, err := exec.Call1(pixels, images.Affine())
		if err != nil {
			return nil, err
		}
		out.Values = append(out.Values, graphs.Floats(embedded)[:len(some)*arch.Width()]...)
	}
	return out, nil
}
