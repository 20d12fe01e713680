// Package ledger gives every printed number of the paper, every figure and every measurable claim one verdict: what our
// runs say about it.
//
// Numbers of another setting are not comparable by their value. What is comparable is the sign of a difference: of a
// number to the first row of its table, at the same learning rate (by rank), on the same data set. Both differences,
// the paper's by its printed deviations and ours by seeds, are tested by Welch's t with Holm's correction for the
// numbers of a table. Where we have one seed, its noise is that of the data set's cells with several.
package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// Verdict says what our runs say about an entry of the paper.
type Verdict string

// The verdicts.
const (
	Reproduced       Verdict = "reproduced"
	WithinNoise      Verdict = "within noise" // One of the two differences cannot be told from zero.
	Contradicted     Verdict = "contradicted"
	DifferentSetting Verdict = "different setting" // Nothing of it is comparable; Row.Why says what differs.
	NotRun           Verdict = "not run"           // Row.Why says what it takes.
)

// Verdicts lists all verdicts, in the order of tables and pictures.
func Verdicts() []Verdict {
	return []Verdict{Reproduced, WithinNoise, Contradicted, DifferentSetting, NotRun}
}

// Row is an entry of the paper with its verdict.
type Row struct {
	// Place is where it stands: "Table 3", "Figure 4", "Claim, §5.2". What is the entry itself.
	Place string
	What  figures.Markup
	// Paper and Ours are the two values as text, and PaperEffect and OurEffect the differences that decide, "" if there
	// are none. Data is our data set, and Preset that of our runs; both are "" where no run of ours bears on the entry.
	Paper, Ours, PaperEffect, OurEffect figures.Markup
	Data, Preset                        string
	// Comparable is what is compared, and Tolerance where its tolerance comes from; both are "" if nothing is.
	Comparable, Tolerance figures.Markup
	Verdict               Verdict
	Why                   figures.Markup
	// Command runs it again, and Runs are the IDs of the runs that were read.
	Command string
	Runs    []string
}

// Number is a printed number with our runs in its role. Means are in percent.
type Number struct {
	Printed scores.Row
	Data    string     // "" if no data set of ours stands for the paper's.
	Ours    stats.Mean // Without runs, its N and Diverged are 0.
	LR      float64    // Of our runs.
	Preset  string     // Of our runs.
	// Noise is the standard deviation between seeds on this data set, for numbers of a single seed.
	Noise stats.Noise
	Runs  []string
	// Baseline is the number that this one is compared to: the first row of its table. It is nil for that row itself.
	Baseline *Number
	// SameSetting says that our runs have the paper's own setting, so that values are comparable.
	SameSetting bool
	// Missing says what it takes to run it, if it was not run.
	Missing, Command string
}

// level is the level of significance in a table.
const level = 0.05

// Judge returns the rows of the numbers of one table.
func Judge(numbers []*Number) []Row {
	paper, ours := make([]stats.Test, len(numbers)), make([]stats.Test, len(numbers))
	p := func(tests []stats.Test) (out []float64) {
		for _, t := range tests {
			out = append(out, t.P)
		}
		return out
	}
	for i, n := range numbers {
		paper[i], ours[i] = stats.Untested(math.NaN()), stats.Untested(math.NaN())
		switch {
		case n.Ours.N == 0:
		case n.SameSetting:
			ours[i] = stats.Welch(n.Ours, n.Printed.Value)
		case n.Baseline != nil:
			paper[i] = stats.Welch(n.Printed.Value, n.Baseline.Printed.Value)
			ours[i] = stats.Welch(n.Ours, n.Baseline.Ours)
			if n.pools() {
				ours[i] = n.Noise.Test(n.Ours.Mean-n.Baseline.Ours.Mean, 1/float64(n.Ours.N)+1/float64(n.Baseline.Ours.N))
			}
		}
	}
	paperLast, ourLast := stats.Holm(p(paper), level), stats.Holm(p(ours), level)
	rows := make([]Row, len(numbers))
	for i, n := range numbers {
		r := n.row()
		told := func(t stats.Test, last float64) bool { return t.P <= last }
		switch {
		case r.Verdict != "":
		case n.SameSetting:
			r.Comparable, r.Tolerance = "value", "95 % by Welch's t of both, Holm over the table"
			r.OurEffect = ours[i].Difference.String()
			r.Verdict = Reproduced
			if math.IsNaN(ours[i].P) {
				r.Verdict, r.Why = WithinNoise, "one seed, or a number that is printed without a deviation"
			} else if told(ours[i], ourLast) {
				r.Verdict = Contradicted
			}
		default:
			r.Comparable = "sign of the difference to " + label(n.Baseline.Printed)
			r.Tolerance = "95 % by Welch's t, Holm over the table"
			if n.pools() {
				r.Tolerance = "95 % by the noise of seeds of the data set's other cells, Holm over the table"
			}
			r.PaperEffect, r.OurEffect = paper[i].Difference.String(), ours[i].Difference.String()
			inPaper := told(paper[i], paperLast)
			if n.Printed.Value.Std == 0 { // Only its sign is known.
				r.Tolerance += "; the paper prints no deviation here, so its sign counts"
				inPaper = paper[i].Difference.Value != 0
			}
			same := (paper[i].Difference.Value > 0) == (ours[i].Difference.Value > 0)
			switch {
			case !inPaper:
				r.Verdict, r.Why = WithinNoise, "the paper's own difference is within its noise"
			case !told(ours[i], ourLast):
				r.Verdict, r.Why = WithinNoise, "ours is within the noise of seeds"
			case same:
				r.Verdict = Reproduced
			default:
				r.Verdict = Contradicted
			}
		}
		rows[i] = r
	}
	return rows
}

