package paper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/paper/fullgrid"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// gridEnds is the number of best and of worst rules that are run with all seeds. Grids of fewer than 168 rules have
// fewer.
const gridEnds = 10

// paperChoice is the paper's best rule, composed from the best parts of its Tables 2 to 4: "Ours" in its Table 5.
const paperChoice = "cos-orth/lin-ms/cir"

// gridStudy is the full grid: all combinations of direction, pair weight and triplet weight.
func gridStudy() Study {
	return Study{
		Name: "grid", Title: "All combinations of direction, pair weight and triplet weight: Recall@1", Sweep: true,
		Cells: func(p presets.Preset) []Cell {
			var rules []string
			for _, r := range dmlx.Rules() {
				if !p.Like("smoke") || inSmokeGrid(r) {
					rules = append(rules, r.Name())
				}
			}
			return setsAcross(p, rules, func(rule string) string { return rule })
		},
	}
}

// inSmokeGrid tells whether a rule is one of the twelve of the grid's 168 that the smoke preset tries.
func inSmokeGrid(r dmlx.Rule) bool {
	parts := strings.Split(r.Name(), "/")
	return slices.Contains([]string{"euc", "cos"}, parts[0]) && slices.Contains([]string{"con", "lin"}, parts[1]) &&
		slices.Contains([]string{"con", "cos", "cir"}, parts[2])
}

// grid runs all combinations of the paper's directions, pair weights and triplet weights, which the paper left open.
// First it runs all rules with one seed. Then it runs with all seeds of the preset the best and the worst of them,
// those of Tables 2 to 4, and those that are chosen one part at a time. It then reads all available runs of any seed.
//
// With [runs.Options.CachedOnly] it shows what is available and does not fail, however few rules that are.
func grid(ctx context.Context, q Request) (*Report, error) {
	study := gridStudy()
	several := q.Options
	if several.Seeds == nil {
		several.Seeds = q.Preset.Seeds
	}
	if len(several.Seeds) == 0 {
		return nil, fmt.Errorf("preset %s has no seeds: want at least one", q.Preset.Name)
	}
	seed := several.Seeds[0]
	read := func() (*Table, []fullgrid.Grid, error) {
		o := several
		o.CachedOnly = true
		all, err := Reproduce(ctx, q.Open, q.Store, study, q.Preset, o)
		if err != nil {
			return nil, nil, err
		}
		grids, err := Grids(all, seed)
		return all, grids, err
	}
	ran := 0
	if !q.CachedOnly {
		run := func(s Study, o runs.Options) error {
			t, err := Reproduce(ctx, q.Open, q.Store, s, q.Preset, o)
			if err == nil {
				ran += t.Ran
			}
			return err
		}
		one := several
		one.Seeds = several.Seeds[:1]
		if err := run(study, one); err != nil {
			return nil, err
		}
		_, grids, err := read()
		if err != nil {
			return nil, err
		}
		besides, err := gridBesides(grids, q.Preset)
		if err != nil {
			return nil, err
		}
		if err := run(Extremes(grids, endsOf(grids), besides...), several); err != nil {
			return nil, err
		}
		// What our Tables 2 to 4 choose is known once their rules have all seeds.
		if _, grids, err = read(); err != nil {
			return nil, err
		}
		var chosen []string
		for _, g := range grids {
			if rule, err := g.OneAtATime(); err == nil {
				chosen = append(chosen, rule)
			}
		}
		if err := run(Extremes(grids, 0, chosen...), several); err != nil {
			return nil, err
		}
	}
	all, grids, err := read()
	if err != nil {
		return nil, err
	}
	// Rules without a run of the first seed count as missing; only some rules have other seeds.
	all.Ran, all.Runs, all.Missing = ran, all.Runs-all.Missing, 0
	for _, c := range all.Cells {
		if !slices.ContainsFunc(c.Runs, func(r *runs.Result) bool { return r.Spec.Seed == seed }) {
			all.Missing++
		}
	}
	r := &Report{Title: study.Title, Table: all}
	r.add(all)
	all.Runs += all.Missing
	r.Provenance = all.Provenance()
	r.showGrid(grids, endsOf(grids))
	return r, nil
}

