package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// trainingFlags are the flags of options that the paper's trainings do not have: the optimizer, the schedule and so on.
// Commands that train call add once and apply for each config.
type trainingFlags struct {
	options train.Options
	headLR  string
	miner   string
	flags   *pflag.FlagSet
}

// trainingFlagNames are the flags that trainingFlags adds.
var trainingFlagNames = []string{"optimizer", "schedule", "head-lr", "freeze-bn", "augment", "memory-bank", "miner",
	"train-only", "freeze", "lora"}

func (t *trainingFlags) add(f *pflag.FlagSet) {
	t.flags = f
	f.StringVar(&t.options.Optimizer, "optimizer", "",
		`optimizer: "sgd?momentum=0.9&nesterov&weight-decay=0.0001", "adam", "adamw?weight-decay=0.01"; `+
			`&filter-bias-and-bn exempts biases and batch normalization from the decay (default: plain sgd)`)
	f.StringVar(&t.options.Schedule, "schedule", "",
		`learning rates: "constant", "step?at=0.5,0.75&factor=0.1" by shares of the epochs or "step?epochs=30,45", `+
			`"cosine?final=0.01", each with &warmup=STEPS (default: a tenth after 60 % of the epochs)`)
	f.StringVar(&t.headLR, "head-lr", "",
		`learning rate of the last layer: a number, or "10x" for ten times the network's (default: the network's)`)
	f.StringVar(&t.options.FreezeBN, "freeze-bn", "",
		"parts of batch normalization to freeze: statistics, affine or all (default: none)")
	f.StringVar(&t.options.Augment, "augment", "",
		`augmentation: none, flip, "pad-crop+flip?pad=4", "resized-crop+flip?scale=0.2-1", each crop also without +flip `+
			`(default: the preset's, pad-crop+flip)`)
	f.StringVar(&t.options.MemoryBank, "memory-bank", "",
		`also take positives and negatives from earlier batches: "xbm?size=1024&start=100" (default: none)`)
	f.StringVar(&t.options.TrainOnly, "train-only", "",
		`regular expression on names of weights: train these and the last layer, as in "layer4" or "blocks\.11\.|norm" `+
			`(default: all)`)
	f.StringVar(&t.options.Freeze, "freeze", "", "regular expression on names of weights that are not trained")
	f.StringVar(&t.options.LoRA, "lora", "",
		`train low-rank matrices beside weights of two axes of a network of an ONNX file, and the last layer, nothing else `+
			`that --train-only does not name: "attn\.qkv\.weight:8" is a regular expression on names and the rank; :16 `+
			`behind it is alpha (default: the rank); "attn\.qkv\.weight@q,v:8" are beside the rows of q and v of fused `+
			`weights, which are thirds, "@2of4" beside the second quarter`)
	f.StringVar(&t.miner, "miner", "", "miner of the rule's triplets (default: easy-positive) or of the loss's pairs or "+
		"triplets (default: all): "+strings.Join(miners.Names(), ", "))
}

// given tells whether any of the flags is set.
func (t *trainingFlags) given() bool {
	for _, name := range trainingFlagNames {
		if t.flags.Changed(name) {
			return true
		}
	}
	return false
}

// apply sets what was given on a config whose rule or loss, learning rate and length are set, and checks the result. It
// keeps what was not given. The error is one of the command line.
func (t *trainingFlags) apply(c train.Config) (train.Config, error) {
	if !t.given() {
		return c, nil
	}
	o, err := t.changed(c.Options, c.LR)
	if err == nil && t.flags.Changed("miner") {
		c.Objective, err = c.WithMiner(t.miner)
	}
	if err == nil {
		c, err = c.WithOptions(o)
	}
	return c, usage(err)
}

// changed returns options with what was given, for a learning rate of the network.
func (t *trainingFlags) changed(o train.Options, rate float64) (train.Options, error) {
	for name, to := range map[string][2]*string{
		"optimizer": {&o.Optimizer, &t.options.Optimizer}, "schedule": {&o.Schedule, &t.options.Schedule},
		"freeze-bn": {&o.FreezeBN, &t.options.FreezeBN}, "augment": {&o.Augment, &t.options.Augment},
		"memory-bank": {&o.MemoryBank, &t.options.MemoryBank},
		"train-only":  {&o.TrainOnly, &t.options.TrainOnly}, "freeze": {&o.Freeze, &t.options.Freeze},
		"lora": {&o.LoRA, &t.options.LoRA},
	} {
		if t.flags.Changed(name) {
			*to[0] = *to[1]
		}
	}
	if !t.flags.Changed("head-lr") {
		return o, nil
	}
	var err error
	o.HeadLR, err = headRate(t.headLR, rate)
	return o, err
}

// headRate reads a learning rate, or "10x" for ten times that of the network.
func headRate(text string, network float64) (float64, error) {
	number, times := strings.CutSuffix(text, "x")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) {
		return 0, fmt.Errorf("--head-lr %q: want a positive number, or a factor as in 10x", text)
	}
	if times {
		v *= network
	}
	return v, nil
}
