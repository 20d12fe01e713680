package evidence

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// number is a printed number with our runs in its role. Means are in percent.
type number struct {
	printed scores.Row
	data    string     // "" if no data set of ours stands for the paper's.
	ours    stats.Mean // Without runs, its N and Diverged are 0.
	row     scores.Row // Our number, and its runs.
	rows    scores.Table
	lr      float64 // Of our runs.
	heldOut float64 // Recall@1 of our runs on held-out classes, NaN without.
	// own says that our runs are in the paper's own setting, so that values themselves are comparable.
	own bool
	// short says that our runs are short, so that more seeds decide nothing.
	short bool
	// noise is that between seeds on this data set, for numbers of a single seed.
	noise stats.Noise
	// first is the number that this one is compared to: the first row of its table. It is nil for that row itself.
	first *number
	// atBest says that this number and its first are each at their best learning rate: the paper's by its test recall,
	// ours by that on held-out classes.
	atBest bool
	// apart says why the number cannot be compared with its first, and missing what it takes to run it; "" if it can, and
	// if it was run.
	apart, missing string
}

// numbers returns the printed numbers of a table with the runs in their role.
func (of *judged) numbers(table int) []*number {
	printed := scores.Printed().Select(scores.Row{Table: table})
	ours := of.known.rows.Select(scores.Row{Table: table, Measure: report.Recall(1)})
	out := make([]*number, len(printed))
	known := make(map[scores.Row]*number)
	for i, p := range printed {
		n := &number{printed: p, own: of.Setting == PapersOwn, short: of.Short, ours: scores.Missing(), heldOut: math.NaN()}
		out[i], known[identity(p)] = n, n
		cell := ours.Where(func(r scores.Row) bool { return r.Role == p.Data && sameRow(r, p, ours, printed) })
		switch {
		case p.Direction == "":
			n.missing = "another paper's number, which takes that paper's own program"
		case cell == nil && table == 5:
			n.missing = fmt.Sprintf("takes %s and ResNet-50 on a GPU: no drawn data set stands for it", p.Data)
		case cell == nil:
			n.missing = "this preset has no runs of it"
		default:
			r := cell[0]
			n.data, n.lr, n.noise = r.Data, r.LR, of.known.noise[scores.Row{Role: p.Data, Measure: p.Measure}]
			r.Measure = report.HeldOut
			n.heldOut = of.known.Of(r).Mean
			r.Measure = p.Measure
			n.ours, n.row, n.rows = of.known.Of(r), r, of.known.of[key(r)]
		}
	}
	for _, n := range out {
		b := known[identity(firstRow(n.printed))]
		if b == n || n.missing != "" {
			continue
		}
		if n.first = b; of.Unsettled && n.printed.Measure != report.Recall(1) {
			n.apart = "the protocol of these runs reads off Recall@1 alone"
		}
	}
	if table > 5 && of.Setting != PapersOwn {
		atBest(out)
	}
	if table > 5 && of.Setting == Photographs { // The paper's first row collapses at its highest rate, ours does not.
		for _, n := range out {
			if n.first != nil {
				n.apart = "single runs at rates of equal rank: the grids begin and end elsewhere on the curves"
			}
		}
	}
	return out
}

// sameRow reports whether a score of ours is in the row of a printed number. In a sweep that is the one at the learning
// rate of the same rank among those of its rule, from the highest: a preset with fewer rates lacks the paper's lowest.
func sameRow(r, p scores.Row, ours, printed scores.Table) bool {
	if p.Table == 5 {
		return r.Method == p.Method && r.Times == p.Times
	}
	above := func(of scores.Row, all scores.Table) int {
		return len(all.Where(func(other scores.Row) bool { return sameButRate(other, of) && other.LR > of.LR }).
			Values(scores.LR.Of))
	}
	return r.Rule == p.Rule && (p.Table < 5 || above(r, ours) == above(p, printed))
}

// sameButRate reports whether two numbers of a sweep differ at most in their learning rate and measure.
func sameButRate(a, b scores.Row) bool { return a.Data == b.Data && a.Rule == b.Rule }

// atBest compares the rules of a sweep whose learning rates are another grid than their first row's. Only the number at
// the paper's best rate, by its test recall, is compared, with the same of the first row. Our runs are those at the
// best rate by the recall on held-out classes.
func atBest(numbers []*number) {
	together := make(map[*number]*number) // By the number at the paper's best rate.
	at := func(of scores.Row) (printed, both *number) {
		var ours *number
		for _, n := range numbers {
			if !sameButRate(n.printed, of) {
				continue
			}
			if printed == nil || n.printed.Value.Mean > printed.printed.Value.Mean {
				printed = n
			}
			if n.heldOut > 0 && (ours == nil || n.heldOut > ours.heldOut) { // Not if it is NaN.
				ours = n
			}
		}
		if together[printed] == nil {
			n := *printed
			if n.atBest = true; ours != nil {
				n.ours, n.lr, n.row, n.rows = ours.ours, ours.lr, ours.row, ours.rows
			} else {
				n.apart = "it has no recall on held-out classes to choose a rate by"
			}
			together[printed] = &n
		}
		return printed, together[printed]
	}
	compared := make(map[*number]number)
	for _, n := range numbers {
		b := n.first
		if b == nil || n.ours.N == 0 || b.ours.N == 0 || n.lr == b.lr {
			continue
		}
		own := *n
		if printed, both := at(n.printed); printed == n {
			own = *both
			_, own.first = at(b.printed)
		} else {
			own.apart = "its rates are another grid than those of the first row: it is compared at its best one"
		}
		compared[n] = own
	}
	for n, own := range compared {
		*n = own
	}
}

