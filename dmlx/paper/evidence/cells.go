package evidence

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// Term is a number with its weight in a difference.
type Term struct {
	Weight float64
	Of     scores.Row   // As [Numbers] knows it.
	Seeds  scores.Table // A row for each seed.
}

// Cell is a difference that is compared with a bound: of two numbers, or of several.
type Cell struct {
	Name  figures.Markup
	Terms []Term
	Test  stats.Test // Its error is unknown for numbers without a deviation.
	// Missing lacks a run, and Diverged lacks a finite one.
	Missing, Diverged bool
}

// open reports whether nothing is known of the difference.
func (c Cell) open() bool { return c.Missing || c.Diverged }

func (c Cell) String() string {
	d := c.Test.Difference
	text := figures.Signed(d.Value)
	if !math.IsNaN(d.Low) {
		text += fmt.Sprintf(" [%s,\u00a0%s]", figures.Signed(d.Low), figures.Signed(d.High))
	}
	return fmt.Sprintf("%s (%s)", text, c.Name)
}

func byDifference(a, b Cell) int {
	return cmp.Compare(a.Test.Difference.Value, b.Test.Difference.Value)
}

// slack absorbs rounding in a difference of printed numbers.
const slack = 1e-9

// above compares the difference with a bound: whether it is larger. Printed numbers count by their means.
func (c Cell) above(bound float64, measured bool) Comparison {
	if !measured {
		return exact(c.Test.Difference.Value > bound+slack)
	}
	other := c.Test
	other.Difference.Value = -other.Difference.Value
	return Comparison{Holds: c.Test.Above(bound), Opposite: other.Above(-bound)}
}

// cells returns the cells of a claim, for each of its differences one on each data set. Apart reports whether there are
// some whose learning rates are not comparable.
func (n *Numbers) cells(c Claim) (out []Cell, apart bool) {
	sets := c.On
	if len(sets) == 0 {
		sets = []string{""} // Each number says its own.
	}
	for _, text := range slices.Concat(slice.Map(c.Cells, expand)...) {
		var group []Cell
		for _, set := range sets {
			if !n.applies(c, set) {
				continue
			}
			for _, measure := range n.measures(c, set) {
				own := sum{n: n, table: c.Table, set: set, measure: measure}
				more, comparable := own.cells(text, c.At)
				group, apart = append(group, more...), apart || !comparable
			}
		}
		if c.Is == Opposed {
			if len(group) != 2 {
				continue
			}
			group[0].Missing = group[0].Missing || group[1].Missing
			group[0].Diverged = !group[0].Missing && (group[0].Diverged || group[1].Diverged)
			group[1].Missing, group[1].Diverged = group[0].Missing, group[0].Diverged
		}
		out = append(out, group...)
	}
	return out, apart
}

// applies reports whether a claim applies to a data set: not if what it is given is there and not told from 0.
func (n *Numbers) applies(c Claim, set string) bool {
	if c.Given == "" {
		return true
	}
	s := sum{n: n, table: c.Table, set: set, measure: report.Recall(1)}
	given, _ := s.cells(c.Given, "")
	if len(given) == 0 || given[0].open() {
		return true
	}
	above := given[0].above(0, n.measured)
	return above.Yes() || above.No()
}

// measures returns the measures that a claim is about on a data set.
func (n *Numbers) measures(c Claim, set string) []string {
	if c.Measure == "every recall" {
		return scores.Printed().Select(scores.Row{Table: c.Table, Role: set}).Values(scores.Measure.Of)
	}
	return []string{cmp.Or(c.Measure, report.Recall(1))}
}

// expand returns a text once for each word of its braces, with the word in their place.
func expand(text string) (out []string) {
	from, to := strings.Index(text, "{"), strings.Index(text, "}")
	if from < 0 || to < from {
		return []string{text}
	}
	braces := text[from : to+1]
	for word := range strings.SplitSeq(strings.Trim(braces, "{}"), ",") {
		out = append(out, expand(strings.ReplaceAll(text, braces, word))...)
	}
	return out
}

// sum reads a difference from its text.
type sum struct {
	n            *Numbers
	table        int
	set, measure string

	terms             []Term
	missing, diverged bool // A number is not there, or has no finite run.
	absent            bool // A data set or row is none of these numbers'.
}

