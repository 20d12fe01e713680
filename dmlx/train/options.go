package train

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/optim"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Options are settings of a training beyond the paper's. The zero value is the paper's training: plain SGD, the
// schedule [optim.PaperSchedule], a random crop with padding and mirroring, batch normalization in training
// mode. Every option is part of a config, and so of the identity of a run. The texts are canonical, see
// [Config.WithOptions].
type Options struct {
	// Optimizer is how gradients change weights; see [optim.ParseOptimizer]. "" is plain SGD.
	Optimizer string `json:"optimizer,omitempty" toml:"optimizer"`
	// Schedule is how learning rates change; see [optim.ParseSchedule]. "" stands for [optim.PaperSchedule].
	Schedule string `json:"schedule,omitempty" toml:"schedule"`
	// HeadLR is the learning rate of the last layer; 0 stands for [Config].LR. It follows the same schedule.
	HeadLR float64 `json:"head_lr,omitempty" toml:"head_lr"`
	// FreezeBN keeps batch normalization as it is at the start; see [FreezeStatistics]. "" trains it.
	FreezeBN string `json:"freeze_bn,omitempty" toml:"freeze_bn"`
	// Augment is how training images are changed at random; see [samples.ParseAugmentation]. "" stands for pad-crop+flip
	// with [Config].Pad, which is 0 with any other augmentation.
	Augment string `json:"augment,omitempty" toml:"augment"`
	// TrainOnly and Freeze are regular expressions on the names of weights, as PyTorch has them: those that match
	// TrainOnly are trained, "" for all, and of these not those that match Freeze. The last layer, "fc", always is. Batch
	// normalization takes its running averages where neither its scale nor its shift is trained.
	TrainOnly string `json:"train_only,omitempty" toml:"train_only"`
	Freeze    string `json:"freeze,omitempty" toml:"freeze"`
	// LoRA trains low-rank matrices beside weights of the network of a file; see [onnx.ParseLoRA]. All other weights but
	// the last layer's are then frozen, except those that match TrainOnly.
	LoRA string `json:"lora,omitempty" toml:"lora"`
	// Start is what a pretrained network starts from and whether it is trained: "" is the paper's random last layer, and
	// the trained network; see [ChosenStart] and [ChosenTraining].
	Start string `json:"start,omitempty" toml:"start"`
}

// The values of [Options].Start. Classes are held out to choose by, as [heads.Choose] does it.
const (
	// ChosenStart chooses the last layer, features as they are, whitened or by PLDA, and whether the training helps: if
	// not, the network stays as it was, behind that layer.
	ChosenStart = "chosen-1"
	// ChosenTraining also chooses the learning rate, near LR, and the number of epochs, at most Epochs.
	ChosenTraining = "chosen-training-1"
)

// The values of [Options].FreezeBN. Freezing is usual in metric learning, since the batches are small and their classes
// few.
const (
	// FreezeStatistics normalizes by the running averages of the initial weights, which stay as they are: PyTorch's
	// BatchNorm2d.eval.
	FreezeStatistics = "statistics"
	// FreezeAffine keeps scale and shift of batch normalization: requires_grad = False in PyTorch.
	FreezeAffine = "affine"
	// FreezeAll does both.
	FreezeAll = "all"
)

// OptionField is one of the options that are texts. Its key is that of flags, of presets in files and of JSON.
type OptionField struct {
	Flag, Name string // "freeze-bn", "frozen batch normalization:".
	// Of returns the place of the text in the options.
	Of func(*Options) *string

	// canonical returns the text in canonical form, or nil if every text is.
	canonical func(text string) (string, error)
}

// OptionFields lists the options that are texts: all but HeadLR.
var OptionFields = []OptionField{
	{"optimizer", "optimizer", func(o *Options) *string { return &o.Optimizer }, func(text string) (string, error) {
		o, err := optim.ParseOptimizer(text)
		if err != nil || o.IsPlain() {
			return "", err
		}
		return o.String(), nil
	}},
	{"schedule", "schedule", func(o *Options) *string { return &o.Schedule }, func(text string) (string, error) {
		s, err := optim.ParseSchedule(text)
		if form := s.String(); err != nil || form != optim.PaperSchedule {
			return form, err
		}
		return "", nil
	}},
	{"freeze-bn", "frozen batch normalization:", func(o *Options) *string { return &o.FreezeBN }, checkFreezeBN},
	{"augment", "augmentation", func(o *Options) *string { return &o.Augment }, nil}, // Its form depends on the padding.
	{"train-only", "trained", func(o *Options) *string { return &o.TrainOnly }, nil},
	{"freeze", "frozen", func(o *Options) *string { return &o.Freeze }, nil},
	{"lora", "low-rank adapters", func(o *Options) *string { return &o.LoRA }, canonical(onnx.ParseLoRA)},
	{"start", "start", func(o *Options) *string { return &o.Start }, checkStart},
}

