package evidence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// Entry is an entry of the paper with its verdict in a setting.
type Entry struct {
	// Place is where it stands: "Table 3", "Figure 4", "Claim, §5.2". What is the entry itself, a claim's sentence as
	// printed, and Asks is what is compared. Tables are the paper's tables that it is about.
	Place      string
	Tables     []int
	What, Asks figures.Markup
	// Paper and Ours are the two values as text, and PaperEffect and OurEffect the differences, "" if there are none. The
	// findings have their cells as numbers, and for a claim what the print and our runs say by themselves.
	Paper, Ours, PaperEffect, OurEffect figures.Markup
	PaperFinding, OurFinding            Finding
	// Data is our data set, Preset, Steps and Seeds are those of the runs that judge, and Runs their IDs: all zero where
	// no run of ours bears on the entry. Of several cells Steps and Seeds are the smallest.
	Data, Preset string
	Steps, Seeds int
	Runs         []string
	// Verdict is the verdict, Setting what it is about, Decided what it rests on, Test how that is tested, and Why the
	// reason, in a line.
	Verdict   Verdict
	Setting   Setting
	Decided   Decision
	Test, Why figures.Markup
	Command   string // It runs it again.

	unsettled bool // It rests on such runs.
}

// Decision is what a verdict rests on: of several cells the one that decides.
type Decision struct {
	Cell figures.Markup
	// Difference has its interval at the level of its test, which is corrected for Tests tests: the verdict rests on
	// whether it lies beyond Bound. P is the two-sided p-value of the difference from Bound, not corrected, or from 0
	// where the entry claims that there is no difference.
	Difference stats.Interval
	P          float64
	Tests      int
	// Detectable is the true difference that four of five repetitions would find among so many tests.
	Detectable, Bound float64
}

// undecidedBy is a decision on nothing.
var undecidedBy = Decision{Difference: stats.Point(math.NaN()), P: math.NaN(), Detectable: math.NaN()}

// Count returns how many entries have each verdict.
func Count(entries []Entry) map[Verdict]int {
	out := make(map[Verdict]int)
	for _, e := range entries {
		out[e.Verdict]++
	}
	return out
}

// Words says how many entries have which verdict.
func Words(entries []Entry) string {
	count, out := Count(entries), []string{}
	for _, v := range Meanings {
		if count[v.Verdict] > 0 {
			out = append(out, fmt.Sprintf("%d %s", count[v.Verdict], v.Verdict))
		}
	}
	return strings.Join(out, ", ")
}

// Filter selects entries. An empty list takes all.
type Filter struct {
	Places   []string // As in the entries, "Table 3", or "Figures" and "Claims" for all of these.
	Verdicts []string
	Settings []string
}

// Select returns the entries that the filter takes. It returns an error for a value that none has.
func (f Filter) Select(entries []Entry) ([]Entry, error) {
	for _, by := range []struct {
		what   string
		wanted []string
		known  []string // One that no entry has.
		of     func(Entry) []string
	}{
		{"place", f.Places, nil, func(e Entry) []string { return []string{e.group(), e.Place} }},
		{"verdict", f.Verdicts, slice.Map(Meanings, func(m Meaning) string { return string(m.Verdict) }),
			func(e Entry) []string { return []string{string(e.Verdict)} }},
		{"setting", f.Settings, nil, func(e Entry) []string { return []string{string(e.Setting)} }},
	} {
		known := by.known
		for _, e := range entries {
			known = slice.AddNew(known, by.of(e)...)
		}
		for _, w := range by.wanted {
			if !slices.Contains(known, w) {
				return nil, errs.NoSuch(fmt.Sprintf("the ledger has no %s %q", by.what, w), w, known)
			}
		}
		if len(by.wanted) > 0 {
			entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
				return !slices.ContainsFunc(by.of(e), func(v string) bool { return slices.Contains(by.wanted, v) })
			})
		}
	}
	return entries, nil
}

// group names the place of an entry, with all figures and all claims as one.
func (e Entry) group() string {
	for _, kind := range []string{"Claim", "Figure"} {
		if strings.HasPrefix(e.Place, kind) {
			return kind + "s"
		}
	}
	return e.Place
}

