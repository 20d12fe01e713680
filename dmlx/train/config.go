package train

import (
	"errors"
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// Config says how a network is trained: by which rule or loss, from which weights, on which batches, at which rate, for how
// long. Together with the images it decides a run's numbers, up to the backend's rounding.
type Config struct {
	// Rule is the rule's identity; see [dissect.IdentityOf]. It is empty where a loss is trained by.
	Rule string `json:"rule"`

	// Loss is a loss by its canonical name, as [losses.Named] has it, and Miner what chooses its pairs or triplets; see
	// [Config.WithLoss]. Exchange says which of its parts are those of another, as [dmlx.ParseExchange] reads it. ProxyLR is the
	// learning rate of its proxies, if it has any: on the schedule of LR.
	Loss     string  `json:"loss,omitempty"`
	Miner    string  `json:"miner,omitempty"`
	Exchange string  `json:"exchange,omitempty"`
	ProxyLR  float64 `json:"proxy_lr,omitempty"`

	// Arch is the backbone, Weights its start: [Pretrained] or [Random]. WeightsDigest tells pretrained weights apart.
	Arch          string `json:"arch"`
	Weights       string `json:"weights"`
	WeightsDigest string `json:"weights_digest,omitempty"`
	Dim           int    `json:"dim"`

	// A batch is ImagesPerClass images of each of ClassesPerBatch classes, or of more classes where some have fewer images.
	ClassesPerBatch int `json:"classes_per_batch"`
	ImagesPerClass  int `json:"images_per_class"`
	// Pad is by how many pixels images are padded before they are cropped at random to their size again.
	Pad int `json:"pad"`

	// LR is the learning rate of plain SGD, a tenth of it from Decay of the epochs on: 0 is 0.6, and 1 is never.
	LR            float64 `json:"lr"`
	Decay         float64 `json:"decay,omitempty"`
	Epochs        int     `json:"epochs"`
	StepsPerEpoch int     `json:"steps_per_epoch"`

	// Seed decides the last layer's start, the batches and their augmentation.
	Seed uint64 `json:"seed"`

	Memory

	rule        *dmlx.Rule // As given: a custom rule cannot be made from its identity.
	weightsFile string     // As given: the file is identified by its digest.
}

// Thrift is how a run saves memory and time on its device. Each of it changes a run's numbers, if only by rounding, so it is
// part of the spec; the zero value saves nothing.
type Memory struct {
	// Precision is what the network computes in while it is trained: "" is float32, [BFloat16] keeps weights, batch
	// normalisation, triplets and gradients at the embeddings in float32 and does the rest in half the memory.
	Precision string `json:"precision,omitempty"`
	// Piece, if not 0, is how many images of a batch are on the device at a time; see [pieces].
	MicroBatch int `json:"piece,omitempty"`
	// Recompute keeps between forward and backward pass the inputs of residual blocks alone; see [backbone.Pass].
	Recompute bool `json:"recompute,omitempty"`
}

// BFloat16 is the shorter precision.
const BFloat16 = "bf16"

// Batch is the number of images of a batch.
func (c Config) Batch() int { return c.ClassesPerBatch * c.ImagesPerClass }

// Steps is the number of steps of the run.
func (c Config) Steps() int { return c.Epochs * c.StepsPerEpoch }

// Rate returns the learning rate in an epoch, counted from 0: LR, and LR/10 from 60 % of the epochs on (§4.1), or from Decay.
func (c Config) Rate(epoch int) float64 {
	late := 10*epoch >= 6*c.Epochs
	if c.Decay != 0 {
		late = float64(epoch) >= c.Decay*float64(c.Epochs)
	}
	if late {
		return c.LR / 10
	}
	return c.LR
}

// proxyRate is the learning rate of the proxies in an epoch, on the schedule of the network's.
func (c Config) proxyRate(epoch int) float64 {
	c.LR = c.ProxyLR
	return c.Rate(epoch)
}

// Validate tells what is wrong with a config before any work is done. What depends on the data is found when training begins.
func (c Config) Validate() error {
	if err := c.validateObjective(); err != nil {
		return err
	}
	if _, err := backbone.ParseArch(c.Arch); err != nil {
		return err
	}
	if c.Weights == Pretrained && c.WeightsDigest == "" {
		if _, err := c.pretrained(); err != nil {
			return err
		}
		return errors.New("pretrained weights without their digest: take a spec from a preset")
	}
	if c.Weights != Pretrained && c.Weights != Random {
		return fmt.Errorf("weights %q: there are %s, %s", c.Weights, Pretrained, Random)
	}
	err := AtLeast([]Bound{
		{"embedding dimension", c.Dim, 1}, {"classes per batch", c.ClassesPerBatch, 1}, {"images per class", c.ImagesPerClass, 1},
		{"padding", c.Pad, 0}, {"epochs", c.Epochs, 1}, {"steps per epoch", c.StepsPerEpoch, 1},
	})
	if err != nil {
		return err
	}
	const most = 1 << 30 // Images, numbers of an embedding, steps: far beyond any use, and no product of two overflows.
	if c.Dim > 1<<16 || c.ClassesPerBatch > most/c.ImagesPerClass || c.Epochs > most/c.StepsPerEpoch {
		return fmt.Errorf("batches of %d × %d, dimension %d, %d epochs of %d steps: want at most %d dimensions, %d images a batch and steps in all",
			c.ClassesPerBatch, c.ImagesPerClass, c.Dim, c.Epochs, c.StepsPerEpoch, 1<<16, most)
	}
	if err := c.Memory.validate(c.Batch()); err != nil {
		return err
	}
	if c.LR <= 0 || math.IsNaN(c.LR) || math.IsInf(c.LR, 0) {
		return fmt.Errorf("learning rate is %g, must be a positive number", c.LR)
	}
	if !(c.Decay >= 0 && c.Decay <= 1) {
		return fmt.Errorf("the learning rate's decay is %g, must be a share of the epochs, from 0 to 1", c.Decay)
	}
	return nil
}

func (t Memory) validate(batch int) error {
	if t.Precision != "" && t.Precision != BFloat16 {
		return fmt.Errorf("precision %q: want %s, or nothing for float32", t.Precision, BFloat16)
	}
	if t.MicroBatch != 0 && (t.MicroBatch < 2 || batch%t.MicroBatch != 0) {
		return fmt.Errorf("pieces of %d images: want at least 2, and a number that divides the batch of %d", t.MicroBatch, batch)
	}
	return nil
}

// HasTriplets tells why the batches cannot have a triplet, if so: a run of it would move nothing.
func (c Config) HasTriplets() error {
	if c.Loss == "" && (c.ClassesPerBatch < 2 || c.ImagesPerClass < 2) {
		return fmt.Errorf("a batch of %d classes × %d images has no triplets: want two of each at least", c.ClassesPerBatch, c.ImagesPerClass)
	}
	return nil
}

// Fits tells why a config could not be trained on a data set of which every heldOut-th class is held out (0: none): classes
// or images too few for its batches, or too few classes left to measure.
func (c Config) Fits(set *datasets.Set, heldOutEvery int) error {
	without, err := HeldOutClasses(set.Train.Labels, heldOutEvery)
	if err != nil {
		return fmt.Errorf("%s: %w", set.Name, err)
	}
	_, err = c.sampler(set, without)
	return err
}

// bound is an integer setting by its name, and the least that it may be.
type Bound struct {
	Name         string
	Value, Least int
}

// atLeast returns an error that names the first setting below its bound.
func AtLeast(settings []Bound) error {
	for _, s := range settings {
		if s.Value < s.Least {
			return fmt.Errorf("%s is %d, must be at least %d", s.Name, s.Value, s.Least)
		}
	}
	return nil
}
