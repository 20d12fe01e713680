package claims

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/figures"
	"gonum.org/v1/gonum/stat/distuv"
)

// term is a number with its weight in a sum.
type term struct {
	weight float64
	fact   Fact
}

// difference is a sum of weighted numbers with half the width of its 95 % interval, NaN if that is unknown.
type difference struct {
	what        figures.Markup
	value, half float64
}

func (d difference) String() string {
	if math.IsNaN(d.half) {
		return fmt.Sprintf("%s (%s)", signed(d.value), d.what)
	}
	return fmt.Sprintf("%s [%s,\u00a0%s] (%s)", signed(d.value), signed(d.value-d.half), signed(d.value+d.half), d.what)
}

func signed(v float64) string {
	return strings.ReplaceAll(strings.ReplaceAll(fmt.Sprintf("%+.1f", v), "-0.0", "+0.0"), "-", "−")
}

// Comparisons are the comparisons, or cells, that decide a claim; see [Compare].
type Comparisons struct {
	n    *Numbers
	list []difference
	// missing counts comparisons that lack a run, diverged those without a finite run.
	missing, diverged int
}

// Above adds a comparison of two numbers: a less b. The label says of what, "cos on CAR". A fact without a metric is
// Recall@1. A number that is not there counts as not run yet.
func (c *Comparisons) Above(what figures.Markup, a, b Fact) { c.sum(what, term{1, a}, term{-1, b}) }

// sum adds a comparison of several numbers by their weighted sum, with the interval of Welch and Satterthwaite. A
// measured number of a single seed takes the pooled deviation of its data set's other cells.
func (c *Comparisons) sum(what figures.Markup, terms ...term) {
	d := difference{what: what}
	variance, parts := 0.0, 0.0
	for _, t := range terms {
		if t.fact.Metric == "" {
			t.fact.Metric = "R@1"
		}
		s, there := c.n.facts[t.fact]
		if there && s.N == 0 && s.Diverged > 0 {
			c.diverged++
			return
		}
		if !there || s.N == 0 || math.IsNaN(s.Mean) {
			c.missing++
			return
		}
		d.value += t.weight * s.Mean
		v, freedom := s.Std*s.Std/float64(s.N), float64(s.N-1)
		if s.N < 2 {
			p, known := c.n.pooled[t.fact.Data+" "+t.fact.Metric]
			v, freedom = math.NaN(), 1
			if known {
				v, freedom = p.variance, p.freedom
			}
		}
		v *= t.weight * t.weight
		variance += v
		parts += v * v / freedom
	}
	switch {
	case math.IsNaN(variance):
		d.half = math.NaN()
	case variance > 0:
		d.half = distuv.StudentsT{Sigma: 1, Nu: variance * variance / parts}.Quantile(0.975) * math.Sqrt(variance)
	}
	c.list = append(c.list, d)
}

// answer says whether a comparison agrees with the claim.
type answer int

const (
	open answer = iota
	yes
	no
)

// slack absorbs rounding in a difference of printed numbers.
const slack = 1e-9

// isAbove tells whether a difference is above a bound.
func (c *Comparisons) isAbove(d difference, bound float64) answer {
	switch {
	case !c.n.measured && d.value > bound+slack, c.n.measured && d.value-d.half > bound:
		return yes
	case !c.n.measured, d.value+d.half < bound:
		return no
	}
	return open
}

func reversed(a answer) answer { return map[answer]answer{yes: no, no: yes, open: open}[a] }

// isWithin tells whether the size of a difference is at most a bound.
func (c *Comparisons) isWithin(d difference, bound float64) answer {
	d.value = math.Abs(d.value)
	return reversed(c.isAbove(d, bound))
}

// All decides a claim that each cell is above a bound.
func (c *Comparisons) All(bound float64) Finding {
	return c.judge(func(d difference) answer { return c.isAbove(d, bound) }, false)
}

// allAbove decides a claim that each cell is above 0.
func (c *Comparisons) allAbove() Finding { return c.All(0) }

// several decides a claim that at least n cells are above a bound.
func (c *Comparisons) several(n int, bound float64) Finding {
	f := c.All(bound)
	if f.Verdict != Mixed && f.Verdict != Fails && f.Verdict != WithinNoise {
		return f
	}
	count := make(map[answer]int)
	for _, d := range c.list {
		count[c.isAbove(d, bound)]++
	}
	switch {
	case count[yes] >= n:
		f.Verdict = Holds
	case count[yes]+count[open] >= n:
		f.Verdict = WithinNoise
	default:
		f.Verdict = Fails
	}
	return f
}

// None decides a claim that no cell is above a bound.
func (c *Comparisons) None(bound float64) Finding {
	return c.judge(func(d difference) answer { return reversed(c.isAbove(d, bound)) }, false)
}

// Most decides a claim that more than half of the cells are above 0.
func (c *Comparisons) Most() Finding {
	return c.judge(func(d difference) answer { return c.isAbove(d, 0) }, true)
}

