package paper

// The parts of the paper in the order of its Tables 2 to 4. A part that is added to package dmlx has a name there, by
// which rules are parsed, completed and searched; it is no part of the paper's tables and does not stand here.
var (
	directions     = []string{"euc", "cos", "euc-orth", "cos-orth"}
	pairWeights    = []string{"con", "euc", "lin", "lin-ms", "sig", "sig-ms"}
	tripletWeights = []string{"con", "cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"}
)

// GridRules returns the names of the paper's 168 rules: all combinations of its 4 directions, 6 pair weights and 7
// triplet weights with their masks.
func GridRules() []string { return Rules(directions, pairWeights, tripletWeights) }
