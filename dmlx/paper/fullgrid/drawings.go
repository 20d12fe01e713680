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

// EndSize returns how many rules count as the best, and as the worst, of the grids: ten of 168, fewer of fewer.
func EndSize(grids []Grid) int {
	n := gridEnds
	for _, g := range grids {
		n = min(n, max(1, len(g.Rules)*gridEnds/168))
	}
	return n
}

// PaperOneAtATime returns the rule that the paper's own Tables 2 to 4 choose for one of its data sets, each part alone.
func PaperOneAtATime(set string) (string, error) {
	g := Grid{Data: set}
	for table := 2; table <= 4; table++ {
		for _, r := range scores.Printed().Select(scores.Row{Table: table, Data: set}) {
			if g.At(r.Rule) != nil {
				continue
			}
			g.Rules = append(g.Rules, Rule{Name: r.Rule, All: stats.Mean{Mean: r.Value.Mean, N: r.Value.N}})
			for levels, level := range map[*[]string]string{&g.Directions: r.Direction, &g.Pairs: r.Pair,
				&g.Triplets: r.Triplet} {
				if !slices.Contains(*levels, level) {
					*levels = append(*levels, level)
				}
			}
		}
	}
	if g.Rules == nil {
		return "", fmt.Errorf("the paper's Tables 2 to 4 have no %s", set)
	}
	return g.OneAtATime()
}

// Draw returns the pictures and tables of grids. One for which too many runs are missing says so.
func Draw(grids []Grid, provenance string) (parts []report.Part, err error) {
	add := func(name string, of figures.Output, err error) {
		if err != nil {
			of = &figures.Table{Columns: []figures.Column{{Title: "Not to be had from the runs that are there", Left: true}},
				Rows: [][]figures.Cell{{figures.Text(err.Error())}}, Provenance: provenance}
		}
		parts = append(parts, report.Part{Name: name, Of: of})
	}
	var (
		maps      []figures.GridSet
		counts    []figures.GridCount
		variances []figures.GridVariance
		margins   []figures.GridMargins
		lines     []figures.GridInteraction
		gaps      []figures.GridGap
		endRules  []figures.GridRule
		chosen    []figures.GridRule
		endNotes  []figures.Markup
		chosenBy  []figures.Markup
	)
	for i := range grids {
		g := &grids[i]
		maps = append(maps, g.Map())
		counts = append(counts, g.Count())
		if a, err := g.Analyze(); err != nil {
			variances = append(variances, figures.GridVariance{Data: g.Data, Notes: []figures.Markup{err.Error() + "."}})
		} else {
			variances, margins = append(variances, g.Variance(a)), append(margins, g.Margins(a))
		}
		interaction, err := g.Profiles(Parts{ByDirection, ByPair},
			Parts{ByPair, ByTriplet}, Parts{ByDirection, ByTriplet})
		if err != nil {
			return nil, err
		}
		lines = append(lines, interaction)
		gaps = append(gaps, g.Gaps([2]string{"cos", "euc"}, [2]string{"cos-orth", "euc-orth"},
			[2]string{"euc-orth", "euc"}, [2]string{"cos-orth", "cos"})...)
		atEnds, change := g.Extremes(EndSize(grids))
		endRules, endNotes = append(endRules, atEnds...), append(endNotes, change)
		rules, note := g.Choices()
		chosen, chosenBy = append(chosen, rules...), append(chosenBy, note...)
	}
	m, err := figures.GridMap(maps, provenance)
	add("", m, err)
	add("coverage", figures.GridCounts(counts, Rates(grids), provenance), nil)
	add("anova", figures.GridAnova(variances, provenance), nil)
	effects, err := figures.GridEffects(margins, provenance)
	add("effects", effects, err)
	interactions, err := figures.GridInteractions(lines, provenance)
	add("interactions", interactions, err)
	gapTable, err := figures.GridGaps(gaps, provenance)
	add("gaps", gapTable, err)
	endTable, err := figures.GridEnds(endRules, append(endNotes,
		"The first seed chose which rules stand here, so its numbers are too good at one end and too bad at the "+
			"other; those of the other seeds are neither."), provenance)
	add("ends", endTable, err)
	choices, err := figures.GridChoices(chosen, append(chosenBy,
		"Rank is by the first seed; rules with the same recall share their ranks. Intervals: 95 % by Welch's t over the "+
			"other seeds. A rule can be ahead of the best (negative), since the best is so by the first seed. All is on the "+
			"test classes that the choices were made by."), provenance)
	add("choices", choices, err)
	return parts, nil
}

