// Package verdicts decides what evidence says about an entry of the paper: a printed number, a figure or a sentence.
// The ledger, the page of claims and the report all judge by [Decide].
//
// Evidence is a list of comparisons, each with the p-values of both answers. An entry says how many of them must hold:
// all ("in all cells"), more than half ("mostly"), or some number. [Decide] tests that, and its opposite, by partial
// conjunction (Benjamini and Heller, Biometrics 64, 2008), which corrects for the number of comparisons.
package verdicts

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/figures"
)

// Verdict is what evidence says about an entry of the paper. It belongs to a [Setting].
type Verdict string

// The verdicts.
const (
	// Reproduced: all comparisons that must hold do so, each beyond noise.
	Reproduced Verdict = "reproduced"
	// InPart: some comparisons hold beyond noise, and nothing decides the others.
	InPart Verdict = "in part"
	// Undecided: the noise of the seeds, or the paper's own, is as large as the difference.
	Undecided Verdict = "undecided"
	// NoDifference: the paper has no difference, and ours is shown to be smaller than [Margin].
	NoDifference Verdict = "no difference in either"
	// Contradicted: runs show the opposite beyond noise, in so many comparisons that the entry cannot hold there.
	Contradicted Verdict = "contradicted"
	// ContradictsItself: the paper's own numbers or formulas show the opposite: an exception, or a misprint.
	ContradictsItself Verdict = "contradicts itself"
	// DifferentSetting: nothing of the entry can be compared with our runs.
	DifferentSetting Verdict = "different setting"
	// NotRun: no runs of it are available.
	NotRun Verdict = "not run"
	// None: these numbers do not bear on the entry. It is a finding on one kind of numbers, never the verdict of an entry.
	None Verdict = "–"
)

// All lists the verdicts of entries, in the order of tables and pictures, each with its meaning in a line.
func All() []Verdict {
	return []Verdict{Reproduced, InPart, Undecided, NoDifference, Contradicted, ContradictsItself, DifferentSetting,
		NotRun}
}

// Meaning explains the verdict in a line.
func (v Verdict) Meaning() figures.Markup {
	return map[Verdict]figures.Markup{
		Reproduced:        "everything that the entry says holds in our runs, beyond noise",
		InPart:            "some of what it says holds beyond noise, nothing decides the rest",
		Undecided:         "the noise of our seeds, or the paper's own, is as large as the difference",
		NoDifference:      "the paper has no difference, and ours is shown to be below 1 point",
		Contradicted:      "our runs show the opposite beyond noise, in their setting",
		ContradictsItself: "the paper's own numbers or formulas show the opposite: an exception or a misprint",
		DifferentSetting:  "nothing of it can be compared with our runs",
		NotRun:            "no runs of it are available",
	}[v]
}

// Tone returns the color of the verdict; one that says nothing stays white.
func (v Verdict) Tone() color.NRGBA {
	switch v {
	case Reproduced, NoDifference:
		return figures.Confirming
	case InPart, ContradictsItself:
		return figures.Divided
	case Contradicted:
		return figures.Opposing
	case Undecided:
		return figures.Undecided
	}
	return color.NRGBA{}
}

// Cell returns a cell with a text in the color of the verdict.
func (v Verdict) Cell(text string) figures.Cell {
	return figures.Cell{Text: text, Background: v.Tone()}
}

// Counted returns a cell with how many entries have the verdict, in its color if there are some.
func (v Verdict) Counted(n int) figures.Cell {
	if n == 0 {
		return figures.Text("0")
	}
	return v.Cell(fmt.Sprint(n))
}

// OnPrint returns the word for a finding on the paper's own numbers, which reproduce nothing.
func (v Verdict) OnPrint() string {
	if v == Reproduced {
		return "holds"
	}
	return string(v)
}

// Letter returns the letter of the verdict in a picture.
func (v Verdict) Letter() string {
	return map[Verdict]string{Reproduced: "R", InPart: "P", Undecided: "U", NoDifference: "=", Contradicted: "C",
		ContradictsItself: "S", DifferentSetting: "D"}[v]
}

// Setting is where evidence comes from. Counts of different settings are never added up.
type Setting string

// The settings. Only [PapersOwn] and [Print] can contradict the paper; see [Setting.Bears].
const (
	Drawn       Setting = "drawn images"
	Photographs Setting = "photographs"
	PapersOwn   Setting = "the paper's own setting"
	Print       Setting = "the paper's own numbers and formulas"
	NoSetting   Setting = "" // Nothing was run.
)

