package fullgrid

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// gridEnds is the number of best and of worst rules that are run with all seeds. Grids of fewer than 168 rules have
// fewer.
const gridEnds = 10

// PaperChoice is the paper's best rule, composed from the best parts of its Tables 2 to 4: "Ours" in its Table 5.
const PaperChoice = "cos-orth/lin-ms/cir"

// Grids are the grids of several data sets. Their methods draw them.
type Grids []Grid

// EndSize returns how many rules count as the best, and as the worst, of the grids: ten of 168, fewer of fewer.
func (all Grids) EndSize() int {
	n := gridEnds
	for _, g := range all {
		n = min(n, max(1, len(g.Rules)*gridEnds/168))
	}
	return n
}

// PaperOneAtATime returns the rule that the paper's own Tables 2 to 4 choose for one of its data sets, each part alone.
func PaperOneAtATime(set string) (string, error) {
	printed := scores.Printed().Where(func(r scores.Row) bool { return r.Table >= 2 && r.Table <= 4 && r.Data == set })
	if printed == nil {
		return "", fmt.Errorf("the paper's Tables 2 to 4 have no %s", set)
	}
	g := Grid{Data: set, Directions: printed.Values(scores.Direction.Of), Pairs: printed.Values(scores.Pair.Of),
		Triplets: printed.Values(scores.Triplet.Of)}
	for _, r := range printed {
		g.Rules = append(g.Rules, Rule{Name: r.Rule, All: r.Value})
	}
	return g.OneAtATime()
}

// Draw returns the pictures and tables of grids. One for which too many runs are missing says so.
func (all Grids) Draw(provenance string) (parts []report.Part) {
	add := func(name string, of figures.Output, err error) {
		if err != nil {
			of = &figures.Table{Columns: []figures.Column{{Title: "Not computed: runs are missing", Left: true}},
				Rows: [][]figures.Cell{figures.Row(err)}, Provenance: provenance}
		}
		parts = append(parts, report.Part{Name: name, Of: of})
	}
	m, err := all.Map(provenance)
	add("", m, err)
	add("coverage", all.Coverage(provenance), nil)
	add("anova", all.Anova(provenance), nil)
	effects, err := all.Effects(provenance)
	add("effects", effects, err)
	interactions, err := all.Interactions(provenance, Parts{ByDirection, ByPair}, Parts{ByPair, ByTriplet},
		Parts{ByDirection, ByTriplet})
	add("interactions", interactions, err)
	gaps, err := all.Gaps(provenance, [2]string{"cos", "euc"}, [2]string{"cos-orth", "euc-orth"},
		[2]string{"euc-orth", "euc"}, [2]string{"cos-orth", "cos"})
	add("gaps", gaps, err)
	add("ends", all.Ends(all.EndSize(), provenance), nil)
	add("choices", all.Choices(provenance), nil)
	return parts
}

// Map draws Recall@1 of the rules in percent, by the grids' seed. Marked are the best of each, the paper's choice, and
// what [Grid.OneAtATime] chooses.
func (all Grids) Map(provenance string) (*figures.Figure, error) {
	var sets []figures.GridSet
	for i := range all {
		g := &all[i]
		s := figures.GridSet{Data: g.Data, Directions: g.Directions, Pairs: g.Pairs, Triplets: g.Triplets,
			Scores: make(map[string]stats.Mean)}
		for _, r := range g.Rules {
			if r.First.N+r.First.Diverged > 0 {
				s.Scores[r.Name] = r.First
			}
		}
		s.Marks = []figures.GridMark{{Name: fmt.Sprintf("the best with seed %d, as shown", g.Seed)},
			{Name: "the paper's choice"}, {Name: "the choice of our Tables 2–4"}}
		if ranked := g.Ranked(); len(ranked) > 0 {
			s.Marks[0].Rule = ranked[0].Name
		}
		if g.At(PaperChoice) != nil {
			s.Marks[1].Rule = PaperChoice
		}
		s.Marks[2].Rule, _ = g.OneAtATime() // Without a choice there is no mark.
		sets = append(sets, s)
	}
	return figures.GridMap(sets, provenance)
}