// canonical returns a function from a text to its canonical form, by the function that parses it.
func canonical[T fmt.Stringer](parse func(text string) (T, error)) func(text string) (string, error) {
	return func(text string) (string, error) {
		v, err := parse(text)
		if err != nil {
			return "", err
		}
		return v.String(), nil
	}
}

func checkFreezeBN(part string) (string, error) {
	switch part {
	case FreezeStatistics, FreezeAffine, FreezeAll:
		return part, nil
	}
	return "", fmt.Errorf("frozen part of batch normalization %q: there are %s, %s, %s", part, FreezeStatistics,
		FreezeAffine, FreezeAll)
}

func checkStart(text string) (string, error) {
	switch text {
	case Random:
		return "", nil
	case "chosen", ChosenStart:
		return ChosenStart, nil
	case "chosen-training", ChosenTraining:
		return ChosenTraining, nil
	}
	return "", errs.NoSuch(fmt.Sprintf("no start %q", text), text, []string{Random, "chosen", "chosen-training"})
}

// WithOptions returns the config with other options, their texts in canonical form. A padding in the augmentation
// replaces that of the config; pad-crop without one takes it.
func (c Config) WithOptions(o Options) (Config, error) {
	c.Options = o
	c, err := c.canonicalOptions()
	if err != nil {
		return c, err
	}
	return c, c.validateOptions()
}

// canonicalOptions returns the config with the texts of its options in canonical form.
func (c Config) canonicalOptions() (Config, error) {
	for _, f := range OptionFields {
		if text := f.Of(&c.Options); *text != "" && f.canonical != nil {
			form, err := f.canonical(*text)
			if err != nil {
				return c, err
			}
			*text = form
		}
	}
	if c.Augment == "" {
		return c, nil
	}
	a, err := samples.ParseAugmentation(c.Augment, c.Pad)
	if err != nil {
		return c, err
	}
	if c.Pad, c.Augment = 0, a.String(); a.Crop == samples.PadCrop && a.Flip {
		c.Pad, c.Augment = a.Pad, ""
	}
	return c, nil
}

// validateOptions reports what is wrong with the options.
func (c Config) validateOptions() error {
	same, err := c.canonicalOptions()
	if err != nil {
		return err
	}
	for _, f := range OptionFields {
		if have, want := *f.Of(&c.Options), *f.Of(&same.Options); have != want {
			return fmt.Errorf("%s %q is not in canonical form: want %q", f.Name, have, want)
		}
	}
	switch {
	case c.Pad != same.Pad:
		return fmt.Errorf("augmentation %q and the padding %d: want the padding %d, the other one belongs to pad-crop+flip",
			c.Augment, c.Pad, same.Pad)
	case c.HeadLR < 0 || math.IsNaN(c.HeadLR) || math.IsInf(c.HeadLR, 0):
		return fmt.Errorf("learning rate of the last layer is %g, must be a positive number, or 0 for that of the network",
			c.HeadLR)
	}
	for _, validate := range []func() error{c.validateSchedule, c.validatePart} {
		if err := validate(); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) validateSchedule() error {
	if c.Schedule == "" {
		return nil
	}
	s, err := optim.ParseSchedule(c.Schedule)
	switch n := len(s.Epochs); {
	case err != nil:
		return err
	case c.Decay != 0:
		return fmt.Errorf("schedule %q and a decay after %g of the epochs: want one of them; a schedule "+
			"step?at=%g is that decay", c.Schedule, c.Decay, c.Decay)
	case c.Epochs < 1 || c.StepsPerEpoch < 1:
		return nil // Validate reports it.
	case s.Warmup >= c.Steps():
		return fmt.Errorf("schedule %q: the training has %d steps, want a shorter warm-up", c.Schedule, c.Steps())
	case n > 0 && s.Epochs[n-1] >= c.Epochs:
		return fmt.Errorf("schedule %q: the training has %d epochs, want a change before their end", c.Schedule, c.Epochs)
	}
	return nil
}

// Text returns the options in one line, each by its name, and "" for the zero value:
// "optimizer adam, schedule cosine". It is no String, which all types that embed Options would inherit.
func (o Options) Text() string {
	var parts []string
	for _, f := range OptionFields {
		if text := *f.Of(&o); text != "" {
			parts = append(parts, f.Name+" "+text)
		}
	}
	if o.HeadLR != 0 {
		parts = append(parts, "last layer's lr "+strconv.FormatFloat(o.HeadLR, 'g', -1, 64))
	}
	return strings.Join(parts, ", ")
}
