// Package text fits texts into lines.
package text

import (
	"fmt"
	"regexp"
	"strings"
	"text/tabwriter"

	prettytext "github.com/jedib0t/go-pretty/v6/text"
)

// OneLine joins the lines of a text by spaces.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// LastLine returns the last line of a program's output, or the text of its error if the output is empty.
func LastLine(output string, err error) string {
	output = strings.TrimSpace(output)
	if last := strings.TrimSpace(output[strings.LastIndex(output, "\n")+1:]); last != "" {
		return last
	}
	return err.Error()
}

// Table returns rows, whose cells are separated by tabs, as lines with aligned columns.
func Table(rows ...string) string { return table(0, rows) }

// Right is [Table] with columns that are aligned on the right.
func Right(rows ...string) string { return table(tabwriter.AlignRight, rows) }

func table(align uint, rows []string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', align)
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	_ = w.Flush() // A strings.Builder does not fail.
	return strings.TrimRight(out.String(), "\n")
}

// Wrap returns names with commas between them, on indented lines that fit into a wide terminal.
func Wrap(names []string) string {
	return "  " + lineEnd.ReplaceAllString(prettytext.WrapSoft(strings.Join(names, ", "), 108), "\n  ")
}

var lineEnd = regexp.MustCompile(` *\n`)
