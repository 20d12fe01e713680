package figures

import (
	"cmp"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

func someLengths() []scores.Group {
	return scores.Table{
		{Steps: 720, Rule: "cos/con/con", Value: stats.Mean{Mean: 70, Std: 1, N: 3}},
		{Steps: 720, Rule: "cos/lin/con", Value: stats.Mean{Mean: 69, Std: 1, N: 3}},
		{Steps: 720, Rule: "cos/sig-ms/con", Value: stats.Mean{Mean: 60, Std: 2, N: 3}},
		{Steps: 1440, Rule: "cos/con/con", Value: stats.Mean{Mean: 71, N: 1}},
		{Steps: 1440, Rule: "cos/lin/con", Value: stats.Mean{Mean: 73, N: 1}},
		{Steps: 1440, Rule: "cos/sig-ms/con", Value: stats.Mean{Mean: 62, N: 1}},
		{Steps: 2880, Rule: "cos/con/con", Value: stats.Mean{Mean: 72, N: 1}},
		{Steps: 2880, Rule: "cos/lin/con", Value: stats.Mean{Mean: 74, N: 1}},
		{Steps: 2880, Rule: "cos/sig-ms/con", Value: Missing},
		{Steps: 600, Data: "minishop", Rule: "cos/con/con", Value: stats.Mean{Mean: 80, N: 1}},
		{Steps: 600, Data: "minishop", Rule: "cos/lin/con", Value: stats.Mean{Mean: 80.1, N: 1}},
		{Steps: 1200, Data: "minishop", Rule: "cos/con/con", Value: stats.Mean{Mean: 80.2, N: 1}},
		{Steps: 1200, Data: "minishop", Rule: "cos/lin/con", Value: stats.Mean{Mean: 80.1, N: 1}},
	}.Group(func(r scores.Row) string { return cmp.Or(r.Data, "minicar") })
}

func TestLengths(t *testing.T) {
	f, err := Lengths("preset quick · made-up numbers", someLengths()...)
	checkGolden(t, "lengths", f, err)
	if !strings.Contains(f.Alt, "minicar, cos/lin/con, 1440 steps: 73.0") {
		t.Error(f.Alt)
	}
	sets := someLengths()
	for i := range sets[0].Rows {
		sets[0].Rows[i].Role = "CAR"
	}
	printed := scores.Table{{Data: "CAR", Rule: "cos/con/con", Value: stats.Mean{Mean: 70, N: 5}},
		{Data: "CAR", Rule: "cos/lin/con", Value: stats.Mean{Mean: 72, N: 5}},
		{Data: "CAR", Rule: "cos/sig-ms/con", Value: stats.Mean{Mean: 60, N: 5}}}
	table, err := LengthTable(sets, printed, "")
	if err != nil {
		t.Fatal(err)
	}
	text := table.String()
	// 70, 69, 60 against 71, 73, 62: ranks 3 2 1 and 2 3 1, ρ = 1 − 6·2/(3·8) = 0.5.
	for _, want := range []string{"4×", "60.0 ± 2.0", "at 720 steps against that at 1440 (Spearman): ρ = 0.50, n = 3",
		"ρ undefined, n = 2",
		"at 720 steps against the paper's on CAR (Spearman): ρ = 0.50",
		"at 1440 steps against the paper's on CAR (Spearman): ρ = 1.00"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	sets[0].Rows[1].Steps = 0
	if _, err := Lengths("", sets...); err == nil || !strings.Contains(err.Error(), "0 steps") {
		t.Error(err)
	}
	if _, err := Lengths("", scores.Group{Key: "birds"}); err == nil || !strings.Contains(err.Error(), "has no scores") {
		t.Error(err)
	}
	if _, err := LengthTable(nil, nil, ""); err == nil {
		t.Error("no sets")
	}
}
