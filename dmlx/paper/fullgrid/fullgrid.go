// Package fullgrid analyzes the grid of all directions, pair weights and triplet weights on one data set: its best
// rule, how much of that is the luck of a seed, and what choosing one part at a time misses.
package fullgrid

import (
	"cmp"
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

// Grid is the full grid on one data set: all combinations of directions, pair weights and triplet weights. Values are
// Recall@1 in percent. Rules without a run, and diverged runs, are gaps.
type Grid struct {
	Data, PaperData             string
	Seed                        uint64   // By which all rules are compared: the first.
	Directions, Pairs, Triplets []string // In the study's order.
	Rules                       []Rule   // In the study's order, also those without a run.
}

// Rule is one rule of a [Grid].
type Rule struct {
	Name                     string // direction/pair/triplet.
	Direction, Pair, Triplet string // Triplet with its mask.
	LR                       float64
	// First is over the run with the grid's seed, Others over those with other seeds, All over both.
	First, Others, All stats.Mean

	values []float64 // Of the runs that did not diverge.
}

// Read sorts the Recall@1 of rules by data set. All rules are compared by the runs with one seed, the grid's; there may
// be runs with others. A score that occurs twice and what is no rule are an error.
func Read(all scores.Table, seed uint64) (Grids, error) {
	var out Grids
	for _, set := range all.Select(scores.Row{Measure: report.Recall(1)}).Group(scores.Data.Of) {
		p, err := set.Rows.Pivot(scores.Rule.Of, scores.Data.Of)
		if err != nil {
			return nil, fmt.Errorf("grid: %w", err)
		}
		g := Grid{Data: set.Key, PaperData: set.Rows[0].Role, Seed: seed, Directions: set.Rows.Values(scores.Direction.Of),
			Pairs: set.Rows.Values(scores.Pair.Of), Triplets: set.Rows.Values(scores.Triplet.Of)}
		for i, cell := range p.Cells {
			runs := cell[0]
			of := runs[0]
			if of.Direction == "" {
				return nil, fmt.Errorf("grid: rule %q, want direction/pair/triplet", of.Rule)
			}
			r := Rule{Name: p.Rows[i], Direction: of.Direction, Pair: of.Pair, Triplet: of.Triplet, LR: of.LR, All: runs.Mean()}
			r.First = runs.Where(func(s scores.Row) bool { return s.Seed == seed }).Mean()
			r.Others = runs.Where(func(s scores.Row) bool { return s.Seed != seed }).Mean()
			for _, s := range runs {
				if s.Value.N == 1 {
					r.values = append(r.values, s.Value.Mean)
				}
			}
			g.Rules = append(g.Rules, r)
		}
		out = append(out, g)
	}
	return out, nil
}

// At returns a rule of the grid by its name, nil if it has none.
func (g *Grid) At(rule string) *Rule {
	for i := range g.Rules {
		if g.Rules[i].Name == rule {
			return &g.Rules[i]
		}
	}
	return nil
}

// Observations returns all runs that did not diverge, for [stats.Analyze].
func (g *Grid) Observations() []stats.Observation {
	var out []stats.Observation
	for _, r := range g.Rules {
		for _, v := range r.values {
			out = append(out, stats.Observation{Direction: r.Direction, Pair: r.Pair, Triplet: r.Triplet, Value: v})
		}
	}
	return out
}

// Analyze returns the analysis of variance of the runs' Recall@1, in points, with the noise between seeds. An error is
// that of [stats.Analyze].
func (g *Grid) Analyze() (*stats.Anova, error) {
	return stats.Analyze(g.Observations(), g.Noise())
}

// Coverage counts the available runs of a [Grid].
type Coverage struct {
	Rules    int // Of the grid.
	First    int // Have a finite run with the grid's seed.
	Several  int // Have finite runs with several seeds.
	Runs     int // Finite runs of all seeds.
	Diverged int // Diverged runs of all seeds: counted, never averaged.
	Broken   int // Rules with the grid's seed diverged.
}

// Coverage counts the available runs.
func (g *Grid) Coverage() Coverage {
	c := Coverage{Rules: len(g.Rules)}
	for _, r := range g.Rules {
		c.First += r.First.N
		c.Runs += r.All.N
		c.Diverged += r.All.Diverged
		c.Broken += r.First.Diverged
		if r.All.N > 1 {
			c.Several++
		}
	}
	return c
}

// Ranked returns the rules by their run with the grid's seed, the best first; equal ones stay in the grid's order.
// Rules without such a run and diverged ones are left out.
func (g *Grid) Ranked() []Rule {
	var out []Rule
	for _, r := range g.Rules {
		if r.First.N > 0 {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Rule) int { return cmp.Compare(b.First.Mean, a.First.Mean) })
	return out
}

// firsts are the recalls of the ranked rules with the grid's seed.
func (g *Grid) firsts() (out []float64) {
	for _, r := range g.Ranked() {
		out = append(out, r.First.Mean)
	}
	return out
}

// Rank returns the places of a rule in [Grid.Ranked], from 1: those from first to last, which it shares with rules that
// have the same recall. Both are 0 if it has none.
func (g *Grid) Rank(rule string) (first, last int) {
	ranked := g.Ranked()
	at := slices.IndexFunc(ranked, func(r Rule) bool { return r.Name == rule })
	if at < 0 {
		return 0, 0
	}
	same := func(r Rule) bool { return r.First.Mean == ranked[at].First.Mean }
	first = slices.IndexFunc(ranked, same)
	for last = first; last < len(ranked) && same(ranked[last]); last++ {
	}
	return first + 1, last
}

// Ends returns the n best and the n worst rules by the grid's seed, each from its end inwards; fewer if there are fewer
// than 2n. No rule is at both ends.
func (g *Grid) Ends(n int) (best, worst []Rule) {
	ranked := g.Ranked()
	n = min(n, len(ranked)/2)
	best, worst = ranked[:n:n], slices.Clone(ranked[len(ranked)-n:])
	slices.Reverse(worst)
	return best, worst
}

// Noise returns how much runs of one rule differ from seed to seed, pooled over the rules with several seeds. It takes
// all seeds. Some rules have others because they were extreme with the grid's seed, so the noise is rather too large
// than too small.
func (g *Grid) Noise() stats.Noise {
	var all []stats.Mean
	for _, r := range g.Rules {
		all = append(all, r.All)
	}
	return stats.PoolNoise(all)
}

// Noisiest returns the pair weight whose runs of one rule differ most from seed to seed, with that noise, and the noise
// of the runs of all others. It is "" if fewer than two pair weights have rules with several seeds.
func (g *Grid) Noisiest() (pair string, noise, others stats.Noise) {
	seen := 0
	for _, p := range g.Pairs {
		own := g.Without(func(r *Rule) bool { return r.Pair != p })
		rest := g.Without(func(r *Rule) bool { return r.Pair == p })
		n := own.Noise()
		if n.Freedom == 0 {
			continue
		}
		if seen++; pair == "" || n.Std > noise.Std {
			pair, noise, others = p, n, rest.Noise()
		}
	}
	if seen < 2 {
		pair = ""
	}
	return pair, noise, others
}

// Without returns the grid without some of its rules.
func (g *Grid) Without(leaveOut func(*Rule) bool) *Grid {
	out := *g
	out.Rules = nil
	for i := range g.Rules {
		if !leaveOut(&g.Rules[i]) {
			out.Rules = append(out.Rules, g.Rules[i])
		}
	}
	return &out
}

// Reliability returns the share of the variance between rules by the grid's seed that is not that seed's noise: the
// part of a rule's distance from the mean to expect with another seed. NaN if it is not determined.
func (g *Grid) Reliability() float64 {
	values, sd := g.firsts(), g.Noise().Std
	if len(values) < 2 {
		return math.NaN()
	}
	between := stat.Variance(values, nil)
	if between == 0 {
		return math.NaN()
	}
	return max(0, 1-sd*sd/between)
}

// Behind tests how far a rule is behind another, both over the other seeds than the grid's, which did not choose them;
// negative if it is ahead. A rule is not tested against itself.
func (g *Grid) Behind(rule, best string) stats.Test {
	a, b := g.At(rule), g.At(best)
	if a == nil || b == nil || a == b {
		return stats.Untested(math.NaN())
	}
	return stats.Welch(b.Others, a.Others)
}

// Regression is how the best and the worst rules by one seed do with other seeds: means over the rules of each end.
type Regression struct {
	N                       int // Rules at each end.
	BestFirst, BestOthers   float64
	WorstFirst, WorstOthers float64
}

// Regress compares the n best and n worst rules with themselves on other seeds. Only rules with such runs count; N is 0
// if an end has none.
func (g *Grid) Regress(n int) Regression {
	var r Regression
	best, worst := g.Ends(n)
	mean := func(rules []Rule) (count int, first, others float64) {
		for _, rule := range rules {
			if rule.Others.N > 0 {
				count++
				first, others = first+rule.First.Mean, others+rule.Others.Mean
			}
		}
		return count, first / float64(count), others / float64(count)
	}
	var atBest, atWorst int
	atBest, r.BestFirst, r.BestOthers = mean(best)
	atWorst, r.WorstFirst, r.WorstOthers = mean(worst)
	r.N = min(atBest, atWorst)
	return r
}

// Kept returns the share of the distance between the two ends that remains on other seeds. A seed that is good or bad
// for all rules does not change it.
func (r Regression) Kept() float64 {
	return (r.BestOthers - r.WorstOthers) / (r.BestFirst - r.WorstFirst)
}

// OneAtATime returns the rule that Tables 2 to 4 choose, varied one part at a time as in the paper: the best direction
// with P = con and T = con, the best pair weight over the directions euc and cos with T = con, and the best triplet
// weight over the pair weights con and lin with the direction cos. Means are over all available seeds. Diverged rules
// are not chosen; a missing one is an error.
func (g *Grid) OneAtATime() (string, error) {
	var out []string
	for i, of := range []struct{ levels, rules []string }{{g.Directions, []string{"*/con/con"}},
		{g.Pairs, []string{"euc/*/con", "cos/*/con"}}, {g.Triplets, []string{"cos/con/*", "cos/lin/*"}}} {
		level, err := g.choose(of.levels, func(r *Rule) stats.Mean { return r.All }, of.rules...)
		if err != nil {
			return "", fmt.Errorf("table %d on %s: %w", 2+i, g.Data, err)
		}
		out = append(out, level)
	}
	return strings.Join(out, "/"), nil
}

// choose returns the level with the best mean over the rules that try it in place of the star, by a mean of each.
func (g *Grid) choose(levels []string, of func(*Rule) stats.Mean, rules ...string) (string, error) {
	best, top := "", math.Inf(-1)
	for _, level := range levels {
		sum := 0.0
		for _, rule := range rules {
			rule = strings.Replace(rule, "*", level, 1)
			r := g.At(rule)
			if r == nil || of(r).N+of(r).Diverged == 0 {
				return "", fmt.Errorf("there is no run of %s", rule)
			}
			if sum += of(r).Mean; of(r).Diverged > 0 {
				sum = math.NaN()
			}
		}
		if mean := sum / float64(len(rules)); mean > top {
			best, top = level, mean
		}
	}
	if best == "" {
		return "", fmt.Errorf("all rules diverged")
	}
	return best, nil
}

// Steps returns the rules of the path that improves one part after the other, by the grid's seed: the best direction
// with P = con and T = con, then the best pair weight with that direction, then the best triplet weight with both. The
// path ends before a step for which runs are missing.
func (g *Grid) Steps() []string {
	at := []string{"", "con", "con"}
	var out []string
	for i, levels := range [][]string{g.Directions, g.Pairs, g.Triplets} {
		at[i] = "*"
		best, err := g.choose(levels, func(r *Rule) stats.Mean { return r.First }, strings.Join(at, "/"))
		if err != nil {
			return out
		}
		at[i] = best
		out = append(out, strings.Join(at, "/"))
	}
	return out
}

// Factor is a part of a rule.
type Factor int

// The parts of a rule.
const (
	ByDirection Factor = iota
	ByPair
	ByTriplet
)

// Parts are two parts of a rule: that of the lines of a [figures.GridProfile], and that of its columns or points.
type Parts [2]Factor

// Profile returns the means of two different parts of the rules over levels of the third: those that all pairs with any
// run have in common, so that all means are over the same; if there is none, the one that most of them have.
func (g *Grid) Profile(rows, columns Factor) (figures.GridProfile, error) {
	if rows == columns || min(rows, columns) < ByDirection || max(rows, columns) > ByTriplet {
		return figures.GridProfile{}, fmt.Errorf("grid: a profile of the parts %d and %d, want two different "+
			"ones of 0 to 2", rows, columns)
	}
	levels := [3][]string{g.Directions, g.Pairs, g.Triplets}
	third := ByDirection + ByPair + ByTriplet - rows - columns
	at := func(row, column, over string) stats.Mean {
		var name [3]string
		name[rows], name[columns], name[third] = row, column, over
		if r := g.At(strings.Join(name[:], "/")); r != nil {
			return r.All
		}
		return stats.Mean{Mean: math.NaN()}
	}
	p := figures.GridProfile{Lines: int(rows), Points: int(columns), LineNames: levels[rows], PointNames: levels[columns]}
	have := make(map[string]int) // How many pairs have a run at a level of the third part.
	pairs := 0
	for _, row := range p.LineNames {
		for _, column := range p.PointNames {
			any := false
			for _, over := range levels[third] {
				if at(row, column, over).N > 0 {
					have[over]++
					any = true
				}
			}
			if any {
				pairs++
			}
		}
	}
	most := ""
	for _, over := range levels[third] {
		if have[over] == pairs && pairs > 0 {
			p.Over = append(p.Over, over)
		}
		if have[over] > have[most] {
			most = over
		}
	}
	if p.Over == nil && most != "" {
		p.Over = []string{most}
	}
	for _, row := range p.LineNames {
		var line []stats.Interval
		for _, column := range p.PointNames {
			sum, factor, n := 0.0, 0.0, float64(len(p.Over))
			for _, over := range p.Over {
				s := at(row, column, over)
				sum += s.Mean
				factor += 1 / float64(s.N)
			}
			line = append(line, g.Noise().Around(sum/n, factor/n/n))
		}
		p.Means = append(p.Means, line)
	}
	return p, nil
}

// Gap returns how much better one direction is than another with each pair weight; the profile says over which
// triplet weights.
func (g *Grid) Gap(better, worse string) (p figures.GridProfile, gaps []stats.Test) {
	h := g.Without(func(r *Rule) bool { return r.Direction != better && r.Direction != worse })
	h.Directions = []string{better, worse}
	p, _ = h.Profile(ByDirection, ByPair) // The parts differ.
	for j, pair := range p.PointNames {
		factor, n := 0.0, float64(len(p.Over))
		for _, d := range h.Directions {
			for _, over := range p.Over {
				if r := h.At(d + "/" + pair + "/" + over); r != nil {
					factor += 1 / float64(r.All.N)
				}
			}
		}
		gaps = append(gaps, g.Noise().Test(p.Means[0][j].Value-p.Means[1][j].Value, factor/n/n))
	}
	return p, gaps
}
