package evidence

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/figures"
)

// Claim is a sentence of the paper with a measurable content, or a check of its tables against themselves. It is data:
// claims.toml has the paper's, and one of the user's own is decided as those are:
//
//	evidence.Claim{Says: "sc1 mostly helps on CAR.", Table: 4, On: []string{"CAR"}, Is: evidence.Most,
//		Cells: []string{"cos/{con,lin}/{cos+sc1} - cos/{con,lin}/cos"}}
type Claim struct {
	Section string         // "Abstract", "§5.2", "App. C", …, with its figure if it is about one: "§5.4, Fig. 5".
	Says    figures.Markup // As printed, shortened; empty for a check of tables, which no sentence makes.
	Asks    figures.Markup // How the words are read.

	// Table has the numbers, On are the paper's data sets, and Cells the differences, as claims.toml explains. Measure is
	// one of package report or of package paper, "every recall" of Table 5, or "" for Recall@1. At is "each rate" or
	// "lowest rate" of a sweep.
	Table       int
	On, Cells   []string
	Measure, At string
	// Is says when the sentence holds: at which differences to Bound, for [Several] of at least Need cells.
	Is    Comparator
	Bound float64
	Need  int
	// Given is a difference that must be told from 0 for the claim to apply to a data set, "" if it always does.
	Given string

	Only    string         // "print" or "runs", if only these numbers bear on it.
	Because figures.Markup // Why the others do not.
	// Fact is the finding of a claim without cells, on the print itself or on formulas, about Tables.
	Fact   *Finding
	Tables []int
}

// Comparator says of how many cells a claim speaks, and what it says of each.
type Comparator string

// The comparators.
const (
	Above   Comparator = "above"   // Each is above the bound.
	Most    Comparator = "most"    // More than half are.
	Several Comparator = "several" // At least Need are.
	Nowhere Comparator = "none"    // None is.
	Within  Comparator = "within"  // None is further from 0 than the bound, by two one-sided tests.
	Opposed Comparator = "opposed" // At least Need have opposite signs on the claim's two sets.
)

//go:embed claims.toml
var claimsFile string

var paperClaims = sync.OnceValue(func() []Claim {
	var file struct{ Claim []Claim }
	if _, err := toml.Decode(claimsFile, &file); err != nil {
		panic(err) // It is the package's own.
	}
	return file.Claim
})

// Claims returns the paper's claims, in its order.
func Claims() []Claim { return slices.Clone(paperClaims()) }

// Finding is what one kind of numbers says about a claim, with the numbers that it rests on. On printed numbers a
// comparison is decided by its means, on measured ones by its noise.
type Finding struct {
	Verdict  Verdict
	Evidence figures.Markup
	// Count is the beginning of the evidence: how many comparisons hold.
	Count figures.Markup
	// Of comparisons, Holding hold and Opposite are to the contrary, on runs each by itself beyond noise. Missing lack a
	// run.
	Of, Holding, Opposite, Missing int
	Misprint                       bool // With another sign or symbol the paper's formula would hold.
	// Times is how many times as many seeds would decide what is undecided, if the differences are what these show; 0
	// if nothing would, or if all is decided.
	Times int
	// Cells are the compared cells, and Decided is what the verdict rests on.
	Cells   []Cell
	Each    []Verdict // On each cell by itself.
	Decided Decision
	// Open is the comparison that an undecided verdict, or one in part, lacks to be reproduced.
	Open Decision
}

// Complete reports whether the finding rests on all of its runs, and is no verdict without any.
func (f Finding) Complete() bool { return f.Verdict != NotRun && f.Verdict != None && f.Missing == 0 }

// find returns what numbers say about the claim.
func (n *Numbers) find(c Claim) Finding {
	switch {
	case n.measured && (c.Fact != nil || c.Only == "print"), !n.measured && c.Only == "runs":
		return Finding{Verdict: None, Evidence: c.Because}
	case c.Fact != nil:
		return *c.Fact
	}
	cells, apart := n.cells(c)
	f := Finding{Cells: cells, Missing: slice.Count(cells, func(c Cell) bool { return c.Missing })}
	switch {
	case slice.Count(cells, Cell.open) < len(cells):
		n.decide(c, &f)
	case f.Missing > 0:
		f.Verdict, f.Evidence = NotRun, fmt.Sprintf("%d cells.", f.Missing)
	case len(cells) > 0:
		f.Verdict, f.Evidence = None, fmt.Sprintf("All of %d cells diverged.", len(cells))
	case apart:
		f.Verdict, f.Evidence = None, "The two have no learning rate in common."
	case c.Given != "":
		f.Verdict, f.Evidence = None, "It does not apply: "+c.Given+" is not told from 0."
	default:
		f.Verdict, f.Evidence = None, "No such numbers."
	}
	return f
}

// mostTimes is the largest factor of the number of seeds that is looked at.
const mostTimes = 100

