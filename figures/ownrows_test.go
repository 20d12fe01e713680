package figures

import (
	"strings"
	"testing"
)

// A row of the user's own stands in the column of its part, and in each column if it has none of the columns' parts.
// Rules that differ in the column's part alone share a row. The paper has no number for any of them.
func TestCompareOwnRows(t *testing.T) {
	score := meanOf(70, 1, 3, 0)
	entries := []Entry{
		{Rule: "euc/con/con", Data: "minicar", Paper: "CAR", Score: score},
		{Rule: "cos/lin/cir?tau=2", Data: "minicar", Paper: "CAR", Score: meanOf(80, 1, 3, 0), Own: true},
		{Rule: "cos/con/con", Data: "minicar", Paper: "CAR", Score: score},
		{Rule: "euc/lin/cir?tau=2", Data: "minicar", Paper: "CAR", Score: meanOf(81, 1, 3, 0), Own: true},
		{Rule: "cos/con/cos", Data: "minicar", Paper: "CAR", Score: Missing, Own: true},
		{Rule: "loss ms", Data: "minicar", Paper: "CAR", Score: meanOf(82, 1, 3, 0), Own: true},
		{Rule: "cos-orth/lin/con", Data: "minicar", Paper: "CAR", Score: meanOf(83, 1, 3, 0), Own: true, Label: "mine"},
	}
	c, err := Compare("table3", entries, "here")
	if err != nil {
		t.Fatal(err)
	}
	table := c.Table()
	want := []string{
		"$P^{con}$ | 70.0 ± 1.0 | 70.0 ± 1.0 | 69.5 ± 0.7 | 75.5 ± 0.2",
		"$P^{lin}$, $T^{cir}$, tau=2 | 81.0 ± 1.0 | 80.0 ± 1.0 | – | –",
		"$P^{con}$, $T^{cos}$ | – | – | – | –",
		"loss ms | 82.0 ± 1.0 | 82.0 ± 1.0 | – | –",
		"mine | 83.0 ± 1.0 | 83.0 ± 1.0 | – | –",
	}
	for i, row := range table.Rows {
		var cells []string
		for _, cell := range row[1:] {
			cells = append(cells, cell.markup())
		}
		if got := strings.Join(cells, " | "); len(table.Rows) != len(want) || got != want[i] {
			t.Errorf("row %d of %d is %s, want %s", i, len(table.Rows), got, want[i])
		}
		if everywhere := i > 2; everywhere != strings.Contains(row[1].Note, "none of these directions") {
			t.Errorf("row %d has the note %q", i, row[1].Note)
		}
	}
	gains := c.Gains().Rows
	if got := gains[1][2].Text; got[:6] != "+11.0 " {
		t.Errorf("gain %s", got)
	}
	if got := gains[3][4].Text; got != "–" { // Of the second column over the first.
		t.Errorf("the loss gains %s over itself", got)
	}
	if alt := c.Plot().Alt; !strings.Contains(alt, "loss ms 82.0 ± 1.0 (paper, CAR: –)") {
		t.Error(alt)
	}
	for want, more := range map[string]Entry{
		"twice":         {Rule: "loss ms", Data: "minicar", Paper: "CAR", Score: score, Own: true},
		"stands beside": {Rule: "loss circle", Data: "minicar", Paper: "In-shop", Score: score, Own: true},
	} {
		if _, err := Compare("table3", append(entries[:len(entries):len(entries)], more), ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want …%s…", more, err, want)
		}
	}
	if _, err := Compare("table3", entries[5:], ""); err == nil || !strings.Contains(err.Error(), "at least one of the") {
		t.Errorf("own rows alone: %v", err)
	}
}

// A rule without the mark is a row of the user's own if it has options or another part than the table's; one that has
// only other parts in its row or column adds these. The paper has no number for either.
func TestCompareUnmarkedRows(t *testing.T) {
	for rule, want := range map[string]string{
		"cos-orth/lin/con":       "$P^{lin}$ | – | 80.0 ± 1.0 | – | –",
		"cos/lin/con?beta=5":     "$P^{lin}$, beta=5 | 80.0 ± 1.0 | –",
		"cos-orth/lin/con?tau=2": `$P^{lin}$, $\mathbf{e^{cos-orth}}$, tau=2 | 80.0 ± 1.0 | –`,
		"cos/lin/cir":            "$P^{lin}$, $T^{cir}$ | 80.0 ± 1.0 | –",
	} {
		c, err := Compare("table3", []Entry{
			{Rule: "cos/con/con", Data: "minicar", Paper: "CAR", Score: meanOf(70, 1, 3, 0)},
			{Rule: rule, Data: "minicar", Paper: "CAR", Score: meanOf(80, 1, 3, 0)},
		}, "")
		if err != nil {
			t.Fatal(err)
		}
		var cells []string
		for _, cell := range c.Table().Rows[1][1:] {
			cells = append(cells, cell.markup())
		}
		if got := strings.Join(cells, " | "); got != want {
			t.Errorf("%s: %s, want %s", rule, got, want)
		}
	}
}

// CSV has a column for the setting, since it has no caption.
func TestSettingInCSV(t *testing.T) {
	table := &Table{Columns: []Column{{Title: "Rule"}, {Title: "R@1"}}, Setting: "quick with tau=2"}
	score := meanOf(70, 1, 3, 0)
	table.Rows = [][]Cell{{Text("a"), {Score: &score}}}
	raw, err := Bytes(table, "csv")
	if want := "Rule,R@1 mean,R@1 std,R@1 runs,R@1 diverged,setting\na,70,1,3,0,quick with tau=2\n"; err != nil ||
		string(raw) != want {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
}