// Map returns Recall@1 of the grid's rules in percent, by the grid's seed, for figures.GridMap. Marked are the
// best of them, the paper's choice, and what [Grid.OneAtATime] chooses.
func (g *Grid) Map() figures.GridSet {
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
	if rule, err := g.OneAtATime(); err == nil {
		s.Marks[2].Rule = rule
	}
	return s
}

// Count returns which runs of the grid there are, and how far a rule's run with one seed can be trusted: in
// percent and points, for figures.GridCounts.
func (g *Grid) Count() figures.GridCount {
	c := g.Coverage()
	sd := g.Noise().Std
	out := figures.GridCount{Data: g.Data, Rules: c.Rules, First: c.First, Several: c.Several, Runs: c.Runs,
		Diverged: c.Diverged, Broken: c.Broken,
		Mean: math.NaN(), Spread: math.NaN(), Low: math.NaN(), High: math.NaN(), Noise: sd, Kept: g.Reliability()}
	var values []float64
	for _, r := range g.Ranked() {
		values = append(values, r.First.Mean)
	}
	if n := len(values); n > 1 {
		out.Mean, out.Spread = stat.MeanStdDev(values, nil)
		out.High, out.Low = values[0], values[n-1]
	}
	return out
}

// Rates returns the notes on the coverage: how to read it, and the learning rates of the rules, since a difference
// between pair weights with different rates is one of both.
func Rates(grids []Grid) []figures.Markup {
	var out []figures.Markup
	for _, g := range grids {
		var rates []float64
		pairs := make(map[float64][]string)
		for _, r := range g.Rules {
			if _, known := pairs[r.LR]; !known {
				rates = append(rates, r.LR)
			}
			if !slices.Contains(pairs[r.LR], r.Pair) {
				pairs[r.LR] = append(pairs[r.LR], r.Pair)
			}
		}
		slices.Sort(rates)
		var parts []string
		for _, rate := range rates {
			var labels []string
			for _, pair := range pairs[rate] {
				labels = append(labels, figures.PairLabel(pair))
			}
			parts = append(parts, fmt.Sprintf("%g for %s", rate, strings.Join(labels, ", ")))
		}
		out = append(out, fmt.Sprintf("Learning rates on %s: %s.", g.Data, strings.Join(parts, "; ")))
	}
	return append(out, "The share is of all rules: of the best among themselves, which differ less, it is lower.",
		"Rates were fixed before these runs and chosen by no result of the grid. The effect of a pair weight is one of "+
			"weight and rate together; "+
			"directions and triplet weights are compared at a rate that need not be the best for each.")
}