// Coverage returns the table of the available runs of the grids, and of how far a rule's run with one seed can be
// trusted.
func (all Grids) Coverage(provenance string) *figures.Table {
	t := &figures.Table{Columns: []figures.Column{{Title: "", Left: true}}, Notes: all.rates(), Provenance: provenance,
		Caption: "What is there of the full grid, and how far it can be trusted: Recall@1 in percent."}
	for _, title := range []string{"rules with the first seed", "rules with several seeds", "runs that did not diverge",
		"runs that diverged", "rules that diverged with the first seed", "mean of the rules by the first seed",
		"from worst to best", "standard deviation between rules", "standard deviation between seeds",
		"share of the variance between rules that is not the seed's"} {
		t.Rows = append(t.Rows, figures.Row(title))
	}
	for i := range all {
		g := &all[i]
		t.Columns = append(t.Columns, figures.Column{Title: g.Data})
		c, mean, spread, reach := g.Coverage(), math.NaN(), math.NaN(), "–"
		if values := g.firsts(); len(values) > 1 {
			mean, spread = stat.MeanStdDev(values, nil)
			reach = stats.Point(values[len(values)-1]).String() + " to " + stats.Point(values[0]).String()
		}
		for k, cell := range figures.Row(fmt.Sprintf("%d of %d", c.First, c.Rules), c.Several, c.Runs, c.Diverged, c.Broken,
			stats.Point(mean), reach, digits(spread), digits(g.Noise().Std), digits(g.Reliability())) {
			t.Rows[k] = append(t.Rows[k], cell)
		}
	}
	return t
}

