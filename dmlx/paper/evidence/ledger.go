// Package evidence gives every printed number of the paper, every figure and every measurable claim one verdict: what
// our runs say about it, and in which setting. [Of] reads the runs, [Judge] decides, and [Table] shows the entries.
//
// Numbers of another setting are not comparable by their value. What is comparable is the sign of a difference: of a
// number to the first row of its table, on the same data set. In the sweeps both are at the same learning rate, or each
// at its best one where their grids have none in common. Both differences, the paper's by its printed deviations and
// ours by seeds, are tested by Welch's t with Holm's correction for the numbers of a table. Where we have one seed, its
// noise is that of the data set's cells with several; where the paper prints no deviation, its sign counts. A claim is
// a list of such differences, and says how many of them must hold; see [Decide]. Each claim is its own family of tests:
// a difference that contradicts a claim about it alone may leave open one about several differences.
package evidence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/paper/formulas"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

// Runs are the runs of a preset that judge.
type Runs struct {
	Preset, Flags string // Flags ask for the preset on the command line.
	Setting       Setting
	Scores        scores.Table // Of Tables 2 to 8 and of the densities of triplets.
	Complete      map[int]bool // The tables of which all runs are there.
	// Unsettled runs do not meet the conditions of trained.md: a longer training may reverse their order, and the reasons
	// of their verdicts say so. Of these, Short runs show only how rules begin. They decide nothing about a recall, with
	// any number of seeds.
	Unsettled, Short bool
}

// judged are runs as numbers.
type judged struct {
	Runs
	known *Numbers
}

// Ledger has all entries, what the tests of each table can find, and a report of the runs.
type Ledger struct {
	Entries []Entry
	Powers  []Power
	report.Report
}

// Of returns the ledger by the available runs of the request's preset. It trains none. At the preset quick it takes
// the runs of [paper.FullPreset] where they are complete. There, entries of their own follow for what the runs of
// [paper.PhotographsPreset] and, where they are complete, of [paper.LongPhotographsPreset] have evidence of: no verdict
// mixes settings.
func Of(ctx context.Context, q report.Request) (*Ledger, error) {
	settings := [][]presets.Preset{{q.Preset}}
	if q.Preset.String() == "quick" {
		settings = [][]presets.Preset{{q.Preset, paper.FullPreset()},
			{paper.PhotographsPreset(), paper.LongPhotographsPreset()}}
	}
	l := new(Ledger)
	for i, of := range settings {
		if i > 0 {
			q.Seeds = nil
		}
		var runs []Runs
		for _, p := range of {
			q.Preset = p
			r, err := l.read(ctx, q)
			if err != nil {
				return nil, err
			}
			r.Unsettled = i > 0
			r.Short = i > 0 && len(runs) == 0 // photographs.md: after 150 steps no rule is above the frozen features.
			runs = append(runs, r)
		}
		entries, powers, err := Judge(Claims(), runs...)
		if err != nil {
			return nil, err
		}
		if i > 0 { // What is judged without them is there.
			entries = In(entries, runs[0].Setting)
			powers = slices.DeleteFunc(powers, func(p Power) bool { return p.Compared == 0 })
		}
		l.Entries, l.Powers = append(l.Entries, entries...), append(l.Powers, powers...)
	}
	return l, nil
}

// read returns the available runs of a request's preset, and adds them to the report.
func (l *Ledger) read(ctx context.Context, q report.Request) (Runs, error) {
	q.CachedOnly = true
	r := Runs{Preset: q.Preset.Name, Flags: paper.Flags(q.Preset), Setting: settingOf(q.Preset),
		Complete: make(map[int]bool)}
	var all []*paper.Table
	for table := 2; table <= 8; table++ {
		study, err := paper.ParseStudy(fmt.Sprintf("table%d", table))
		if err != nil {
			return r, err
		}
		t, err := paper.Reproduce(ctx, q.Open, q.Store, study, q.Preset, q.Options)
		if err != nil {
			return r, err
		}
		of := t.Scores()
		for i := range of {
			of[i].Table, of[i].Preset = table, q.Preset.Name
		}
		r.Scores, r.Complete[table] = append(r.Scores, of...), t.Missing == 0 && t.Runs > 0
		all = append(all, t)
		l.Runs += t.Runs
		l.Results = append(l.Results, t.Results()...)
	}
	densities, err := paper.DensityScores(ctx, q)
	r.Scores = append(r.Scores, densities...)
	if together := paper.Together(all...); len(together.Results()) > 0 || l.Provenance == "" {
		l.Provenance = strings.TrimPrefix(l.Provenance+"; "+together.Provenance(), "; ")
	}
	return r, err
}

// settingOf returns what the runs of a preset are evidence of.
func settingOf(p presets.Preset) Setting {
	switch {
	case p.Like("paper"):
		return PapersOwn
	case slices.Contains(datasets.Names(), p.FineGrained) && slices.Contains(datasets.Names(), p.CoarseGrained):
		return Drawn
	}
	return Photographs
}