// Variance returns the analysis of variance of a grid, which [Grid.Analyze] made, for figures.GridAnova.
// Its notes say what the error is, and what is left out.
func (g *Grid) Variance(a *stats.Anova) figures.GridVariance {
	v := figures.GridVariance{Data: g.Data, Error: a.Error}
	v.Error.Name, v.Error.Full = "error: "+a.ErrorTerm, -1
	c := g.Coverage()
	if a.ErrorTerm == stats.SeedsError {
		v.Notes = append(v.Notes, fmt.Sprintf("%d runs of %d of %d rules. The error is how runs of a rule differ from "+
			"seed to seed, over the %d rules with several.",
			a.Runs, a.Cells, c.Rules, c.Several))
	} else {
		v.Notes = append(v.Notes, fmt.Sprintf("%d runs of %d of %d rules, one each, so the error is the three-way "+
			"interaction together with the seeds' noise, and neither "+
			"can be told from the other.", a.Runs, a.Cells, c.Rules))
	}
	if c.Diverged > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d diverged runs are left out: their rules have gaps here, and all effects "+
			"are of the rules that trained.", c.Diverged))
	}
	v.Notes = append(v.Notes, fmt.Sprintf("The marginal means are those of the model with %s.", a.MarginModel))
	if note := withoutNoisiest(g); note != "" {
		v.Notes = append(v.Notes, note)
	}
	d, p, t := len(g.Directions)-1, len(g.Pairs)-1, len(g.Triplets)-1
	for i, full := range []int{d, p, t, d * p, d * t, p * t, d * p * t} {
		e := a.Effects[i]
		e.Full = full // Of the grid; the runs there are may lack whole levels.
		v.Effects = append(v.Effects, e)
	}
	return v
}

// unequalNoise is the level of Bartlett's test, which also finds other departures from what it assumes.
const unequalNoise = 0.001

// withoutNoisiest says what is left of the effects without the pair weight whose runs differ most from seed to seed, if
// the equal noise that the analysis assumes does not hold.
func withoutNoisiest(g *Grid) figures.Markup {
	pair, noise, others := g.Noisiest()
	p := stats.Bartlett(noise, others)
	if pair == "" || !(p < unequalNoise) {
		return ""
	}
	a, err := g.Without(func(r *Rule) bool { return r.Pair == pair }).Analyze()
	if err != nil {
		return ""
	}
	label := figures.PairLabel(pair)
	return fmt.Sprintf("The analysis assumes equal noise, but seeds differ by %.1f points with %s and by %.1f without "+
		"(Bartlett's test, p < %g), so its intervals are too sure. Without %s partial $\\omega^2$ is %.2f for the pair "+
		"weight and %.2f for the direction.", noise.Std, label, others.Std, unequalNoise, label, a.Effects[1].Omega,
		a.Effects[0].Omega)
}

// Margins returns the marginal means of an analysis of variance of the grid, in points, for figures.GridEffects.
func (g *Grid) Margins(a *stats.Anova) figures.GridMargins {
	m := figures.GridMargins{Data: g.Data}
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
	return m
}

// Profiles returns the mean of Recall@1 in percent for each pair of levels of two parts of a rule, for
// figures.GridInteractions: a line for each level of the first part, a point on it for each of the second. Two equal
// parts are an error.
func (g *Grid) Profiles(of ...Parts) (figures.GridInteraction, error) {
	out := figures.GridInteraction{Data: g.Data}
	for _, parts := range of {
		p, err := g.Profile(parts[0], parts[1])
		if err != nil {
			return out, err
		}
		out.Profiles = append(out.Profiles, p)
	}
	return out, nil
}

// Gaps returns by how many points the first direction of each pair is ahead of the second, with each pair weight,
// for figures.GridGaps. Pairs that the grid lacks are left out.
func (g *Grid) Gaps(pairs ...[2]string) []figures.GridGap {
	var out []figures.GridGap
	for _, pair := range pairs {
		if !slices.Contains(g.Directions, pair[0]) || !slices.Contains(g.Directions, pair[1]) {
			continue
		}
		p, gaps := g.Gap(pair[0], pair[1])
		gap := figures.GridGap{Data: g.Data, Better: pair[0], Worse: pair[1], Pairs: p.PointNames, Over: p.Over, Gaps: gaps}
		out = append(out, gap)
	}
	return out
}

