package ledger

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/figures"
)

const (
	// textWidth is the number of columns of [Text], and telling that of the rows that it shows.
	textWidth, telling = 120, 10
)

// Text returns what a terminal shows of the ledger, in at most 40 lines of 120 columns: the counts by place and
// setting, and the most telling rows.
func Text(rows []Row, provenance string) (string, error) {
	var out strings.Builder
	line := func(format string, args ...any) { out.WriteString(cut(fmt.Sprintf(format, args...), textWidth) + "\n") }
	line("%s", headline(rows))
	for _, s := range verdicts.Settings() {
		of := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Setting != s })
		count, words := Count(of), []string{}
		for _, v := range verdicts.All() {
			if count[v] > 0 {
				words = append(words, fmt.Sprintf("%d %s", count[v], v))
			}
		}
		if len(of) > 0 {
			line("By %s: %s.", cmp.Or(string(s), "no runs"), strings.Join(words, ", "))
		}
	}
	if !slices.ContainsFunc(rows, func(r Row) bool { return r.Setting.Bears() && r.Setting != verdicts.Print }) {
		line("What other images contradict is no evidence against the paper: its own setting was not tried.")
	}
	line("")
	// The places tell the settings of runs apart, so a verdict has one column; the paper's own numbers have one for all.
	column := func(k kind) string {
		if k.setting == verdicts.Print {
			return k.setting.Short()
		}
		return string(k.verdict)
	}
	names := []string{"Place"}
	for _, k := range kinds(rows) {
		if name := column(k); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	cells := [][]string{names}
	for _, g := range groups(rows) {
		count := make(map[string]int)
		for k, n := range countKinds(g.rows) {
			count[column(k)] += n
		}
		row := []string{g.title}
		for _, name := range names[1:] {
			row = append(row, fmt.Sprint(count[name]))
		}
		cells = append(cells, row)
	}
	for _, row := range cells {
		text := fmt.Sprintf("%-16s", row[0])
		for i, c := range row[1:] {
			text += fmt.Sprintf(" %*s", len(names[i+1]), c)
		}
		line("%s", strings.TrimRight(text, " "))
	}
	line("")
	shown := Telling(rows, telling)
	line("The most telling, of each verdict in turn (differences with 95 %% intervals):")
	for _, r := range shown {
		text := fmt.Sprintf("%-18s %-12s %-9s %s", r.Verdict, r.Place, cmp.Or(r.Data, "–"), figures.Plain(r.What))
		effect := figures.Plain(r.OurEffect)
		switch {
		case r.Setting == verdicts.Print:
			effect = figures.Plain(r.PaperEffect)
		case !math.IsNaN(r.P) && r.PaperEffect != "":
			effect = "paper " + figures.Plain(r.PaperEffect) + ", ours " + effect
		}
		if effect != "" && effect != "–" {
			const from = 74
			text = cut(text, from)
			text += strings.Repeat(" ", from-utf8.RuneCountInString(text)) + " " + effect
		}
		line("%s", text)
	}
	line("")
	for _, part := range wrap(provenance, textWidth, 4) {
		line("%s", part)
	}
	line("--table 3 --verdict contradicted picks entries; --out DIR writes all of them, with runs, tests and reasons.")
	return strings.TrimRight(out.String(), "\n"), nil
}

// Telling returns at most n rows: of each verdict in turn the one whose difference is least explained by noise, and
// rows that have no evidence last.
func Telling(rows []Row, n int) []Row {
	of := make(map[verdicts.Verdict][]Row)
	for _, r := range rows {
		of[r.Verdict] = append(of[r.Verdict], r)
	}
	for _, list := range of {
		slices.SortStableFunc(list, func(a, b Row) int {
			if math.IsNaN(a.P) || math.IsNaN(b.P) { // NaN would be less than any p-value.
				return cmp.Compare(boolean(math.IsNaN(a.P)), boolean(math.IsNaN(b.P)))
			}
			return cmp.Compare(a.P, b.P)
		})
	}
	take := func(n int, verdicts ...verdicts.Verdict) (out []Row) {
		for i := range rows {
			for _, v := range verdicts {
				if i < len(of[v]) && len(out) < n {
					out = append(out, of[v][i])
				}
			}
		}
		return out
	}
	all := verdicts.All()
	judged := slices.Index(all, verdicts.DifferentSetting)
	out := take(n, all[:judged]...)
	return append(out, take(n-len(out), all[judged:]...)...)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// wrap breaks a text at blanks into at most n lines, of which the last may be too long.
func wrap(text string, width, n int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last+" "+word) > width && len(lines) < n:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return lines
}

// cut shortens a text to a number of columns.
func cut(text string, width int) string {
	if r := []rune(text); len(r) > width {
		return strings.TrimRight(string(r[:width-1]), " ") + "…"
	}
	return text
}
