package claims

import (
	"slices"

	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/figures"
)

// Heads of groups of columns.
const onPaper, onRuns = "on the paper's own numbers", "on our runs"

// tableOf returns the table of claims with their verdicts on the paper's own numbers and, if wanted, on runs.
func tableOf(audited []Audited, runs bool) *figures.Table {
	t := &figures.Table{Columns: []figures.Column{{Title: "Where", Left: true},
		{Title: "The paper says", Left: true, Wrap: 38}, {Title: "Checked", Left: true, Wrap: 30},
		{Group: onPaper, Title: "Verdict"}, {Group: onPaper, Title: "Evidence", Left: true, Wrap: 36}}}
	if runs {
		t.Columns = append(t.Columns, figures.Column{Group: onRuns, Title: "Verdict"},
			figures.Column{Group: onRuns, Title: "Evidence", Left: true, Wrap: 36})
	}
	for i, a := range audited {
		if runs && i > 0 && audited[i-1].Part != a.Part {
			t.Rules = append(t.Rules, i)
		}
		quote := "–"
		if a.Quote != "" {
			quote = "“" + a.Quote + "”"
		}
		row := figures.Row(a.Section, quote, a.Asks, a.Paper.Verdict.Cell(a.Paper.Verdict.OnPrint()), a.Paper.Evidence,
			a.Ours.Verdict.Cell(string(a.Ours.Verdict)), a.Ours.Evidence)
		t.Rows = append(t.Rows, row[:len(t.Columns)])
	}
	return t
}

// Table returns the table of claims with their verdicts: those of the parts given, or all.
func Table(audited []Audited, provenance string, parts ...string) *figures.Table {
	if len(parts) > 0 {
		audited = slices.DeleteFunc(slices.Clone(audited), func(a Audited) bool { return !slices.Contains(parts, a.Part) })
	}
	t := tableOf(audited, true)
	t.Caption = "The paper's claims, audited. Differences are in points of Recall@1 unless said otherwise."
	t.Notes = []figures.Markup{
		"On the paper's numbers a cell counts by its printed means; on ours by Welch's t, so that it holds or not " +
			"beyond the noise of the seeds, and a verdict is corrected for the number of its cells. Brackets are 95 % " +
			"intervals, of the paper's printed deviations too. Single seeds take the deviation that their set's other " +
			"cells have in common. Where the best or the highest and lowest of several are compared, nothing is " +
			"allowed for their being picked by the same numbers.",
	}
	t.Provenance = provenance
	return t
}

// PaperTable returns the table of claims with their verdicts on the paper's own numbers alone.
func PaperTable(audited []Audited, caption figures.Markup) *figures.Table {
	t := tableOf(audited, false)
	t.Caption, t.Provenance = caption, "the paper's own numbers"
	return t
}

// printVerdicts and runVerdicts are the verdicts that a claim can have on the paper's own numbers, and on runs.
var (
	printVerdicts = []verdicts.Verdict{verdicts.Reproduced, verdicts.ContradictsItself, verdicts.None}
	runVerdicts   = []verdicts.Verdict{verdicts.Reproduced, verdicts.InPart, verdicts.Undecided, verdicts.Contradicted,
		verdicts.NotRun, verdicts.None}
)

// Summary returns the table that counts the verdicts by part of the paper.
func Summary(audited []Audited, provenance string) *figures.Table {
	t := &figures.Table{Caption: "How many of the paper's claims stand how.", Provenance: provenance,
		Columns: []figures.Column{{Title: "Part", Left: true}, {Title: "Claims"}}}
	head := func(group, title string) {
		if title == string(verdicts.None) {
			title = "not checkable"
		}
		t.Columns = append(t.Columns, figures.Column{Group: group, Title: title})
	}
	for _, v := range printVerdicts {
		head(onPaper, v.OnPrint())
	}
	for _, v := range runVerdicts {
		head(onRuns, string(v))
	}
	add := func(title figures.Markup, those []Audited) {
		row := figures.Row(title, len(those))
		paper, ours := Count(those)
		for _, v := range printVerdicts {
			row = append(row, v.Counted(paper[v]))
		}
		for _, v := range runVerdicts {
			row = append(row, v.Counted(ours[v]))
		}
		t.Rows = append(t.Rows, row)
	}
	for _, p := range Parts {
		add(p.Title, slices.DeleteFunc(slices.Clone(audited), func(a Audited) bool { return a.Part != p.Name }))
	}
	t.Rules = []int{len(t.Rows)}
	add("All", audited)
	return t
}