// digits formats a number with about three digits, and NaN as "–".
func digits(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// rates returns the notes on the coverage: how to read it, and the learning rates of the rules, since a difference
// between pair weights with different rates is one of both.
func (all Grids) rates() (out []figures.Markup) {
	for _, g := range all {
		var rates []float64
		pairs := make(map[float64][]string)
		for _, r := range g.Rules {
			if _, known := pairs[r.LR]; !known {
				rates = append(rates, r.LR)
			}
			if label := figures.PairLabel(r.Pair); !slices.Contains(pairs[r.LR], label) {
				pairs[r.LR] = append(pairs[r.LR], label)
			}
		}
		slices.Sort(rates)
		var parts []string
		for _, rate := range rates {
			parts = append(parts, fmt.Sprintf("%g for %s", rate, strings.Join(pairs[rate], ", ")))
		}
		out = append(out, fmt.Sprintf("Learning rates on %s: %s.", g.Data, strings.Join(parts, "; ")))
	}
	return append(out, "The share is of all rules: of the best among themselves, which differ less, it is lower.",
		"Rates were fixed before these runs and chosen by no result of the grid. The effect of a pair weight is one of "+
			"weight and rate together; "+
			"directions and triplet weights are compared at a rate that need not be the best for each.")
}

// Anova returns the table of the analyses of variance. Bold p-values are significant at 0.05 after Holm's correction
// over all tests of the table. Notes say what the error is, and what is left out.
func (all Grids) Anova(provenance string) *figures.Table {
	t := &figures.Table{Provenance: provenance,
		Columns: []figures.Column{{Title: "Data", Left: true, Merged: true}, {Title: "Source", Left: true}, {Title: "df"},
			{Title: "df of the full grid"}, {Title: "sum of squares"}, {Title: "mean square"}, {Title: "$F$"}, {Title: "$p$"},
			{Title: "partial $\\omega^2$ [95 %]"}},
		Caption: "Analysis of variance of Recall@1, in points: main effects and interactions of the parts of a rule."}
	for i := range all {
		g := &all[i]
		a, err := g.Analyze()
		if err != nil {
			t.Notes = append(t.Notes, g.Data+": "+err.Error()+".")
			continue
		}
		for _, note := range g.anovaNotes(a) {
			t.Notes = append(t.Notes, g.Data+": "+note)
		}
		d, p, w := len(g.Directions)-1, len(g.Pairs)-1, len(g.Triplets)-1
		full := []int{d, p, w, d * p, d * w, p * w, d * p * w} // Of the grid; the runs there are may lack whole levels.
		for k, e := range a.Effects {
			row := figures.Row(g.Data, e.Name, e.DF, full[k], "–", "–", "–", "–", "–")
			if e.DF > 0 {
				row[4].Text, row[5].Text = digits(e.SS), digits(e.MS)
			}
			if !math.IsNaN(e.F) {
				row[6].Text, row[7] = digits(e.F), figures.Tested(stats.Test{P: e.P}, figures.Scientific(e.P))
				if e.P < 1e-12 {
					row[7].Text = "< $10^{-12}$"
				}
				if !math.IsNaN(e.Omega) {
					row[8].Text = fmt.Sprintf("%.2f [%.2f,\u00a0%.2f]", e.Omega, e.Low, e.High)
				}
			}
			t.Rows = append(t.Rows, row)
		}
		e := a.Error
		t.Rows = append(t.Rows, figures.Row(g.Data, "error: "+a.ErrorTerm, e.DF, "–", digits(e.SS), digits(e.MS), "–", "–",
			"–"))
	}
	t.RuleBlocks(1)
	t.Notes = append(t.Notes, "Sums of squares are of Type II: what an effect explains beyond all that do not contain "+
		"it. Where degrees of freedom are fewer than "+
		"those of the full grid, runs are missing, and the test is of the part that can be told.",
		"$\\omega^2$ is the effect's share of the variance of effect and error, with a 95 % interval by the noncentral "+
			"$F$ distribution.")
	t.MarkSignificant()
	return t
}

func (g *Grid) anovaNotes(a *stats.Anova) (notes []figures.Markup) {
	c := g.Coverage()
	if a.ErrorTerm == stats.SeedsError {
		notes = append(notes, fmt.Sprintf("%d runs of %d of %d rules. The error is how runs of a rule differ from "+
			"seed to seed, over the %d rules with several.", a.Runs, a.Cells, c.Rules, c.Several))
	} else {
		notes = append(notes, fmt.Sprintf("%d runs of %d of %d rules, one each, so the error is the three-way interaction "+
			"together with the seeds' noise, and neither can be told from the other.", a.Runs, a.Cells, c.Rules))
	}
	if c.Diverged > 0 {
		notes = append(notes, fmt.Sprintf("%d diverged runs are left out: their rules have gaps here, and all effects are "+
			"of the rules that trained.", c.Diverged))
	}
	notes = append(notes, fmt.Sprintf("The marginal means are those of the model with %s.", a.MarginModel))
	// What is left of the effects without the pair weight whose runs differ most from seed to seed, if the equal noise
	// that the analysis assumes does not hold. Bartlett's test also finds other departures from what it assumes.
	const unequal = 0.001
	pair, noise, others := g.Noisiest()
	if pair == "" || !(stats.Bartlett(noise, others) < unequal) {
		return notes
	}
	without, err := g.Without(func(r *Rule) bool { return r.Pair == pair }).Analyze()
	if err != nil {
		return notes
	}
	label := figures.PairLabel(pair)
	return append(notes, fmt.Sprintf(
		"The analysis assumes equal noise, but seeds differ by %.1f points with %s and by %.1f without "+
			"(Bartlett's test, p < %g), so its intervals are too sure. Without %s partial $\\omega^2$ is %.2f for the "+
			"pair weight and %.2f for the direction.",
		noise.Std, label, others.Std, unequal, label, without.Effects[1].Omega, without.Effects[0].Omega))
}

// Effects draws the marginal means of the analyses of variance, in points. It returns an error if there is none.
func (all Grids) Effects(provenance string) (*figures.Figure, error) {
	var sets []figures.GridMargins
	for i := range all {
		a, err := all[i].Analyze()
		if err != nil {
			continue
		}
		m := figures.GridMargins{Data: all[i].Data}
		for f, levels := range a.Margins {
			for _, l := range levels {
				m.Levels[f] = append(m.Levels[f], l.Level)
				m.Means[f] = append(m.Means[f], stats.Interval{Value: l.Mean, Low: l.Low, High: l.High})
			}
		}
		// Not the mean of all runs: in that the rules with several seeds would count several times, and the means do not.
		n := 0.0
		for _, l := range a.Margins[0] {
			if !math.IsNaN(l.Mean) {
				m.Mean, n = m.Mean+l.Mean, n+1
			}
		}
		if m.Mean /= n; n == 0 {
			m.Mean = a.Mean
		}
		sets = append(sets, m)
	}
	return figures.GridEffects(sets, provenance)
}

// Interactions draws the mean of Recall@1 in percent for each pair of levels of two parts of a rule: a line for each
// level of the first part, a point on it for each of the second. Two equal parts are an error.
func (all Grids) Interactions(provenance string, of ...Parts) (*figures.Figure, error) {
	var sets []figures.GridInteraction
	for i := range all {
		set := figures.GridInteraction{Data: all[i].Data}
		for _, parts := range of {
			p, err := all[i].Profile(parts[0], parts[1])
			if err != nil {
				return nil, err
			}
			set.Profiles = append(set.Profiles, p)
		}
		sets = append(sets, set)
	}
	return figures.GridInteractions(sets, provenance)
}

// Gaps returns the table of how many points the first direction of each pair is ahead of the second, with each pair
// weight. Pairs that a grid lacks are left out. It returns an error without gaps, and for grids with different pair
// weights.
func (all Grids) Gaps(provenance string, pairs ...[2]string) (*figures.Table, error) {
	t := &figures.Table{Columns: []figures.Column{{Title: "Data", Left: true, Merged: true}, {Title: "Gap", Left: true}},
		Caption:    "Gaps of Recall@1 between directions by pair weight, in points.",
		Notes:      []figures.Markup{"In brackets: 95 % by the error of the analysis of variance."},
		Provenance: provenance}
	for i := range all {
		g := &all[i]
		if !slices.Equal(g.Pairs, all[0].Pairs) {
			return nil, fmt.Errorf("gaps on %s: the pair weights %v, others have %v", g.Data, g.Pairs, all[0].Pairs)
		}
		for _, pair := range pairs {
			if !slices.Contains(g.Directions, pair[0]) || !slices.Contains(g.Directions, pair[1]) {
				continue
			}
			p, gaps := g.Gap(pair[0], pair[1])
			row := figures.Row(g.Data, figures.DirectionLabel(pair[0])+" − "+figures.DirectionLabel(pair[1]))
			for _, v := range gaps {
				row = append(row, figures.Tested(v, v.Difference.String()))
			}
			over := "–"
			switch {
			case len(p.Over) == 1:
				over = figures.TripletLabel(p.Over[0])
			case len(p.Over) > 1:
				over = fmt.Sprintf("%d triplet weights", len(p.Over))
			}
			t.Rows = append(t.Rows, append(row, figures.Text(over)))
		}
	}
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("gaps: no gap, want at least one")
	}
	for _, pair := range all[0].Pairs {
		t.Columns = append(t.Columns, figures.Column{Title: figures.PairLabel(pair)})
	}
	t.Columns = append(t.Columns, figures.Column{Title: "over", Left: true})
	t.RuleBlocks(1)
	t.MarkSignificant()
	return t, nil
}

