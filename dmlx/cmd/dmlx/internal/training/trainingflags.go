package training

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
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

// usageOf says what the flags of [train.OptionFields] mean.
var usageOf = map[string]string{
	"optimizer": `optimizer: "sgd?momentum=0.9&nesterov&weight-decay=0.0001", "adam", "adamw?weight-decay=0.01"; ` +
		`&filter-bias-and-bn exempts biases and batch normalization from the decay (default: plain sgd)`,
	"schedule": `learning rates: "constant", "step?at=0.5,0.75&factor=0.1" by shares of the epochs or ` +
		`"step?epochs=30,45", "cosine?final=0.01", each with &warmup=STEPS (default: a tenth after 60 % of the epochs)`,
	"freeze-bn": "parts of batch normalization to freeze: statistics, affine or all (default: none)",
	"augment": `augmentation: none, flip, "pad-crop+flip?pad=4", "resized-crop+flip?scale=0.2-1", each crop also ` +
		`without +flip (default: the preset's, pad-crop+flip)`,
	"memory-bank": `also take positives and negatives from earlier batches: "xbm?size=1024&start=100" (default: none)`,
	"train-only": `regular expression on names of weights: train these and the last layer, as in "layer4" or ` +
		`"blocks\.11\.|norm" (default: all)`,
	"freeze": "regular expression on names of weights that are not trained",
	"lora": `adapt an ONNX network by low-rank matrices: "attn\.qkv\.weight:8" adds matrices of rank 8 to all weights ` +
		`with two axes whose names match the regular expression; a third number is alpha, as in ":8:16" (default: the ` +
		`rank). "attn\.qkv\.weight@q,v:8" adds them to the rows of q and v in weights that hold q, k and v, "@2of4" to ` +
		`the second quarter of the rows. Besides them only the last layer is trained, and what --train-only names`,
}

func (t *trainingFlags) add(f *pflag.FlagSet) {
	t.flags = f
	for _, o := range train.OptionFields {
		f.StringVar(o.Of(&t.options), o.Flag, "", usageOf[o.Flag])
	}
	f.StringVar(&t.headLR, "head-lr", "",
		`learning rate of the last layer: a number, or "10x" for ten times the network's (default: the network's)`)
	f.StringVar(&t.miner, "miner", "", "miner of the rule's triplets (default: easy-positive) or of the loss's pairs or "+
		"triplets (default: all): "+strings.Join(miners.Names(), ", "))
}

// changes says which of the flags are set, and to what.
func (t *trainingFlags) changes() (texts []string) {
	t.flags.Visit(func(f *pflag.Flag) {
		if usageOf[f.Name] != "" || f.Name == "head-lr" || f.Name == "miner" {
			texts = append(texts, strings.ReplaceAll(f.Name, "-", " ")+" "+f.Value.String())
		}
	})
	return texts
}

// apply sets what was given on a config whose rule or loss, learning rate and length are set, and checks the result. It
// keeps what was not given. The error is one of the command line.
func (t *trainingFlags) apply(c train.Config) (train.Config, error) {
	if t.changes() == nil {
		return c, nil
	}
	o, err := t.changed(c.Options, c.LR)
	if err == nil && t.flags.Changed("miner") {
		c.Objective, err = c.WithMiner(t.miner)
	}
	if err == nil {
		c, err = c.WithOptions(o)
	}
	return c, cli.Usage(err)
}

// changed returns options with what was given, for a learning rate of the network.
func (t *trainingFlags) changed(o train.Options, rate float64) (train.Options, error) {
	for _, f := range train.OptionFields {
		if t.flags.Changed(f.Flag) {
			*f.Of(&o) = *f.Of(&t.options)
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
