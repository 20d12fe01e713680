package claims

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
	"gonum.org/v1/gonum/stat/distuv"
)

// term is a number with its weight in a sum.
type term struct {
	weight float64
	of     scores.Row
}

// difference is a sum of weighted numbers with its standard error and the degrees of freedom of that. The error is NaN
// if it is unknown.
type difference struct {
	what                figures.Markup
	value, err, freedom float64
}

// half returns half the width of the 95 % interval.
func (d difference) half() float64 { return d.t().Quantile(0.975) * d.err }

func (d difference) t() distuv.StudentsT { return distuv.StudentsT{Sigma: 1, Nu: d.freedom} }

func (d difference) String() string {
	if math.IsNaN(d.err) {
		return fmt.Sprintf("%s (%s)", figures.Signed(d.value), d.what)
	}
	half := d.half()
	return fmt.Sprintf("%s [%s,\u00a0%s] (%s)", figures.Signed(d.value), figures.Signed(d.value-half),
		figures.Signed(d.value+half), d.what)
}

// Comparisons are the comparisons, or cells, that decide a claim; see [Compare].
type Comparisons struct {
	n    *Numbers
	list []difference
	// missing counts comparisons that lack a run, diverged those without a finite run, and apart those of rules whose
	// learning rates are not comparable.
	missing, diverged, apart int
}

// Above adds a comparison of two numbers: a less b. The label says of what, "cos on CAR". A row without a measure is
// Recall@1. A number that is not there counts as not run yet.
func (c *Comparisons) Above(what figures.Markup, a, b scores.Row) {
	c.sum(what, term{1, a}, term{-1, b})
}

// sum adds a comparison of several numbers by their weighted sum, with the interval of Welch and Satterthwaite. A
// measured number of a single seed, or of equal ones, takes the pooled deviation of its data set's other cells.
func (c *Comparisons) sum(what figures.Markup, terms ...term) {
	d := difference{what: what}
	variance, parts := 0.0, 0.0
	for _, t := range terms {
		s := c.n.Of(t.of)
		if s.N == 0 && s.Diverged > 0 {
			c.diverged++
			return
		}
		if s.N == 0 || math.IsNaN(s.Mean) {
			c.missing++
			return
		}
		d.value += t.weight * s.Mean
		v, freedom := s.Std*s.Std/float64(s.N), float64(s.N-1)
		if s.N < 2 || s.Std == 0 && c.n.measured { // Equal runs, as at a share of 100 %, are no estimate.
			p, known := c.n.pooled[key(t.of).Role+key(t.of).Measure]
			if v, freedom = p.Std*p.Std, float64(p.Freedom); !known {
				v = math.NaN()
			}
		}
		v *= t.weight * t.weight
		variance += v
		parts += v * v / freedom
	}
	d.err, d.freedom = math.Sqrt(variance), variance*variance/parts
	if variance == 0 { // Of a few runs that are equal: no estimate.
		d.err = math.NaN()
	}
	c.list = append(c.list, d)
}

// slack absorbs rounding in a difference of printed numbers.
const slack = 1e-9

// above compares a difference with a bound: whether it is larger.
func (c *Comparisons) above(d difference, bound float64) verdicts.Comparison {
	switch {
	case !c.n.measured:
		return verdicts.Exact(d.value > bound+slack)
	case math.IsNaN(d.err):
		return verdicts.Unknown()
	}
	t := (d.value - bound) / d.err
	return verdicts.Comparison{Holds: d.t().Survival(t), Opposite: d.t().CDF(t)}
}

// All decides a claim that each cell is above a bound.
func (c *Comparisons) All(bound float64) Finding {
	return c.judge(c.all(), func(d difference) verdicts.Comparison { return c.above(d, bound) })
}

// allAbove decides a claim that each cell is above 0.
func (c *Comparisons) allAbove() Finding { return c.All(0) }

// several decides a claim that at least n cells are above a bound.
func (c *Comparisons) several(n int, bound float64) Finding {
	return c.judge(n, func(d difference) verdicts.Comparison { return c.above(d, bound) })
}

// None decides a claim that no cell is above a bound.
func (c *Comparisons) None(bound float64) Finding {
	return c.judge(c.all(), func(d difference) verdicts.Comparison { return c.above(d, bound).Reversed() })
}

// Most decides a claim that more than half of the cells are above 0.
func (c *Comparisons) Most() Finding {
	return c.judge(c.all()/2+1, func(d difference) verdicts.Comparison { return c.above(d, 0) })
}