// Within decides a claim that no cell is further from 0 than a bound.
func (c *Comparisons) Within(bound float64) Finding {
	return c.judge(func(d difference) answer { return c.isWithin(d, bound) }, false)
}

// judge turns the answers of all cells into a finding; most says that half of the cells are enough.
func (c *Comparisons) judge(is func(difference) answer, most bool) Finding {
	switch {
	case len(c.list) > 0:
	case c.missing > 0:
		return Finding{NotYetRun, fmt.Sprintf("%d cells.", c.missing)}
	case c.diverged > 0:
		return Finding{Uncheckable, fmt.Sprintf("All of %d cells diverged.", c.diverged)}
	default:
		return Finding{Uncheckable, "No such numbers."}
	}
	count := make(map[answer]int)
	for _, d := range c.list {
		count[is(d)]++
	}
	f := Finding{Verdict: Mixed}
	n := len(c.list)
	switch {
	case count[yes] == n, most && 2*count[yes] > n:
		f.Verdict = Holds
	case count[open] == n, most && 2*count[open] > n:
		f.Verdict = WithinNoise
	case count[yes] == 0 && !most, most && 2*count[no] >= n:
		f.Verdict = Fails
	}
	f.Evidence = c.words(count)
	return f
}

// words lists the number of cells and the smallest and the largest difference.
func (c *Comparisons) words(count map[answer]int) figures.Markup {
	low := slices.MinFunc(c.list, func(a, b difference) int { return cmp.Compare(a.value, b.value) })
	high := slices.MaxFunc(c.list, func(a, b difference) int { return cmp.Compare(a.value, b.value) })
	cellsOf := "cells"
	if len(c.list) == 1 {
		cellsOf = "cell"
	}
	text := fmt.Sprintf("%d of %d %s", count[yes], len(c.list), cellsOf)
	if c.n.measured {
		text += " beyond noise"
		if count[no] > 0 {
			text += fmt.Sprintf(", %d to the contrary", count[no])
		}
	}
	if len(c.list) == 1 {
		text += ": " + low.String()
	} else {
		text += fmt.Sprintf("; lowest %s, highest %s", low, high)
	}
	if c.diverged > 0 {
		text += fmt.Sprintf("; %d more diverged", c.diverged)
	}
	if c.missing > 0 {
		text += fmt.Sprintf("; %d"+moreNotRun, c.missing)
	}
	return text + "."
}

// on labels a cell with the data set that stands for one of the paper's.
func (n *Numbers) on(data string, labels ...figures.Markup) figures.Markup {
	return strings.Join(append(labels, n.labels[data]), ", ")
}

// atRate labels a place in the sweeps of two rules: their rate, or both rates where they differ.
func atRate(a, b float64) string {
	if a == b {
		return fmt.Sprintf("lr %g", a)
	}
	return fmt.Sprintf("lr %g and %g", a, b)
}

// overRates compares two rules of a sweep rate by rate, by the order of their rates where these differ.
func (c *Comparisons) overRates(table int, data, a, b string, label figures.Markup) {
	ra, rb := c.n.rates(table, data, a), c.n.rates(table, data, b)
	if len(ra) == 0 || len(ra) != len(rb) {
		c.missing++
		return
	}
	for i := range ra {
		c.Above(c.n.on(data, label, atRate(ra[i], rb[i])), Fact{Table: table, Data: data, Rule: a, LR: ra[i]},
			Fact{Table: table, Data: data, Rule: b, LR: rb[i]})
	}
}

const (
	clearly = 1.0 // The least points of a "clear" or "much" better number.
	little  = 1.0 // The most points between numbers that are "almost the same".
)

// ofPaper returns a check of the paper's own numbers alone.
func ofPaper(why figures.Markup, check func(n *Numbers) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding {
		if n.printed == nil {
			return Finding{Uncheckable, why}
		}
		return check(n)
	}
}

// ofRuns returns a check of runs alone.
func ofRuns(why figures.Markup, check func(c *Comparisons) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding {
		if !n.measured {
			return Finding{Uncheckable, why}
		}
		return check(&Comparisons{n: n})
	}
}

// Compare returns a check of a [Claim] by comparisons of numbers, the paper's or those of runs: the function adds them
// by [Comparisons.Above], and decides by [Comparisons.All] or another.
func Compare(check func(c *Comparisons) Finding) func(n *Numbers) Finding {
	return func(n *Numbers) Finding { return check(&Comparisons{n: n}) }
}

// byFormula returns a check of formulas, which needs no numbers.
func byFormula(check func() Finding) func(n *Numbers) Finding {
	return ofPaper("A matter of the formulas alone.", func(*Numbers) Finding { return check() })
}

// printed is truth for a formula that holds with another sign or symbol than the printed one.
func printed(is bool) Verdict {
	if is {
		return Holds
	}
	return Misprint
}

func truth(is bool) Verdict {
	if is {
		return Holds
	}
	return Fails
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
