package train

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/dissect"
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

// How a backbone starts.
const (
	Pretrained = "pretrained"
	Random     = "random"
)

// WithRule is the spec with another rule, which may be the user's own.
func (c Config) WithRule(r dmlx.Rule) (Config, error) {
	id, err := dissect.IdentityOf(r)
	if err != nil {
		return c, err
	}
	c.Rule, c.rule = id, &r
	c.Loss, c.Miner, c.Exchange, c.ProxyLR = "", "", "", 0
	return c, nil
}

// WithStart is the spec with another backbone or start of it, where they are not empty. The start is [Pretrained],
// [Random], or the path of a safetensors file with PyTorch's names, whose head is left out.
func (c Config) WithStart(arch, weights string) (Config, error) {
	if arch != "" {
		c.Arch = arch
	}
	switch weights {
	case "":
	case Pretrained, Random:
		c.Weights, c.weightsFile = weights, ""
	default:
		c.Weights, c.weightsFile = Pretrained, weights
	}
	a, err := backbone.ParseArch(c.Arch)
	if err != nil {
		return c, err
	}
	c.Arch, c.WeightsDigest = string(a), ""
	if c.weightsFile != "" {
		if _, _, err := readWeights(c.weightsFile, a); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("weights %q: no such file; there are %s, %s, or the path of a safetensors file", weights, Pretrained, Random)
			}
			return c, err
		}
	}
	if c.Weights == Pretrained {
		if c.WeightsDigest, err = c.StartDigest(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// TheRule is the rule itself. It fails for the identity of a custom rule in a config that was not made by [Config.WithRule], and
// for a spec that trains by a loss.
func (c Config) ParsedRule() (dmlx.Rule, error) {
	if c.Loss != "" {
		return dmlx.Rule{}, fmt.Errorf("the spec trains by %s, not by a rule", c.Objective())
	}
	if c.rule != nil {
		if id, err := dissect.IdentityOf(*c.rule); err == nil && id == c.Rule {
			return *c.rule, nil
		}
	}
	return dmlx.ParseRule(c.Rule)
}

// WithRuleValueOf returns the config with the rule value of another config of the same rule: a custom rule cannot be made from
// its identity, which is all that a stored config has.
func (c Config) WithRuleValueOf(o Config) Config {
	c.rule = o.rule
	return c
}

// WeightsPath returns the path of the weights given to [Config.WithStart], "" if they are not of a file.
func (c Config) WeightsPath() string { return c.weightsFile }

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

// HasTriplets tells why the batches cannot have a triplet, if so: a run of it would move nothing.
func (c Config) HasTriplets() error {
	if c.Loss == "" && (c.ClassesPerBatch < 2 || c.ImagesPerClass < 2) {
		return fmt.Errorf("a batch of %d classes × %d images has no triplets: want two of each at least", c.ClassesPerBatch, c.ImagesPerClass)
	}
	return nil
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
