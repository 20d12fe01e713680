package dmlx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
)

// Options are the parameters that the paper names, and the conventions for what it leaves open. A nil parameter has its
// default: α=2, β=10, λ=0.5, ε=0.1 (the appendix), τ=1 (Figure 3).
type Options struct {
	Alpha, Beta, Lambda, Epsilon *float64 // Of P^sig and P^sig-ms; ε also of P^lin-ms.
	Tau                          *float64 // Of T^cos and T^cir.

	// Sum gives the sum of the gradients over triplets. The default is their mean over the valid ones.
	Sum bool
	// NegativeOnly projects e_n alone in an orthogonal direction. The default projects the anchor's e_an too.
	NegativeOnly bool
	// KeepLength leaves a projected direction as long as the projection made it. The default makes it a unit vector.
	KeepLength bool
	// SkipDuplicates takes no pair with S > 0.9999 as a positive one.
	SkipDuplicates bool
}

// Number is a number of a rule: a field of [Options] with all that there is to know of it. This is its only
// declaration: names of rules, graphs that take it as an input, the page's sliders and the modules for Python read it.
type Number struct {
	Name        string  // In a rule's name: "tau".
	Field       string  // Of [Options], for code in Go: "Tau".
	Python      string  // In the modules for PyTorch and JAX, as "lambda" is a word of Python.
	Symbol      string  // In formulas: "τ".
	Title, Help string  // A few words, and a sentence.
	Default     float64 // What nil stands for.

	Min, Max, Step float64 // Of a slider.

	of func(*Options) **float64
}

// The numbers that the paper names. α, β, λ and ε have the values of its appendix; τ is not given: 1, as in Figure 3.
var (
	Tau = Number{Name: "tau", Field: "Tau", Python: "tau", Symbol: "τ", Title: "temperature",
		Help:    "How sharply the triplet weight tells hard triplets from easy ones.",
		Default: 1, Max: 16, Step: 0.1, of: func(o *Options) **float64 { return &o.Tau }}
	Alpha = Number{Name: "alpha", Field: "Alpha", Python: "alpha", Symbol: "α", Title: "slope of the positive weight",
		Help:    "How sharply the positive pair's sigmoid switches.",
		Default: 2, Max: 20, Step: 0.1, of: func(o *Options) **float64 { return &o.Alpha }}
	Beta = Number{Name: "beta", Field: "Beta", Python: "beta", Symbol: "β", Title: "slope of the negative weight",
		Help:    "How sharply the negative pair's sigmoid switches.",
		Default: 10, Max: 60, Step: 0.5, of: func(o *Options) **float64 { return &o.Beta }}
	Lambda = Number{Name: "lambda", Field: "Lambda", Python: "lam", Symbol: "λ", Title: "threshold",
		Help:    "The similarity at which the sigmoids switch.",
		Default: 0.5, Max: 1, Step: 0.01, of: func(o *Options) **float64 { return &o.Lambda }}
	Epsilon = Number{Name: "epsilon", Field: "Epsilon", Python: "eps", Symbol: "ε", Title: "margin of relative similarity",
		Help:    "How near to the hardest pair another pair must be to be compared with.",
		Default: 0.1, Max: 1, Step: 0.01, of: func(o *Options) **float64 { return &o.Epsilon }}

	// Numbers lists them in the order in which the page shows them.
	Numbers = []Number{Tau, Alpha, Beta, Lambda, Epsilon}
)

// In returns the number's value in options, its default if they have none.
func (n Number) In(o Options) float64 {
	if v := *n.of(&o); v != nil {
		return *v
	}
	return n.Default
}

// Switch is a convention for what the paper leaves open: a field of [Options] that is true or false.
type Switch struct {
	Name        string // In a rule's name: "sum".
	Title, Help string // A few words, and a sentence.

	of func(*Options) *bool
}

// Switches lists the switches of [Options].
var Switches = []Switch{
	{"sum", "sum over triplets", "The gradient is the sum over the triplets, not their mean.",
		func(o *Options) *bool { return &o.Sum }},
	{"negative-only", "project the negative alone",
		"An orthogonal direction projects the negative's move, and leaves the anchor's as it is.",
		func(o *Options) *bool { return &o.NegativeOnly }},
	{"keep-length", "keep the projected length",
		"A projected direction stays as long as the projection leaves it, and is not made a unit vector again.",
		func(o *Options) *bool { return &o.KeepLength }},
	{"skip-duplicates", "skip duplicates", "No pair with S > 0.9999 is taken for a positive one.",
		func(o *Options) *bool { return &o.SkipDuplicates }},
}

// On returns the switch's value in options.
func (s Switch) On(o Options) bool { return *s.of(&o) }

