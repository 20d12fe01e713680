// Package text fits texts into lines.
package text

import (
	"fmt"
	"strings"
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

// Count returns "1 file", "2 files", …
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Wrap returns names with commas between them, on indented lines that fit into a wide terminal.
func Wrap(names []string) string {
	const width = 110
	lines := []string{" "}
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		}
		if last := len(lines) - 1; len(lines[last])+1+len(name) <= width {
			lines[last] += " " + name
		} else {
			lines = append(lines, "  "+name)
		}
	}
	return strings.Join(lines, "\n")
}
