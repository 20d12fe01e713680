// Package ledger gives every printed number of the paper, every figure and every measurable claim one verdict, of
// package verdicts: what our runs say about it, and in which setting.
//
// Numbers of another setting are not comparable by their value. What is comparable is the sign of a difference: of a
// number to the first row of its table, on the same data set. In the sweeps both are at the same learning rate, or each
// at its best one where their grids have none in common. Both differences, the paper's by its printed deviations and
// ours by seeds, are tested by Welch's t with Holm's correction for the numbers of a table. Where we have one seed, its
// noise is that of the data set's cells with several; where the paper prints no deviation, its sign counts. [Row.Test]
// says which test it was. [Assess] says what the tests of a table could have found.
package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// Row is an entry of the paper with its verdict.
type Row struct {
	// Place is where it stands: "Table 3", "Figure 4", "Claim, §5.2". What is the entry itself.
	Place string
	What  figures.Markup
	// Paper and Ours are the two values as text, and PaperEffect and OurEffect the differences that decide, "" if there
	// are none. Data is our data set, and Preset that of our runs; both are "" where no run of ours bears on the entry.
	Paper, Ours, PaperEffect, OurEffect figures.Markup
	Data, Preset                        string
	// Comparable is what is compared, and Test how; both are "" if nothing is.
	Comparable, Test figures.Markup
	// Verdict is the verdict, Setting what it is about, and Why its reason.
	Verdict verdicts.Verdict
	Setting verdicts.Setting
	Why     figures.Markup
	// P is the p-value of our difference, NaN if there is none.
	P float64
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
	Setting verdicts.Setting
	// Noise is the standard deviation between seeds on this data set, for numbers of a single seed.
	Noise stats.Noise
	Runs  []string
	// Baseline is the number that this one is compared to: the first row of its table. It is nil for that row itself.
	Baseline *Number
	// AtBest says that this number and its baseline are each at their best learning rate: the paper's by its test
	// recall, ours by that on held-out classes.
	AtBest bool
	// Apart says why the number cannot be compared with its baseline, "" if it can.
	Apart figures.Markup
	// Missing says what it takes to run it, if it was not run.
	Missing, Command string
}

// level is the level of significance in a table.
const level = 0.05

// tested are the two differences of a number, and whether each is told from zero.
type tested struct {
	paper, ours     stats.Test
	inPaper, inOurs bool
}

// sameSetting reports whether values themselves are comparable.
func (n *Number) sameSetting() bool { return n.Setting == verdicts.PapersOwn }

// compared reports whether there is a difference to test.
func (n *Number) compared() bool {
	return n.Missing == "" && n.Ours.N > 0 &&
		(n.sameSetting() || n.Apart == "" && n.Baseline != nil && n.Baseline.Ours.N > 0)
}

// test tests the differences of a table's numbers, with Holm's correction for those that are compared.
func test(numbers []*Number) []tested {
	out := make([]tested, len(numbers))
	for i, n := range numbers {
		out[i] = tested{paper: stats.Untested(math.NaN()), ours: stats.Untested(math.NaN())}
		switch {
		case !n.compared():
		case n.sameSetting():
			out[i].ours = stats.Welch(n.Ours, n.Printed.Value)
		default:
			out[i].paper = stats.Welch(n.Printed.Value, n.Baseline.Printed.Value)
			out[i].ours = n.ourTest(n.Ours, n.Baseline.Ours)
		}
	}
	tell(out)
	for i, n := range numbers {
		if n.compared() && !n.sameSetting() && n.Printed.Value.Std == 0 { // Only its sign is known.
			out[i].inPaper = out[i].paper.Difference.Value != 0
		}
	}
	return out
}

// tell says which differences are told from zero.
func tell(of []tested) {
	paper, ours := make([]float64, len(of)), make([]float64, len(of))
	for i, t := range of {
		paper[i], ours[i] = t.paper.P, t.ours.P
	}
	paperLast, ourLast := stats.Holm(paper, level), stats.Holm(ours, level)
	for i, t := range of {
		of[i].inPaper, of[i].inOurs = t.paper.P <= paperLast, t.ours.P <= ourLast
	}
}

