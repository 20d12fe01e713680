// Package optim has the optimizers and the schedules of learning rates of a training, by their texts: [ParseOptimizer]
// and [ParseSchedule].
package optim

import (
	"fmt"
	"math"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/internal/query"
)

// Optimizer says how gradients change weights. Names and formulas are PyTorch's (torch.optim.SGD, Adam and AdamW).
// [ParseOptimizer] reads one from text. The zero value is plain SGD.
//
// GoMLX has optimizers, too (ml/train/optimizer). They have one learning rate and one weight decay for all variables,
// whereas proxies and the last layer need rates of their own and biases may go without decay. Its SGD has no momentum.
type Optimizer struct {
	Name string // "sgd", also if it is empty, "adam" or "adamw".

	Momentum float64 // Of SGD. 0: none.
	Nesterov bool    // Of SGD, with momentum.

	Beta1, Beta2, Epsilon float64 // Of Adam and AdamW.

	// WeightDecay is the factor of a weight that is added to its gradient. AdamW subtracts it, times the learning rate,
	// from the weight itself.
	WeightDecay float64
	// FilterBiasAndBN keeps biases and the parameters of batch normalization, that is, all vectors, from weight decay. The
	// name is timm's. PyTorch's default is to decay them, too.
	FilterBiasAndBN bool
}

const sgd, adam, adamW = "sgd", "adam", "adamw"

// optimizers has the optimizers of the names, with PyTorch's defaults.
var optimizers = map[string]Optimizer{
	"":    {Name: sgd},
	sgd:   {Name: sgd},
	adam:  {Name: adam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8},
	adamW: {Name: adamW, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, WeightDecay: 0.01},
}

// setting is an option of a text form: a number or a switch.
type setting struct {
	name string
	at   *float64
	on   *bool
	ok   func(v float64) bool
	want string // What ok asks for.
}

// settings lists the options of the optimizer, in alphabetical order.
func (o *Optimizer) settings() []setting {
	share := func(v float64) bool { return v >= 0 && v < 1 }
	decay := setting{name: "weight-decay", at: &o.WeightDecay,
		ok: func(v float64) bool { return v >= 0 }, want: "a number of at least 0"}
	filter := setting{name: "filter-bias-and-bn", on: &o.FilterBiasAndBN}
	if o.Name == sgd {
		return []setting{filter, {name: "momentum", at: &o.Momentum, ok: share, want: "a number from 0 to below 1"},
			{name: "nesterov", on: &o.Nesterov}, decay}
	}
	return []setting{
		{name: "beta1", at: &o.Beta1, ok: share, want: "a number from 0 to below 1"},
		{name: "beta2", at: &o.Beta2, ok: share, want: "a number from 0 to below 1"},
		{name: "epsilon", at: &o.Epsilon, ok: func(v float64) bool { return v > 0 }, want: "a positive number"},
		filter, decay,
	}
}

// readSettings sets options from a text, a name with options behind it, and checks them.
func readSettings(text string, settings []setting, more ...query.Option) error {
	options := more
	for _, s := range settings {
		if s.on != nil {
			options = append(options, query.Option{Name: s.name, On: func() { *s.on = true }})
			continue
		}
		options = append(options, query.Option{Name: s.name, Set: func(v float64) { *s.at = v }})
	}
	if _, given, asked := strings.Cut(text, "?"); asked {
		if err := query.Read("option", given, options); err != nil {
			return err
		}
	}
	for _, s := range settings {
		if s.at != nil && (math.IsNaN(*s.at) || math.IsInf(*s.at, 0) || !s.ok(*s.at)) {
			return fmt.Errorf("%s is %g, want %s", s.name, *s.at, s.want)
		}
	}
	return nil
}

// differing returns the options that differ from their defaults, as text.
func differing(settings, defaults []setting) (fields []string) {
	for i, s := range settings {
		switch {
		case s.on != nil && *s.on != *defaults[i].on:
			fields = append(fields, s.name)
		case s.at != nil && *s.at != *defaults[i].at:
			fields = append(fields, query.Number(s.name, *s.at))
		}
	}
	return fields
}

