// Package pretrain has the recipe of the weights that the small network starts from: cross-entropy, before any metric
// learning.
package pretrain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/optim"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

var regen = flag.Bool("regen", false, "train the weights that are part of the program anew, and write them")

// recipe is how weights are trained. The zero value is that of the weights in this repository.
type recipe struct {
	Epochs  int    // 0: 26.
	Batch   int    // 0: 128.
	Seed    uint64 // Of the weights, the order of images and their augmentation.
	classes int    // Fewer classes; 0: all.
}

// What all recipes share: Nesterov momentum, weight decay on all weights, and the one-cycle schedule of Smith as
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

// pretrained trains the small network by cross-entropy on [datasets.Pretraining], whose classes are in no test set. raw
// is a safetensors file without a last layer, misses the share of the images misclassified in the last epoch.
func pretrained(ctx context.Context, choice *backend.Choice, o recipe) (raw []byte, misses float64, err error) {
	defer errs.Catch(&err)
	if o.Epochs, o.Batch = cmp.Or(o.Epochs, 26), cmp.Or(o.Batch, 128); o.Epochs < 0 || o.Batch < 0 {
		return nil, 0, fmt.Errorf("%d epochs of batches of %d: want positive numbers", o.Epochs, o.Batch)
	}
	im, err := datasets.Pretraining(datasets.Options{TrainClasses: o.classes})
	if err != nil {
		return nil, 0, err
	}
	perEpoch := im.N / o.Batch
	if perEpoch == 0 {
		return nil, 0, fmt.Errorf("a batch of %d is more than the %d images", o.Batch, im.N)
	}
	set := &datasets.Set{Train: im}
	set.Mean, set.Std = im.Stats()
	images := samples.Images(set)
	const arch = backbone.Small
	weights := model.NewStore()
	defer weights.Finalize()
	classes := len(im.Names)
	if err := backbone.Init(weights, arch, classes, o.Seed); err != nil {
		return nil, 0, err
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
		return nil, 0, err
	}
	defer step.Finalize()

	colors := images.Affine()
	steps := o.Epochs * perEpoch
	for epoch := range o.Epochs {
		perm := sampling.Stream(o.Seed, sampling.Classes, uint64(epoch)).Perm(im.N)
		wrong := 0.0
		for i := range perEpoch {
			if ctx.Err() != nil {
				return nil, 0, fmt.Errorf("stopped in epoch %d of %d: %w", epoch+1, o.Epochs, ctx.Err())
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
				return nil, 0, err
			}
			pixels := tensors.FromFlatDataAndDimensions(raw, o.Batch, im.Size, im.Size, 3)
			outcome, err := step.Call1(pixels, labels, colors, float32(oneCycle(at, steps)))
			if err != nil {
				return nil, 0, err
			}
			values, err := tensors.CopyFlatData[float32](outcome)
			if err := errors.Join(err, outcome.FinalizeAll(), pixels.FinalizeAll()); err != nil {
				return nil, 0, err
			}
			if math.IsNaN(float64(values[1])) {
				return nil, 0, fmt.Errorf("the loss is not finite in step %d", at+1)
			}
			wrong += float64(values[0])
		}
		misses = wrong / float64(perEpoch)
	}
	for _, name := range []string{"/fc/weight", "/fc/bias"} { // Each training starts with a random last layer.
		if err := weights.DeleteVariable(name); err != nil {
			return nil, 0, err
		}
	}
	raw, err = backbone.EncodeWeights(weights, arch, map[string]string{
		"recipe": fmt.Sprintf("dmlx pretrain: %d epochs, batch %d, seed %d, backend %s",
			o.Epochs, o.Batch, o.Seed, choice.Name),
	})
	return raw, misses, err
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

// TestWeights with -regen replaces the weights in the program by those of the recipe.
func TestWeights(t *testing.T) {
	if *regen {
		choice, err := backend.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, misses, err := pretrained(t.Context(), choice, recipe{})
		if err == nil {
			err = os.WriteFile(filepath.Join("..", "backbone", "weights", "small.safetensors"), raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("training error %.1f %%", 100*misses)
	}
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for _, c := range choices(t) {
		t.Run(c.Name, func(t *testing.T) {
			o := recipe{Epochs: 1, Batch: 32, classes: 2}
			raw, misses, err := pretrained(t.Context(), c, o)
			if err != nil {
				t.Fatal(err)
			}
			if misses <= 0 || misses > 1 || len(raw) < 1e6 {
				t.Errorf("error %g, %d bytes", misses, len(raw))
			}
			if c.Name == "go" {
				return
			}
			again, _, err := pretrained(t.Context(), c, o)
			if err != nil || !bytes.Equal(again, raw) {
				t.Errorf("not the same again: %v", err)
			}
		})
	}
	if peak := oneCycle(29, 100); peak != topRate {
		t.Errorf("peak %g", peak)
	}
	if a, b := oneCycle(0, 100), oneCycle(99, 100); math.Abs(a-topRate/25) > 1e-12 || b > 1e-6 {
		t.Errorf("from %g to %g", a, b)
	}
}

// choices are the Go backend, and the one that is chosen by default where that is another.
func choices(t *testing.T) []*backend.Choice {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	all := []*backend.Choice{{Backend: b, Name: "go"}}
	if other, err := backend.Open(); err == nil && other.Name != "go" {
		all = append(all, other)
	}
	return all
}