// cells returns the cells of a text, several for a sweep that is compared at each rate. It reports whether the rates
// are comparable.
func (s sum) cells(text, at string) ([]Cell, bool) {
	if at == "" {
		s.read(text)
		return s.cell(text), true
	}
	a, b, _ := strings.Cut(text, " - ")
	ours, others := s.rows(a), s.rows(b)
	if ours == nil || others == nil {
		return nil, true
	}
	pair := func(a, b scores.Row, rate string) []Cell {
		one := s
		one.terms = []Term{s.n.term(1, a), s.n.term(-1, b)}
		return one.cell(text + rate)
	}
	rates := func(of scores.Table) []string { return of.Values(scores.LR.Of) }
	switch {
	case at == "lowest rate":
		if ours[0].LR != others[0].LR {
			return nil, false
		}
		return pair(ours[0], others[0], ""), true
	case ours[0].LR == 0 || others[0].LR == 0:
		return []Cell{{Missing: true}}, true
	case slices.Equal(rates(ours), rates(others)):
		var out []Cell
		for i := range ours {
			out = append(out, pair(ours[i], others[i], fmt.Sprintf(", lr %g", ours[i].LR))...)
		}
		return out, true
	}
	// Of different grids, as for families of pair weights in our runs, each has its best rate on held-out classes.
	best, there := s.n.bestHeldOut(ours)
	other, too := s.n.bestHeldOut(others)
	if !there || !too {
		return nil, false
	}
	return pair(best, other, fmt.Sprintf(", lr %g and %g, chosen on held-out classes", best.LR, other.LR)), true
}

// read adds the terms of a text, such as "0.5 a - |best b - c|".
func (s *sum) read(text string) {
	sign, weight, function, outer, first := 1.0, 1.0, "", 0.0, 0 // Of a part between bars, outer is the sign.
	for word := range strings.FieldsSeq(text) {
		if v, err := strconv.ParseFloat(word, 64); err == nil {
			weight = v
			continue
		}
		switch word {
		case "-":
			sign = -1
			continue
		case "best", "range", "drop":
			function = word
			continue
		}
		inner, opens := strings.CutPrefix(word, "|")
		if opens {
			outer, sign, first = sign, 1, len(s.terms)
		}
		inner, closes := strings.CutSuffix(inner, "|")
		s.add(sign*weight, function, inner)
		sign, weight, function = 1, 1, ""
		if closes {
			value := 0.0
			for _, t := range s.terms[first:] {
				value += t.Weight * s.n.Of(t.Of).Mean
			}
			if value < 0 {
				outer = -outer
			}
			for i := range s.terms[first:] {
				s.terms[first+i].Weight *= outer
			}
		}
	}
}

// add adds a function of some numbers.
func (s *sum) add(weight float64, function, text string) {
	rows := s.rows(text)
	if rows == nil {
		s.absent = true
		return
	}
	for _, r := range rows {
		if m := s.n.Of(r); function == "range" && m.N == 0 { // The best is of those that are there, a range of all.
			s.missing, s.diverged = s.missing || m.Diverged == 0, s.diverged || m.Diverged > 0
		}
	}
	high, there := s.n.best(1, rows)
	low, _ := s.n.best(-1, rows)
	switch function {
	case "best":
		s.missing = s.missing || !there
		s.terms = append(s.terms, s.n.term(weight, high))
	case "range":
		s.terms = append(s.terms, s.n.term(weight, high), s.n.term(-weight, low))
	case "drop":
		s.terms = append(s.terms, s.n.term(weight, rows[0]), s.n.term(-weight, rows[len(rows)-1]))
	default:
		s.terms = append(s.terms, s.n.term(weight, rows[0]))
	}
}

