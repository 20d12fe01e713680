// Package claims decides which sentences of the paper hold, on the numbers that the paper prints and on those of runs.
// Each section of the paper has a file with its claims and how they are checked; package figures draws the outcome.
//
// The list is open: a [Claim] is a value, and one of the user's own is decided as those of [List] are:
//
//	c := claims.Claim{Quote: "Masks help.", Asks: "Table 4, CAR: sc1 above none.",
//		Check: claims.Compare(func(c *claims.Comparisons) claims.Finding {
//			c.Above("cos", scores.Row{Table: 4, Role: "CAR", Rule: "cos/con/cos+sc1"},
//				scores.Row{Table: 4, Role: "CAR", Rule: "cos/con/cos"})
//			return c.All(0)
//		})}
//	audited := claims.Audit([]claims.Claim{c}, paper, ours)
package claims

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/figures"
)

// Finding is what one kind of numbers says about a claim, with the numbers that it rests on. On printed numbers a
// comparison is decided by its means, on measured ones by its noise; [verdicts.Decide] does both.
type Finding struct {
	Verdict  verdicts.Verdict
	Evidence figures.Markup
	// Of comparisons, Holding hold and Opposite are to the contrary, on runs each by itself beyond noise. Missing lack a
	// run.
	Of, Holding, Opposite, Missing int
	Misprint                       bool // With another sign or symbol the paper's formula would hold.
	// Times is how many times as many seeds would decide what is undecided, if the differences are what these show; 0
	// if nothing would, or if all is decided.
	Times int
}

// Complete reports whether the finding rests on all of its runs, and is no verdict without any.
func (f Finding) Complete() bool {
	return f.Verdict != verdicts.NotRun && f.Verdict != verdicts.None && f.Missing == 0
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
// the verdict on these is [verdicts.NotRun].
func Audit(all []Claim, paper, runs *Numbers) []Audited {
	out := make([]Audited, len(all))
	for i, c := range all {
		out[i] = Audited{Claim: c, Paper: c.Check(paper), Ours: Finding{Verdict: verdicts.NotRun}}
		if runs != nil {
			out[i].Ours = c.Check(runs)
		}
	}
	return out
}

// Count returns the number of claims by their verdict on the paper's own numbers, and by that on runs.
func Count(audited []Audited) (paper, ours map[verdicts.Verdict]int) {
	paper, ours = make(map[verdicts.Verdict]int), make(map[verdicts.Verdict]int)
	for _, a := range audited {
		paper[a.Paper.Verdict]++
		ours[a.Ours.Verdict]++
	}
	return paper, ours
}

// Contradicted returns the claims that the paper's own numbers or formulas contradict, also those with an exception.
func Contradicted(audited []Audited) []Audited {
	return slices.DeleteFunc(slices.Clone(audited), func(a Audited) bool {
		return a.Paper.Verdict != verdicts.ContradictsItself
	})
}
