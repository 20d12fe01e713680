package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/optim"
)

// Config says how a network is trained: its rule or loss, the weights that it starts from, the batches, the learning
// rate and the length. A config and the images determine the numbers of a run, up to the rounding of the backend.
// Package presets fills in configs for data sets. Stored configs are JSON.
type Config struct {
	// Objective is the rule or the loss. ProxyLR is the learning rate of the loss's proxies, 0 without proxies. It follows
	// the schedule of LR.
	objectives.Objective
	ProxyLR float64 `json:"proxy_lr,omitempty"`

	// Arch is the backbone and Weights its start, [Pretrained] or [Random]; [Config.WithStart] sets both. WeightsDigest
	// identifies the pretrained weights. Dim is the dimension of the embedding.
	Arch          string `json:"arch"`
	Weights       string `json:"weights"`
	WeightsDigest string `json:"weights_digest,omitempty"`
	Dim           int    `json:"dim"`
	// Model is the identity of a network of the user's own, in place of a backbone: its name and a digest.
	// [Config.WithModel] sets it.
	Model string `json:"model,omitempty"`
	// NetworkFile is the path of the ONNX file whose network is trained. Model has its name and SHA-256, which identify
	// it; the path is no part of a run's identity. [Config.WithNetwork] sets both.
	NetworkFile string `json:"network_file,omitempty"`
	// Head is the head that is trained on frozen features, in place of a backbone; see [Config.WithHead].
	Head string `json:"head,omitempty"`
	// HeadStart is [heads.ChosenStart] for a head whose start, learning rate and number of steps, at most Steps, are
	// chosen on classes held out, so that LR and ProxyLR are not used; "" for one that starts at random.
	HeadStart string `json:"head_start,omitempty"`

	// A batch has ImagesPerClass images of each of ClassesPerBatch classes. Classes with fewer images give all that they
	// have, and further classes fill the batch.
	ClassesPerBatch int `json:"classes_per_batch"`
	ImagesPerClass  int `json:"images_per_class"`
	// Pad is the padding in pixels before the random crop to the original size. [Options].Augment replaces both.
	Pad int `json:"pad"`

	// LR is the learning rate, which follows the schedule of [Config.ScheduleText].
	LR float64 `json:"lr"`
	// Decay is how the bundled searches wrote the schedule "step?at=…": the share of the epochs after which a tenth of the
	// rate is left, or 1 for "constant". Other configs have [Options].Schedule.
	Decay         float64 `json:"decay,omitempty"`
	Epochs        int     `json:"epochs"`
	StepsPerEpoch int     `json:"steps_per_epoch"`

	// Seed determines the initial weights of the last layer (with [Random], of all layers) and of the proxies, the
	// batches, their augmentation, and the noise of a miner that samples.
	Seed uint64 `json:"seed"`

	Memory
	Options

	model       *ownModel // Set by WithModel.
	tail        *split    // Set by [Trainer.divided]: the samples are what the frozen part gives.
	weightsFile string    // Set by WithStart. Not stored: the digest identifies the file.
}

// Memory says how training saves memory and time on its device. Every option changes the numbers of a run, if only by
// rounding, so it is part of the config. The zero value saves nothing.
type Memory struct {
	// Precision is the precision of the network in training: "" for float32, or [BFloat16], which keeps weights, batch
	// normalization, triplets and the gradients at the embeddings in float32 and halves the memory of the rest.
	Precision string `json:"precision,omitempty"`
	// MicroBatch, if not 0, is the number of images that are embedded at a time. The triplets are still those of the
	// whole batch (gradient caching). "piece" is a former name.
	MicroBatch int `json:"piece,omitempty"`
	// Recompute keeps only the inputs of residual blocks for the backward pass and computes the rest again; see
	// [backbone.Pass].
	Recompute bool `json:"recompute,omitempty"`
}

// BFloat16 is the value of [Memory].Precision for bfloat16.
const BFloat16 = "bf16"

// Batch returns the number of images in a batch.
func (c Config) Batch() int { return c.ClassesPerBatch * c.ImagesPerClass }

// Steps returns the number of steps of the whole training.
func (c Config) Steps() int { return c.Epochs * c.StepsPerEpoch }

// ScheduleText returns the schedule of the learning rates, as [optim.ParseSchedule] reads it. A config that names none
// has the paper's.
func (c Config) ScheduleText() string {
	switch {
	case c.Schedule != "":
		return c.Schedule
	case c.Decay == 1:
		return "constant"
	case c.Decay != 0:
		return optim.Schedule{Name: "step", At: []float64{c.Decay}, Factor: 0.1}.String()
	}
	return optim.PaperSchedule
}