// Extremes is the second stage of the grid: the n best and the n worst rules of each data set by one seed, to be run
// with all seeds of the preset, since the best of many by one seed is also the luckiest. Additional rules are run too
// if the grid has them.
func Extremes(grids []fullgrid.Grid, n int, besides ...string) Study {
	return Study{Name: "grid-extremes", Title: "The best and the worst combinations by one seed, with several: Recall@1",
		Cells: func(presets.Preset) []Cell {
			var out []Cell
			for _, g := range grids {
				best, worst := g.Ends(n)
				for _, r := range g.Rules { // In the grid's order.
					is := func(o fullgrid.Rule) bool { return o.Name == r.Name }
					if slices.ContainsFunc(best, is) || slices.ContainsFunc(worst, is) || slices.Contains(besides, r.Name) {
						out = append(out, Cell{Row: r.Name, Column: g.Data, Data: g.Data, PaperData: g.PaperData, Rule: r.Name, LR: r.LR})
					}
				}
			}
			return out
		}}
}

// Grids reads a table whose cells are rules, data set by data set. seed is that of the runs that choose the best and
// the worst rules; their other seeds judge them. A rule that is there twice for a data set is an error, as is one that
// is not of three parts.
func Grids(t *Table, seed uint64) ([]fullgrid.Grid, error) {
	cells := make([]fullgrid.Cell, len(t.Cells))
	for i, c := range t.Cells {
		cells[i] = fullgrid.Cell{Data: c.Data, PaperData: c.PaperData, Rule: c.Rule, LR: c.LR, Runs: c.Runs}
	}
	return fullgrid.Read(cells, seed)
}

// endsOf returns the number of rules at an end of the grids.
func endsOf(grids []fullgrid.Grid) int {
	n := gridEnds
	for _, g := range grids {
		n = min(n, max(1, len(g.Rules)*gridEnds/168))
	}
	return n
}

// gridBesides returns additional rules that are run with all seeds: those of Tables 2 to 4, and those that are chosen
// one part at a time by the paper, by its printed tables, and part after part.
func gridBesides(grids []fullgrid.Grid, p presets.Preset) ([]string, error) {
	out := []string{paperChoice}
	for _, name := range []string{"table2", "table3", "table4"} {
		s, err := ParseStudy(name)
		if err != nil {
			return nil, err
		}
		for _, c := range s.Cells(p) {
			out = append(out, c.Rule)
		}
	}
	for _, g := range grids {
		if rule, err := paperOneAtATime(g.PaperData); err == nil {
			out = append(out, rule)
		}
		if steps := g.Steps(); len(steps) == 3 {
			out = append(out, steps...)
		}
	}
	return out, nil
}