// Within decides a claim that no cell is further from 0 than a bound, by two one-sided tests.
func (c *Comparisons) Within(bound float64) Finding {
	return c.judge(c.all(), func(d difference) verdicts.Comparison {
		if !c.n.measured {
			return verdicts.Exact(math.Abs(d.value) <= bound+slack)
		}
		below, above := c.above(d, bound).Reversed(), c.above(d, -bound)
		return verdicts.Comparison{Holds: max(below.Holds, above.Holds), Opposite: min(below.Opposite, above.Opposite)}
	})
}

// judge decides a claim that at least need of its comparisons hold, those included that lack a run.
func (c *Comparisons) judge(need int, is func(difference) verdicts.Comparison) Finding {
	if len(c.list) == 0 {
		switch {
		case c.missing > 0:
			return Finding{Verdict: verdicts.NotRun, Evidence: fmt.Sprintf("%d cells.", c.missing), Missing: c.missing}
		case c.diverged > 0:
			return Finding{Verdict: verdicts.None, Evidence: fmt.Sprintf("All of %d cells diverged.", c.diverged)}
		}
		if c.apart > 0 {
			return Finding{Verdict: verdicts.None, Evidence: "The two have no learning rate in common."}
		}
		return Finding{Verdict: verdicts.None, Evidence: "No such numbers."}
	}
	f := c.decide(need, func() (of []verdicts.Comparison) {
		for _, d := range c.list {
			of = append(of, is(d))
		}
		return of
	})
	f.Evidence = c.words(f)
	return f
}

// all returns the number of comparisons, those included that have no number.
func (c *Comparisons) all() int { return len(c.list) + c.diverged + c.missing }

// decide returns the finding, without its evidence, on what compare makes of the list. A comparison of which all runs
// diverged decides nothing.
func (c *Comparisons) decide(need int, compare func() []verdicts.Comparison) Finding {
	verdict := func(of []verdicts.Comparison) verdicts.Verdict {
		return verdicts.Decide(need, slices.Concat(of, slices.Repeat([]verdicts.Comparison{verdicts.Unknown()}, c.diverged),
			slices.Repeat([]verdicts.Comparison{verdicts.NotMade()}, c.missing)))
	}
	of := compare()
	f := Finding{Verdict: verdict(of), Of: len(of), Missing: c.missing}
	for _, cell := range of {
		if cell.Yes() {
			f.Holding++
		} else if cell.No() {
			f.Opposite++
		}
	}
	if !c.n.measured && f.Verdict == verdicts.Contradicted {
		f.Verdict = verdicts.ContradictsItself
	}
	if f.Verdict == verdicts.Undecided || f.Verdict == verdicts.InPart {
		own := c.list
		for times := 2; times <= mostTimes && f.Times == 0; times++ {
			c.list = slices.Clone(own)
			for i := range c.list {
				c.list[i].err /= math.Sqrt(float64(times))
				c.list[i].freedom *= float64(times)
			}
			if v := verdict(compare()); v == verdicts.Reproduced || v == verdicts.Contradicted {
				f.Times = times
			}
		}
		c.list = own
	}
	return f
}

// mostTimes is the largest factor of the number of seeds that is looked at.
const mostTimes = 100

// words lists the number of cells and the smallest and the largest difference.
func (c *Comparisons) words(f Finding) figures.Markup {
	low := slices.MinFunc(c.list, func(a, b difference) int { return cmp.Compare(a.value, b.value) })
	high := slices.MaxFunc(c.list, func(a, b difference) int { return cmp.Compare(a.value, b.value) })
	cellsOf := "cells"
	if f.Of == 1 {
		cellsOf = "cell"
	}
	text := fmt.Sprintf("%d of %d %s", f.Holding, f.Of, cellsOf)
	if c.n.measured {
		text += " beyond noise"
		if f.Opposite > 0 {
			text += fmt.Sprintf(", %d to the contrary", f.Opposite)
		}
	}
	if f.Of == 1 {
		text += ": " + low.String()
	} else {
		text += fmt.Sprintf("; lowest %s, highest %s", low, high)
	}
	if c.diverged > 0 {
		text += fmt.Sprintf("; %d more diverged", c.diverged)
	}
	if f.Missing > 0 {
		text += fmt.Sprintf("; %d more not run yet", f.Missing)
	}
	if f.Times > 0 {
		text += fmt.Sprintf("; %d times the seeds would decide, if the differences stay", f.Times)
	}
	return text + "."
}

