package claims

import (
	"slices"

	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/figures"
)

// Heads of groups of columns.
const (
	onPaper = "on the paper's own numbers"
	onOurs  = "on our runs"
)

// auditColumns returns the columns of claims. The first five are those of the paper's own numbers alone.
func auditColumns() []figures.Column {
	return []figures.Column{
		{Title: "Where", Left: true}, {Title: "The paper says", Left: true, Wrap: 38},
		{Title: "Checked", Left: true, Wrap: 30},
		{Group: onPaper, Title: "Verdict"}, {Group: onPaper, Title: "Evidence", Left: true, Wrap: 36},
		{Group: onOurs, Title: "Verdict"}, {Group: onOurs, Title: "Evidence", Left: true, Wrap: 36},
	}
}

// auditRow returns the cells of a claim.
func auditRow(a Audited) []figures.Cell {
	quote := "–"
	if a.Quote != "" {
		quote = "“" + a.Quote + "”"
	}
	verdict := func(v verdicts.Verdict, word string) figures.Cell {
		return figures.Cell{Text: word, Background: v.Tone()}
	}
	return figures.Row(a.Section, quote, a.Asks, verdict(a.Paper.Verdict, a.Paper.Verdict.OnPrint()), a.Paper.Evidence,
		verdict(a.Ours.Verdict, string(a.Ours.Verdict)), a.Ours.Evidence)
}

// Table returns the table of claims with their verdicts: those of the parts given, or all. A line separates parts.
func Table(audited []Audited, provenance string, parts ...string) *figures.Table {
	t := &figures.Table{Columns: auditColumns(), Provenance: provenance,
		Caption: "The paper's claims, audited. Differences are in points of Recall@1 unless said otherwise.",
		Notes: []figures.Markup{"On the paper's numbers a cell counts by its printed means; on ours by Welch's t, so that " +
			"it holds or not beyond the noise of the seeds, and a verdict is corrected for the number of its cells. Brackets " +
			"are 95 % intervals, of the paper's printed deviations too. Single seeds take the deviation that their set's " +
			"other cells have in common. Where the best or the highest and lowest of several are compared, nothing is allowed " +
			"for their being picked by the same numbers."}}
	part := ""
	for _, a := range audited {
		if len(parts) > 0 && !slices.Contains(parts, a.Part) {
			continue
		}
		if len(t.Rows) > 0 && a.Part != part {
			t.Rules = append(t.Rules, len(t.Rows))
		}
		t.Rows, part = append(t.Rows, auditRow(a)), a.Part
	}
	return t
}

// PaperTable returns the table of claims with their verdicts on the paper's own numbers alone.
func PaperTable(audited []Audited, caption figures.Markup) *figures.Table {
	t := &figures.Table{Columns: auditColumns()[:5], Caption: caption, Provenance: "the paper's own numbers"}
	for _, a := range audited {
		t.Rows = append(t.Rows, auditRow(a)[:5])
	}
	return t
}

// onPrint and onRuns are the verdicts that a claim can have on the paper's own numbers, and on runs.
var (
	onPrint = []verdicts.Verdict{verdicts.Reproduced, verdicts.ContradictsItself, verdicts.None}
	onRuns  = []verdicts.Verdict{verdicts.Reproduced, verdicts.InPart, verdicts.Undecided, verdicts.Contradicted,
		verdicts.NotRun, verdicts.None}
)

// Summary returns the table that counts the verdicts by part of the paper. The last row, of all parts, stands below a
// line.
func Summary(audited []Audited, provenance string) *figures.Table {
	t := &figures.Table{Columns: []figures.Column{{Title: "Part", Left: true}, {Title: "Claims"}}, Provenance: provenance,
		Caption: "How many of the paper's claims stand how."}
	head := func(group string, v verdicts.Verdict, word string) {
		if v == verdicts.None {
			word = "not checkable"
		}
		t.Columns = append(t.Columns, figures.Column{Group: group, Title: word})
	}
	for _, v := range onPrint {
		head(onPaper, v, v.OnPrint())
	}
	for _, v := range onRuns {
		head(onOurs, v, string(v))
	}
	add := func(title figures.Markup, in func(Audited) bool) {
		those := slices.DeleteFunc(slices.Clone(audited), func(a Audited) bool { return !in(a) })
		row := figures.Row(title, len(those))
		count := func(counts map[verdicts.Verdict]int, of []verdicts.Verdict) {
			for _, v := range of {
				cell := figures.Row(counts[v])[0]
				if counts[v] > 0 {
					cell.Background = v.Tone()
				}
				row = append(row, cell)
			}
		}
		paper, ours := Count(those)
		count(paper, onPrint)
		count(ours, onRuns)
		t.Rows = append(t.Rows, row)
	}
	for _, p := range Parts {
		add(p.Title, func(a Audited) bool { return a.Part == p.Name })
	}
	t.Rules = []int{len(t.Rows)}
	add("All", func(Audited) bool { return true })
	return t
}