// Judge returns an entry for each printed number, figure and claim, by runs of one setting, of which the last is the
// longest, and what the tests of Tables 2 to 8 can find. No verdict mixes presets: a table is judged by the last that
// has all runs of all its rows, or at least all runs that the presets before it have, since its numbers are compared
// with its first row and corrected together; a claim by the last that has all runs of it; and a figure by the verdicts
// of its claims. What none has all of is judged by the first.
func Judge(all []Claim, runs ...Runs) ([]Entry, []Power, error) {
	go formulaErrors() // For judgeFigures, meanwhile.
	of, err := numbersOf(runs)
	if err != nil {
		return nil, nil, err
	}
	entries, powers := judgeTables(of)
	printed, err := NumbersOf(scores.Printed())
	if err != nil {
		return nil, nil, err
	}
	claims := slice.Map(all, func(c Claim) Entry { return judgeClaim(c, printed, of) })
	figures, err := judgeFigures(claims)
	return slices.Concat(entries, figures, claims), powers, err
}

// numbersOf returns runs as numbers.
func numbersOf(runs []Runs) ([]*judged, error) {
	of := make([]*judged, len(runs))
	for i, r := range runs {
		n, err := NumbersOf(r.Scores)
		if err != nil {
			return nil, err
		}
		n.short = r.Short
		of[i] = &judged{r, n}
	}
	return of, nil
}

// judgeTables returns an entry for each printed number, and what the tests of each table can find.
func judgeTables(of []*judged) (entries []Entry, powers []Power) {
	for table := 2; table <= 8; table++ {
		by := of[0]
		for _, r := range of[1:] {
			if r.Complete[table] || r.covers(by, table) {
				by = r
			}
		}
		numbers := by.numbers(table)
		its := judge(numbers)
		for i := range its {
			by.complete(&its[i], table)
		}
		entries = append(entries, its...)
		powers = append(powers, assess(numbers, by.Preset))
	}
	return entries, powers
}

// covers reports whether the runs have all numbers of a table that others have, in as many seeds.
func (by *judged) covers(others *judged, table int) bool {
	rows := others.known.rows.Select(scores.Row{Table: table})
	return len(rows) > 0 && !slices.ContainsFunc(rows, func(r scores.Row) bool {
		return len(by.known.of[key(r)]) < len(others.known.of[key(r)])
	})
}

// complete fills in what an entry of a table has from the runs that judge it.
func (by *judged) complete(e *Entry, table int) {
	if e.Verdict != NotRun {
		e.Setting, e.Preset = by.Setting, by.Preset
	}
	by.early(e)
	by.qualify(e)
	e.Command = fmt.Sprintf("dmlx reproduce table%d %s", table, by.Flags)
	switch {
	case strings.HasPrefix(e.Why, "another paper's"):
		e.Command = ""
	case strings.HasPrefix(e.Why, "takes "):
		e.Command = "dmlx reproduce table5 --preset paper"
	}
}

// early leaves open what short runs decide about a recall, and says what they show.
func (by *judged) early(e *Entry) {
	shows := map[Verdict]figures.Markup{Contradicted: "opposite", Reproduced: "the same", InPart: "the same in part",
		NoDifference: "no difference in either"}[e.Verdict]
	if by.Short && shows != "" {
		e.Verdict, e.Why = Undecided, fmt.Sprintf("%s after %d steps", shows, e.Steps)
	}
}

// qualify marks a verdict that rests on unsettled runs.
func (by *judged) qualify(e *Entry) {
	if by.Unsettled && e.Verdict != NotRun && e.Verdict != DifferentSetting {
		e.notAtLength()
	}
}

// notAtLength adds to the reason of a verdict that its runs may still have been learning.
func (e *Entry) notAtLength() {
	e.unsettled, e.Why = true, strings.TrimPrefix(e.Why+"; not run at length", "; ")
}

// judgeClaim returns the entry of a claim. It has the verdict on runs, or on the paper's own numbers where no run bears
// on it.
func judgeClaim(c Claim, printed *Numbers, of []*judged) Entry {
	by, paper := of[0], printed.find(c)
	ours := by.known.find(c)
	for _, r := range of[1:] {
		if f := r.known.find(c); f.Complete() {
			by, ours = r, f
		}
	}
	if by != of[0] {
		ours.Evidence += fmt.Sprintf(" At `%s`.", by.Preset)
	}
	e := Entry{Place: "Claim, " + c.Section, Tables: c.tables(), What: c.Says, Asks: c.Asks,
		Paper: paper.Verdict.onPrint(), Ours: string(ours.Verdict), PaperEffect: paper.Evidence, OurEffect: ours.Evidence,
		Decided: undecidedBy, PaperFinding: paper, OurFinding: ours,
		Test:    "Welch's t, corrected for the number of cells",
		Command: "dmlx reproduce table" + strings.Join(slice.Map(c.tables(), strconv.Itoa), " table") + " " + by.Flags}
	if c.Says == "" {
		e.What = "The printed tables against themselves"
	}
	e.Verdict, e.Setting = overall(paper.Verdict, ours.Verdict, by.Setting)
	switch {
	case e.Verdict == NotRun:
		e.Why = "its runs are not in the store"
	case e.Verdict == DifferentSetting:
		e.Why = "its number is in no table and of no run"
	case e.Setting == Print:
		e.Why, e.Test, e.Command = "by the paper's own numbers: no run bears on it", "as printed", "dmlx ledger"
		if paper.Misprint {
			e.Why = "a misprint: with another sign or symbol it holds"
		}
	default:
		e.Preset, e.Decided = by.Preset, ours.Decided
		e.read()
		if ours.Times > 0 {
			e.Why = fmt.Sprintf("%d times the seeds would decide, if the differences stay", ours.Times)
		}
		if c.Measure == "" || c.Measure == "every recall" {
			by.early(&e)
		}
		by.qualify(&e)
	}
	return e
}