// ParseOptimizer reads an optimizer: "sgd?momentum=0.9&nesterov&weight-decay=0.0001", "adam?beta2=0.99" or
// "adamw?weight-decay=0.05&filter-bias-and-bn". What the text leaves out is PyTorch's default; "" is plain SGD.
func ParseOptimizer(text string) (Optimizer, error) {
	name, _, _ := strings.Cut(text, "?")
	o, known := optimizers[name]
	if !known {
		return o, fmt.Errorf("optimizer %q: there is no %q; there are %s, %s, %s", text, name, sgd, adam, adamW)
	}
	if err := readSettings(text, o.settings()); err != nil {
		return o, fmt.Errorf("optimizer %q: %w", text, err)
	}
	switch {
	case o.Nesterov && o.Momentum == 0:
		return o, fmt.Errorf("optimizer %q: nesterov needs a momentum, as in sgd?momentum=0.9&nesterov", text)
	case o.FilterBiasAndBN && o.WeightDecay == 0:
		return o, fmt.Errorf("optimizer %q: filter-bias-and-bn limits a weight decay, but there is none", text)
	}
	return o, nil
}

// String returns the canonical text, which [ParseOptimizer] reads: options are listed where they differ from the
// defaults.
func (o Optimizer) String() string {
	d, known := optimizers[o.Name]
	if !known {
		return o.Name
	}
	o.Name = d.Name
	return query.Join(o.Name, differing(o.settings(), d.settings()))
}

// IsPlain tells whether the optimizer is plain SGD.
func (o Optimizer) IsPlain() bool { return o == Optimizer{} || o == Optimizer{Name: sgd} }

// IsAdaptive tells whether the optimizer needs the corrections of [Optimizer.Corrections].
func (o Optimizer) IsAdaptive() bool { return o.Name == adam || o.Name == adamW }

// Corrections returns the divisors of Adam's moments in a step, counted from 0: 1 − β₁ᵗ and √(1 − β₂ᵗ), t = step + 1.
// The host computes them in float64, as PyTorch does, so that no counter is part of the state.
func (o Optimizer) Corrections(step int) (first, second float32) {
	t := float64(step + 1)
	return float32(1 - math.Pow(o.Beta1, t)), float32(math.Sqrt(1 - math.Pow(o.Beta2, t)))
}

// Scope is the scope of the variables of an optimizer: "/optimizer/layer1/0/conv1/weight/momentum".
const Scope = "/optimizer"

// The state of a weight.
const momentumName, firstName, secondName = "momentum", "first", "second"

// StateNames returns the names of the variables that the optimizer keeps for each weight.
func (o Optimizer) StateNames() []string {
	switch {
	case o.IsAdaptive():
		return []string{firstName, secondName}
	case o.Momentum > 0:
		return []string{momentumName}
	}
	return nil
}

// State returns a variable that the optimizer keeps for a weight. It is zero at first.
func State(weight *model.Variable, store *model.Store, name string) *model.Variable {
	value := tensors.FromShape(weight.Shape())
	return store.VariableWithValue(Scope+weight.Path()+"/"+name, value).SetTrainable(false)
}

// Update changes variables by their gradients. nodes are their values and rates the learning rates, a scalar for each.
// corrections begin with the [Optimizer.Corrections] of the step; only an adaptive optimizer needs them.
func (o Optimizer) Update(store *model.Store, variables []*model.Variable, nodes, rates, gradients []*Node,
	corrections *Node) {
	correction := func(i int) *Node { return Reshape(Slice(corrections, AxisElem(i))) }
	for i, v := range variables {
		w, rate, g := nodes[i], rates[i], gradients[i]
		decay := o.WeightDecay
		if o.FilterBiasAndBN && w.Rank() < 2 {
			decay = 0
		}
		if decay > 0 && o.Name != adamW {
			g = Add(g, MulScalar(w, decay))
		}
		// moving updates a moving average of the state and returns its new value.
		moving := func(name string, keep float64, add *Node) *Node {
			s := State(v, store, name)
			value := Add(MulScalar(s.NodeValue(w), keep), add)
			s.SetNodeValue(value)
			return value
		}
		switch {
		case o.IsAdaptive():
			if o.Name == adamW && decay > 0 {
				w = Sub(w, Mul(w, MulScalar(rate, decay)))
			}
			first := moving(firstName, o.Beta1, MulScalar(g, 1-o.Beta1))
			second := moving(secondName, o.Beta2, MulScalar(Square(g), 1-o.Beta2))
			length := AddScalar(Div(Sqrt(second), correction(1)), o.Epsilon)
			v.SetNodeValue(Sub(w, Mul(Div(rate, correction(0)), Div(first, length))))
			continue
		case o.Momentum > 0:
			velocity := moving(momentumName, o.Momentum, g)
			if o.Nesterov {
				g = Add(g, MulScalar(velocity, o.Momentum))
			} else {
				g = velocity
			}
		}
		v.SetNodeValue(Sub(w, Mul(rate, g)))
	}
}