// rows returns the numbers of a text such as "CAR:cos/[con,lin]/con", in a sweep by rising rate. It returns none for a
// data set or a row of Table 5 that these numbers do not have.
func (s *sum) rows(text string) scores.Table {
	key := scores.Row{Table: s.table, Role: s.set, Measure: s.measure}
	if prefix, rest, cut := strings.Cut(text, ":"); cut {
		if table, err := strconv.Atoi(prefix); err == nil {
			key.Table = table
		} else {
			key.Role = prefix
		}
		text = rest
	}
	if s.n.labels[key.Role] == "" {
		return nil
	}
	if key.Table == 5 {
		method, times, _ := strings.Cut(text, "×")
		key.Times, _ = strconv.Atoi(times)
		return s.n.rows.Select(key).Where(func(r scores.Row) bool {
			if method == "literature" {
				return r.Rule == ""
			}
			return r.Method == method && (r.Rule != "" || !s.n.measured)
		})
	}
	words := []string{""}
	from, to := strings.Index(text, "["), strings.Index(text, "]")
	if from >= 0 && to > from {
		words = strings.Split(text[from+1:to], ",")
	} else {
		from, to = 0, -1
	}
	var out scores.Table
	for _, word := range words {
		one := key
		one.Rule = text[:from] + word + text[to+1:]
		if key.Table > 5 {
			out = append(out, s.n.swept(one)...)
		} else {
			out = append(out, one)
		}
	}
	return out
}

// term returns a number with a weight.
func (n *Numbers) term(weight float64, of scores.Row) Term { return Term{weight, of, n.of[key(of)]} }

// cell returns the sum as a cell, none if a data set or row is absent.
func (s *sum) cell(text string) []Cell {
	if s.absent {
		return nil
	}
	c := Cell{Name: s.name(text), Terms: s.terms, Missing: s.missing, Diverged: s.diverged}
	value, variance, parts := 0.0, 0.0, 0.0
	for _, t := range s.terms {
		m := s.n.Of(t.Of)
		c.Missing = c.Missing || m.N == 0 && m.Diverged == 0 || m.N > 0 && math.IsNaN(m.Mean)
		c.Diverged = c.Diverged || m.N == 0 && m.Diverged > 0
		value += t.Weight * m.Mean
		v, freedom := m.Std*m.Std/float64(m.N), float64(m.N-1)
		if m.N < 2 || m.Std == 0 && s.n.measured { // Equal runs, as at a share of 100 %, are no estimate.
			noise, known := s.n.noise[noiseKey(t.Of)]
			if v, freedom = noise.Std*noise.Std, float64(noise.Freedom); !known {
				v = math.NaN()
			}
		}
		v *= t.Weight * t.Weight
		variance, parts = variance+v, parts+v*v/freedom
	}
	c.Diverged = c.Diverged && !c.Missing
	if c.Test = stats.Untested(value); variance > 0 { // It is 0 of a few runs that are equal: no estimate.
		c.Test = stats.TestOf(value, variance, variance*variance/parts)
	}
	return []Cell{c}
}

var brackets = regexp.MustCompile(`\[.*?\]`)

// name returns the text of a difference with its data set, and with the rows that best has picked.
func (s *sum) name(text string) figures.Markup {
	if strings.Contains(text, "best") && len(s.terms) == 2 {
		names := []string{"", ""}
		for i, t := range s.terms {
			names[i] = cmp.Or(t.Of.Method, t.Of.Rule)
			if t.Of.Times > 1 {
				names[i] += fmt.Sprintf("×%d", t.Of.Times)
			}
		}
		text = strings.Join(names, " − ")
	}
	text = brackets.ReplaceAllString(strings.ReplaceAll(text, " - ", " − "), "[…]")
	if s.measure != report.Recall(1) && strings.HasPrefix(s.measure, "R@") {
		text += ", " + s.measure
	}
	if s.set != "" {
		text += ", " + s.n.labels[s.set]
	}
	return text
}

// decision returns what a cell decides, corrected for a number of tests.
func (c Claim) decision(cell Cell, tests int) Decision {
	d := Decision{Cell: cell.Name, Difference: cell.Test.At(level / float64(tests)), P: cell.Test.P, Tests: tests,
		Detectable: cell.Test.Detectable(level / float64(tests)), Bound: c.Bound}
	if c.Bound != 0 && c.Is != Within && !math.IsNaN(d.P) {
		above := cell.Test.Above(c.Bound)
		d.P = 2 * min(above, 1-above)
	}
	return d
}
