package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/dissect"
)

// Recipe is the version of everything that a spec does not say: sampler, augmentation, schedule, the synthetic sets,
// the layers. It is raised when one of them changes its numbers, so that no old result is served for a new recipe.
const Recipe = 1

// Spec says all that decides a run's numbers, up to the backend's rounding. Its hash names the run.
type Spec struct {
	Recipe int `json:"recipe"`

	// Data is a data set's name or the path of a folder of images. A folder is known by its content's digest, not by
	// where it lies; so is a published set that AllowPartial lets differ from what was published, or of which SkipBad leaves
	// out images that cannot be read. Size is the side of the square images. TrainClasses and TestClasses, if not 0, take fewer classes.
	Data         string `json:"data"`
	DataDigest   string `json:"data_digest,omitempty"`
	Size         int    `json:"size"`
	TrainClasses int    `json:"train_classes,omitempty"`
	TestClasses  int    `json:"test_classes,omitempty"`
	// HeldOut, if not 0, keeps every so many-th training class out of training, to choose a learning rate by: its images
	// are ranked against each other at the end. See [Result.HeldOutRecall].
	HeldOut      int  `json:"held_out,omitempty"`
	AllowPartial bool `json:"allow_partial,omitempty"`
	SkipBad      bool `json:"skip_bad,omitempty"`

	// Rule is the rule's identity; see [dmlx.Rule.Identity]. It is empty where a loss is trained by.
	Rule string `json:"rule"`

	// Loss is a loss by its canonical name, as [losses.Named] has it, and Miner what chooses its pairs or triplets; see
	// [Spec.WithLoss]. Exchange says which of its parts are those of another, as [dmlx.ParseExchange] reads it. ProxyLR is the
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

	Thrift

	rule        *dmlx.Rule // As given, since a custom rule cannot be made from its identity.
	weightsFile string     // As given; the file is known by its digest.
}

// How a backbone starts.
const (
	Pretrained = "pretrained"
	Random     = "random"
)

// WithRule is the spec with another rule, which may be the user's own.
func (s Spec) WithRule(r dmlx.Rule) (Spec, error) {
	id, err := dissect.IdentityOf(r)
	if err != nil {
		return s, err
	}
	s.Rule, s.rule = id, &r
	s.Loss, s.Miner, s.Exchange, s.ProxyLR = "", "", "", 0
	return s, nil
}

