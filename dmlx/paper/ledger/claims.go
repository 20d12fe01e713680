package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/paper/claims"
	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/figures"
)

// OfClaim returns the row of a claim that was audited on the runs of a preset in a setting. It has the verdict on
// these, or on the paper's own numbers where no run bears on it.
func OfClaim(a claims.Audited, preset string, in verdicts.Setting, command string) Row {
	r := Row{Place: "Claim, " + a.Section, What: a.Quote, Paper: a.Paper.Verdict.OnPrint(), Ours: string(a.Ours.Verdict),
		PaperEffect: a.Paper.Evidence, OurEffect: a.Ours.Evidence, Comparable: a.Asks,
		Test: "Welch's t, corrected for the number of cells", Command: command, P: math.NaN()}
	if a.Quote == "" {
		r.What = "The printed tables against themselves"
	}
	r.Verdict, r.Setting = verdicts.Overall(a.Paper.Verdict, a.Ours.Verdict, in)
	switch {
	case r.Verdict == verdicts.NotRun:
		r.Why = "its runs are not in the store"
	case r.Verdict == verdicts.DifferentSetting:
		r.Why = "its number is in no table and of no run"
	case r.Setting == verdicts.Print:
		r.Why, r.Test = "by the paper's own numbers: no run bears on it", "as printed"
		if a.Paper.Misprint {
			r.Why = "a misprint: with another sign or symbol it holds"
		}
	default:
		r.Preset = preset
		if a.Ours.Times > 0 {
			r.Why = fmt.Sprintf("%d times the seeds would decide, if the differences stay", a.Ours.Times)
		}
	}
	return r
}

// rounding is the largest relative difference in float32 that counts as equal.
const rounding = 1e-4

// Computed returns the row of a figure that is computed again: reproduced if the largest difference is rounding.
func Computed(place string, what figures.Markup, difference float64, compared figures.Markup, command string) Row {
	r := Row{Place: place, What: what, OurEffect: fmt.Sprintf("%.1g", difference), Comparable: compared,
		Test: fmt.Sprintf("float32: %g", rounding), Verdict: verdicts.ContradictsItself, Setting: verdicts.Print,
		Command: command, P: math.NaN()}
	if difference <= rounding {
		r.Verdict = verdicts.Reproduced
	}
	return r
}

// OfFigure returns the row of a figure by the rows of its claims. It is an error if there are none.
func OfFigure(place string, what figures.Markup, claims []Row) (Row, error) {
	if len(claims) == 0 {
		return Row{}, fmt.Errorf("ledger: %s has no claims", place)
	}
	of, why := slice.Map(claims, func(r Row) verdicts.Verdict { return r.Verdict }), []string{}
	count := Count(claims)
	for _, v := range verdicts.All() {
		if count[v] > 0 {
			why = append(why, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	r := Row{Place: place, What: what, Verdict: verdicts.Together(of), Test: "as its claims",
		Comparable: fmt.Sprintf("what the paper reads off it: %d claims", len(claims)), Why: strings.Join(why, "; "),
		P: math.NaN()}
	// A verdict that runs have a part in is of their setting.
	r.Setting = slices.MinFunc(claims, func(a, b Row) int { return a.Setting.Order() - b.Setting.Order() }).Setting
	if i := slices.IndexFunc(claims, func(c Row) bool { return c.Verdict == r.Verdict }); i >= 0 {
		r.Setting = claims[i].Setting
	}
	return r, nil
}
