package presets

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Objective is what a run trains, as a value: a rule, which may have functions of the user's own, or a loss. The zero
// value is the rule cos/con/con.
type Objective struct {
	// Label names the objective in tables and pictures; empty for the rule or loss itself.
	Label string
	Rule  dmlx.Rule
	// Loss, if not empty, is a published loss in place of the rule; Miner and Exchange are those of [train.Config].
	Loss, Miner, Exchange string
	// LossFunction, if it has a function, is a loss of the user's own in place of the rule. Its miner is Miner.
	LossFunction train.LossFunction
	// LR is the learning rate; 0 is the preset's. ProxyLR is that of the loss's proxies.
	LR, ProxyLR float64
	// Scale is the length of the gradient over that of cos/con/con, by which the learning rate of cos/con/con is divided
	// for a rule or loss with functions of the user's own; 0 is 1. [Objective.Checked] measures it.
	Scale float64
}

// ParseObjective reads a rule, as "cos/lin/cir?tau=2", or a loss as tables name it, "loss ms"; a miner and exchanged
// parts of a loss may follow: "loss ms, miner ms, pair=lin-ms".
func ParseObjective(text string) (Objective, error) {
	if loss, is := strings.CutPrefix(text, "loss "); is {
		return ParseLoss(loss)
	}
	name, o, err := cutMiner(text)
	if err == nil && o.Exchange != "" {
		err = fmt.Errorf("%q: %s belongs to a loss", text, o.Exchange)
	}
	if err != nil {
		return o, err
	}
	if o.Rule, err = dmlx.ParseRule(name); err != nil {
		return o, err
	}
	return o.canonical()
}

// ParseLoss reads a loss, which a miner and exchanged parts may follow: "ms, miner ms, pair=lin-ms".
func ParseLoss(text string) (Objective, error) {
	name, o, err := cutMiner(text)
	if err != nil {
		return o, fmt.Errorf("loss %w", err)
	}
	o.Loss = name
	return o.canonical()
}

// cutMiner cuts the miner and the exchanged parts off the name of a rule or loss.
func cutMiner(text string) (name string, o Objective, err error) {
	fields := strings.Split(text, ", ")
	for _, field := range fields[1:] {
		if miner, is := strings.CutPrefix(field, "miner "); is && o.Miner == "" {
			o.Miner = strings.TrimSpace(miner)
		} else if !is && strings.Contains(field, "=") && o.Exchange == "" {
			o.Exchange = field
		} else {
			return "", o, fmt.Errorf("%q: %q is neither a miner, as in \"ms, miner ms\", nor an exchanged part, as in "+
				"\"ms, pair=lin-ms\"", text, field)
		}
	}
	return strings.TrimSpace(fields[0]), o, nil
}

// canonical returns the objective with canonical names.
func (o Objective) canonical() (Objective, error) {
	c, err := o.config(train.Config{})
	o.Loss, o.Miner, o.Exchange = c.Loss, c.Miner, c.Exchange
	return o, err
}

// config returns the config with the objective, without a learning rate.
func (o Objective) config(c train.Config) (train.Config, error) {
	if o.LossFunction.Of != nil {
		if o.Loss != "" {
			return c, fmt.Errorf("loss %s and the function %s: want one of them", o.Loss, o.LossFunction.Name)
		}
		c, err := c.WithLossFunction(o.lossFunction())
		if err != nil {
			return c, err
		}
		return c.WithExchange(o.Exchange)
	}
	if o.Loss == "" {
		if o.Exchange != "" || o.ProxyLR != 0 {
			return c, fmt.Errorf("rule %s: Exchange and ProxyLR must be empty, they belong to a loss", o.Rule.Name())
		}
		c, err := c.WithRule(o.Rule)
		if err != nil || o.Miner == "" {
			return c, err
		}
		return c.WithMiner(o.Miner)
	}
	c, err := c.WithLoss(o.Loss, o.Miner)
	if err != nil {
		return c, err
	}
	return c.WithExchange(o.Exchange)
}

