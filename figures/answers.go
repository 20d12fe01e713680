package figures

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strings"
)

// Answers are statements, and what each of several kinds of evidence says of it. HTML has a block for each statement,
// which fits any width, with the numbers of each kind folded under its answer; it needs neither scripts nor trust. The
// other formats are a table without these numbers.
type Answers struct {
	Caption    Markup
	Kinds      []Markup // Of evidence: "in its own numbers", "in photographs".
	Statements []Answer
	Notes      []Markup
	Provenance string
}

// Answer is a statement with what each kind of evidence says of it.
type Answer struct {
	Says, ReadAs Markup
	Of           []Evidence // As [Answers].Kinds.
}

// Evidence is an answer, "–" if there is none, with its reason in a line and the numbers behind it.
type Evidence struct {
	Answer  Cell
	Reason  Markup
	Numbers []Difference
}

// Difference is a difference of two groups of repetitions, or of other numbers, with its interval as text. From has
// the runs behind it, shown when it is pointed at.
type Difference struct {
	Name          Markup
	First, Second []float64 // One value for each repetition; empty if it is no difference of two.
	Cell          Cell
	From          string
}

// Formats are those of a [Table].
func (a *Answers) Formats() []string { return (&Table{}).Formats() }

// String returns the answers for a terminal.
func (a *Answers) String() string { return a.table().String() }

func (a *Answers) bytes(format string) ([]byte, error) {
	for i, s := range a.Statements {
		if len(s.Of) != len(a.Kinds) {
			return nil, fmt.Errorf("answers: statement %d has %d answers; want %d, one for each kind of evidence", i,
				len(s.Of), len(a.Kinds))
		}
	}
	if format == "html" {
		return a.html(), nil
	}
	return a.table().bytes(format)
}

// table has the answers beside each other and their reasons in one column.
func (a *Answers) table() *Table {
	t := &Table{Caption: a.Caption, Notes: a.Notes, Provenance: a.Provenance,
		Columns: []Column{{Title: "The paper says", Left: true, Wrap: 36}, {Title: "read as", Left: true, Wrap: 30}}}
	for _, kind := range a.Kinds {
		t.Columns = append(t.Columns, Column{Title: kind})
	}
	t.Columns = append(t.Columns, Column{Title: "decided by", Left: true, Wrap: 40})
	for _, s := range a.Statements {
		row, reasons := Row(s.Says, s.ReadAs), []string{}
		for i, e := range s.Of {
			row = append(row, e.Answer)
			if e.Reason != "" {
				reasons = append(reasons, fmt.Sprintf("%s%s: %s.", strings.ToUpper(a.Kinds[i][:1]), a.Kinds[i][1:], e.Reason))
			}
		}
		t.Rows = append(t.Rows, append(row, Text(strings.Join(reasons, " "))))
	}
	return t
}

func (a *Answers) html() []byte {
	var b bytes.Buffer
	small := func(m Markup) {
		if m != "" {
			fmt.Fprintf(&b, `<div style="font-size:90%%">%s</div>`+"\n", HTML(m))
		}
	}
	fmt.Fprintf(&b, `<div style="max-width:1100px;margin:6px 0;line-height:1.4"><div>%s</div>`+"\n", HTML(a.Caption))
	for _, s := range a.Statements {
		fmt.Fprintf(&b, `<div style="border-top:1px solid currentColor;margin-top:8px;padding-top:6px"><b>%s</b></div>`+"\n",
			HTML(s.Says))
		small(s.ReadAs)
		b.WriteString(`<div style="display:flex;flex-wrap:wrap;gap:4px 24px;margin-top:4px">` + "\n")
		for i, e := range s.Of {
			fmt.Fprintf(&b, `<div style="flex:1 1 250px">%s: <span style="padding:1px 6px;border-radius:4px;%s">%s</span>`,
				HTML(a.Kinds[i]), painted(e.Answer.Background), HTML(e.Answer.Text))
			small(e.Reason)
			e.numbers(&b)
			b.WriteString("</div>\n")
		}
		b.WriteString("</div>\n")
	}
	b.WriteString(`<div style="border-top:1px solid currentColor;margin-top:8px;padding-top:6px"></div>` + "\n")
	for _, n := range a.Notes {
		small(n)
	}
	fmt.Fprintf(&b, `<div style="font-size:85%%;opacity:.7">%s</div></div>`+"\n", html.EscapeString(a.Provenance))
	return b.Bytes()
}

// numbers writes the differences, folded.
func (e Evidence) numbers(b *bytes.Buffer) {
	if len(e.Numbers) == 0 {
		return
	}
	var values []float64
	for _, d := range e.Numbers {
		values = slices.Concat(values, d.First, d.Second)
	}
	of, from := "cell", ""
	if len(e.Numbers) > 1 {
		of = "cells"
	}
	if len(values) > 0 {
		from = fmt.Sprintf("● less ○, a mark for each run, from %.1f to %.1f", slices.Min(values), slices.Max(values))
	}
	fmt.Fprintf(b, `<details style="font-size:85%%"><summary>%d %s</summary>%s<table style="font-size:100%%">`,
		len(e.Numbers), of, from)
	for _, d := range e.Numbers {
		fmt.Fprintf(b, `<tr title="%s"><td style="text-align:left">%s`, html.EscapeString(d.From),
			HTML(d.Name))
		if len(d.First)+len(d.Second) > 0 {
			low, high := slices.Min(values), slices.Max(values)
			b.WriteString(`<div style="position:relative;height:10px;line-height:10px;border-bottom:1px dotted;` +
				`margin-right:9px">`)
			marks(b, d.First, "●", low, high)
			marks(b, d.Second, "○", low, high)
			b.WriteString("</div>")
		}
		fmt.Fprintf(b, `</td><td style="text-align:center;%s">%s</td></tr>`+"\n", painted(d.Cell.Background),
			HTML(d.Cell.Text))
	}
	b.WriteString("</table></details>")
}

// marks puts a mark for each value on a line from low to high.
func marks(b *bytes.Buffer, values []float64, mark string, low, high float64) {
	for _, v := range values {
		at := 0.0
		if high > low {
			at = 100 * (v - low) / (high - low)
		}
		fmt.Fprintf(b, `<span style="position:absolute;left:%.0f%%">%s</span>`, at, mark)
	}
}