// on labels a cell with the data set that stands for one of the paper's.
func (n *Numbers) on(data string, labels ...figures.Markup) figures.Markup {
	return strings.Join(append(labels, n.labels[data]), ", ")
}

// overRates compares two rules of a sweep rate by rate. Where their rates are different grids, as for families of pair
// weights in our runs, it compares each at its best rate by the recall on held-out classes.
func (c *Comparisons) overRates(table int, data, a, b string, label figures.Markup) {
	ra, rb := c.n.swept(table, data, a), c.n.swept(table, data, b)
	switch {
	case ra[0].LR == 0 || rb[0].LR == 0:
		c.missing++
	case slices.Equal(ra.Values(scores.LR.Of), rb.Values(scores.LR.Of)):
		for i := range ra {
			c.Above(c.n.on(data, label, fmt.Sprintf("lr %g", ra[i].LR)), ra[i], rb[i])
		}
	default:
		best, there := c.n.bestHeldOut(table, data, a)
		other, too := c.n.bestHeldOut(table, data, b)
		if !there || !too {
			c.apart++
			return
		}
		c.Above(c.n.on(data, label, fmt.Sprintf("lr %g and %g, chosen on held-out classes", best.LR, other.LR)), best, other)
	}
}

// atLowest compares two rules of a sweep at its lowest rate, if that is the same.
func (c *Comparisons) atLowest(table int, data, a, b string, label figures.Markup) {
	fa, fb := c.n.swept(table, data, a)[0], c.n.swept(table, data, b)[0]
	if fa.LR != fb.LR {
		c.apart++
		return
	}
	c.Above(c.n.on(data, label), fa, fb)
}

const (
	clearly = 1.0 // The least points of a "clear" or "much" better number.
	little  = 1.0 // The most points between numbers that are "almost the same".
)

// ofPaper returns a check of the paper's own numbers alone.
func ofPaper(why figures.Markup, check func(n *Numbers) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding {
		if n.measured {
			return Finding{Verdict: verdicts.None, Evidence: why}
		}
		return check(n)
	}
}

// ofRuns returns a check of runs alone.
func ofRuns(why figures.Markup, check func(c *Comparisons) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding {
		if !n.measured {
			return Finding{Verdict: verdicts.None, Evidence: why}
		}
		return check(&Comparisons{n: n})
	}
}

// Compare returns a check of a [Claim] by comparisons of numbers, the paper's or those of runs: the function adds them
// by [Comparisons.Above], and decides by [Comparisons.All] or another.
func Compare(check func(c *Comparisons) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding { return check(&Comparisons{n: n}) }
}

// onSets returns a check that each comparison is above 0 that add makes for one of the paper's data sets.
func onSets(sets []string, add func(c *Comparisons, data string)) func(n *Numbers) Finding {
	return onCells(sets, []string{""}, func(c *Comparisons, data, _ string) { add(c, data) })
}

// onCells returns the same for each pair of a data set and a component.
func onCells(sets, components []string, add func(c *Comparisons, data, component string)) func(n *Numbers) Finding {
	return Compare(func(c *Comparisons) Finding {
		for data, component := range c.n.cells(components, sets...) {
			add(c, data, component)
		}
		return c.All(0)
	})
}

// byFormula returns a check of formulas, which needs no numbers.
func byFormula(check func() Finding) func(n *Numbers) Finding {
	return ofPaper("A matter of the formulas alone.", func(*Numbers) Finding { return check() })
}

// truth is the finding on something that the paper's own numbers or formulas decide.
func truth(is bool, evidence figures.Markup) Finding {
	if is {
		return Finding{Verdict: verdicts.Reproduced, Evidence: evidence}
	}
	return Finding{Verdict: verdicts.ContradictsItself, Evidence: evidence}
}

// counted is the finding on something that should hold of all.
func counted(holding, of int, evidence figures.Markup) Finding {
	f := truth(holding == of, evidence)
	f.Holding, f.Of = holding, of
	return f
}

// printed is truth for a formula that holds with another sign or symbol than the printed one.
func printed(is bool, evidence figures.Markup) Finding {
	f := truth(is, evidence)
	f.Misprint = !is
	return f
}

// figureIn reads the number that follows some text in a quote, NaN if there is none.
func figureIn(quote, after string) float64 {
	m := regexp.MustCompile(regexp.QuoteMeta(after) + `\D*?([0-9]+(\.[0-9]+)?)`).FindStringSubmatch(quote)
	if m == nil {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