// Settings lists the settings, in the order of tables.
func Settings() []Setting { return []Setting{Drawn, Photographs, PapersOwn, Print, NoSetting} }

// Short returns the setting in a word or two, for a picture and a terminal.
func (s Setting) Short() string {
	return map[Setting]string{Drawn: "drawn", Photographs: "photographs", PapersOwn: "paper's own", Print: "printed"}[s]
}

// Order returns the place of the setting in the list of [Settings].
func (s Setting) Order() int { return slices.Index(Settings(), s) }

// Bears reports whether evidence of the setting can contradict the paper: the paper says nothing about other images and
// another network, whatever these show.
func (s Setting) Bears() bool { return s == PapersOwn || s == Print }

const (
	// level is the one-sided level: a 95 % interval has it on either side.
	level = 0.025
	// Margin is the number of points of Recall@1 within which two numbers are "almost the same".
	Margin = 1.0
)

// Comparison is a cell of the evidence: the one-sided p-values of what the entry says there and of the opposite. The
// smaller, the less the noise can explain it. Both are 1 for a cell that was not run, or whose noise is unknown.
type Comparison struct {
	Holds, Opposite float64
	// Missing says that it was not run.
	Missing bool
	// Null says that the paper itself has no difference here. Holds is then the p-value of an equivalence test.
	Null bool
}

// Unknown is a comparison that decides nothing, since its noise is unknown.
func Unknown() Comparison { return Comparison{Holds: 1, Opposite: 1} }

// NotMade is a comparison whose runs are not available.
func NotMade() Comparison { return Comparison{Holds: 1, Opposite: 1, Missing: true} }

// Exact is a comparison without noise, as between printed numbers.
func Exact(holds bool) Comparison {
	if holds {
		return Comparison{Holds: 0, Opposite: 1}
	}
	return Comparison{Holds: 1, Opposite: 0}
}

// Reversed is the comparison for an entry that says the opposite.
func (c Comparison) Reversed() Comparison {
	c.Holds, c.Opposite = c.Opposite, c.Holds
	return c
}

// Yes reports whether the comparison by itself holds beyond noise, and No whether the opposite does.
func (c Comparison) Yes() bool { return c.Holds <= level }

// No reports whether the comparison by itself shows the opposite beyond noise.
func (c Comparison) No() bool { return c.Opposite <= level }

// Decide returns the verdict on an entry that says that at least need of its comparisons hold. It is [NotRun] without
// any, or if all are missing. Evidence that speaks more for the entry never has a worse verdict.
func Decide(need int, of []Comparison) Verdict {
	if !slices.ContainsFunc(of, func(c Comparison) bool { return !c.Missing }) {
		return NotRun
	}
	holds, opposite := make([]float64, len(of)), make([]float64, len(of))
	null := true
	for i, c := range of {
		holds[i], opposite[i] = c.Holds, c.Opposite
		null = null && c.Null
	}
	need = min(max(need, 1), len(of))
	switch most := AtLeast(need, holds) <= level; {
	case most && null:
		return NoDifference
	case most:
		return Reproduced
	case AtLeast(len(of)-need+1, opposite) <= level:
		return Contradicted
	case AtLeast(1, holds) <= level:
		return InPart
	}
	return Undecided
}

// AtLeast returns the p-value of at least n of some hypotheses being true, from the p-value of each: n is 1 for any of
// them (Bonferroni) and their number for all (the largest p-value).
func AtLeast(n int, p []float64) float64 {
	sorted := slices.Sorted(slices.Values(p))
	return math.Min(1, float64(len(p)-n+1)*sorted[n-1])
}

// Together returns the verdict on an entry that says what several others say.
func Together(of []Verdict) Verdict {
	count := make(map[Verdict]int)
	for _, v := range of {
		count[v]++
	}
	for _, v := range []Verdict{Contradicted, ContradictsItself} {
		if count[v] > 0 {
			return v
		}
	}
	switch {
	case count[Reproduced] > 0 && count[Reproduced]+count[NoDifference] == len(of):
		return Reproduced
	case count[Reproduced]+count[InPart] > 0:
		return InPart
	}
	for _, v := range []Verdict{Undecided, NoDifference, NotRun} {
		if count[v] > 0 {
			return v
		}
	}
	return DifferentSetting
}

// Overall returns the verdict on an entry, with its setting: that of runs if they bear on it, else that of the paper's
// own numbers.
func Overall(paper, runs Verdict, of Setting) (Verdict, Setting) {
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
