package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/figures"
)

// tone returns the color of a verdict; what was not run stays white.
func (v Verdict) tone() figures.AuditTone {
	switch v {
	case Reproduced:
		return figures.Confirming
	case WithinNoise:
		return figures.Undecided
	case Contradicted:
		return figures.Opposing
	case DifferentSetting:
		return figures.Divided
	}
	return figures.NoTone
}

// Table returns the ledger as a table. CSV and the other formats have all columns.
func Table(rows []Row, provenance string) *figures.Table {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Place", Left: true, Merged: true}, {Title: "What", Left: true, Wrap: 40},
			{Group: "value", Title: "paper"}, {Group: "value", Title: "ours"}, {Title: "our data", Left: true},
			{Title: "preset", Left: true},
			{Group: "difference", Title: "paper"}, {Group: "difference", Title: "ours"},
			{Title: "comparable", Left: true, Wrap: 24}, {Title: "verdict"}, {Title: "why", Left: true, Wrap: 30},
			{Title: "tolerance", Left: true, Wrap: 24}, {Title: "command", Left: true}, {Title: "runs", Left: true, Wrap: 12}},
		Caption: fmt.Sprintf("The ledger: %d entries of the paper, a verdict each.", len(rows)), Provenance: provenance,
	}
	for i, r := range rows {
		if i > 0 && rows[i-1].Place != r.Place {
			t.Rules = append(t.Rules, i)
		}
		verdict := figures.Text(string(r.Verdict))
		verdict.Background = r.Verdict.tone().Color()
		t.Rows = append(t.Rows, []figures.Cell{figures.Text(r.Place), figures.Text(r.What), figures.Text(r.Paper),
			figures.Text(r.Ours), figures.Text(r.Data), figures.Text(r.Preset), figures.Text(r.PaperEffect),
			figures.Text(r.OurEffect), figures.Text(r.Comparable), verdict,
			figures.Text(r.Why), figures.Text(r.Tolerance), figures.Text(r.Command),
			figures.Text(strings.Join(r.Runs, " "))})
	}
	return t
}

// Brief returns the ledger with the columns that fit a page: place, entry, both values, the preset of ours, both
// differences, and the verdict.
func Brief(rows []Row, provenance string) *figures.Table {
	t := Table(rows, provenance)
	keep := []int{0, 1, 2, 3, 5, 6, 7, 9} // Of the columns of Table.
	t.Columns = pick(t.Columns, keep)
	for i := range t.Rows {
		t.Rows[i] = pick(t.Rows[i], keep)
	}
	return t
}

func pick[T any](from []T, at []int) []T {
	out := make([]T, len(at))
	for i, j := range at {
		out[i] = from[j]
	}
	return out
}

// Summary returns the table of the number of verdicts by place. Claims of all sections are one place.
func Summary(rows []Row, provenance string) *figures.Table {
	t := &figures.Table{Columns: []figures.Column{{Title: "Place", Left: true}, {Title: "entries"}},
		Caption: "How many entries of the paper have which verdict.", Provenance: provenance}
	for _, v := range Verdicts() {
		t.Columns = append(t.Columns, figures.Column{Title: string(v)})
	}
	add := func(title string, of []Row) {
		row := []figures.Cell{figures.Text(title), figures.Text(fmt.Sprint(len(of)))}
		count := Count(of)
		for _, v := range Verdicts() {
			c := figures.Text(fmt.Sprint(count[v]))
			if count[v] > 0 {
				c.Background = v.tone().Color()
			}
			row = append(row, c)
		}
		t.Rows = append(t.Rows, row)
	}
	for _, g := range groups(rows) {
		add(g.title, g.rows)
	}
	t.Rules = []int{len(t.Rows)}
	add("All", rows)
	return t
}

// Map returns the picture of the whole ledger: a square for each entry.
func Map(rows []Row, provenance string) (*figures.Figure, error) {
	var kinds []figures.TileKind
	for _, v := range Verdicts() {
		kinds = append(kinds, figures.TileKind{Name: string(v), Tone: v.tone()})
	}
	var lines []figures.TileLine
	for _, g := range groups(rows) {
		line := figures.TileLine{Name: g.title}
		for _, r := range g.rows {
			line.Kinds = append(line.Kinds, slices.Index(Verdicts(), r.Verdict))
		}
		lines = append(lines, line)
	}
	return figures.Tiles("The verdicts on all entries of the paper", kinds, lines, provenance)
}

// grouped are the rows of a place.
type grouped struct {
	title string
	rows  []Row
}

// groups collects the rows by place, with all claims together, and all figures.
func groups(rows []Row) []grouped {
	var out []grouped
	for _, r := range rows {
		title := group(r)
		if len(out) == 0 || out[len(out)-1].title != title {
			out = append(out, grouped{title: title})
		}
		g := &out[len(out)-1]
		g.rows = append(g.rows, r)
	}
	return out
}
