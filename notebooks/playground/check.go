package playground

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/janpfeifer/gonb/gonbui"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/figures"
)

// Check checks a rule and returns its findings as a table. If the rule cannot be trained, the error names the line of
// the custom function, and the table is returned too.
func Check(r dmlx.Rule) (*figures.Table, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	c, err := dissect.Check(b, r)
	if err != nil {
		return nil, err
	}
	return findings(c), fault(c)
}

// fault returns the error of a rule that cannot be trained, with the line of the custom function.
func fault(c *dissect.Checked) error {
	i := slices.IndexFunc(c.Findings, func(f dissect.CheckFinding) bool { return f.Grade == dissect.Bad })
	if i < 0 {
		return nil
	}
	f := c.Findings[i]
	if line := sourceLine(f.File, f.Line); line != "" {
		return fmt.Errorf("rule %s: %s: %s: %s; the line is %s", c.Rule.Name(), f.Check, f.Part, f.Message, line)
	}
	return c.Err()
}

func findings(c *dissect.Checked) *figures.Table {
	t := &figures.Table{Caption: "Check of rule " + plainCell(c.Rule.Name()), Columns: []figures.Column{
		{Title: "check", Left: true}, {Title: "verdict", Left: true}, {Title: "part", Left: true},
		{Title: "found", Left: true}, {Title: "line", Left: true}}}
	for _, f := range c.Findings {
		grade := figures.Text(f.Grade.String())
		grade.Bold = f.Grade != dissect.Good
		t.Rows = append(t.Rows, figures.Row(f.Check, grade, plainCell(cmp.Or(f.Part, "–")), plainCell(f.Message),
			plainCell(cmp.Or(sourceLine(f.File, f.Line), "–"))))
	}
	return t
}

// plainCell returns text whose dollar signs do not start a formula.
func plainCell(s string) figures.Markup { return strings.ReplaceAll(s, "$", "＄") }

// sourceLine returns a line of a file with its position, except for a cell, whose file is a temporary one.
func sourceLine(file string, line int) string {
	if file == "" {
		return ""
	}
	where := fmt.Sprintf("%s, line %d:", filepath.Base(file), line)
	if gonbui.IsNotebook && filepath.Base(file) == "main.go" {
		where = ""
	}
	raw, err := durable.ReadAtMost(file, durable.MaxText)
	if err != nil {
		return where
	}
	for text := range bytes.Lines(raw) {
		if line--; line == 0 {
			return strings.TrimSpace(where + " " + string(bytes.TrimSpace(text)))
		}
	}
	return where
}
