package figures

import (
	"fmt"
	"strings"
)

// DirectionLabel is the paper's symbol for a direction, such as e^{cos-orth}, for its name.
func DirectionLabel(name string) Markup { return fmt.Sprintf(`$\mathbf{e^{%s}}$`, name) }

// PairLabel is the paper's symbol for a pair weight, such as P^{lin-ms}.
func PairLabel(name string) Markup { return fmt.Sprintf("$P^{%s}$", name) }

// TripletLabel is the paper's symbol for a triplet weight with or without a mask: "cos+sc1" is T^{cos} & T^{sc1}, as in the paper's Table 4.
func TripletLabel(name string) Markup {
	parts := strings.Split(name, "+")
	for i, p := range parts {
		parts[i] = fmt.Sprintf("$T^{%s}$", p)
	}
	return strings.Join(parts, " & ")
}

// RuleLabels are the symbols of the parts of a rule by its name, direction/pair/triplet, without its options.
func RuleLabels(rule string) (direction, pair, triplet Markup, err error) {
	name, _, _ := strings.Cut(rule, "?")
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return "", "", "", fmt.Errorf("rule %q: want direction/pair/triplet", rule)
	}
	return DirectionLabel(parts[0]), PairLabel(parts[1]), TripletLabel(parts[2]), nil
}