// lossFunction returns the loss of the user's own with the objective's miner.
func (o Objective) lossFunction() train.LossFunction {
	l := o.LossFunction
	l.Miner = cmp.Or(o.Miner, l.Miner)
	return l
}

// IsRule reports whether the objective is a rule and not a loss.
func (o Objective) IsRule() bool { return o.Loss == "" && o.LossFunction.Of == nil }

// custom reports whether the objective has functions of the user's own.
func (o Objective) custom() bool { return o.LossFunction.Of != nil || o.IsRule() && o.Rule.Custom() }

// String returns the rule's name without a digest, or "loss " and the loss, with the miner and exchanged parts, as
// [ParseObjective] reads it.
func (o Objective) String() string {
	c := train.Config{Loss: o.Loss, Miner: o.Miner, Exchange: o.Exchange}
	switch {
	case o.LossFunction.Of != nil:
		c.Loss, c.Miner = o.LossFunction.Name, o.lossFunction().Miner
	case o.IsRule():
		c.Rule = o.Rule.Name()
	}
	return c.Objective()
}

// Checked returns the objective ready to be trained, or an error that says what is wrong with it before any run is. One
// with functions of the user's own is tried on batches ([dissect.Check] for a rule); its Scale is set.
func (o Objective) Checked() (Objective, error) {
	if _, err := o.config(train.Config{}); err != nil {
		return o, err
	}
	if !o.custom() {
		return o, nil
	}
	b, err := backend.Go()
	if err != nil {
		return o, err
	}
	if l := o.LossFunction; l.Of != nil {
		if o.Scale, err = dissect.LossScale(b, l.Of, l.Proxies); err != nil {
			err = fmt.Errorf("loss %s: %w", l.Name, err)
		}
		return o, err
	}
	checked, err := dissect.Check(b, o.Rule)
	if err != nil {
		return o, err
	}
	o.Scale = checked.Scale
	return o, checked.Err()
}

// ObjectiveSpec returns the spec of an objective on a data set, as [Preset.Spec] and [Preset.LossSpec] do. The learning
// rate of one with functions of the user's own is that of cos/con/con over its Scale.
func (p Preset) ObjectiveSpec(data string, o Objective, seed uint64) (runs.Spec, error) {
	if _, err := o.config(train.Config{}); err != nil {
		return runs.Spec{}, err
	}
	switch {
	case o.LR != 0:
		p.LR = o.LR
	case p.LR == 0 && o.custom() && o.Scale > 0:
		p.LR = twoDigits(p.Rate(runs.PaperName(data), dmlx.Rule{}.Name()) / o.Scale)
	}
	var spec runs.Spec
	var err error
	switch {
	case o.LossFunction.Of != nil:
		spec, err = p.lossFunctionSpec(data, o, seed)
	case o.IsRule():
		spec, err = p.Spec(data, o.Rule, seed)
	default:
		spec, err = p.LossSpec(data, o.Loss, o.Miner, o.Exchange, seed)
	}
	if err == nil && o.Miner != "" { // It comes before that of the settings.
		spec.Config, err = spec.WithMiner(o.Miner)
	}
	if o.ProxyLR != 0 {
		spec.ProxyLR = o.ProxyLR
	}
	return spec, err
}

// lossFunctionSpec returns the spec of a loss of the user's own.
func (p Preset) lossFunctionSpec(data string, o Objective, seed uint64) (runs.Spec, error) {
	spec, err := p.ruleSpec(data, dmlx.Rule{}, seed)
	if err != nil {
		return spec, err
	}
	if spec.Config, err = o.config(spec.Config); err != nil {
		return spec, err
	}
	if o.LossFunction.Proxies > 0 {
		spec.ProxyLR = proxyToNetworkRate * spec.LR
	}
	return p.adjusted(spec)
}