// read fills in the runs of a claim's cells.
func (e *Entry) read() {
	var sets []string
	for _, cell := range e.OurFinding.Cells {
		for _, t := range cell.Terms {
			for _, r := range t.Seeds {
				if r.Run != "" && !slices.Contains(e.Runs, r.Run) {
					e.Runs = append(e.Runs, r.Run)
				}
				if e.Steps == 0 || r.Steps > 0 && r.Steps < e.Steps {
					e.Steps = r.Steps
				}
				sets = slice.AddNew(sets, r.Data)
			}
			if m := t.Seeds.Mean(); m.N > 0 && (e.Seeds == 0 || m.N < e.Seeds) {
				e.Seeds = m.N
			}
		}
	}
	e.Data = strings.Join(sets, ", ")
}

// rounding is the largest relative difference in float32 that counts as equal.
const rounding = 1e-4

// computed returns the entry of a figure that is computed again: reproduced if the largest difference is rounding.
func computed(place string, what, compared figures.Markup, difference float64, command string) Entry {
	e := Entry{Place: place, What: what, OurEffect: fmt.Sprintf("%.1g", difference), Asks: compared, Decided: undecidedBy,
		Test: fmt.Sprintf("float32: %g", rounding), Verdict: ContradictsItself, Setting: Print, Command: command}
	if difference <= rounding {
		e.Verdict = Reproduced
	}
	return e
}

// formulaErrors returns the largest differences between what Figures 1 and 2 say and what is computed. They depend on
// the program alone.
var formulaErrors = sync.OnceValues(func() (largest struct{ step, lengths float64 }, err error) {
	b, err := backend.Go()
	if err != nil {
		return largest, err
	}
	if _, largest.step, err = formulas.Figure1(); err != nil {
		return largest, err
	}
	_, largest.lengths, err = formulas.ProjectionErrors(b, 64)
	return largest, err
})

// judgeFigures returns an entry for each figure. Figures 1 and 2 are computed again; the others have the verdict of the
// claims that the paper reads off them.
func judgeFigures(claims []Entry) ([]Entry, error) {
	largest, err := formulaErrors()
	if err != nil {
		return nil, err
	}
	out := []Entry{computed("Figure 1", "A loss's gradient at the embeddings is direction × pair weight × triplet weight",
		"largest difference between autodiff of the loss and the rule, relative to the largest entry", largest.step,
		"dmlx reproduce figure1"),
		computed("Figure 2", "The lengths of the directions' gradients along and across a pair",
			"largest difference between the op's gradients and the closed forms", largest.lengths, "dmlx reproduce appendix")}
	for _, f := range [][3]string{
		{"3", "Triplet weights and masks over the triplet diagram", ""},
		{"4", "Nearest-positive and nearest-negative similarities after training", "dmlx reproduce figure4"},
		{"5", "Triplets under the Euclidean and the cosine direction", "dmlx reproduce figure5"},
		{"6", "sig-ms and lin-ms with relative similarity", "dmlx reproduce appendix"},
	} {
		own := slices.DeleteFunc(slices.Clone(claims), func(e Entry) bool {
			return !strings.Contains(e.Place, "Fig. "+f[0])
		})
		if len(own) > 0 {
			out = append(out, ofFigure("Figure "+f[0], f[1], f[2], own))
		}
	}
	return out, nil
}

// ofFigure returns the entry of a figure by those of its claims.
func ofFigure(place string, what figures.Markup, command string, own []Entry) Entry {
	e := Entry{Place: place, What: what, Test: "as its claims", Command: command, Decided: undecidedBy,
		Asks: fmt.Sprintf("what the paper reads off it: %d claims", len(own)), Why: strings.ReplaceAll(Words(own), ",", ";"),
		Verdict: Together(slice.Map(own, func(e Entry) Verdict { return e.Verdict }))}
	// A verdict that runs have a part in is of their setting.
	e.Setting = slices.MinFunc(own, func(a, b Entry) int {
		return cmp.Compare(slices.Index(settings, a.Setting), slices.Index(settings, b.Setting))
	}).Setting
	if i := slices.IndexFunc(own, func(c Entry) bool { return c.Verdict == e.Verdict }); i >= 0 {
		e.Setting = own[i].Setting
	}
	if slices.ContainsFunc(own, func(c Entry) bool { return c.unsettled }) {
		e.notAtLength()
	}
	return e
}
