package ledger

import (
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/paper/claims"
	"github.com/gradient-surgery/dml/figures"
)

// OfClaim returns the row of a claim that was audited on the runs of a preset. It has the verdict on these, or on the
// paper's own numbers where no run bears on it.
func OfClaim(a claims.Audited, preset, command string) Row {
	r := Row{Place: "Claim, " + a.Section, What: a.Quote, Paper: figures.Markup(a.Paper.Verdict),
		Ours: figures.Markup(a.Ours.Verdict), PaperEffect: a.Paper.Evidence, OurEffect: a.Ours.Evidence, Comparable: a.Asks,
		Tolerance: "95 % by Welch's t", Command: command}
	if a.Quote == "" {
		r.What = "The printed tables against themselves"
	}
	if a.Ours.Verdict != claims.Uncheckable && a.Ours.Verdict != claims.NotYetRun {
		r.Preset = preset
	}
	f := a.Ours
	if f.Verdict == claims.Uncheckable {
		f, r.Why, r.Tolerance = a.Paper, "by the paper's own numbers: no run bears on it", "as printed"
	}
	switch f.Verdict {
	case claims.Holds:
		r.Verdict = Reproduced
	case claims.WithinNoise:
		r.Verdict = WithinNoise
	case claims.NotYetRun:
		r.Verdict, r.Why = NotRun, "its runs are not in the store"
	case claims.Mixed:
		r.Verdict, r.Why = Contradicted, join(r.Why, "in some of its cells")
	case claims.Misprint:
		r.Verdict, r.Why = Contradicted, join(r.Why, "as printed; with another sign or symbol it holds")
	case claims.Fails:
		r.Verdict = Contradicted
	default:
		r.Verdict, r.Why = DifferentSetting, "its number is in no table and of no run"
	}
	return r
}

func join(a, b figures.Markup) figures.Markup {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// rounding is the largest relative difference in float32 that counts as equal.
const rounding = 1e-4

// Computed returns the row of a figure that is computed again: reproduced if the largest difference is rounding.
func Computed(place string, what figures.Markup, difference float64, compared figures.Markup, command string) Row {
	r := Row{Place: place, What: what, OurEffect: fmt.Sprintf("%.1g", difference), Comparable: compared,
		Tolerance: fmt.Sprintf("float32: %g", rounding), Verdict: Contradicted, Command: command}
	if difference <= rounding {
		r.Verdict = Reproduced
	}
	return r
}

// OfFigure returns the row of a figure by the rows of its claims: contradicted if one is, else within noise, not run
// or of a different setting if one is, and reproduced if all are. It is an error if there are none.
func OfFigure(place string, what figures.Markup, claims []Row) (Row, error) {
	if len(claims) == 0 {
		return Row{}, fmt.Errorf("ledger: %s has no claims", place)
	}
	r := Row{Place: place, What: what, Verdict: Reproduced, Tolerance: "95 % by Welch's t",
		Comparable: fmt.Sprintf("what the paper reads off it: %d claims", len(claims))}
	count := Count(claims)
	for _, v := range []Verdict{DifferentSetting, NotRun, WithinNoise, Contradicted} { // The last one wins.
		if count[v] > 0 {
			r.Verdict = v
		}
	}
	for _, v := range Verdicts() {
		if count[v] > 0 {
			r.Why = join(r.Why, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	return r, nil
}