// WithStart is the spec with another backbone or start of it, where they are not empty. The start is [Pretrained],
// [Random], or the path of a safetensors file with PyTorch's names, whose head is left out.
func (s Spec) WithStart(arch, weights string) (Spec, error) {
	if arch != "" {
		s.Arch = arch
	}
	switch weights {
	case "":
	case Pretrained, Random:
		s.Weights, s.weightsFile = weights, ""
	default:
		s.Weights, s.weightsFile = Pretrained, weights
	}
	a, err := backbone.ParseArch(s.Arch)
	if err != nil {
		return s, err
	}
	s.Arch, s.WeightsDigest = string(a), ""
	if s.weightsFile != "" {
		if _, _, err := readWeights(s.weightsFile, a); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("weights %q: no such file; there are %s, %s, or the path of a safetensors file", weights, Pretrained, Random)
			}
			return s, err
		}
	}
	if s.Weights == Pretrained {
		if s.WeightsDigest, err = s.weightsDigest(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// TheRule is the rule itself. It fails for the identity of a custom rule in a spec that was not made by [Spec.WithRule], and
// for a spec that trains by a loss.
func (s Spec) TheRule() (dmlx.Rule, error) {
	if s.Loss != "" {
		return dmlx.Rule{}, fmt.Errorf("the spec trains by %s, not by a rule", s.Objective())
	}
	if s.rule != nil {
		if id, err := dissect.IdentityOf(*s.rule); err == nil && id == s.Rule {
			return *s.rule, nil
		}
	}
	return dmlx.ParseRule(s.Rule)
}

// Hash is 12 hexadecimal digits of the SHA-256 of the spec's canonical form, [Spec.Canonical].
func (s Spec) Hash() string {
	sum := sha256.Sum256(s.Canonical())
	return hex.EncodeToString(sum[:])[:12]
}

// Canonical is the spec as one line of JSON with its keys in a fixed order and a folder by its name alone.
func (s Spec) Canonical() []byte {
	if s.DataDigest != "" {
		s.Data = filepath.Base(s.Data)
	}
	out, err := json.Marshal(s)
	if err != nil { // Only a value that Validate rejects: NaN or Inf as a learning rate.
		return fmt.Appendf(nil, "%+v", s)
	}
	return out
}

// Batch is the number of images of a batch.
func (s Spec) Batch() int { return s.ClassesPerBatch * s.ImagesPerClass }

// Steps is the number of steps of the run.
func (s Spec) Steps() int { return s.Epochs * s.StepsPerEpoch }

// rate is the learning rate in an epoch, counted from 0: LR, and LR/10 from 60 % of the epochs on (§4.1), or from Decay.
func (s Spec) rate(epoch int) float64 {
	late := 10*epoch >= 6*s.Epochs
	if s.Decay != 0 {
		late = float64(epoch) >= s.Decay*float64(s.Epochs)
	}
	if late {
		return s.LR / 10
	}
	return s.LR
}

// Ready is [Spec.Validate] for a spec that is to be run here: of weights and a published data set that are both missing, the
// data set, the longer errand, is told first.
func (s Spec) Ready() error {
	err := s.Validate()
	if err != nil && isPublished(s.Data) {
		if _, missing := datasets.Find(s.Data, ""); missing != nil {
			return missing
		}
	}
	return err
}

// HasTriplets tells why a spec's batches cannot have a triplet, if so: a run of it would move nothing.
func (s Spec) HasTriplets() error {
	if s.Loss == "" && (s.ClassesPerBatch < 2 || s.ImagesPerClass < 2) {
		return fmt.Errorf("a batch of %d classes × %d images has no triplets: want two of each at least", s.ClassesPerBatch, s.ImagesPerClass)
	}
	return nil
}

// Validate tells what is wrong with a spec before any work is done. What depends on the data is found when it is open.
func (s Spec) Validate() error {
	if s.Recipe != Recipe {
		return fmt.Errorf("recipe %d: this program trains by recipe %d", s.Recipe, Recipe)
	}
	if s.Data == "" {
		return errors.New("no data set given")
	}
	if (s.AllowPartial || s.SkipBad) && s.DataDigest == "" {
		return errors.New("a data set that may lack images, without its digest: take a spec from a preset")
	}
	if err := s.validateObjective(); err != nil {
		return err
	}
	if _, err := backbone.ParseArch(s.Arch); err != nil {
		return err
	}
	if s.Weights == Pretrained && s.WeightsDigest == "" {
		if _, err := s.pretrained(); err != nil {
			return err
		}
		return errors.New("pretrained weights without their digest: take a spec from a preset")
	}
	if s.Weights != Pretrained && s.Weights != Random {
		return fmt.Errorf("weights %q: there are %s, %s", s.Weights, Pretrained, Random)
	}
	for _, v := range []struct {
		name       string
		value, min int
	}{
		{"image size", s.Size, 8}, {"train classes", s.TrainClasses, 0}, {"test classes", s.TestClasses, 0},
		{"held-out classes", s.HeldOut, 0}, {"embedding dimension", s.Dim, 1}, {"classes per batch", s.ClassesPerBatch, 1},
		{"images per class", s.ImagesPerClass, 1}, {"padding", s.Pad, 0}, {"epochs", s.Epochs, 1}, {"steps per epoch", s.StepsPerEpoch, 1},
	} {
		if v.value < v.min {
			return fmt.Errorf("%s is %d, must be at least %d", v.name, v.value, v.min)
		}
	}
	const most = 1 << 30 // Images, numbers of an embedding, steps: far beyond any use, and no product of two overflows.
	if s.Dim > 1<<16 || s.Size > 1<<14 || s.ClassesPerBatch > most/s.ImagesPerClass || s.Epochs > most/s.StepsPerEpoch {
		return fmt.Errorf("images of %d pixels, batches of %d × %d, dimension %d, %d epochs of %d steps: want at most %d pixels, %d dimensions, %d images a batch and steps in all",
			s.Size, s.ClassesPerBatch, s.ImagesPerClass, s.Dim, s.Epochs, s.StepsPerEpoch, 1<<14, 1<<16, most)
	}
	if s.HeldOut == 1 {
		return errors.New("every training class is held out: hold out every second or fewer")
	}
	if err := s.Thrift.validate(s.Batch()); err != nil {
		return err
	}
	if s.LR <= 0 || math.IsNaN(s.LR) || math.IsInf(s.LR, 0) {
		return fmt.Errorf("learning rate is %g, must be a positive number", s.LR)
	}
	if !(s.Decay >= 0 && s.Decay <= 1) {
		return fmt.Errorf("the learning rate's decay is %g, must be a share of the epochs, from 0 to 1", s.Decay)
	}
	return nil
}
