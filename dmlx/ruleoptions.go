package dmlx

import (
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/internal/query"
)

// part is what there is to know of a part of a rule that has a name. A part of the user's own has the zero value.
type part struct {
	known bool
	reads []string
}

// known marks a part that stands in the list of its kind, with the options that it reads, by their names in the name of
// a rule.
func known(reads ...string) part { return part{known: true, reads: reads} }

// Uses reports whether an option, by its name in a rule's name, can change what the rule does: "tau" does so for the
// triplet weights cos and cir. A rule with a part of the user's own may read any option.
func (r Rule) Uses(option string) bool {
	r = r.WithDefaults()
	return r.Custom() || option == "sum" || option == "skip-duplicates" ||
		slices.Contains(slices.Concat(r.Direction.reads, r.Pair.reads, r.Triplet.reads, r.Mask.reads), option)
}

// WithOptions returns the rule with further options, as they follow a rule's name: "tau=2&sum". An option that the rule
// does not use is left out, so that the rule keeps its name. It returns an error for an unknown option or a bad value.
func (r Rule) WithOptions(text string) (Rule, error) {
	var given Options
	if err := query.Read("option", text, given.settings()); err != nil {
		return r, fmt.Errorf("options %q: %w", text, err)
	}
	for _, o := range options {
		switch {
		case !r.Uses(o.name):
		case o.on != nil:
			if *o.on(&given) {
				*o.on(&r.Options) = true
			}
		case *o.value(&given) != nil:
			*o.value(&r.Options) = *o.value(&given)
		}
	}
	return r, nil
}

// Numbers returns the numbers that the rule uses, by their names in its name: {"tau": 1}.
func (r Rule) Numbers() map[string]float64 {
	out := map[string]float64{}
	for _, o := range options {
		if o.value != nil && r.Uses(o.name) {
			out[o.name] = value(*o.value(&r.Options), o.preset)
		}
	}
	return out
}
