package train

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// With DMLX_TEST_STEPS this test program takes steps on the batches of files, by the flags of takeSteps. Other programs
// compare them with PyTorch's: parity.py and options.py of dmlx/cmd/dmlx/internal/peer, and wholerun.py of dmlx/paper:
//
//	go test -c -o train.test ./dmlx/train
func TestMain(m *testing.M) {
	if os.Getenv("DMLX_TEST_STEPS") == "" {
		os.Exit(m.Run())
	}
	if err := takeSteps(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// takeSteps takes steps on given batches and writes to a folder embeddings.npy, float32 [K, B, D], the normalized
// embeddings of each batch before its step, and weights.safetensors, the weights and running averages after the last.
func takeSteps(args []string) error {
	f := flag.NewFlagSet("steps", flag.ContinueOnError)
	arch := f.String("arch", "", "backbone, or the .onnx file of a network")
	start := f.String("weights", "", "initial weights with the last layer, fc: a safetensors file")
	pixels := f.String("pixels", "", "batches of images, uint8 [K, B, H, H, 3] (.npy)")
	labels := f.String("labels", "", "labels of the batches, int64 [K, B] (.npy)")
	rule := f.String("rule", "cos/con/con", "gradient rule")
	loss := f.String("loss", "", "loss without proxies, instead of a rule")
	miner := f.String("miner", "", "miner of the rule or loss")
	headLR := f.String("head-lr", "", "learning rate of the last layer, or 10x for ten times the network's")
	out := f.String("out", "", "folder to write to")
	var s Steps
	f.Float64Var(&s.LR, "lr", 0, "learning rate")
	f.StringVar(&s.Precision, "precision", "", "precision of the network: bf16 (default float32)")
	for _, o := range OptionFields {
		f.StringVar(o.Of(&s.Options), o.Flag, "", "as of dmlx train")
	}
	s.Mean, s.Std = [3]float32{0.5, 0.5, 0.5}, [3]float32{0.5, 0.5, 0.5}
	colors := func(to *[3]float32) func(string) error {
		return func(text string) error {
			_, err := fmt.Sscanf(text, "%g,%g,%g", &to[0], &to[1], &to[2])
			return err
		}
	}
	f.Func("mean", "mean of the colors, from 0 to 1 (default 0.5)", colors(&s.Mean))
	f.Func("std", "standard deviation of the colors (default 0.5)", colors(&s.Std))
	if err := f.Parse(args); err != nil {
		return err
	}
	text := *rule
	if *loss != "" {
		text = "loss " + *loss
	}
	o, err := objectives.Parse(text)
	if err == nil {
		s.Objective, err = o.WithMiner(cmp.Or(*miner, o.Miner))
	}
	if err == nil && *headLR != "" {
		number, times := strings.CutSuffix(*headLR, "x")
		if s.Options.HeadLR, err = strconv.ParseFloat(number, 64); times {
			s.Options.HeadLR *= s.LR
		}
	}
	if err == nil {
		s.Weights, err = os.ReadFile(*start)
	}
	if err != nil {
		return err
	}
	if s.Arch = backbone.Arch(*arch); weights.IsNetwork(*arch) {
		s.Network, s.Arch = *arch, ""
	}
	var shape, shapeOfLabels []int
	var values []int64
	if values, shape, err = npy.ReadInt64(*pixels); err != nil {
		return err
	}
	s.Pixels = slice.Map(values, func(v int64) uint8 { return uint8(v) })
	if s.Labels, shapeOfLabels, err = npy.ReadInt64(*labels); err != nil {
		return err
	}
	if len(shape) != 5 || shape[2] != shape[3] || len(shapeOfLabels) != 2 {
		return fmt.Errorf("pixels of shape %v, labels of %v: want [K, B, H, H, 3] and [K, B]", shape, shapeOfLabels)
	}
	s.Count, s.Batch, s.Size = shape[0], shape[1], shape[2]
	choice, err := backend.Open()
	if err != nil {
		return err
	}
	end, err := s.Take(context.Background(), choice)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	return errors.Join(
		npy.WriteFloat32(filepath.Join(*out, EmbeddingsFile), end.Embeddings, s.Count, s.Batch, end.Dim),
		os.WriteFile(filepath.Join(*out, "weights.safetensors"), end.Weights, 0o644))
}

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
			noise:    one.Replicate(objectives.Noise(s.Batch, i, 0)),
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
