package claims

import (
	"slices"

	"github.com/gradient-surgery/dml/figures"
)

// Verdict says how a claim of the paper stands on some numbers.
type Verdict string

// The verdicts. On printed numbers a comparison counts by its means. On measured ones it counts only where its 95 %
// interval excludes the contrary, and is open otherwise.
const (
	Holds Verdict = "holds" // In all cells that it speaks of; for "in most cases", in more than half.
	// In none, and on measured numbers to the contrary in at least one; "most": in half of them.
	Fails       Verdict = "fails"
	Mixed       Verdict = "mixed"        // In some and not in others.
	WithinNoise Verdict = "within noise" // Open in all cells; "most": in more than half.
	NotYetRun   Verdict = "not yet run"  // None of its runs is there.
	Uncheckable Verdict = "–"            // These numbers do not speak of it.
)

// Verdicts lists them.
func Verdicts() []Verdict {
	return []Verdict{Holds, Mixed, Fails, WithinNoise, NotYetRun, Uncheckable}
}

// Finding is a verdict with the numbers that it rests on.
type Finding struct {
	Verdict  Verdict
	Evidence figures.Markup
}

// Claim is a sentence of the paper that says something measurable.
type Claim struct {
	Part    string         // Which part of the audit it belongs to; see [Parts].
	Section string         // "Abstract", "§5.2", "App. C", …
	Quote   figures.Markup // As printed, shortened.
	Asks    figures.Markup // How it is checked.

	check func(n *Numbers) Finding
}

// Parts are the parts of the audit, in the paper's order, with their titles.
var Parts = []struct{ Name, Title string }{
	{"overview", "Abstract, Introduction, Background"},
	{"framework", "§3: The gradient, by its formulas"},
	{"directions", "§5.1 and §5.4: Directions"},
	{"pairs", "§5.2: Pair weights"},
	{"triplets", "§5.3: Triplet weights"},
	{"best", "§6 and Table 5: The best combination"},
	{"conclusion", "§7 and §8: Limitations and conclusion"},
	{"appendix", "Appendix"},
}

// List returns the sentences of the paper that say something measurable, in its order.
func List() []Claim {
	return slices.Concat(overviewClaims(), formulaClaims(), directionClaims(), pairClaims(), tripletClaims(),
		bestClaims(), conclusionClaims(), appendixClaims())
}

// Audited is a claim with its findings.
type Audited struct {
	Claim
	Paper, Ours Finding
}

// Audit checks all claims on the paper's own numbers and on those of runs, which may be nil.
func Audit(paper, runs *Numbers) []Audited {
	all := List()
	out := make([]Audited, len(all))
	for i, c := range all {
		out[i] = Audited{Claim: c, Paper: c.check(paper), Ours: Finding{NotYetRun, ""}}
		if runs != nil {
			out[i].Ours = c.check(runs)
		}
	}
	return out
}