// ourTest tests the difference of two means of our runs in the roles of the number and its baseline.
func (n *Number) ourTest(a, b stats.Mean) stats.Test {
	if n.pools() {
		return n.Noise.Test(a.Mean-b.Mean, 1/float64(a.N)+1/float64(b.N))
	}
	return stats.Welch(a, b)
}

// verdict returns the verdict of tests.
func (n *Number) verdict(t tested) verdicts.Verdict {
	c := verdicts.Unknown()
	switch {
	case n.sameSetting():
		if c.Holds = t.ours.Within(verdicts.Margin); t.inOurs {
			c.Opposite = 0
		}
	case !t.inPaper:
		c.Null, c.Holds = true, max(t.paper.Within(verdicts.Margin), t.ours.Within(verdicts.Margin))
	case t.inOurs:
		c = verdicts.Exact((t.paper.Difference.Value > 0) == (t.ours.Difference.Value > 0))
	}
	return verdicts.Decide(1, []verdicts.Comparison{c})
}

// Judge returns the rows of the numbers of one table.
func Judge(numbers []*Number) []Row {
	rows := make([]Row, len(numbers))
	of := test(numbers)
	tests := made(of)
	for i, n := range numbers {
		r, t := n.row(), of[i]
		r.P = t.ours.P
		rows[i] = r
		if !n.compared() {
			continue
		}
		r.Verdict, r.OurEffect = n.verdict(t), t.ours.Difference.String()
		r.Comparable, r.Test = "value, to less than 1 point", "Welch's t of both, equivalence by two one-sided tests"
		if !n.sameSetting() {
			r.PaperEffect, r.Comparable, r.Test = t.paper.Difference.String(), n.comparable(), n.test()
		}
		r.Why = n.why(r.Verdict, t, tests)
		rows[i] = r
	}
	return rows
}

// made returns the number of our tests of a table.
func made(of []tested) int {
	n := 0
	for _, t := range of {
		if !math.IsNaN(t.ours.P) {
			n++
		}
	}
	return n
}

// comparable says what is compared.
func (n *Number) comparable() figures.Markup {
	out := "sign of the difference to " + label(n.Baseline.Printed)
	if n.AtBest {
		out += ", each at its best rate: the paper's on test, ours on held-out classes"
	}
	return out
}

// test names the test of our difference and that of the paper's.
func (n *Number) test() figures.Markup {
	out := "Welch's t"
	if n.pools() {
		out = pooledNoise
	}
	if n.Printed.Value.Std > 0 {
		return out + "; the paper's by Welch's t; Holm over the table"
	}
	return out + ", Holm over the table; the paper prints no deviation, so its sign counts"
}

const pooledNoise = "pooled noise of the data set's cells with several seeds"

// why gives the reason of a verdict that is open, with the number of seeds that would decide it.
func (n *Number) why(v verdicts.Verdict, t tested, tests int) figures.Markup {
	switch {
	case v == verdicts.NoDifference:
		return "both are shown to be below 1 point"
	case v != verdicts.Undecided:
		return ""
	case n.sameSetting():
		return "neither equal to 1 point nor different"
	case !t.inPaper && t.paper.Within(verdicts.Margin) > level/2:
		return "the paper cannot tell it, and no seeds of ours can" // It may have a difference or none.
	}
	out, seeds := "our runs cannot tell", stats.Seeds(t.paper.Difference.Value, n.std(), level/float64(max(tests, 1)))
	if !t.inPaper {
		out, seeds = "the paper has no difference, ours is not shown to be none", stats.Seeds(verdicts.Margin, n.std(), level)
	}
	if seeds > 0 {
		out += fmt.Sprintf("; %d seeds would", seeds)
	}
	return out
}

