package figures

import (
	"fmt"
	"image/color"
)

// AuditTone is the color of a verdict's cell. All tones are light enough for black text, and they differ in lightness,
// so that the words carry the meaning.
type AuditTone int

// The tones.
const (
	NoTone     AuditTone = iota
	Confirming           // Blue.
	Divided              // Yellow.
	Opposing             // Vermilion.
	Undecided            // Gray.
)

// Color returns the tone's color, from Okabe and Ito's palette but pale.
func (t AuditTone) Color() color.NRGBA {
	switch t {
	case Confirming:
		return color.NRGBA{0xa9, 0xd3, 0xee, 0xff}
	case Divided:
		return color.NRGBA{0xf9, 0xf3, 0xb4, 0xff}
	case Opposing:
		return color.NRGBA{0xee, 0xa5, 0x77, 0xff}
	case Undecided:
		return color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
	}
	return color.NRGBA{}
}

// AuditFinding is a verdict with its color and the numbers that support it.
type AuditFinding struct {
	Verdict  string
	Tone     AuditTone
	Evidence Markup
}

func (f AuditFinding) cells() []Cell {
	return []Cell{{Text: f.Verdict, Background: f.Tone.Color()}, Text(f.Evidence)}
}

// AuditRow is a claim of the paper with the findings on its own numbers and on our runs.
type AuditRow struct {
	Part        string // Rows of one part stand together; a line separates parts.
	Section     string // The place in the paper: "§5.2".
	Quote, Asks Markup // The words of the paper, empty if there are none, and the check.
	Paper, Ours AuditFinding
}

// Heads of groups of columns.
const (
	onPaper = "on the paper's own numbers"
	onRuns  = "on our runs"
)

func auditColumns() []Column {
	return []Column{
		{Title: "Where", Left: true}, {Title: "The paper says", Left: true, Wrap: 38},
		{Title: "Checked", Left: true, Wrap: 30},
		{Group: onPaper, Title: "Verdict"}, {Group: onPaper, Title: "Evidence", Left: true, Wrap: 36},
		{Group: onRuns, Title: "Verdict"}, {Group: onRuns, Title: "Evidence", Left: true, Wrap: 36},
	}
}

func (r AuditRow) claim() []Cell {
	quote := Text("–")
	if r.Quote != "" {
		quote = Text("“" + r.Quote + "”")
	}
	return []Cell{Text(r.Section), quote, Text(r.Asks)}
}

// AuditTable returns the table of claims with their verdicts on the paper's own numbers and on our runs.
func AuditTable(rows []AuditRow, caption Markup, notes []Markup, provenance string) *Table {
	t := &Table{Columns: auditColumns(), Caption: caption, Notes: notes, Provenance: provenance}
	for i, r := range rows {
		if i > 0 && rows[i-1].Part != r.Part {
			t.Rules = append(t.Rules, i)
		}
		row := append(r.claim(), r.Paper.cells()...)
		t.Rows = append(t.Rows, append(row, r.Ours.cells()...))
	}
	return t
}

// PaperAuditTable returns the table of claims with their verdicts on the paper's own numbers alone.
func PaperAuditTable(rows []AuditRow, caption Markup, provenance string) *Table {
	t := &Table{Columns: auditColumns()[:5], Caption: caption, Provenance: provenance}
	for _, r := range rows {
		t.Rows = append(t.Rows, append(r.claim(), r.Paper.cells()...))
	}
	return t
}

// AuditCount is the number of claims with a verdict.
type AuditCount struct {
	Verdict string
	Tone    AuditTone
	Count   int
}

// AuditTotal is a part of the paper with its number of claims and its counts of verdicts. All rows of a table list the
// same verdicts in the same order.
type AuditTotal struct {
	Title       Markup
	Claims      int
	Paper, Ours []AuditCount
}

// AuditSummary returns the table of the counts of verdicts by part of the paper. The last row, the sum of the others,
// stands below a line.
func AuditSummary(rows []AuditTotal, caption Markup, provenance string) *Table {
	t := &Table{Columns: []Column{{Title: "Part", Left: true}, {Title: "Claims"}}, Caption: caption,
		Provenance: provenance}
	if len(rows) == 0 {
		return t
	}
	heads := func(group string, counts []AuditCount) {
		for _, c := range counts {
			t.Columns = append(t.Columns, Column{Group: group, Title: c.Verdict})
		}
	}
	heads(onPaper, rows[0].Paper)
	heads(onRuns, rows[0].Ours)
	for _, r := range rows {
		row := []Cell{Text(r.Title), Text(fmt.Sprint(r.Claims))}
		for _, counts := range [][]AuditCount{r.Paper, r.Ours} {
			for _, c := range counts {
				cell := Cell{Text: fmt.Sprint(c.Count)}
				if c.Count > 0 {
					cell.Background = c.Tone.Color()
				}
				row = append(row, cell)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	t.Rules = []int{len(rows) - 1}
	return t
}