// paperOneAtATime returns the rule that the paper's own Tables 2 to 4 choose for one of its data sets, each part alone.
func paperOneAtATime(set string) (string, error) {
	g := fullgrid.Grid{Data: set}
	for table := 2; table <= 4; table++ {
		results, err := figures.PaperResults(table)
		if err != nil {
			return "", err
		}
		for _, r := range results {
			rule := r.Direction + "/" + r.Pair + "/" + r.Triplet
			if r.Dataset != set || g.At(rule) != nil {
				continue
			}
			s := r.Score()
			g.Rules = append(g.Rules, fullgrid.Rule{Name: rule, All: stats.Mean{Mean: s.Mean, N: s.N}})
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

// showGrid draws the report's parts. A part for which too many runs are missing says so.
func (r *Report) showGrid(grids []fullgrid.Grid, ends int) {
	add := func(name string, of figures.Output, err error) {
		if err != nil {
			of = &figures.Table{Columns: []figures.Column{{Title: "Not to be had from the runs that are there", Left: true}},
				Rows: [][]figures.Cell{{figures.Text(err.Error())}}, Provenance: r.Provenance}
		}
		r.Parts = append(r.Parts, Part{name, of})
	}
	m, err := GridMap(grids, r.Provenance)
	add("", m, err)
	add("coverage", GridCoverage(grids, r.Provenance), nil)
	add("anova", GridAnova(grids, r.Provenance), nil)
	effects, err := GridEffects(grids, r.Provenance)
	add("effects", effects, err)
	interactions, err := GridInteractions(grids, r.Provenance)
	add("interactions", interactions, err)
	gaps, err := GridGaps(grids, r.Provenance)
	add("gaps", gaps, err)
	endTable, err := GridEnds(grids, ends, r.Provenance)
	add("ends", endTable, err)
	choices, err := GridChoices(grids, r.Provenance)
	add("choices", choices, err)
}

// GridMap draws Recall@1 of all rules with the first seed, in percent: a block is a direction, a row a pair weight, a
// column a triplet weight. Marked are the best rule, the paper's and the one that our Tables 2 to 4 choose.
func GridMap(grids []fullgrid.Grid, provenance string) (*figures.Figure, error) {
	var maps []figures.GridSet
	for i := range grids {
		maps = append(maps, gridMap(&grids[i]))
	}
	return figures.GridMap(maps, provenance)
}

// GridCoverage tells how many rules have been run, how much they differ, and what share of a difference another seed
// would show again ([fullgrid.Grid.Reliability]).
func GridCoverage(grids []fullgrid.Grid, provenance string) *figures.Table {
	var counts []figures.GridCount
	for i := range grids {
		counts = append(counts, gridCount(&grids[i]))
	}
	return figures.GridCounts(counts, gridRates(grids), provenance)
}

// GridAnova is the analysis of variance of each grid ([stats.Analyze]): how much of the differences between rules comes
// from each part and from parts together. A grid with too few runs has a note in its place.
func GridAnova(grids []fullgrid.Grid, provenance string) *figures.Table {
	var variances []figures.GridVariance
	for i := range grids {
		v, _, err := gridVariance(&grids[i])
		if err != nil {
			v = figures.GridVariance{Data: grids[i].Data, Notes: []figures.Markup{err.Error() + "."}}
		}
		variances = append(variances, v)
	}
	return figures.GridAnova(variances, provenance)
}

// GridEffects draws the mean of each level of a part over all levels of the others, by the model of [GridAnova]. Grids
// with too few runs are left out.
func GridEffects(grids []fullgrid.Grid, provenance string) (*figures.Figure, error) {
	var margins []figures.GridMargins
	for i := range grids {
		if _, m, err := gridVariance(&grids[i]); err == nil {
			margins = append(margins, m)
		}
	}
	return figures.GridEffects(margins, provenance)
}

// GridInteractions draws the means of two parts together ([fullgrid.Grid.Profile]): lines are parallel where their
// effects are independent.
func GridInteractions(grids []fullgrid.Grid, provenance string) (*figures.Figure, error) {
	var lines []figures.GridInteraction
	for i := range grids {
		line, err := gridInteraction(&grids[i])
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return figures.GridInteractions(lines, provenance)
}

// GridGaps tells by how many points one direction is ahead of another with each pair weight ([fullgrid.Grid.Gap]).
func GridGaps(grids []fullgrid.Grid, provenance string) (*figures.Table, error) {
	var gaps []figures.GridGap
	for i := range grids {
		gaps = append(gaps, gridGaps(&grids[i])...)
	}
	return figures.GridGaps(gaps, provenance)
}

// GridEnds sets the n best and the n worst rules of each grid by its first seed beside what they do with other seeds.
// Of a grid with less than 8n rules it takes a quarter instead, at least one.
func GridEnds(grids []fullgrid.Grid, n int, provenance string) (*figures.Table, error) {
	var rules []figures.GridRule
	var notes []figures.Markup
	for i := range grids {
		g := &grids[i]
		best, worst := g.Ends(min(n, max(1, len(g.Ranked())/4))) // Of few rules not all are an end.
		for _, rule := range best {
			rules = append(rules, gridRule(g, fmt.Sprintf("%d best", len(best)), rule.Name, ""))
		}
		for _, rule := range slices.Backward(worst) {
			rules = append(rules, gridRule(g, fmt.Sprintf("%d worst", len(worst)), rule.Name, ""))
		}
		notes = append(notes, gridRegression(g, len(best)))
	}
	return figures.GridEnds(rules, append(notes,
		"The first seed chose which rules stand here, so its numbers are too good at one end and too bad at the "+
			"other; those of the other seeds are neither."), provenance)
}

// GridChoices sets the best rule of each grid beside those that are chosen one part at a time: the paper's, those of
// our Tables 2 to 4 and of the paper's printed ones, and one part after the other ([fullgrid.Grid.Steps]).
func GridChoices(grids []fullgrid.Grid, provenance string) (*figures.Table, error) {
	var chosen []figures.GridRule
	var notes []figures.Markup
	for i := range grids {
		rules, note := gridChoices(&grids[i])
		chosen, notes = append(chosen, rules...), append(notes, note...)
	}
	return figures.GridChoices(chosen, append(notes,
		"Rank is by the first seed; rules with the same recall share their ranks. Intervals: 95 % by Welch's t over the "+
			"other seeds. A rule can be ahead of the best (negative), since the best is so by the first seed. All is on the "+
			"test classes that the choices were made by."), provenance)
}

func gridMap(g *fullgrid.Grid) figures.GridSet {
	s := figures.GridSet{Data: g.Data, Directions: g.Directions, Pairs: g.Pairs, Triplets: g.Triplets,
		Scores: make(map[string]stats.Mean)}
	for _, r := range g.Rules {
		if r.First.N+r.First.Diverged > 0 {
			s.Scores[r.Name] = r.First.Times(100)
		}
	}
	s.Marks = []figures.GridMark{{Name: fmt.Sprintf("the best with seed %d, as shown", g.Seed)},
		{Name: "the paper's choice"}, {Name: "the choice of our Tables 2–4"}}
	if ranked := g.Ranked(); len(ranked) > 0 {
		s.Marks[0].Rule = ranked[0].Name
	}
	if g.At(paperChoice) != nil {
		s.Marks[1].Rule = paperChoice
	}
	if rule, err := g.OneAtATime(); err == nil {
		s.Marks[2].Rule = rule
	}
	return s
}

func gridCount(g *fullgrid.Grid) figures.GridCount {
	c := g.Coverage()
	sd := g.Noise().Std
	out := figures.GridCount{Data: g.Data, Rules: c.Rules, First: c.First, Several: c.Several, Runs: c.Runs,
		Diverged: c.Diverged, Broken: c.Broken,
		Mean: math.NaN(), Spread: math.NaN(), Low: math.NaN(), High: math.NaN(), Noise: 100 * sd, Kept: g.Reliability()}
	var values []float64
	for _, r := range g.Ranked() {
		values = append(values, 100*r.First.Mean)
	}
	if n := len(values); n > 1 {
		out.Mean, out.Spread = stat.MeanStdDev(values, nil)
		out.High, out.Low = values[0], values[n-1]
	}
	return out
}

// gridRates returns the notes on the coverage: how to read it, and the learning rates of the rules, since a difference
// between pair weights with different rates is one of both.
func gridRates(grids []fullgrid.Grid) []figures.Markup {
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
	return append(out, "The share is of all 168 rules: of the best among themselves, which differ less, it is lower.",
		"Rates were fixed before these runs and chosen by no result of the grid. The effect of a pair weight is one of "+
			"weight and rate together; "+
			"directions and triplet weights are compared at a rate that need not be the best for each.")
}

func gridVariance(g *fullgrid.Grid) (figures.GridVariance, figures.GridMargins, error) {
	observations := g.Observations()
	for i := range observations {
		observations[i].Value *= 100
	}
	noise := g.Noise()
	noise.Std *= 100
	a, err := stats.Analyze(observations, noise)
	if err != nil {
		return figures.GridVariance{}, figures.GridMargins{}, err
	}
	effect := func(e stats.Effect) figures.GridEffect {
		return figures.GridEffect{Name: e.Name, DF: e.DF, Full: e.Full, SS: e.SS, MS: e.MS, F: e.F, P: e.P,
			Omega: stats.Interval{Value: e.Omega, Low: e.Low, High: e.High}}
	}
	v := figures.GridVariance{Data: g.Data, Error: effect(a.Error)}
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
	m := figures.GridMargins{Data: g.Data}
	d, p, t := len(g.Directions)-1, len(g.Pairs)-1, len(g.Triplets)-1
	for i, full := range []int{d, p, t, d * p, d * t, p * t, d * p * t} {
		e := effect(a.Effects[i])
		e.Full = full // Of the grid; the runs there are may lack whole levels.
		v.Effects = append(v.Effects, e)
	}
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
	return v, m, nil
}

func gridInteraction(g *fullgrid.Grid) (figures.GridInteraction, error) {
	out := figures.GridInteraction{Data: g.Data}
	for _, parts := range [][2]fullgrid.Factor{{fullgrid.ByDirection, fullgrid.ByPair},
		{fullgrid.ByPair, fullgrid.ByTriplet}, {fullgrid.ByDirection, fullgrid.ByTriplet}} {
		p, err := g.Profile(parts[0], parts[1])
		if err != nil {
			return out, err
		}
		f := figures.GridProfile{Lines: int(parts[0]), Points: int(parts[1]), LineNames: p.Rows, PointNames: p.Columns,
			Over: p.Over}
		for _, line := range p.Means {
			var means []stats.Interval
			for _, v := range line {
				means = append(means, v.Times(100))
			}
			f.Means = append(f.Means, means)
		}
		out.Profiles = append(out.Profiles, f)
	}
	return out, nil
}

// gridGaps returns the gaps between directions that pair weights close, according to the paper.
func gridGaps(g *fullgrid.Grid) []figures.GridGap {
	var out []figures.GridGap
	for _, pair := range [][2]string{{"cos", "euc"}, {"cos-orth", "euc-orth"}, {"euc-orth", "euc"}, {"cos-orth", "cos"}} {
		if !slices.Contains(g.Directions, pair[0]) || !slices.Contains(g.Directions, pair[1]) {
			continue
		}
		p, gaps := g.Gap(pair[0], pair[1])
		gap := figures.GridGap{Data: g.Data, Better: pair[0], Worse: pair[1], Pairs: p.Columns, Over: p.Over}
		for _, v := range gaps {
			gap.Gaps = append(gap.Gaps, v.Times(100))
		}
		out = append(out, gap)
	}
	return out
}

func gridRule(g *fullgrid.Grid, name, rule, best string) figures.GridRule {
	out := figures.GridRule{Data: g.Data, Name: name, Rule: rule, First: figures.Missing, Others: figures.Missing,
		Behind: g.Behind(rule, best).Times(100)}
	out.Rank, out.Last = g.Rank(rule)
	if r := g.At(rule); r != nil {
		out.First, out.Others = r.First.Times(100), r.Others.Times(100)
	}
	return out
}

// gridRegression says in a note how the ends do with other seeds.
func gridRegression(g *fullgrid.Grid, n int) figures.Markup {
	r := g.Regress(n)
	if r.N == 0 {
		return fmt.Sprintf("%s: no rule at one of the ends has other seeds yet.", g.Data)
	}
	return fmt.Sprintf("%s: with other seeds the best change by %s points in the mean and the worst by %s (of each end "+
		"at least %d have other seeds); "+
		"%.0f %% of the distance between the ends is kept.", g.Data, gridPoints(100*(r.BestOthers-r.BestFirst)),
		gridPoints(100*(r.WorstOthers-r.WorstFirst)), r.N, 100*r.Kept())
}

// gridPoints formats a difference with its sign.
func gridPoints(v float64) string {
	return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%+.1f", v), "-0.0", "+0.0"), "-", "−")
}

// gridChoices returns the best rule and those chosen one part at a time.
func gridChoices(g *fullgrid.Grid) (rules []figures.GridRule, notes []figures.Markup) {
	best := ""
	if ranked := g.Ranked(); len(ranked) > 0 {
		best = ranked[0].Name
		rules = append(rules, gridRule(g, fmt.Sprintf("best of %d with the first seed", len(ranked)), best, best))
	}
	add := func(name, rule string) {
		if g.At(rule) == nil {
			notes = append(notes, fmt.Sprintf("%s: the grid at this preset lacks %s, %s.", g.Data, rule, name))
			return
		}
		rules = append(rules, gridRule(g, name, rule, best))
	}
	add("the paper's, Ours", paperChoice)
	if rule, err := g.OneAtATime(); err != nil {
		notes = append(notes, fmt.Sprintf("Our Tables 2–4 choose nothing yet: %v.", err))
	} else {
		add("our Tables 2–4, each part alone", rule)
	}
	if rule, err := paperOneAtATime(g.PaperData); err == nil && rule != paperChoice {
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
