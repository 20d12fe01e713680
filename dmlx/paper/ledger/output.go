package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/figures"
)

// Table returns the ledger as a table. CSV and the other formats have all columns.
func Table(rows []Row, provenance string) *figures.Table {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Place", Left: true, Merged: true}, {Title: "What", Left: true, Wrap: 40},
			{Group: "value", Title: "paper"}, {Group: "value", Title: "ours"}, {Title: "our data", Left: true},
			{Title: "preset", Left: true}, {Title: "setting", Left: true},
			{Group: "difference", Title: "paper"}, {Group: "difference", Title: "ours"},
			{Title: "comparable", Left: true, Wrap: 24}, {Title: "verdict"}, {Title: "why", Left: true, Wrap: 30},
			{Title: "test", Left: true, Wrap: 24}, {Title: "command", Left: true}, {Title: "runs", Left: true, Wrap: 12}},
		Caption: headline(rows), Provenance: provenance,
	}
	for i, r := range rows {
		if i > 0 && rows[i-1].Place != r.Place {
			t.Rules = append(t.Rules, i)
		}
		t.Rows = append(t.Rows, figures.Row(r.Place, r.What, r.Paper, r.Ours, r.Data, r.Preset, r.Setting, r.PaperEffect,
			r.OurEffect, r.Comparable, r.Verdict.Cell(string(r.Verdict)), r.Why, r.Test, r.Command, strings.Join(r.Runs, " ")))
	}
	return t
}

// headline counts the entries, and those that photographs have evidence of besides.
func headline(rows []Row) string {
	photographs := 0
	for _, r := range rows {
		if r.Setting == verdicts.Photographs {
			photographs++
		}
	}
	if photographs == len(rows) {
		return fmt.Sprintf("The ledger: %d entries of the paper by what photographs say of them.", photographs)
	}
	entries := "entries"
	if len(rows)-photographs == 1 {
		entries = "entry"
	}
	text := fmt.Sprintf("The ledger: %d %s of the paper, a verdict each", len(rows)-photographs, entries)
	if photographs > 0 {
		text += fmt.Sprintf("; %d have one on photographs besides", photographs)
	}
	return text + "."
}

// Brief returns the ledger with the columns that fit a page: place, entry, both values, the preset of ours, both
// differences, and the verdict.
func Brief(rows []Row, provenance string) *figures.Table {
	t := Table(rows, provenance)
	keep := []int{0, 1, 2, 3, 5, 7, 8, 10} // Of the columns of Table.
	t.Columns = pick(t.Columns, keep)
	for i := range t.Rows {
		t.Rows[i] = pick(t.Rows[i], keep)
	}
	return t
}

func pick[T any](from []T, at []int) []T {
	return slice.Map(at, func(i int) T { return from[i] })
}

// kind is a verdict in a setting. Those of different settings are counted apart.
type kind struct {
	setting verdicts.Setting
	verdict verdicts.Verdict
}

// kinds lists the verdicts that occur in each setting, and of runs always what is reproduced and what is contradicted.
func kinds(rows []Row) []kind {
	var out []kind
	all := countKinds(rows)
	for _, s := range verdicts.Settings() {
		there := slices.ContainsFunc(rows, func(r Row) bool { return r.Setting == s })
		for _, v := range verdicts.All() {
			always := there && s != verdicts.NoSetting && s != verdicts.Print &&
				(v == verdicts.Reproduced || v == verdicts.Contradicted)
			if always || all[kind{s, v}] > 0 {
				out = append(out, kind{s, v})
			}
		}
	}
	return out
}

func countKinds(rows []Row) map[kind]int {
	out := make(map[kind]int)
	for _, r := range rows {
		out[kind{r.Setting, r.Verdict}]++
	}
	return out
}

// Summary returns the table of the number of verdicts by place, those of each setting apart. Claims of all sections are
// one place. Of a setting it has the verdicts that occur, and always what is reproduced and what is contradicted.
func Summary(rows []Row, provenance string) *figures.Table {
	t := &figures.Table{Columns: []figures.Column{{Title: "Place", Left: true}, {Title: "verdicts"}},
		Caption: "How many entries of the paper have which verdict, by setting.", Provenance: provenance}
	columns := kinds(rows)
	for _, c := range columns {
		t.Columns = append(t.Columns, figures.Column{Group: string(c.setting), Title: string(c.verdict)})
	}
	add := func(title string, of []Row) {
		row, count := figures.Row(title, len(of)), countKinds(of)
		for _, c := range columns {
			row = append(row, c.verdict.Counted(count[c]))
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
	all := kinds(rows)
	var tiles []figures.TileKind
	for _, k := range all {
		tile := figures.TileKind{Name: string(k.verdict), Letter: k.verdict.Letter(), Tone: k.verdict.Tone()}
		if k.setting != verdicts.NoSetting {
			tile.Name += ", " + k.setting.Short()
		}
		if k.setting == verdicts.Print {
			tile.Letter = strings.ToLower(tile.Letter)
		}
		tiles = append(tiles, tile)
	}
	var lines []figures.TileLine
	for _, g := range groups(rows) {
		line := figures.TileLine{Name: g.title}
		for _, r := range g.rows {
			line.Kinds = append(line.Kinds, slices.Index(all, kind{r.Setting, r.Verdict}))
		}
		lines = append(lines, line)
	}
	return figures.Tiles("The verdicts on all entries of the paper", tiles, lines, provenance)
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
