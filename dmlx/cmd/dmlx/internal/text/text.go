// Package text shortens what programs print to one line.
package text

import "strings"

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
