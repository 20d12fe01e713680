// Package claims decides which sentences of the paper hold, on the numbers that the paper prints and on those of runs.
// Each section of the paper has a file with its claims and how they are checked; package figures draws the outcome.
//
// The list is open: a [Claim] is a value, and one of the user's own is decided as those of [List] are:
//
//	c := claims.Claim{Quote: "Masks help.", Asks: "Table 4, CAR: sc1 above none.",
//		Check: claims.Compare(func(c *claims.Comparisons) claims.Finding {
//			c.Above("cos", claims.Fact{Table: 4, Data: "CAR", Rule: "cos/con/cos+sc1"},
//				claims.Fact{Table: 4, Data: "CAR", Rule: "cos/con/cos"})
//			return c.All(0)
//		})}
//	audited := claims.Audit([]claims.Claim{c}, paper, ours)
package claims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/figures"
)

// Verdict says whether a claim of the paper holds on a set of numbers.
type Verdict string

// The verdicts. On printed numbers a comparison is decided by its means. On measured numbers it is decided only if its
// 95 % interval lies on one side, and open otherwise.
const (
	Holds Verdict = "holds" // In all cells of the claim; a claim on "most cases" needs more than half.
	// In no cell, and on measured numbers to the contrary in at least one; "most": to the contrary in half of them.
	Fails       Verdict = "fails"
	Mixed       Verdict = "mixed"        // In some and not in others.
	Misprint    Verdict = "misprint"     // Not as printed, and another sign or symbol would make it hold.
	WithinNoise Verdict = "within noise" // Open in all cells; "most": in more than half.
	NotYetRun   Verdict = "not yet run"  // None of its runs is available.
	Uncheckable Verdict = "–"            // These numbers do not bear on it.
)

// Verdicts lists all verdicts.
func Verdicts() []Verdict {
	return []Verdict{Holds, Mixed, Fails, Misprint, WithinNoise, NotYetRun, Uncheckable}
}

// Finding is a verdict with the numbers that it rests on.
type Finding struct {
	Verdict  Verdict
	Evidence figures.Markup
}

// moreNotRun ends the evidence of a finding that rests on some of its runs only, after their number.
const moreNotRun = " more not run yet"

// Complete reports whether the finding rests on all of its runs, and is no verdict without any.
func (f Finding) Complete() bool {
	return f.Verdict != NotYetRun && f.Verdict != Uncheckable && !strings.Contains(f.Evidence, moreNotRun)
}

// Claim is a sentence of the paper with a measurable content, or a check of its tables against themselves.
type Claim struct {
	Part    string         // Which part of the audit it belongs to; see [Parts].
	Section string         // "Abstract", "§5.2", "App. C", …, with its figure if it is about one: "§5.4, Fig. 5".
	Quote   figures.Markup // As printed, shortened; empty for a check of tables, which no sentence makes.
	Asks    figures.Markup // How it is checked.

	// Check decides the claim on the paper's numbers or on those of runs; most are made by [Compare].
	Check func(n *Numbers) Finding
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
	{"tables", "The tables against themselves; no sentence says so"},
}

// List returns all claims, in the paper's order.
func List() []Claim {
	return slices.Concat(overviewClaims(), formulaClaims(), directionClaims(), pairClaims(), tripletClaims(),
		bestClaims(), conclusionClaims(), appendixClaims(), tableChecks())
}

// Find returns the claim of [List] whose quote or check contains the words. It returns an error if there is none, or
// several.
func Find(words string) (Claim, error) {
	found := slices.DeleteFunc(List(), func(c Claim) bool {
		return !strings.Contains(c.Quote, words) && !strings.Contains(c.Asks, words)
	})
	if len(found) != 1 {
		return Claim{}, fmt.Errorf("%d claims contain the words %q; want one", len(found), words)
	}
	return found[0], nil
}

// Audited is a claim with its findings.
type Audited struct {
	Claim
	Paper, Ours Finding
}

// Audit checks claims, such as [List], on the paper's own numbers and on those of runs. Without runs, which may be nil,
// the verdict on these is [NotYetRun].
func Audit(all []Claim, paper, runs *Numbers) []Audited {
	out := make([]Audited, len(all))
	for i, c := range all {
		out[i] = Audited{Claim: c, Paper: c.Check(paper), Ours: Finding{NotYetRun, ""}}
		if runs != nil {
			out[i].Ours = c.Check(runs)
		}
	}
	return out
}

// Count returns the number of claims by their verdict on the paper's own numbers, and by that on runs.
func Count(audited []Audited) (paper, ours map[Verdict]int) {
	paper, ours = make(map[Verdict]int), make(map[Verdict]int)
	for _, a := range audited {
		paper[a.Paper.Verdict]++
		ours[a.Ours.Verdict]++
	}
	return paper, ours
}

// Contradicted returns the claims that do not hold on the paper's own numbers, wholly or in part.
func Contradicted(audited []Audited) []Audited {
	return slices.DeleteFunc(slices.Clone(audited), func(a Audited) bool {
		return a.Paper.Verdict != Fails && a.Paper.Verdict != Mixed
	})
}