// RateAt returns the learning rate of a step, counted from 0: LR times the factor of the schedule, which all other
// learning rates have, too.
func (c Config) RateAt(step int) float64 { return c.scheduled(c.LR, step) }

// scheduled returns a learning rate in a step, counted from 0.
func (c Config) scheduled(rate float64, step int) float64 {
	s, _ := optim.ParseSchedule(c.ScheduleText())                        // Validate has parsed it.
	return rate / (1 / s.Share(step, c.Epochs, max(c.StepsPerEpoch, 1))) // Divided, so that a tenth of 0.1 is 0.01.
}

// Validate reports what is wrong with a config without opening any images. [Config.Fits] checks it against a data
// set.
func (c Config) Validate() (err error) {
	defer func() {
		if err == nil {
			return
		}
		if c.Weights == Pretrained {
			if _, missing := c.pretrained(); missing != nil {
				return // A file that can be put there makes it right.
			}
		}
		err = errs.Invalid(err)
	}()
	if err := c.Objective.Validate(); err != nil {
		return err
	}
	switch has := c.Proxies() > 0; {
	case has && (!(c.ProxyLR > 0) || math.IsInf(c.ProxyLR, 0)):
		return fmt.Errorf("learning rate of the proxies of loss %s is %g, must be a positive number", c.Loss, c.ProxyLR)
	case !has && c.ProxyLR != 0:
		return fmt.Errorf("%s has no proxies: ProxyLR must be 0", c.Objective)
	}
	if err := c.validateModel(); err != nil {
		return err
	}
	if err := c.validateStart(); err != nil {
		return err
	}
	if c.Weights == Pretrained && c.WeightsDigest == "" {
		if _, err := c.pretrained(); err != nil {
			return err
		}
		return errors.New("pretrained weights have no digest: set them by Config.WithStart, or take the spec from a preset")
	}
	if c.Weights != Pretrained && c.Weights != Random {
		return fmt.Errorf("weights %q: there are %s, %s", c.Weights, Pretrained, Random)
	}
	if err := cmp.Or(errs.AtLeast("embedding dimension", c.Dim, 1), errs.AtLeast("padding", c.Pad, 0),
		errs.AtLeast("classes per batch", c.ClassesPerBatch, 1), errs.AtLeast("images per class", c.ImagesPerClass, 1),
		errs.AtLeast("epochs", c.Epochs, 1), errs.AtLeast("steps per epoch", c.StepsPerEpoch, 1)); err != nil {
		return err
	}
	// The limits are far beyond any use. They keep products of two settings from overflowing.
	const maxDim, most = 1 << 16, 1 << 30
	if c.Dim > maxDim || c.ClassesPerBatch > most/c.ImagesPerClass || c.Epochs > most/c.StepsPerEpoch {
		return fmt.Errorf("batches of %d × %d, dimension %d, %d epochs of %d steps: "+
			"want at most %d dimensions, %d images in a batch and %d steps in all",
			c.ClassesPerBatch, c.ImagesPerClass, c.Dim, c.Epochs, c.StepsPerEpoch, maxDim, most, most)
	}
	if c.Precision != "" && c.Precision != BFloat16 {
		return fmt.Errorf("precision %q is unknown: use %s, or leave it empty for float32", c.Precision, BFloat16)
	}
	if m := c.MicroBatch; m != 0 && (m < 2 || c.Batch()%m != 0) {
		return fmt.Errorf("micro-batches of %d images: want a divisor of the batch of %d, at least 2", m, c.Batch())
	}
	if c.LR <= 0 || math.IsNaN(c.LR) || math.IsInf(c.LR, 0) {
		return fmt.Errorf("learning rate is %g, must be a positive number", c.LR)
	}
	if !(c.Decay >= 0 && c.Decay <= 1) {
		return fmt.Errorf("learning rate decay is %g, must be a share of the epochs, from 0 to 1", c.Decay)
	}
	return c.validateOptions()
}

// WithValuesOf returns the config with the functions of o, which has the same objective and model. A stored config has
// only the identities of functions of the user's own, and these cannot be parsed.
func (c Config) WithValuesOf(o Config) Config {
	c.Objective, c.model = o.Objective, o.model
	return c
}

// HasTriplets returns an error if no batch of a rule can have a triplet. Such a training would change nothing.
func (c Config) HasTriplets() error {
	if c.Loss == "" && (c.ClassesPerBatch < 2 || c.ImagesPerClass < 2) {
		return errs.Invalid(fmt.Errorf("a batch of %d classes × %d images has no triplets: want at least two of each",
			c.ClassesPerBatch, c.ImagesPerClass))
	}
	return nil
}
