package evidence

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// found is what numbers say about the claim whose sentence contains some text; asks tells apart claims with one.
func found(t *testing.T, n *Numbers, says, asks string) Finding {
	t.Helper()
	var of []Claim
	for _, c := range Claims() {
		if strings.Contains(c.Says, says) && strings.Contains(c.Asks, asks) {
			of = append(of, c)
		}
	}
	if len(of) != 1 {
		t.Fatalf("%d claims say %q and ask %q", len(of), says, asks)
	}
	return n.find(of[0])
}

// What the paper's own numbers contradict is found by code: the inconsistencies that are known, each with its number.
func TestAuditOfThePaper(t *testing.T) {
	paper, err := NumbersOf(scores.Printed())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		quote, asks string
		want        Verdict
		evidence    string
	}{
		{"all pair weights provide", "", ContradictsItself, "18 of 20 cells; lowest −1.2"},
		{"is greatly reduced", "", ContradictsItself, "8 of 10"},
		{"Both relative-similarity", "", ContradictsItself, "25 of 32"},
		{"minimal but slight boost", "", ContradictsItself, "6 of 8"},
		{"stable improvement to both", "", ContradictsItself, "3 of 4"},
		{"on all tests", "", ContradictsItself, "1 of 3: Ours"},
		{"", "bold numbers", ContradictsItself, "SOP R@10 SCT 92.6 best, not bold"},
		{"beats the state of the art", "", ContradictsItself, "8 of 9 cells; lowest −0.1 (Ours×3 − SCT, R@10, SOP)"},
		{"raw data", "how many", ContradictsItself, "52 of 60 are there"},
		{"", "Settings", ContradictsItself, "CAR euc/con/con lr 0.2: 59.2 ± 0.2 (Table 6), 59.2 ± 0.8 (Table 7)"},
		{"positive weight below the boundary", "", ContradictsItself, "100 %"},
		{"88.3%", "", None, "+1.3"},
		{"78.2%", "", Reproduced, "78.2"},
		{"cosine-orthogonal direction have better", "", Reproduced, "8 of 8"},
		{"current state-of-the-art approach", "", ContradictsItself, "0 of 4"},
		{"$m_-^{sig}>1$", "", ContradictsItself, "0.37"},
		{"$m_-^{sig}<1$", "", ContradictsItself, "at most 1"},
		{"$m_+^{sig}<1$", "", Reproduced, "1.00"},
		{"much more robust", "", ContradictsItself, "2 of 4"},
		{"continue to improve", "", ContradictsItself, "of 36"},
		{"originally reported by the MS paper", "", ContradictsItself, "7 of 9"},
		{"not consistent across", "", Reproduced, "8 of 12"},
		{"exhaustively", "", Reproduced, "28 of 4 × 6 × 7 = 168"},
		{"same as $P^{lin}$", "", Reproduced, "2 of 2"},
		{"largely overlay", "", None, "picture"},
	} {
		f := found(t, paper, c.quote, c.asks)
		if f.Verdict != c.want || !strings.Contains(f.Evidence, c.evidence) {
			t.Errorf("%s: %s: %s; want %s with %q", c.quote, f.Verdict, f.Evidence, c.want, c.evidence)
		}
	}
}

