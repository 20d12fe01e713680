package dmlx

import (
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/internal/query"
)

// optionUsers are the parts of the paper that an option changes. An option that is not here changes every rule.
var optionUsers = map[string][]string{
	"alpha": {PairSig.Name, PairSigMS.Name}, "beta": {PairSig.Name, PairSigMS.Name},
	"lambda": {PairSig.Name, PairSigMS.Name}, "epsilon": {PairLinMS.Name, PairSigMS.Name},
	"tau":           {TripletCos.Name, TripletCir.Name},
	"keep-length":   {DirectionEucOrth.Name, DirectionCosOrth.Name},
	"negative-only": {DirectionEucOrth.Name, DirectionCosOrth.Name},
}

// Uses reports whether an option, by its name in a rule's name, can change what the rule does: "tau" does so for the
// triplet weights cos and cir. A rule with a part of the user's own may read any option.
func (r Rule) Uses(option string) bool {
	users, some := optionUsers[option]
	if !some || r.Custom() {
		return true
	}
	r = r.WithDefaults()
	part := r.Pair.Name
	switch option {
	case "tau":
		part = r.Triplet.Name
	case "keep-length", "negative-only":
		part = r.Direction.Name
	}
	return slices.Contains(users, part)
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