// pools reports whether the comparison takes the noise of other cells, since one of the two numbers is of one seed.
func (n *Number) pools() bool { return min(n.Ours.N, n.Baseline.Ours.N) == 1 && n.Noise.Freedom > 0 }

// row returns the row of a number, without a verdict if it is to be compared.
func (n *Number) row() Row {
	r := Row{Place: fmt.Sprintf("Table %d", n.Printed.Table), What: n.what(),
		Paper: fmt.Sprintf("%.1f", n.Printed.Value.Mean), Ours: "–", Data: n.Data, Command: n.Command, Runs: n.Runs}
	if n.Printed.Value.Std > 0 {
		r.Paper = n.Printed.Value.String()
	}
	if n.Ours.N+n.Ours.Diverged > 0 {
		r.Ours, r.Preset = n.Ours.String(), n.Preset
		if n.LR != 0 {
			r.Ours += fmt.Sprintf(" (lr %g)", n.LR)
		}
	}
	switch {
	case n.Missing != "":
		r.Verdict, r.Why = NotRun, n.Missing
	case n.Ours.N == 0 && n.Ours.Diverged == 0:
		r.Verdict, r.Why = NotRun, "its runs are not in the store"
	case n.Ours.N == 0:
		r.Verdict, r.Why = DifferentSetting, "all of our runs diverged at this rate, the paper's did not"
	case n.SameSetting:
	case n.Baseline == nil:
		r.Verdict, r.Why = DifferentSetting, "the first row of its table, which the others are compared to; its value "+
			"is that of other images and another network"
	case n.Baseline.Ours.N == 0:
		r.Verdict, r.Why = DifferentSetting, "there is no finite run of the first row to compare it to"
	}
	return r
}

// what names the printed number: its row, data set, metric and rate.
func (n *Number) what() figures.Markup {
	p := n.Printed
	out := fmt.Sprintf("%s, %s, %s", label(p), p.Data, p.Measure)
	if p.LR != 0 {
		out += fmt.Sprintf(", lr %g", p.LR)
	}
	return out
}

// label names the row of a printed number.
func label(p scores.Row) figures.Markup {
	if p.Method != "" {
		if p.Direction != "" {
			return fmt.Sprintf("%s (B%d)", p.Method, p.Batch)
		}
		return p.Method
	}
	return p.Rule
}

// Count returns how many rows have each verdict.
func Count(rows []Row) map[Verdict]int {
	out := make(map[Verdict]int)
	for _, r := range rows {
		out[r.Verdict]++
	}
	return out
}

// Filter selects rows. An empty list takes all.
type Filter struct {
	// Places are as in the rows, "Table 3", or "Figures" and "Claims" for all of these.
	Places        []string
	Verdicts      []Verdict
	Data, Presets []string
}

// Select returns the rows that the filter takes. It returns an error for a value that no row has.
func (f Filter) Select(rows []Row) ([]Row, error) {
	verdicts := make([]string, len(f.Verdicts))
	for i, v := range f.Verdicts {
		verdicts[i] = string(v)
	}
	for _, by := range []struct {
		what   string
		wanted []string
		of     func(Row) []string
	}{
		{"place", f.Places, func(r Row) []string { return []string{group(r), r.Place} }},
		{"verdict", verdicts, func(r Row) []string { return []string{string(r.Verdict)} }},
		{"data set", f.Data, func(r Row) []string { return []string{r.Data} }},
		{"preset", f.Presets, func(r Row) []string { return []string{r.Preset} }},
	} {
		if len(by.wanted) == 0 {
			continue
		}
		var known []string
		if by.what == "verdict" { // One that no entry has is none the less a verdict.
			for _, v := range Verdicts() {
				known = append(known, string(v))
			}
		}
		for _, r := range rows {
			for _, value := range by.of(r) {
				if value != "" && !slices.Contains(known, value) {
					known = append(known, value)
				}
			}
		}
		for _, w := range by.wanted {
			if !slices.Contains(known, w) {
				return nil, errs.NoSuch(fmt.Sprintf("the ledger has no %s %q", by.what, w), w, known)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		lacks := func(wanted []string, values ...string) bool {
			return len(wanted) > 0 && !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(wanted, v) })
		}
		return lacks(f.Places, r.Place, group(r)) || lacks(verdicts, string(r.Verdict)) || lacks(f.Data, r.Data) ||
			lacks(f.Presets, r.Preset)
	}), nil
}

// group names the place of a row, with all figures and all claims as one.
func group(r Row) string {
	for _, kind := range []string{"Claim", "Figure"} {
		if strings.HasPrefix(r.Place, kind) {
			return kind + "s"
		}
	}
	return r.Place
}
