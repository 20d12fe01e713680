package dmlx

import "slices"

// uses are the options that the paper's parts read, by the parts' names.
var uses = struct{ directions, pairs, triplets map[string][]string }{
	directions: map[string][]string{"euc-orth": {"keep-length", "negative-only"},
		"cos-orth": {"keep-length", "negative-only"}},
	pairs: map[string][]string{"lin-ms": {"epsilon"}, "sig": {"alpha", "beta", "lambda"},
		"sig-ms": {"alpha", "beta", "epsilon", "lambda"}},
	triplets: map[string][]string{"cos": {"tau"}, "cir": {"tau"}},
}

// Uses lists the options that have an effect on the rule, by their names in [Rule.Name] and in its order. A rule with a
// part of the user's own may use any.
func (r Rule) Uses() []string {
	r = r.WithDefaults()
	used := slices.Concat([]string{"skip-duplicates", "sum"}, uses.directions[r.Direction.Name], uses.pairs[r.Pair.Name],
		uses.triplets[r.Triplet.Name])
	var out []string
	for _, o := range options {
		if r.Custom() || slices.Contains(used, o.name) {
			out = append(out, o.name)
		}
	}
	return out
}