// identity reduces a printed number to what identifies it in its table.
func identity(p scores.Row) scores.Row {
	return scores.Row{Table: p.Table, Data: p.Data, Method: p.Method, Direction: p.Direction, Pair: p.Pair,
		Triplet: p.Triplet, Batch: p.Batch, LR: p.LR, Measure: p.Measure}
}

// firstRow returns the number that a printed one is compared to: in Tables 2 and 6 that of the direction euc, in 3 and
// 7 that of constant pair weights, in 4 and 8 that of constant triplet weights, and in Table 5 that of MS*.
func firstRow(p scores.Row) scores.Row {
	switch p.Table {
	case 2, 6:
		p.Direction = "euc"
	case 3, 7:
		p.Pair = "con"
	case 4, 8:
		p.Triplet = "con"
	case 5:
		p.SetRule("cos/sig-ms/con")
		p.Method, p.Batch = "MS*", scores.PrintedBatch
	}
	return p
}

// tested are the two differences of a number, and whether each is told from zero at the level at which it is tested.
type tested struct {
	paper, ours     stats.Test
	inPaper, inOurs bool
	level           float64 // Of ours.
}

// compared reports whether there is a difference to test.
func (n *number) compared() bool {
	return n.missing == "" && n.ours.N > 0 && (n.own || n.apart == "" && n.first != nil && n.first.ours.N > 0)
}