// ruleTable returns a table of rules without rows.
func ruleTable(caption, provenance string, more ...figures.Column) *figures.Table {
	return &figures.Table{Caption: caption, Provenance: provenance,
		Columns: append([]figures.Column{{Title: "Data", Left: true, Merged: true}, {Title: "", Left: true}, {Title: "rank"},
			{Title: "Direction"}, {Title: "PairWeight"}, {Title: "TripletWeight"}, {Title: "first seed"}}, more...)}
}

// row returns the cells of a rule, with its role in the table.
func (g *Grid) row(role figures.Markup, r *Rule) []figures.Cell {
	rank := "–"
	if first, last := g.Rank(r.Name); last > first {
		rank = fmt.Sprintf("%d–%d", first, last)
	} else if first > 0 {
		rank = fmt.Sprint(first)
	}
	return figures.Row(g.Data, role, rank, figures.DirectionLabel(r.Direction), figures.PairLabel(r.Pair),
		figures.TripletLabel(r.Triplet), r.First)
}

// Ends returns the table of the n best and the n worst rules by the grids' seed, with their means over other seeds, and
// notes on how the ends change with those. Of a grid with few runs the ends are smaller.
func (all Grids) Ends(n int, provenance string) *figures.Table {
	t := ruleTable("The best and the worst rules by one seed, and what they do with others: Recall@1 in percent.",
		provenance, figures.Column{Title: "other seeds"}, figures.Column{Title: "change"})
	t.Columns[1].Merged, t.Tint = true, figures.LeafGreen
	for i := range all {
		g, first := &all[i], len(t.Rows)
		best, worst := g.Ends(min(n, max(1, len(g.Ranked())/4))) // Of few rules not all are an end.
		slices.Reverse(worst)
		for k, end := range [][]Rule{best, worst} {
			for _, r := range end {
				t.Rows = append(t.Rows, append(g.row(fmt.Sprintf("%d %s", len(end), []string{"best", "worst"}[k]), &r),
					figures.Row(r.Others, stats.Point(r.Others.Mean-r.First.Mean))...))
			}
		}
		var cells []*figures.Cell
		for _, row := range t.Rows[first:] {
			cells = append(cells, &row[6], &row[7])
		}
		figures.Shade(cells...)
		r := g.Regress(len(best))
		if r.N == 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: no rule at one of the ends has other seeds yet.", g.Data))
			continue
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%s: with other seeds the best change by %s points in the mean and the worst "+
			"by %s (of each end at least %d have other seeds); %.0f %% of the distance between the ends is kept.", g.Data,
			figures.Signed(r.BestOthers-r.BestFirst), figures.Signed(r.WorstOthers-r.WorstFirst), r.N, 100*r.Kept()))
	}
	t.RuleBlocks(2)
	t.Notes = append(t.Notes, "The first seed chose which rules stand here, so its numbers are too good at one end and "+
		"too bad at the other; those of the other seeds are neither.")
	return t
}