// Other numbers, other
func TestAuditTurns(t *testing.T) {
	type edit struct {
		key  scores.Row
		mean float64
		std  float64
	}
	at := func(table int, data, direction, pair, triplet string, lr float64) scores.Row {
		return scores.Row{Table: table, Role: data, Direction: direction, Pair: pair, Triplet: triplet, LR: lr,
			Measure: "R@1"}
	}
	five := func(data, method, metric string, row int) scores.Row {
		return scores.Row{Table: 5, Role: data, Method: method, Measure: metric, Line: row}
	}
	for _, c := range []struct {
		quote, asks string
		want        Verdict
		edits       []edit
	}{
		{"all pair weights provide", "", Reproduced, []edit{{at(3, "CAR", "cos", "sig", "con", 0), 76, 0.2},
			{at(3, "In-shop", "cos", "euc", "con", 0), 85.5, 0.2}}},
		{"is greatly reduced", "", Reproduced, []edit{{at(3, "In-shop", "cos", "sig", "con", 0), 86.5, 0},
			{at(3, "In-shop", "cos", "sig-ms", "con", 0), 85, 0}}},
		{"stable improvement to both", "", Reproduced, []edit{{at(4, "CAR", "cos", "con", "cir", 0), 75.6, 0.3}}},
		{"stable improvement to both", "", ContradictsItself, []edit{{at(4, "CAR", "cos", "con", "con", 0), 80, 0},
			{at(4, "CAR", "cos", "lin", "con", 0), 80, 0},
			{at(4, "In-shop", "cos", "con", "con", 0), 90, 0}, {at(4, "In-shop", "cos", "lin", "con", 0), 90, 0}}},
		{"cosine-orthogonal direction have better", "", ContradictsItself,
			[]edit{{at(2, "CAR", "euc", "", "", 0), 76, 0}}},
		{"an improvement for both datasets", "", ContradictsItself, []edit{{at(2, "CAR", "cos", "", "", 0), 77, 0},
			{at(2, "In-shop", "cos", "", "", 0), 90, 0}}},
		{"same as $P^{lin}$", "", ContradictsItself, []edit{{at(3, "In-shop", "cos", "lin-ms", "con", 0), 88.4, 0}}},
		{"not helpful", "", ContradictsItself, []edit{{at(4, "In-shop", "cos", "con", "cir+sc1", 0), 86.1, 0}}},
		{"largely from the pair weight", "", ContradictsItself,
			[]edit{{at(4, "CAR", "cos", "con", "cir", 0), 77.9, 0}}},
		{"top performer", "", ContradictsItself, []edit{{at(3, "CAR", "cos", "lin", "con", 0), 80, 0}}},
		{"much more robust", "", ContradictsItself, []edit{{at(7, "CAR", "cos", "lin-ms", "con", 0.05), 78.8, 0}}},
		{"beats the state of the art", "", Reproduced, []edit{{five("SOP", "SCT", "R@10", 0), 92.4, 0}}},
		{"by a clear margin", "", ContradictsItself,
			[]edit{{five("CUB", "MS", "R@1", 0), 63, 0}, {five("CAR", "MS", "R@1", 0), 86, 0}}},
		{"current state-of-the-art approach", "", ContradictsItself, []edit{{five("CUB", "MS", "R@1", 0), 61.7, 0}}},
		{"originally reported by the MS paper", "", Reproduced, []edit{{five("SOP", "MS*", "R@10", 0), 90.6, 0},
			{five("SOP", "MS*", "R@100", 0), 96.1, 0}}},
	} {
		results := scores.Printed()
		for _, e := range c.edits {
			n := 0
			for i, r := range results {
				k := e.key
				if r.Table == k.Table && r.Role == k.Role && (k.Method == "" || r.Method == k.Method) &&
					(k.Direction == "" || r.Direction == k.Direction) &&
					(k.Pair == "" || r.Pair == k.Pair) && (k.Triplet == "" || r.Triplet == k.Triplet) && r.LR == k.LR &&
					r.Measure == k.Measure {
					results[i].Value.Mean, results[i].Value.Std = e.mean, e.std
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%s: an edit met %d numbers", c.quote, n)
			}
		}
		numbers, err := NumbersOf(results)
		if err != nil {
			t.Fatal(err)
		}
		if f := found(t, numbers, c.quote, c.asks); f.Verdict != c.want {
			t.Errorf("%s: %s: %s; want %s", c.quote, f.Verdict, f.Evidence, c.want)
		}
	}
}

// On runs a comparison counts where its interval says so.
func TestAuditOfRuns(t *testing.T) {
	rows := func(cos, orth float64, std float64, n int) (out scores.Table) {
		for _, set := range [][2]string{{"CAR", "minicar"}, {"In-shop", "minishop"}} {
			row := scores.Row{Table: 2, Role: set[0], Data: set[1], Rule: "cos/con/con", Measure: "R@1",
				Value: stats.Mean{Mean: cos, Std: std, N: n}}
			out = append(out, row)
			row.Rule, row.Value.Mean = "cos-orth/con/con", orth
			out = append(out, row)
		}
		return out
	}
	const quote = "an improvement for both datasets"
	with := func(rows scores.Table, s stats.Mean, at ...int) scores.Table {
		for _, i := range at {
			rows[i].Value = s
		}
		return rows
	}
	for name, c := range map[string]struct {
		rows     scores.Table
		want     Verdict
		evidence string
	}{
		// t(0.975, 4) = 2.776 and a standard error of √(2/3): a half width of 2.27.
		"beyond": {rows(70, 73, 1, 3), Reproduced,
			"2 of 2 cells beyond noise; lowest +3.0 [+0.7,\u00a0+5.3] (cos-orth/con/con − cos/con/con, minicar)"},
		"within":   {rows(70, 72, 1, 3), Undecided, "0 of 2 cells beyond noise"},
		"contrary": {rows(73, 70, 1, 3), Contradicted, "2 to the contrary"},
		"one each": {with(rows(70, 73, 1, 3), stats.Mean{Mean: 71, Std: 1, N: 3}, 1), InPart, "1 of 2"},
		"one contrary": {with(rows(70, 72, 1, 3), stats.Mean{Mean: 60, Std: 1, N: 3}, 1), Contradicted,
			"1 to the contrary"},
		// No deviation to take from anywhere.
		"single seeds":  {rows(70, 90, 0, 1), Undecided, "+20.0 (cos-orth/con/con − cos/con/con, minicar)"},
		"a pooled seed": {with(rows(70, 90, 1, 3), stats.Mean{Mean: 90, N: 1}, 1), Reproduced, "2 of 2"},
		"missing": {with(rows(70, 73, 1, 3), scores.Missing(), 2, 3), InPart,
			"1 of 1 cell beyond noise: +3.0 [+0.7,\u00a0+5.3] (cos-orth/con/con − cos/con/con, minicar); 1 more not run yet"},
		"diverged": {with(rows(70, 73, 1, 3), stats.Mean{Mean: math.NaN(), Diverged: 3}, 1), InPart,
			"1 more diverged"},
		"all diverged": {with(rows(70, 73, 1, 3), stats.Mean{Diverged: 3}, 1, 3), None,
			"diverged"},
		"none": {with(rows(70, 73, 1, 3), scores.Missing(), 0, 1, 2, 3), NotRun, "2 cells"},
	} {
		numbers, err := NumbersOf(c.rows)
		if err != nil {
			t.Fatal(err)
		}
		f := found(t, numbers, quote, "")
		if f.Verdict != c.want || !strings.Contains(f.Evidence, c.evidence) {
			t.Errorf("%s: %s: %q; want %s with %q", name, f.Verdict, f.Evidence, c.want, c.evidence)
		}
	}
	// That two numbers are the same is shown by an interval that lies within the bound.
	for std, want := range map[float64]Verdict{0.1: Reproduced, 1: Undecided} {
		var f scores.Table
		for _, rule := range []string{"euc/lin/con", "euc/lin-ms/con", "cos/lin/con", "cos/lin-ms/con"} {
			f = append(f, scores.Row{Table: 3, Data: "minishop", Role: "In-shop", Rule: rule, Measure: "R@1",
				Value: stats.Mean{Mean: 80, Std: std, N: 3}})
		}
		numbers, err := NumbersOf(f)
		if err != nil {
			t.Fatal(err)
		}
		if f := found(t, numbers, "same as $P^{lin}$", ""); f.Verdict != want {
			t.Errorf("equal with deviation %g: %s: %s", std, f.Verdict, f.Evidence)
		}
	}
	for want, wrong := range map[string]scores.Table{
		"twice":                     append(rows(1, 2, 1, 3), rows(1, 2, 1, 3)[0]),
		`on "minidots" has no role`: {{Table: 2, Data: "minidots", Rule: "cos/con/con", Measure: "R@1"}},
	} {
		if _, err := NumbersOf(wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// The runs of a rule with several seeds are one number.
	seeds := slices.Concat(rows(70, 73, 0, 1), rows(71, 74, 0, 1), rows(72, 75, 0, 1))
	for i := range seeds {
		seeds[i].Seed = uint64(i/4 + 1)
	}
	n, err := NumbersOf(seeds)
	if err != nil {
		t.Fatal(err)
	}
	m := n.Of(scores.Row{Table: 2, Role: "CAR", Rule: "cos/con/con"})
	if math.Abs(m.Mean-71) > 1e-9 || math.Abs(m.Std-1) > 1e-9 || m.N != 3 {
		t.Errorf("%+v of three seeds", m)
	}
}

// Without runs all is open. Each claim can be decided, on the paper's own numbers too, and names tables that are there.
func TestEveryClaim(t *testing.T) {
	paper, err := NumbersOf(scores.Printed())
	if err != nil {
		t.Fatal(err)
	}
	none, err := NumbersOf(scores.Table{{Table: 2, Data: "minicar", Role: "CAR", Value: scores.Missing()},
		{Table: 2, Data: "minishop", Role: "In-shop", Value: scores.Missing()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Claims() {
		if f := none.find(c); f.Verdict != NotRun && f.Verdict != None {
			t.Errorf("%s: without runs %s: %s", c.Says, f.Verdict, f.Evidence)
		}
		f := paper.find(c)
		if f.Verdict == NotRun || f.Verdict == Undecided || f.Evidence == "" || f.Missing > 0 ||
			strings.Contains(f.Evidence, "NaN") || strings.Contains(f.Evidence, "%!") {
			t.Errorf("%s: on the paper's numbers %s: %s", c.Says, f.Verdict, f.Evidence)
		}
		if c.Section == "" || c.Asks == "" || (c.Fact == nil) != (len(c.Cells) > 0 && c.Table > 0 && c.Is != "") ||
			(c.Fact != nil || c.Only != "") != (c.Because != "") {
			t.Errorf("%+v", c)
		}
		for _, table := range c.tables() {
			if table < 2 || table > 8 {
				t.Errorf("%s: table %d", c.Says, table)
			}
		}
	}
}

// A claim of the user's own is decided as the paper's are, on printed and on measured numbers.
func TestOwnClaim(t *testing.T) {
	row := func(rule string) scores.Row {
		return scores.Row{Table: 2, Role: "CAR", Data: "minicar", Rule: rule, Preset: "mine", Run: rule}
	}
	own := Claim{Says: "The cosine direction wins.", Table: 2, On: []string{"CAR"}, Is: Above,
		Cells: []string{"cos/con/con - euc/con/con"}}
	for want, means := range map[Verdict][2]float64{Reproduced: {80, 70}, Contradicted: {70, 80}, Undecided: {75.1, 75}} {
		a, b := row("cos/con/con"), row("euc/con/con")
		a.Value = stats.Mean{Mean: means[0], Std: 1, N: 3}
		b.Value = stats.Mean{Mean: means[1], Std: 1, N: 3}
		entries, _, err := Judge([]Claim{own}, Runs{Preset: "mine", Setting: Drawn, Scores: scores.Table{a, b}})
		if err != nil {
			t.Fatal(err)
		}
		e := entries[len(entries)-1]
		if e.Verdict != want || e.Paper != "holds" || e.Setting != Drawn || e.Seeds != 3 || len(e.Runs) != 2 ||
			e.Decided.Tests != 1 || !slices.Equal(e.Tables, []int{2}) || len(e.OurFinding.Cells) != 1 {
			t.Errorf("%v: %+v, want %s", means, e, want)
		}
	}
}

func TestExpand(t *testing.T) {
	want := []string{"a/x - a/y", "b/x - b/y"}
	if got := expand("{a,b}/x - {a,b}/y"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := expand("{a,b}/{c,d}"); len(got) != 4 || got[1] != "a/d" {
		t.Errorf("%q", got)
	}
}
