package figures

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

func someLengths() []Length {
	return []Length{
		{Data: "minicar", Rules: []string{"cos/con/con", "cos/lin/con", "cos/sig-ms/con"}, Steps: []int{720, 1440, 2880},
			PaperData: "CAR", Paper: []stats.Mean{{Mean: 70, N: 5}, {Mean: 72, N: 5}, {Mean: 60, N: 5}},
			Ours: [][]stats.Mean{{{Mean: 70, Std: 1, N: 3}, {Mean: 69, Std: 1, N: 3}, {Mean: 60, Std: 2, N: 3}},
				{{Mean: 71, N: 1}, {Mean: 73, N: 1}, {Mean: 62, N: 1}}, {{Mean: 72, N: 1}, {Mean: 74, N: 1}, Missing}}},
		{Data: "minishop", Rules: []string{"cos/con/con", "cos/lin/con"}, Steps: []int{600, 1200},
			Ours: [][]stats.Mean{{{Mean: 80, N: 1}, {Mean: 80.1, N: 1}}, {{Mean: 80.2, N: 1}, {Mean: 80.1, N: 1}}}},
	}
}

func TestLengths(t *testing.T) {
	f, err := Lengths(someLengths(), "preset quick · made-up numbers")
	checkGolden(t, "lengths", f, err)
	if !strings.Contains(f.Alt, "minicar, cos/lin/con, 1440 steps: 73.0") {
		t.Error(f.Alt)
	}
	table, err := LengthTable(someLengths(), "")
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
	bad := someLengths()
	bad[0].Ours[1] = nil
	if _, err := Lengths(bad, ""); err == nil || !strings.Contains(err.Error(), "1440 steps have 0 scores") {
		t.Error(err)
	}
	if _, err := LengthTable(nil, ""); err == nil {
		t.Error("no sets")
	}
}