// Choices returns the table of the best rule and those chosen one part at a time, and how far each is from the best: by
// the paper, by our Tables 2 to 4, by the paper's, and part after part. Notes say which of them there are no runs for.
func (all Grids) Choices(provenance string) *figures.Table {
	t := ruleTable("One part at a time against the whole grid: Recall@1 in percent, distances in points.", provenance,
		figures.Column{Title: "other seeds [95 %]"}, figures.Column{Title: "behind the best [95 %]"})
	for i := range all {
		g, best := &all[i], ""
		note := func(format string, args ...any) { t.Notes = append(t.Notes, fmt.Sprintf(format, args...)) }
		add := func(role, rule string) {
			r := g.At(rule)
			if r == nil {
				note("%s: the grid at this preset lacks %s, %s.", g.Data, rule, role)
				return
			}
			behind := g.Behind(rule, best)
			t.Rows = append(t.Rows, append(g.row(role, r), figures.Row(r.Others.Interval(),
				figures.Tested(behind, behind.Difference.String()))...))
		}
		if ranked := g.Ranked(); len(ranked) > 0 {
			best = ranked[0].Name
			add(fmt.Sprintf("best of %d with the first seed", len(ranked)), best)
		}
		add("the paper's, Ours", PaperChoice)
		if rule, err := g.OneAtATime(); err != nil {
			note("Our Tables 2–4 choose nothing yet: %v.", err)
		} else {
			add("our Tables 2–4, each part alone", rule)
		}
		if rule, err := PaperOneAtATime(g.PaperData); err == nil && rule != PaperChoice {
			add(fmt.Sprintf("the paper's Tables 2–4 on %s, each part alone", g.PaperData), rule)
		}
		if steps := g.Steps(); len(steps) < 3 {
			note("%s: the path that fixes one part after the other ends after %d of 3 steps, where runs are missing.", g.Data,
				len(steps))
		} else {
			add("one part after the other", steps[2])
			note("%s, one part after the other: %s.", g.Data, strings.Join(steps, ", then "))
		}
		add("where the paper starts", "cos/con/con")
	}
	t.RuleBlocks(1)
	t.Notes = append(t.Notes, "Rank is by the first seed; rules with the same recall share their ranks. Intervals: 95 % "+
		"by Welch's t over the other seeds. A rule can be ahead of the best (negative), since the best is so by the first "+
		"seed. All is on the test classes that the choices were made by.")
	t.MarkSignificant()
	return t
}