// test tests the differences of a table's numbers, with Holm's correction for those that are compared: they are the
// family.
func test(numbers []*number) []tested {
	out := make([]tested, len(numbers))
	for i, n := range numbers {
		out[i] = tested{paper: stats.Untested(math.NaN()), ours: stats.Untested(math.NaN())}
		switch {
		case !n.compared():
		case n.own:
			out[i].ours = stats.Welch(n.ours, n.printed.Value)
		default:
			out[i].paper = stats.Welch(n.printed.Value, n.first.printed.Value)
			out[i].ours = n.ourTest(n.ours, n.first.ours)
		}
	}
	tell(out)
	for i, n := range numbers {
		if n.compared() && !n.own && n.printed.Value.Std == 0 { // Only its sign is known.
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
	papers, levels := stats.HolmLevels(paper, level), stats.HolmLevels(ours, level)
	for i, t := range of {
		of[i].inPaper, of[i].inOurs, of[i].level = t.paper.P <= papers[i], t.ours.P <= levels[i], levels[i]
	}
}

// family returns the number of our tests of a table.
func family(of []tested) int {
	return slice.Count(of, func(t tested) bool { return !math.IsNaN(t.ours.P) })
}

// ourTest tests the difference of two means of our runs in the roles of the number and its first.
func (n *number) ourTest(a, b stats.Mean) stats.Test {
	if n.pools() {
		return n.noise.Test(a.Mean-b.Mean, 1/float64(a.N)+1/float64(b.N))
	}
	return stats.Welch(a, b)
}

// pools reports whether the comparison takes the noise of other cells, since one of the two numbers is of one seed.
func (n *number) pools() bool { return min(n.ours.N, n.first.ours.N) == 1 && n.noise.Freedom > 0 }

// verdict returns the verdict of tests.
func (n *number) verdict(t tested) Verdict {
	c := Unknown
	switch {
	case n.own:
		if c.Holds = t.ours.Within(Margin); t.inOurs {
			c.Opposite = 0
		}
	case !t.inPaper:
		c.Null, c.Holds = true, max(t.paper.Within(Margin), t.ours.Within(Margin))
	case t.inOurs:
		c = exact((t.paper.Difference.Value > 0) == (t.ours.Difference.Value > 0))
	}
	v, _, _ := Decide(1, []Comparison{c})
	return v
}

// judge returns the entries of the numbers of one table.
func judge(numbers []*number) []Entry {
	out := make([]Entry, len(numbers))
	of := test(numbers)
	tests := family(of)
	for i, n := range numbers {
		e, t := n.entry(), of[i]
		if n.compared() {
			e.Verdict, e.OurEffect = n.verdict(t), t.ours.Difference.String()
			e.Asks, e.Test = "value, to less than 1 point", "Welch's t of both, equivalence by two one-sided tests"
			if !n.own {
				e.PaperEffect, e.Asks, e.Test = t.paper.Difference.String(), n.asks(), n.test()
				e.PaperFinding.Cells = []Cell{{Name: e.What, Test: t.paper,
					Terms: []Term{{Weight: 1, Of: n.printed}, {Weight: -1, Of: n.first.printed}}}}
				e.OurFinding.Cells = []Cell{{Name: e.What, Test: t.ours,
					Terms: []Term{{1, n.row, n.rows}, {-1, n.first.row, n.first.rows}}}}
			}
			e.Decided = Decision{Cell: e.What, Difference: t.ours.At(t.level), P: t.ours.P, Tests: tests,
				Detectable: t.ours.Detectable(level / float64(max(tests, 1)))}
			if !n.own && !t.inPaper {
				e.Decided.Difference, e.Decided.Bound = t.ours.Difference, Margin
			}
			e.Why = n.why(e.Verdict, t, tests)
		}
		out[i] = e
	}
	return out
}

// asks says what is compared.
func (n *number) asks() figures.Markup {
	out := "sign of the difference to " + label(n.first.printed)
	if n.atBest {
		out += ", each at its best rate: the paper's on test, ours on held-out classes"
	}
	return out
}

// test names the test of our difference and that of the paper's.
func (n *number) test() figures.Markup {
	out := "Welch's t"
	if n.pools() {
		out = "pooled noise of the data set's cells with several seeds"
	}
	if n.printed.Value.Std > 0 {
		return out + "; the paper's by Welch's t; Holm over the table"
	}
	return out + ", Holm over the table; the paper prints no deviation, so its sign counts"
}

// why gives the reason of a verdict that is open, with the number of seeds that would decide it.
func (n *number) why(v Verdict, t tested, tests int) figures.Markup {
	switch {
	case v == NoDifference:
		return "both are shown to be below 1 point"
	case v != Undecided:
		return ""
	case n.own:
		return "neither equal to 1 point nor different"
	case !t.inPaper && t.paper.Within(Margin) > level/2:
		return "the paper cannot tell it, and no seeds of ours can" // It may have a difference or none.
	}
	out, seeds := "our runs cannot tell", stats.Seeds(t.paper.Difference.Value, n.std(), level/float64(max(tests, 1)))
	if !t.inPaper {
		out, seeds = "the paper has no difference, ours is not shown to be none", stats.Seeds(Margin, n.std(), level)
	}
	if seeds > 0 && !n.short {
		out += fmt.Sprintf("; %d seeds would", seeds)
	}
	return out
}

// std returns the standard deviation between seeds that a simulation of the number has, NaN if it is unknown.
func (n *number) std() float64 {
	switch {
	case n.noise.Std > 0: // Not if it is NaN.
		return n.noise.Std
	case n.ours.Std == 0:
		return math.NaN()
	}
	return n.ours.Std
}

// entry returns the entry of a number, without a verdict if it is to be compared.
func (n *number) entry() Entry {
	p := n.printed
	e := Entry{Place: fmt.Sprintf("Table %d", p.Table), Tables: []int{p.Table}, What: n.what(),
		Paper: fmt.Sprintf("%.1f", p.Value.Mean), Ours: "–", Data: n.data, Decided: undecidedBy}
	if p.Value.Std > 0 {
		e.Paper = p.Value.String()
	}
	for _, r := range n.rows {
		if r.Run != "" {
			e.Runs, e.Steps, e.Preset = append(e.Runs, r.Run), r.Steps, r.Preset
		}
	}
	if n.ours.N+n.ours.Diverged > 0 {
		e.Ours, e.Seeds = n.ours.String(), n.ours.N
		if n.lr != 0 {
			e.Ours += fmt.Sprintf(" (lr %g)", n.lr)
		}
	}
	switch {
	case n.missing != "":
		e.Verdict, e.Why = NotRun, n.missing
	case n.ours.N == 0 && n.ours.Diverged == 0:
		e.Verdict, e.Why = NotRun, "its runs are not in the store"
	case n.ours.N == 0:
		e.Verdict, e.Why = DifferentSetting, "all of our runs diverged at this rate, the paper's did not"
	case n.own:
	case n.apart != "":
		e.Verdict, e.Why = DifferentSetting, n.apart
	case n.first == nil:
		e.Verdict, e.Why = DifferentSetting, "the first row of its table, which the others are compared to; its "+
			"value is that of other images and another network"
	case n.first.ours.N == 0:
		e.Verdict, e.Why = DifferentSetting, "there is no finite run of the first row to compare it to"
	}
	return e
}

// what names the printed number: its row, data set, metric and rate.
func (n *number) what() figures.Markup {
	p := n.printed
	out := fmt.Sprintf("%s, %s, %s", label(p), p.Data, p.Measure)
	if p.LR != 0 {
		out += ", lr " + strconv.FormatFloat(p.LR, 'g', -1, 64)
	}
	return out
}

// label names the row of a printed number.
func label(p scores.Row) figures.Markup {
	if p.Method != "" && p.Direction != "" {
		return fmt.Sprintf("%s (B%d)", p.Method, p.Batch)
	}
	return cmp.Or(p.Method, p.Rule)
}