// decide sets the verdict on the claim by its cells, and the evidence for it in words.
func (n *Numbers) decide(c Claim, f *Finding) {
	of := c.compare(f.Cells, n.measured)
	need := len(of)
	switch c.Is {
	case Most:
		need = len(of)/2 + 1
	case Several, Opposed:
		need = c.Need
	}
	var at, tests int
	f.Verdict, at, tests = Decide(need, of)
	group := len(f.Cells) / len(of) // Cells of a comparison.
	var shown []Cell
	for i, one := range of {
		each, _, _ := Decide(1, of[i:i+1])
		f.Each = append(f.Each, slices.Repeat([]Verdict{each}, group)...)
		if f.Cells[i*group].open() {
			continue
		}
		f.Of++
		if one.Yes() {
			f.Holding++
		} else if one.No() {
			f.Opposite++
		}
		shown = append(shown, f.Cells[i*group:(i+1)*group]...)
	}
	f.Decided = c.decision(f.Cells[at*group], tests)
	if !n.measured && f.Verdict == Contradicted {
		f.Verdict = ContradictsItself
	}
	if f.Verdict == Undecided || f.Verdict == InPart {
		_, open, tests := atLeast(need, of, func(c Comparison) float64 { return c.Holds })
		f.Open = c.decision(f.Cells[open*group], tests)
		for times := 2; times <= mostTimes && f.Times == 0 && !n.short; times++ {
			more := slices.Clone(f.Cells)
			for i := range more {
				more[i].Test = more[i].Test.WithRuns(float64(times))
			}
			if v, _, _ := Decide(need, c.compare(more, n.measured)); v == Reproduced || v == Contradicted {
				f.Times = times
			}
		}
	}
	f.Count = c.counted(*f, n.measured)
	f.Evidence = f.words(shown)
}

// compare returns the comparisons of the claim. A cell of which all runs diverged decides nothing.
func (c Claim) compare(cells []Cell, measured bool) []Comparison {
	var out []Comparison
	for _, cell := range cells {
		above, below := cell.above(c.Bound, measured), cell.above(-c.Bound, measured).reversed()
		switch {
		case cell.open():
			out = append(out, Comparison{1, 1, cell.Missing, false})
		case c.Is == Nowhere:
			out = append(out, above.reversed())
		case c.Is == Within && !measured:
			out = append(out, exact(max(cell.Test.Difference.Value, -cell.Test.Difference.Value) <= c.Bound+slack))
		case c.Is == Within:
			out = append(out, Comparison{Holds: max(above.Opposite, below.Opposite), Opposite: min(above.Holds, below.Holds)})
		default:
			out = append(out, above)
		}
	}
	if c.Is != Opposed {
		return out
	}
	var pairs []Comparison
	for i := 0; i+1 < len(out); i += 2 {
		if cells[i].open() {
			pairs = append(pairs, out[i])
			continue
		}
		up, down := out[i:i+2], []Comparison{}
		for _, cell := range cells[i : i+2] {
			cell.Test.Difference.Value = -cell.Test.Difference.Value
			down = append(down, cell.above(c.Bound, measured))
		}
		pairs = append(pairs, Comparison{
			Holds:    min(max(up[0].Holds, down[1].Holds), max(down[0].Holds, up[1].Holds)),
			Opposite: min(max(up[0].Holds, up[1].Holds), max(down[0].Holds, down[1].Holds))})
	}
	return pairs
}

// counted says how many cells hold.
func (c Claim) counted(f Finding, measured bool) figures.Markup {
	unit := "cells"
	if c.Is == Opposed {
		unit = "pairs of cells"
	} else if f.Of == 1 {
		unit = "cell"
	}
	text := fmt.Sprintf("%d of %d %s", f.Holding, f.Of, unit)
	if measured {
		text += " beyond noise"
		if f.Opposite > 0 {
			text += fmt.Sprintf(", %d to the contrary", f.Opposite)
		}
	}
	return text
}

// words adds the smallest and the largest difference to the number of cells.
func (f Finding) words(shown []Cell) figures.Markup {
	text := f.Count
	low, high := slices.MinFunc(shown, byDifference), slices.MaxFunc(shown, byDifference)
	if f.Of == 1 {
		text += ": " + low.String()
	} else {
		text += fmt.Sprintf("; lowest %s, highest %s", low, high)
	}
	diverged := slice.Count(f.Cells, func(c Cell) bool { return c.Diverged })
	for _, more := range []struct {
		n    int
		what string
	}{{diverged, "%d more diverged"}, {f.Missing, "%d more not run yet"},
		{f.Times, "%d times the seeds would decide, if the differences stay"}} {
		if more.n > 0 {
			text += "; " + fmt.Sprintf(more.what, more.n)
		}
	}
	return text + "."
}

// tables returns the paper's tables that the claim is about.
func (c Claim) tables() []int {
	out := slice.AddNew(slices.Clone(c.Tables), c.Table)
	for _, text := range c.Cells {
		for _, word := range strings.Fields(text) {
			prefix, _, _ := strings.Cut(word, ":")
			if table, err := strconv.Atoi(prefix); err == nil {
				out = slice.AddNew(out, table)
			}
		}
	}
	return slices.DeleteFunc(out, func(table int) bool { return table < 1 })
}