// pools reports whether the comparison takes the noise of other cells, since one of the two numbers is of one seed.
func (n *Number) pools() bool { return min(n.Ours.N, n.Baseline.Ours.N) == 1 && n.Noise.Freedom > 0 }

// row returns the row of a number, without a verdict if it is to be compared.
func (n *Number) row() Row {
	r := Row{Place: fmt.Sprintf("Table %d", n.Printed.Table), What: n.what(),
		Paper: fmt.Sprintf("%.1f", n.Printed.Value.Mean),
		Ours:  "–", Data: n.Data, Command: n.Command, Runs: n.Runs}
	if n.Printed.Value.Std > 0 {
		r.Paper = n.Printed.Value.String()
	}
	if n.Ours.N+n.Ours.Diverged > 0 {
		r.Ours, r.Preset = n.Ours.String(), n.Preset
		if n.LR != 0 {
			r.Ours += fmt.Sprintf(" (lr %g)", n.LR)
		}
	}
	r.Setting = n.Setting
	switch {
	case n.Missing != "":
		r.Verdict, r.Why, r.Setting = verdicts.NotRun, n.Missing, verdicts.NoSetting
	case n.Ours.N == 0 && n.Ours.Diverged == 0:
		r.Verdict, r.Why, r.Setting = verdicts.NotRun, "its runs are not in the store", verdicts.NoSetting
	case n.Ours.N == 0:
		r.Verdict, r.Why = verdicts.DifferentSetting, "all of our runs diverged at this rate, the paper's did not"
	case n.sameSetting():
	case n.Apart != "":
		r.Verdict, r.Why = verdicts.DifferentSetting, n.Apart
	case n.Baseline == nil:
		r.Verdict, r.Why = verdicts.DifferentSetting, "the first row of its table, which the others are compared to; its "+
			"value is that of other images and another network"
	case n.Baseline.Ours.N == 0:
		r.Verdict, r.Why = verdicts.DifferentSetting, "there is no finite run of the first row to compare it to"
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
func Count(rows []Row) map[verdicts.Verdict]int {
	out := make(map[verdicts.Verdict]int)
	for _, r := range rows {
		out[r.Verdict]++
	}
	return out
}

// Filter selects rows. An empty list takes all.
type Filter struct {
	// Places are as in the rows, "Table 3", or "Figures" and "Claims" for all of these.
	Places        []string
	Verdicts      []verdicts.Verdict
	Data, Presets []string
}

// Select returns the rows that the filter takes. It returns an error for a value that no row has.
func (f Filter) Select(rows []Row) ([]Row, error) {
	wanted := slice.Map(f.Verdicts, func(v verdicts.Verdict) string { return string(v) })
	for _, by := range []struct {
		what   string
		wanted []string
		of     func(Row) []string
	}{
		{"place", f.Places, func(r Row) []string { return []string{group(r), r.Place} }},
		{"verdict", wanted, func(r Row) []string { return []string{string(r.Verdict)} }},
		{"data set", f.Data, func(r Row) []string { return []string{r.Data} }},
		{"preset", f.Presets, func(r Row) []string { return []string{r.Preset} }},
	} {
		if len(by.wanted) == 0 {
			continue
		}
		var known []string
		if by.what == "verdict" { // One that no entry has is none the less a verdict.
			for _, v := range verdicts.All() {
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
		return lacks(f.Places, r.Place, group(r)) || lacks(wanted, string(r.Verdict)) || lacks(f.Data, r.Data) ||
			lacks(f.Presets, r.Preset)
	}), nil
}

// group names the place of a row, with all figures and all claims as one, and what photographs have evidence of apart.
func group(r Row) string {
	title := r.Place
	for _, kind := range []string{"Claim", "Figure"} {
		if strings.HasPrefix(r.Place, kind) {
			title = kind + "s"
		}
	}
	if r.Setting == verdicts.Photographs {
		title += ", photos"
	}
	return title
}