// Table returns the entries as a table, of which CSV has all columns.
func Table(entries []Entry, provenance string) *figures.Table {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Place", Left: true, Merged: true}, {Title: "What", Left: true, Wrap: 40},
			{Title: "setting", Left: true}, {Title: "verdict"}, {Title: "why", Left: true, Wrap: 30},
			{Group: "value", Title: "paper"}, {Group: "value", Title: "ours"},
			{Group: "difference", Title: "paper", Wrap: 30}, {Group: "difference", Title: "ours", Wrap: 30},
			{Group: "decided by", Title: "cell", Left: true, Wrap: 24}, {Group: "decided by", Title: "interval"},
			{Group: "decided by", Title: "beyond"}, {Group: "decided by", Title: "p"},
			{Group: "decided by", Title: "tests"}, {Group: "decided by", Title: "detectable"},
			{Title: "our data", Left: true}, {Title: "preset", Left: true}, {Title: "steps"}, {Title: "seeds"},
			{Title: "comparable", Left: true, Wrap: 24}, {Title: "test", Left: true, Wrap: 24},
			{Title: "command", Left: true}, {Title: "runs", Left: true, Wrap: 12}},
		Caption: fmt.Sprintf("The ledger: %d verdicts on entries of the paper. %s.", len(entries), Words(entries)),
		Notes: []figures.Markup{"The interval is that of the test that decided, corrected for the number of tests. " +
			"Detectable: the true difference that four of five repetitions would find."},
		Provenance: provenance,
	}
	for i, e := range entries {
		if i > 0 && entries[i-1].Place != e.Place {
			t.Rules = append(t.Rules, i)
		}
		d := e.Decided
		t.Rows = append(t.Rows, figures.Row(e.Place, e.What, e.Setting, e.Verdict.Cell(), e.Why, e.Paper, e.Ours,
			e.PaperEffect, e.OurEffect, d.Cell, d.Difference, some(d.Bound, d.Tests), some(d.P, d.Tests),
			nonzero(d.Tests), some(d.Detectable, d.Tests), e.Data, e.Preset, nonzero(e.Steps), nonzero(e.Seeds), e.Asks,
			e.Test, e.Command, strings.Join(e.Runs, " ")))
	}
	return t
}

// some formats a value of tests, "" without any.
func some(v float64, tests int) string {
	if tests == 0 || math.IsNaN(v) {
		return ""
	}
	return fmt.Sprintf("%.3g", v)
}

func nonzero(n int) string { return strings.TrimPrefix(fmt.Sprint(n), "0") }

// Brief returns the columns of [Table] that fit a page.
func Brief(entries []Entry, provenance string) *figures.Table {
	t := Table(entries, provenance)
	keep := []int{0, 1, 2, 3, 10, 8, 4}
	pick := func(of []figures.Cell) []figures.Cell {
		return slice.Map(keep, func(i int) figures.Cell { return of[i] })
	}
	t.Columns = slice.Map(keep, func(i int) figures.Column { return t.Columns[i] })
	t.Rows = slice.Map(t.Rows, pick)
	return t
}

// Answers returns the paper's sentences about some places with the verdicts on them side by side: what the paper's own
// numbers say, and what the runs of each setting say. A place is "Table 3", or a part of one as in the entries:
// "Fig. 4", "§6", "App. B".
func Answers(entries []Entry, provenance string, places ...string) *figures.Answers {
	claims := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		return !slices.ContainsFunc(places, e.isAbout)
	})
	of := slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool {
		return s == Print || s == NoSetting || len(In(claims, s)) == 0
	})
	a := &figures.Answers{
		Caption: fmt.Sprintf("What the paper says of %s, and whether it holds.", strings.Join(places, " and ")),
		Kinds:   []figures.Markup{"in its own numbers"}, Provenance: provenance}
	for _, s := range of {
		a.Kinds = append(a.Kinds, "in "+string(s))
	}
	rows, said := make(map[string]*figures.Answer), make(map[Verdict]bool)
	var order []*figures.Answer
	for _, e := range claims {
		row := rows[e.What+e.Asks]
		if row == nil {
			own := e.PaperFinding.Verdict.Cell()
			own.Text = e.PaperFinding.Verdict.onPrint()
			none := []figures.Evidence{{Answer: figures.Text("–")}}
			row = &figures.Answer{Says: e.What, ReadAs: e.Asks, Of: slices.Repeat(none, len(of)+1)}
			row.Of[0] = figures.Evidence{Answer: own, Reason: e.PaperFinding.restsOn(""), Numbers: e.PaperFinding.numbers()}
			rows[e.What+e.Asks], said[e.PaperFinding.Verdict] = row, true
			order = append(order, row)
		}
		if at := slices.Index(of, e.Setting); at >= 0 {
			row.Of[1+at] = figures.Evidence{Answer: e.Verdict.Cell(), Reason: e.OurFinding.restsOn(e.Why),
				Numbers: e.OurFinding.numbers()}
			said[e.Verdict] = true
		}
	}
	for _, m := range Meanings {
		if said[m.Verdict] {
			a.Notes = append(a.Notes, fmt.Sprintf("%s: %s.", m.Verdict, m.Says))
		}
	}
	a.Notes = append(a.Notes, "A cell is a difference of two rules, direction/pair weight/triplet weight, in points. "+
		"Beyond noise: seeds alone would show it in at most one of 40 cases. The reason is how many cells hold, and the one "+
		"that decides or is open, with its 95 % interval over seeds (the paper's from its printed deviations), corrected "+
		"for the number of tests of that sentence, so that a cell may contradict a sentence about it alone and leave one "+
		"about several open; then how many times the seeds would settle it, if the differences stay. Unfolded, each cell "+
		"has its own interval, not corrected.")
	slices.SortStableFunc(order, func(a, b *figures.Answer) int { return cmp.Compare(unjudged(a), unjudged(b)) })
	for _, row := range order {
		a.Statements = append(a.Statements, *row)
	}
	return a
}

