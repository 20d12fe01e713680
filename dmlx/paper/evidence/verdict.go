package evidence

import (
	"cmp"
	"image/color"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/figures"
)

// Verdict is what evidence says about an entry of the paper. It belongs to a [Setting].
type Verdict string

// The verdicts.
const (
	Reproduced        Verdict = "reproduced"
	InPart            Verdict = "in part"
	Undecided         Verdict = "undecided"
	NoDifference      Verdict = "no difference in either"
	Contradicted      Verdict = "contradicted"
	ContradictsItself Verdict = "contradicts itself"
	DifferentSetting  Verdict = "different setting"
	NotRun            Verdict = "not run"
	// None is a finding on one kind of numbers that do not bear on the entry, never the verdict of an entry.
	None Verdict = "–"
)

// Meaning is a verdict with what it says, in a line, and its color. One that says nothing has none.
type Meaning struct {
	Verdict
	Says string
	Tone color.NRGBA
}

// Meanings are the verdicts of entries, in the order of tables.
var Meanings = []Meaning{
	{Reproduced, "everything that the entry says holds in our runs, beyond noise", figures.Confirming},
	{InPart, "some of what it says holds beyond noise, nothing decides the rest", figures.Divided},
	{Undecided, "the noise of our seeds, or the paper's own, is as large as the difference, or the runs are too short",
		figures.Undecided},
	{NoDifference, "the paper has no difference, and ours is shown to be below 1 point", figures.Confirming},
	{Contradicted, "our runs show the opposite beyond noise, in their setting", figures.Opposing},
	{ContradictsItself, "the paper's own numbers or formulas show the opposite: an exception or a misprint",
		figures.Divided},
	{DifferentSetting, "nothing of it can be compared with our runs", color.NRGBA{}},
	{NotRun, "no runs of it are available", color.NRGBA{}},
}

// order returns the place of a verdict among [Meanings].
func (v Verdict) order() int {
	return slices.IndexFunc(Meanings, func(m Meaning) bool { return m.Verdict == v })
}

// Cell returns a cell with the verdict in its color.
func (v Verdict) Cell() figures.Cell {
	c := figures.Text(string(v))
	if i := v.order(); i >= 0 {
		c.Background = Meanings[i].Tone
	}
	return c
}

// onPrint returns the word for a finding on the paper's own numbers, which reproduce nothing.
func (v Verdict) onPrint() string {
	if v == Reproduced {
		return "holds"
	}
	return string(v)
}

// Setting is where evidence comes from. Counts of different settings are never added up.
type Setting string

// The settings, in the order of tables. Drawn images and photographs cannot contradict the paper, which says nothing
// about other images and another network.
const (
	Drawn       Setting = "drawn images"
	Photographs Setting = "photographs"
	PapersOwn   Setting = "the paper's own setting"
	Print       Setting = "the paper's own numbers and formulas"
	NoSetting   Setting = "" // Nothing was run.
)

var settings = []Setting{Drawn, Photographs, PapersOwn, Print, NoSetting}

const (
	// level is the two-sided level of a family of tests.
	level = 0.05
	// Margin is the number of points of Recall@1 within which two numbers are "almost the same".
	Margin = 1.0
)

// Comparison has the one-sided p-values of what an entry says of a cell and of the opposite: the smaller, the less the
// noise can explain it. Both are 1 for a cell that was not run, or whose noise is unknown.
type Comparison struct {
	Holds, Opposite float64
	Missing         bool // It was not run.
	// Null says that the paper itself has no difference here. Holds is then the p-value of an equivalence test.
	Null bool
}

// Unknown is a comparison that decides nothing.
var Unknown = Comparison{Holds: 1, Opposite: 1}

// exact is a comparison without noise, as between printed numbers.
func exact(holds bool) Comparison {
	if holds {
		return Comparison{Holds: 0, Opposite: 1}
	}
	return Comparison{Holds: 1, Opposite: 0}
}

func (c Comparison) reversed() Comparison {
	c.Holds, c.Opposite = c.Opposite, c.Holds
	return c
}

// Yes reports whether the comparison by itself holds beyond noise, and No whether the opposite does.
func (c Comparison) Yes() bool { return c.Holds <= level/2 }

// No reports whether the comparison by itself shows the opposite beyond noise.
func (c Comparison) No() bool { return c.Opposite <= level/2 }

// Decide returns the verdict on an entry that says that at least need of its comparisons hold: all, more than half, or
// some number. It tests that and its opposite by partial conjunction (Benjamini and Heller, Biometrics 64, 2008), which
// corrects for the number of comparisons. It is [NotRun] without any, or if all are missing. Evidence that speaks more
// for the entry never has a worse verdict. It also returns the comparison on which the decision rests, and the number
// of tests that its p-value was corrected for.
func Decide(need int, of []Comparison) (v Verdict, at, tests int) {
	if !slices.ContainsFunc(of, func(c Comparison) bool { return !c.Missing }) {
		return NotRun, -1, 0
	}
	need = min(max(need, 1), len(of))
	null := !slices.ContainsFunc(of, func(c Comparison) bool { return !c.Null })
	holds := func(c Comparison) float64 { return c.Holds }
	p, at, tests := atLeast(need, of, holds)
	if p <= level/2 {
		if null {
			return NoDifference, at, tests
		}
		return Reproduced, at, tests
	}
	if p, at, tests := atLeast(len(of)-need+1, of, func(c Comparison) float64 { return c.Opposite }); p <= level/2 {
		return Contradicted, at, tests
	}
	if p, at, tests := atLeast(1, of, holds); p <= level/2 {
		return InPart, at, tests
	}
	return Undecided, at, tests
}

// atLeast returns the p-value of at least n of some hypotheses being true, from the p-value of each: n is 1 for any of
// them (Bonferroni) and their number for all (the largest p-value). It also returns the hypothesis whose p-value it is,
// and the number that this was multiplied by.
func atLeast(n int, of []Comparison, p func(Comparison) float64) (value float64, at, tests int) {
	order := make([]int, len(of))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p(of[a]), p(of[b])) })
	at, tests = order[n-1], len(of)-n+1
	return math.Min(1, float64(tests)*p(of[at])), at, tests
}

// Together returns the verdict on an entry that says what several others say.
func Together(of []Verdict) Verdict {
	count := make(map[Verdict]int)
	for _, v := range of {
		count[v]++
	}
	first := func(of ...Verdict) Verdict { // That occurs.
		if i := slices.IndexFunc(of, func(v Verdict) bool { return count[v] > 0 }); i >= 0 {
			return of[i]
		}
		return DifferentSetting
	}
	switch v := first(Contradicted, ContradictsItself); {
	case v != DifferentSetting:
		return v
	case count[Reproduced] > 0 && count[Reproduced]+count[NoDifference] == len(of):
		return Reproduced
	case count[Reproduced]+count[InPart] > 0:
		return InPart
	}
	return first(Undecided, NoDifference, NotRun)
}

// overall returns the verdict on an entry, with its setting: that of runs if they bear on it, else that of the paper's
// own numbers.
func overall(paper, runs Verdict, of Setting) (Verdict, Setting) {
	switch {
	case runs == NotRun:
		return NotRun, NoSetting
	case runs != None:
		return runs, of
	case paper == None:
		return DifferentSetting, Print
	}
	return paper, Print
}
