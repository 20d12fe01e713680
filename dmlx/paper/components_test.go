package paper

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

const somewhere = "preset quick · minicar, minishop · xla:cpu · 3 seeds · 2026-01-01"

// checkText compares a table in all its formats with testdata/NAME.FORMAT.golden, which -regen rewrites.
func checkText(t *testing.T, name string, table *figures.Table) {
	t.Helper()
	for _, format := range table.Formats() {
		got, err := figures.Bytes(table, format)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+"."+format+".golden")
		if *cmpimg.GenerateTestData {
			if err := os.WriteFile(golden, got, 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s.%s is\n%s\nwant\n%s", name, format, got, want)
		}
	}
}

// score is Recall@1 of a rule or loss on minicar.
func score(rule string, mean, std float64, n, diverged int) scores.Row {
	r := scores.Row{Data: "minicar", Role: "CAR", Measure: "R@1",
		Value: stats.Mean{Mean: mean, Std: std, N: n, Diverged: diverged}}
	r.SetRule(rule)
	return r
}

// onShop is a score on minishop.
func onShop(r scores.Row) scores.Row {
	r.Data, r.Role = "minishop", "In-shop"
	return r
}

// prototype is Table 2 at a small size.
func prototype() scores.Table {
	return scores.Table{
		score("euc/con/con", 65.1, 2.0, 3, 0), onShop(score("euc/con/con", 71.2, 1.2, 3, 0)),
		score("cos/con/con", 69.2, 1.5, 3, 0), onShop(score("cos/con/con", 72.9, 1.0, 3, 0)),
		score("euc-orth/con/con", 67.5, 0.6, 2, 1), onShop(score("euc-orth/con/con", 73.6, 0.6, 3, 0)),
		score("cos-orth/con/con", 66.9, 1.5, 3, 0), onShop(score("cos-orth/con/con", math.NaN(), 0, 0, 0)),
	}
}

// papers are the paper's own numbers of a table as ours, moved: all by the same, each a little.
func papers(table int, shift, wobble float64) scores.Table {
	out := scores.Printed().Select(scores.Row{Table: table})
	for i := range out {
		r := &out[i]
		r.Data = map[string]string{"CAR": "minicar", "In-shop": "minishop"}[r.Data]
		r.Value.Mean += shift + wobble*math.Sin(float64(7*i))
		r.Value.N = 3
	}
	return out
}

func TestTables2To4(t *testing.T) {
	t.Parallel()
	third := papers(3, -3, 1)
	third[3].Value = stats.Mean{Mean: math.NaN(), Diverged: 3}
	third[4].Value.N, third[4].Value.Diverged = 2, 1
	for table, ours := range map[int]scores.Table{2: prototype(), 3: third, 4: papers(4, -3, 1)} {
		c, err := Compare(table, ours, somewhere)
		if err != nil {
			t.Fatal(err)
		}
		name := "table" + string(rune('0'+table))
		checkText(t, name, c.Table())
		if table > 2 {
			checkText(t, name+"gains", c.Gains())
		}
	}
	for i := range third { // Without the paper ours stands alone.
		third[i].Role = ""
	}
	c, err := Compare(3, third, "")
	if err != nil || len(c.Table().Columns) != 4 || len(c.Table().Notes) != 0 {
		t.Errorf("%v, %v", c, err)
	}
}

// A row of the user's own stands in the column of its part, and in each column if it has none of the columns' parts.
// Rules that differ in the column's part alone share a row. The paper has no number for any of them.
func TestCompareOwnRows(t *testing.T) {
	t.Parallel()
	own := func(r scores.Row, label string) scores.Row {
		r.Own, r.Label = true, label
		return r
	}
	ours := scores.Table{
		score("euc/con/con", 70, 1, 3, 0),
		own(score("cos/lin/cir?tau=2", 80, 1, 3, 0), ""),
		score("cos/con/con", 70, 1, 3, 0),
		own(score("euc/lin/cir?tau=2", 81, 1, 3, 0), ""),
		own(score("cos/con/cos", math.NaN(), 0, 0, 0), ""),
		own(score("loss ms", 82, 1, 3, 0), ""),
		own(score("cos-orth/lin/con", 83, 1, 3, 0), "mine"),
	}
	c, err := Compare(3, ours, "here")
	if err != nil {
		t.Fatal(err)
	}
	text, err := figures.Bytes(c.Table(), "md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| $P^{con}$ | 70.0 ± 1.0 | 70.0 ± 1.0 | 69.5 ± 0.7 | 75.5 ± 0.2 |",
		"| $P^{lin}$, $T^{cir}$, tau=2 | 81.0 ± 1.0 | 80.0 ± 1.0 | – | – |",
		"| $P^{con}$, $T^{cos}$ | – | – | – | – |",
		"| loss ms¹ | 82.0 ± 1.0 | 82.0 ± 1.0 | – | – |",
		"| mine¹ | 83.0 ± 1.0 | 83.0 ± 1.0 | – | – |",
		"none of these directions",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
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
	other := own(score("loss circle", 70, 1, 3, 0), "")
	other.Role = "In-shop"
	for want, more := range map[string]scores.Row{"twice": ours[5], "stands beside": other} {
		if _, err := Compare(3, append(ours[:len(ours):len(ours)], more), ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want …%s…", more, err, want)
		}
	}
	if _, err := Compare(3, ours[5:], ""); err == nil || !strings.Contains(err.Error(), "at least one") {
		t.Errorf("own rows alone: %v", err)
	}
}

// A rule without the mark is a row of the user's own if it has options or another part than the table's; one that has
// only other parts in its row or column adds these. The paper has no number for either.
func TestCompareUnmarkedRows(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string]string{
		"cos-orth/lin/con":       "$P^{lin}$ | – | 80.0 ± 1.0 | – | – |",
		"cos/lin/con?beta=5":     "$P^{lin}$, beta=5 | 80.0 ± 1.0 | – |",
		"cos-orth/lin/con?tau=2": `$P^{lin}$, $\mathbf{e^{cos-orth}}$, tau=2¹ | 80.0 ± 1.0 | – |`,
		"cos/lin/cir":            "$P^{lin}$, $T^{cir}$ | 80.0 ± 1.0 | – |",
	} {
		c, err := Compare(3, scores.Table{score("cos/con/con", 70, 1, 3, 0), score(rule, 80, 1, 3, 0)}, "")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := figures.Bytes(c.Table(), "md"); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %s in\n%s%v", rule, want, text, err)
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	sop := score("cos/con/con", 70, 1, 3, 0)
	sop.Role = "SOP"
	alone := score("euc/con/con", 70, 1, 3, 0)
	alone.Role = ""
	other := score("cos/con/con", 70, 1, 3, 0)
	other.LR = 0.2
	for name, c := range map[string]struct {
		table int
		ours  scores.Table
		want  string
	}{
		"table":     {9, prototype(), "2, 3 or 4"},
		"nothing":   {2, nil, "at least one"},
		"data":      {2, scores.Table{sop}, "SOP"},
		"held part": {2, scores.Table{score("cos/lin/con", 70, 1, 3, 0)}, "at least one"},
		"twice":     {2, append(prototype(), prototype()[0]), "twice"},
		"two rates": {2, append(prototype(), other), "twice"},
		"two sets":  {2, scores.Table{prototype()[2], alone}, "beside"},
	} {
		if _, err := Compare(c.table, c.ours, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", name, err, c.want)
		}
	}
}