// unjudged is 1 for an answer about which no runs say anything, which stands behind the others.
func unjudged(a *figures.Answer) int {
	if slices.ContainsFunc(a.Of[1:], func(e figures.Evidence) bool { return e.Answer.Text != "–" }) {
		return 0
	}
	return 1
}

// numbers returns the compared cells of a finding, each in the color of what it says by itself.
func (f Finding) numbers() []figures.Difference {
	var out []figures.Difference
	for i, c := range f.Cells {
		if c.Missing {
			continue
		}
		d := figures.Difference{Name: c.Name, Cell: figures.Text("diverged")}
		if !c.Diverged {
			d.Cell.Text, d.Cell.Background = c.Test.Difference.String(), f.Each[i].Cell().Background
		}
		var from []string
		for _, t := range c.Terms {
			var values []float64
			var ids []string
			for _, r := range t.Seeds {
				if v := r.Value.Mean; !math.IsNaN(v) {
					values = append(values, v)
				}
				if r.Run != "" {
					ids = append(ids, r.Run)
				}
			}
			switch {
			case len(c.Terms) != 2:
			case t.Weight > 0:
				d.First = values
			default:
				d.Second = values
			}
			text := fmt.Sprintf("%s %s: %s", t.Of.Method, t.Of.Rule, t.Seeds.Mean())
			if ids != nil {
				text += "; runs " + strings.Join(ids, " ")
			}
			from = append(from, text)
		}
		d.From = strings.TrimSpace(strings.Join(from, "\n"))
		out = append(out, d)
	}
	return out
}

// isAbout reports whether an entry is a sentence about a place of the paper.
func (e Entry) isAbout(place string) bool {
	n, is := strings.CutPrefix(place, "Table ")
	return e.group() == "Claims" && (strings.Contains(e.Place, place) || is && slices.ContainsFunc(e.Tables,
		func(table int) bool { return strconv.Itoa(table) == n }))
}

// restsOn says what the verdict of a finding rests on: how many cells hold, and the cell that decides, or that is open.
func (f Finding) restsOn(why figures.Markup) figures.Markup {
	why = strings.NewReplacer(", if the differences stay", "", "would decide", "would settle it").Replace(why)
	which := map[Verdict]string{Reproduced: "least", Contradicted: "opposite", ContradictsItself: "not"}[f.Verdict]
	by := f.Decided
	if f.Open.Cell != "" && !f.Open.undecidable() {
		by, which = f.Open, "open"
	}
	if by.Cell == "" {
		return strings.TrimSuffix(cmp.Or(why, f.Evidence), ".")
	}
	text := fmt.Sprintf("%s; %s: %s %v", f.Count, which, by.Cell, by.Difference)
	if which == "" {
		text = fmt.Sprintf("%s: %s %v", f.Count, by.Cell, by.Difference)
	}
	if by.Bound >= 0.1 {
		text += fmt.Sprintf(", asked %g", by.Bound)
	}
	return text + strings.TrimSuffix("; "+why, "; ")
}

// undecidable reports whether nothing is known of the cell.
func (d Decision) undecidable() bool { return math.IsNaN(d.Difference.Value) }

// Summary returns the table of the number of verdicts by setting and place.
func Summary(entries []Entry, provenance string) *figures.Table {
	t := &figures.Table{Columns: []figures.Column{{Title: "Setting", Left: true, Merged: true},
		{Title: "Place", Left: true}, {Title: "entries"}, {Title: "verdicts", Left: true, Wrap: 60}},
		Caption:    "How many entries of the paper have which verdict, by setting. Claims read the same numbers again.",
		Provenance: provenance}
	for _, setting := range settings {
		of := In(entries, setting)
		if len(of) == 0 {
			continue
		}
		places := slice.AddNew(nil, slice.Map(of, Entry.group)...)
		tables := slices.IndexFunc(places, func(place string) bool { return !strings.HasPrefix(place, "Table") })
		if tables < 0 {
			tables = len(places)
		}
		if tables > 1 {
			places = slices.Insert(places, tables, "all numbers")
		}
		for _, place := range places {
			its := slices.DeleteFunc(slices.Clone(of), func(e Entry) bool {
				return e.group() != place && (place != "all numbers" || !strings.HasPrefix(e.Place, "Table"))
			})
			t.Rows = append(t.Rows, figures.Row(cmp.Or(setting, "no runs"), place, len(its), Words(its)))
		}
		t.Rules = append(t.Rules, len(t.Rows))
	}
	return t
}

// In returns the entries of a setting.
func In(entries []Entry, setting Setting) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Setting != setting })
}