// settings lets a name set the options of the rule and the numbers of its formulas' own.
func (r *Rule) settings() (out []query.Option) {
	for _, n := range Numbers {
		out = append(out, query.Option{Name: n.Name, Set: func(v float64) { *n.of(&r.Options) = &v }})
	}
	for name := range r.ownNumbers() {
		out = append(out, query.Option{Name: name, Set: func(v float64) { r.setOwn(name, v) }})
	}
	for _, s := range Switches {
		out = append(out, query.Option{Name: s.Name, On: func() { *s.of(&r.Options) = true }})
	}
	slices.SortFunc(out, func(a, b query.Option) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// part is what there is to know of a part of a rule that has a name. A part of the user's own has the zero value.
type part struct {
	known    bool
	reads    []string
	formulas formula.List // That the part's function computes, if there are any.
}

// known marks a part that stands in the list of its kind, with the options that it reads, by their names in the name of
// a rule.
func known(reads ...string) part { return part{known: true, reads: reads} }

// Uses reports whether an option, by its name in a rule's name, can change what the rule does: "tau" does so for the
// triplet weights cos and cir. A rule with a part of the user's own may read any option.
func (r Rule) Uses(option string) bool {
	r = r.WithDefaults()
	_, own := r.ownNumbers()[option]
	return own || r.Custom() || option == "sum" || option == "skip-duplicates" ||
		slices.Contains(slices.Concat(r.Direction.reads, r.Pair.reads, r.Triplet.reads, r.Mask.reads), option)
}

// UsedOptions lists the options that have an effect on the rule ([Rule.Uses]), by their names in [Rule.Name] and in its
// order.
func (r Rule) UsedOptions() (out []string) {
	for _, o := range r.settings() {
		if r.Uses(o.Name) {
			out = append(out, o.Name)
		}
	}
	return out
}

// WithOptions returns the rule with further options, as they follow a rule's name: "tau=2&sum". An option that the rule
// does not use is left out, so that the rule keeps its name. It returns an error for an unknown option or a bad value.
func (r Rule) WithOptions(text string) (Rule, error) {
	with := r
	options := with.settings()
	for i, o := range options {
		switch {
		case r.Uses(o.Name):
		case o.Set != nil:
			options[i].Set = func(float64) {}
		default:
			options[i].On = func() {}
		}
	}
	if err := query.Read("option", text, options); err != nil {
		return r, fmt.Errorf("options %q: %w", text, err)
	}
	return with, nil
}

// readOptions reads the options behind a rule's name. One without an effect is an error, since the rule would be the
// same under another name.
func (r *Rule) readOptions(text string) error {
	if err := query.Read("option", text, r.settings()); err != nil {
		return err
	}
	keys, _, _ := query.Fields(text)
	for _, key := range keys {
		if r.Uses(key) {
			continue
		}
		users := usersOf(Directions, key, func(d Direction) (string, part) { return d.Name, d.part })
		users = append(users, usersOf(PairWeights, key, func(p PairWeight) (string, part) { return p.Name, p.part })...)
		users = append(users, usersOf(TripletWeights, key, func(t TripletWeight) (string, part) { return t.Name, t.part })...)
		return fmt.Errorf("%s has no effect, since no part of the rule uses it: of the parts with a name, %s do; leave it "+
			"out", key, strings.Join(users, ", "))
	}
	return nil
}

// usersOf are the names of the parts that read an option.
func usersOf[T any](in []T, option string, of func(T) (string, part)) (out []string) {
	for _, x := range in {
		if name, p := of(x); slices.Contains(p.reads, option) {
			out = append(out, name)
		}
	}
	return out
}

// Numbers returns the numbers that the rule uses, by their names in its name: {"tau": 1}.
func (r Rule) Numbers() map[string]float64 {
	out := r.ownNumbers()
	for _, n := range Numbers {
		if r.Uses(n.Name) {
			out[n.Name] = n.In(r.Options)
		}
	}
	return out
}

// number is a number of a batch's rule: an input of the graph, or a constant.
type number struct {
	input *Node // nil for a constant.
	value float64
}

// number returns a number of the batch's rule: of Parameters if there are any, else of Options.
func (b *Batch) number(n Number) number { return number{b.Parameters[n.Name], n.In(b.Options)} }

// neg is −p.
func (p number) neg() number {
	p.value = -p.value
	if p.input != nil {
		p.input = Neg(p.input)
	}
	return p
}

// times is p x, and plus x + p. A constant and an input of the same value give the same bits on the Go backend.
func (p number) times(x *Node) *Node {
	if p.input != nil {
		return Mul(x, p.input)
	}
	return MulScalar(x, p.value)
}

func (p number) plus(x *Node) *Node {
	if p.input != nil {
		return Add(x, p.input)
	}
	return AddScalar(x, p.value)
}
