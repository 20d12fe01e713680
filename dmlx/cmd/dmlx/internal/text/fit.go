package text

import (
	"strings"
	"unicode/utf8"
)

// Fit fits a text into the width of a terminal. A table with lines between its columns that is too wide becomes
// several, one below the other, with the first columns in each. Other lines that are too wide are broken at spaces.
// Everything else stays as it is. Go-pretty, which prints the tables, can only break or cut their cells.
func Fit(text string, width int) string {
	if width < 20 { // No table fits.
		return text
	}
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		end := i
		for end < len(lines) && strings.ContainsAny(lines[end], "│┼") {
			end++
		}
		if end-i > 2 {
			out = append(out, fitTable(lines[i:end], width)...)
			i = end
			continue
		}
		out = append(out, fitLine(lines[i], width)...)
		i++
	}
	return strings.Join(out, "\n")
}

// fitLine breaks a line at spaces. What follows is indented as the line is, or by four if it is the row of a table,
// whose columns have two spaces between them.
func fitLine(line string, width int) (out []string) {
	body := strings.TrimLeft(line, " ")
	indent := line[:len(line)-len(body)]
	if strings.Contains(body, "  ") {
		indent += "    "
	}
	for utf8.RuneCountInString(line) > width {
		runes := []rune(line)
		start := len(runes) - len([]rune(strings.TrimLeft(line, " ")))
		at := width
		for at > start && runes[at] != ' ' {
			at--
		}
		if at <= start { // A word that is too long, such as a path, stays whole.
			for at = width; at < len(runes) && runes[at] != ' '; at++ {
			}
			if at == len(runes) {
				break
			}
		}
		out = append(out, strings.TrimRight(string(runes[:at]), " "))
		rest := strings.TrimLeft(string(runes[at:]), " ")
		if rest == "" {
			return out
		}
		line = indent + rest
	}
	return append(out, line)
}

// fitTable splits a table by its columns. Groups of columns, which the first line may name, stay together if they fit.
func fitTable(lines []string, width int) []string {
	rows := make([][]rune, len(lines))
	widest := 0
	var bars []int // The positions of the lines between columns.
	for i, line := range lines {
		rows[i] = []rune(line)
		widest = max(widest, len(rows[i]))
		if strings.Contains(line, "┼") && bars == nil {
			for at, r := range rows[i] {
				if r == '┼' {
					bars = append(bars, at)
				}
			}
		}
	}
	if widest <= width || len(bars) < 2 {
		return lines
	}
	// The first columns are those before the first named group, or the first one alone.
	var groups []int // Where groups end; nil if none are named.
	first := bars[0]
	if at := strings.IndexRune(lines[0], '│'); at > 0 && strings.TrimSpace(lines[0][:at]) == "" {
		first = utf8.RuneCountInString(lines[0][:at])
		for at, r := range rows[0] {
			if r == '│' {
				groups = append(groups, at)
			}
		}
		groups = append(groups, widest)
	}
	// Columns go from a bar to the next one; the bar before a column belongs to it.
	var edges []int
	for _, b := range bars {
		if b >= first {
			edges = append(edges, b)
		}
	}
	edges = append(edges, widest)
	isGroup := func(at int) bool {
		for _, g := range groups {
			if g == at {
				return true
			}
		}
		return false
	}
	var out []string
	for i := 0; i < len(edges)-1; {
		end := i + 1 // At least one column, however narrow the terminal is.
		for end < len(edges)-1 && first+edges[end+1]-edges[i] <= width {
			end++
		}
		for whole := end; whole > i && groups != nil; whole-- { // Not beyond the last group that fits as a whole.
			if isGroup(edges[whole]) {
				end = whole
				break
			}
		}
		if len(out) > 0 {
			out = append(out, "")
		}
		for n, row := range rows {
			part := cut(row, 0, first) + cut(row, edges[i], edges[end])
			if n == 0 && groups != nil {
				part = cut(row, 0, first) + groupNames(row, groups, edges[i], edges[end])
			}
			out = append(out, part)
		}
		i = end
	}
	return out
}

func cut(row []rune, from, to int) string { return string(row[min(from, len(row)):min(to, len(row))]) }

// groupNames returns the line of the groups' names between two columns, with the name of each group in the middle of
// the part of it that is there.
func groupNames(row []rune, groups []int, from, to int) string {
	var b strings.Builder
	for g := 0; g+1 < len(groups); g++ {
		start, end := max(groups[g], from), min(groups[g+1], to)
		if start >= end {
			continue
		}
		name := []rune(strings.Trim(cut(row, groups[g], groups[g+1]), " │"))
		room := end - start - 1
		name = name[:min(len(name), room)]
		left := (room - len(name) + 1) / 2
		b.WriteString("│" + strings.Repeat(" ", left) + string(name) + strings.Repeat(" ", room-len(name)-left))
	}
	return b.String()
}