// Extremes returns the n best and the n worst rules by the grid's seed, with their means over other seeds, for
// figures.GridEnds, and a note on how the ends change with those. Of a grid with few runs the ends are smaller.
func (g *Grid) Extremes(n int) (rules []figures.GridRule, change figures.Markup) {
	best, worst := g.Ends(min(n, max(1, len(g.Ranked())/4))) // Of few rules not all are an end.
	for _, rule := range best {
		rules = append(rules, g.Row(fmt.Sprintf("%d best", len(best)), rule.Name, ""))
	}
	for _, rule := range slices.Backward(worst) {
		rules = append(rules, g.Row(fmt.Sprintf("%d worst", len(worst)), rule.Name, ""))
	}
	return rules, g.regression(len(best))
}

// Row returns a rule of the grid as a row of figures.GridEnds and figures.GridChoices, under a name: Recall@1 in
// percent, and how many points it is behind the best rule, if there is one, over other seeds than the grid's. A rule
// that the grid lacks has no numbers.
func (g *Grid) Row(name, rule, best string) figures.GridRule {
	out := figures.GridRule{Data: g.Data, Name: name, Rule: rule, First: figures.Missing, Others: figures.Missing,
		Behind: g.Behind(rule, best)}
	out.Rank, out.Last = g.Rank(rule)
	if r := g.At(rule); r != nil {
		out.First, out.Others = r.First, r.Others
	}
	return out
}

// gridRegression says in a note how the ends do with other seeds.
func (g *Grid) regression(n int) figures.Markup {
	r := g.Regress(n)
	if r.N == 0 {
		return fmt.Sprintf("%s: no rule at one of the ends has other seeds yet.", g.Data)
	}
	return fmt.Sprintf("%s: with other seeds the best change by %s points in the mean and the worst by %s (of each end "+
		"at least %d have other seeds); "+
		"%.0f %% of the distance between the ends is kept.", g.Data, signed(r.BestOthers-r.BestFirst),
		signed(r.WorstOthers-r.WorstFirst), r.N, 100*r.Kept())
}

// signed formats a difference with its sign.
func signed(v float64) string {
	return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%+.1f", v), "-0.0", "+0.0"), "-", "−")
}

// Choices returns the best rule and those chosen one part at a time, for figures.GridChoices: by the paper, by our
// Tables 2 to 4, by the paper's, and part after part. Notes say which of them there are no runs for.
func (g *Grid) Choices() (rules []figures.GridRule, notes []figures.Markup) {
	best := ""
	if ranked := g.Ranked(); len(ranked) > 0 {
		best = ranked[0].Name
		rules = append(rules, g.Row(fmt.Sprintf("best of %d with the first seed", len(ranked)), best, best))
	}
	add := func(name, rule string) {
		if g.At(rule) == nil {
			notes = append(notes, fmt.Sprintf("%s: the grid at this preset lacks %s, %s.", g.Data, rule, name))
			return
		}
		rules = append(rules, g.Row(name, rule, best))
	}
	add("the paper's, Ours", PaperChoice)
	if rule, err := g.OneAtATime(); err != nil {
		notes = append(notes, fmt.Sprintf("Our Tables 2–4 choose nothing yet: %v.", err))
	} else {
		add("our Tables 2–4, each part alone", rule)
	}
	if rule, err := PaperOneAtATime(g.PaperData); err == nil && rule != PaperChoice {
		add(fmt.Sprintf("the paper's Tables 2–4 on %s, each part alone", g.PaperData), rule)
	}
	if steps := g.Steps(); len(steps) < 3 {
		notes = append(notes, fmt.Sprintf("%s: the path that fixes one part after the other ends after %d of 3 steps, "+
			"where runs are missing.", g.Data, len(steps)))
	} else {
		add("one part after the other", steps[2])
		notes = append(notes, fmt.Sprintf("%s, one part after the other: %s.", g.Data, strings.Join(steps, ", then ")))
	}
	add("where the paper starts", "cos/con/con")
	return rules, notes
}
