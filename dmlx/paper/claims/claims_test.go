package claims

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

const somewhere = "preset quick · minicar, minishop · xla:cpu · 3 seeds · 2026-01-01"

// checkGolden compares a table in all its formats with testdata/NAME.FORMAT.golden; -regen writes those anew.
func checkGolden(t *testing.T, name string, table *figures.Table) {
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

// finding audits and picks the claim whose quote contains some text; asks tells apart claims with one quote.
func finding(t *testing.T, audited []Audited, quote, asks string) Audited {
	t.Helper()
	var found []Audited
	for _, a := range audited {
		if strings.Contains(a.Quote, quote) && strings.Contains(a.Asks, asks) {
			found = append(found, a)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d claims say %q and ask %q", len(found), quote, asks)
	}
	return found[0]
}

// What the paper's own numbers contradict is found by code: the inconsistencies that are known, each with its number.
func TestAuditOfThePaper(t *testing.T) {
	paper, err := NumbersOf(scores.Printed())
	if err != nil {
		t.Fatal(err)
	}
	audited := Audit(List(), paper, nil)
	for _, c := range []struct {
		quote, asks string
		want        verdicts.Verdict
		evidence    string
	}{
		{"all pair weights provide", "", verdicts.ContradictsItself, "18 of 20 cells; lowest −1.2"},
		{"is greatly reduced", "", verdicts.ContradictsItself, "8 of 10"},
		{"Both relative-similarity", "", verdicts.ContradictsItself, "25 of 32"},
		{"minimal but slight boost", "", verdicts.ContradictsItself, "6 of 8"},
		{"stable improvement to both", "", verdicts.ContradictsItself, "3 of 4"},
		{"on all tests", "", verdicts.ContradictsItself, "1 of 3: Ours"},
		{"", "bold numbers", verdicts.ContradictsItself, "SOP R@10 SCT 92.6 best, not bold"},
		{"beats the state of the art", "", verdicts.ContradictsItself, "8 of 9 cells; lowest −0.1 (SOP R@10, to SCT)"},
		{"raw data", "how many", verdicts.ContradictsItself, "52 of 60 are there"},
		{"", "Settings", verdicts.ContradictsItself, "CAR euc/con/con lr 0.2: 59.2 ± 0.2 (Table 6), 59.2 ± 0.8 (Table 7)"},
		{"positive weight below the boundary", "", verdicts.ContradictsItself, "100 %"},
		{"88.3%", "", verdicts.None, "+1.3"},
		{"78.2%", "", verdicts.Reproduced, "78.2"},
		{"cosine-orthogonal direction have better", "", verdicts.Reproduced, "8 of 8"},
		{"current state-of-the-art approach", "", verdicts.ContradictsItself, "0 of 4"},
		{"$m_-^{sig}>1$", "", verdicts.ContradictsItself, "0.37"},
		{"$m_-^{sig}<1$", "", verdicts.ContradictsItself, "at most 1"},
		{"$m_+^{sig}<1$", "", verdicts.Reproduced, "1.00"},
		{"much more robust", "", verdicts.ContradictsItself, "2 of 4"},
		{"continue to improve", "", verdicts.ContradictsItself, "of 36"},
		{"originally reported by the MS paper", "", verdicts.ContradictsItself, "7 of 9"},
		{"not consistent across", "", verdicts.Reproduced, "8 of 12"},
		{"exhaustively", "", verdicts.Reproduced, "28 of 4 × 6 × 7 = 168"},
		{"same as $P^{lin}$", "", verdicts.Reproduced, "2 of 2"},
		{"largely overlay", "", verdicts.None, "picture"},
	} {
		a := finding(t, audited, c.quote, c.asks)
		if a.Paper.Verdict != c.want || !strings.Contains(a.Paper.Evidence, c.evidence) {
			t.Errorf("%s: %s: %s; want %s with %q", c.quote, a.Paper.Verdict, a.Paper.Evidence, c.want, c.evidence)
		}
	}
	checkGolden(t, "claimscontradicted",
		PaperTable(Contradicted(audited), "What the paper's own numbers contradict, wholly or in part."))
	checkGolden(t, "claimssummary", Summary(audited, somewhere))
}

// Other numbers, other verdicts.
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
		want        verdicts.Verdict
		edits       []edit
	}{
		{"all pair weights provide", "", verdicts.Reproduced, []edit{{at(3, "CAR", "cos", "sig", "con", 0), 76, 0.2},
			{at(3, "In-shop", "cos", "euc", "con", 0), 85.5, 0.2}}},
		{"is greatly reduced", "", verdicts.Reproduced, []edit{{at(3, "In-shop", "cos", "sig", "con", 0), 86.5, 0},
			{at(3, "In-shop", "cos", "sig-ms", "con", 0), 85, 0}}},
		{"stable improvement to both", "", verdicts.Reproduced, []edit{{at(4, "CAR", "cos", "con", "cir", 0), 75.6, 0.3}}},
		{"stable improvement to both", "", verdicts.ContradictsItself, []edit{{at(4, "CAR", "cos", "con", "con", 0), 80, 0},
			{at(4, "CAR", "cos", "lin", "con", 0), 80, 0},
			{at(4, "In-shop", "cos", "con", "con", 0), 90, 0}, {at(4, "In-shop", "cos", "lin", "con", 0), 90, 0}}},
		{"cosine-orthogonal direction have better", "", verdicts.ContradictsItself,
			[]edit{{at(2, "CAR", "euc", "", "", 0), 76, 0}}},
		{"an improvement for both datasets", "", verdicts.ContradictsItself, []edit{{at(2, "CAR", "cos", "", "", 0), 77, 0},
			{at(2, "In-shop", "cos", "", "", 0), 90, 0}}},
		{"same as $P^{lin}$", "", verdicts.ContradictsItself, []edit{{at(3, "In-shop", "cos", "lin-ms", "con", 0), 88.4, 0}}},
		{"not helpful", "", verdicts.ContradictsItself, []edit{{at(4, "In-shop", "cos", "con", "cir+sc1", 0), 86.1, 0}}},
		{"largely from the pair weight", "", verdicts.ContradictsItself,
			[]edit{{at(4, "CAR", "cos", "con", "cir", 0), 77.9, 0}}},
		{"top performer", "", verdicts.ContradictsItself, []edit{{at(3, "CAR", "cos", "lin", "con", 0), 80, 0}}},
		{"much more robust", "", verdicts.ContradictsItself, []edit{{at(7, "CAR", "cos", "lin-ms", "con", 0.05), 78.8, 0}}},
		{"beats the state of the art", "", verdicts.Reproduced, []edit{{five("SOP", "SCT", "R@10", 0), 92.4, 0}}},
		{"", "bold numbers", verdicts.Reproduced, []edit{{five("SOP", "SCT", "R@10", 0), 92.4, 0}}},
		{"by a clear margin", "", verdicts.ContradictsItself,
			[]edit{{five("CUB", "MS", "R@1", 0), 63, 0}, {five("CAR", "MS", "R@1", 0), 86, 0}}},
		{"current state-of-the-art approach", "", verdicts.ContradictsItself, []edit{{five("CUB", "MS", "R@1", 0), 61.7, 0}}},
		{"originally reported by the MS paper", "", verdicts.Reproduced, []edit{{five("SOP", "MS*", "R@10", 0), 90.6, 0},
			{five("SOP", "MS*", "R@100", 0), 96.1, 0}}},
		{"78.2%", "", verdicts.ContradictsItself, []edit{{five("SOP", "MS", "R@1", 0), 78.3, 0}}},
		{"raw data", "how many", verdicts.ContradictsItself, []edit{{at(2, "CAR", "cos", "", "", 0), 75.4, 0.2}}},
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
		if a := finding(t, Audit(List(), numbers, nil), c.quote, c.asks); a.Paper.Verdict != c.want {
			t.Errorf("%s: %s: %s; want %s", c.quote, a.Paper.Verdict, a.Paper.Evidence, c.want)
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
		want     verdicts.Verdict
		evidence string
	}{
		// t(0.975, 4) = 2.776 and a standard error of √(2/3): a half width of 2.27.
		"beyond": {rows(70, 73, 1, 3), verdicts.Reproduced,
			"2 of 2 cells beyond noise; lowest +3.0 [+0.7,\u00a0+5.3] (minicar)"},
		"within":   {rows(70, 72, 1, 3), verdicts.Undecided, "0 of 2 cells beyond noise"},
		"contrary": {rows(73, 70, 1, 3), verdicts.Contradicted, "2 to the contrary"},
		"one each": {with(rows(70, 73, 1, 3), stats.Mean{Mean: 71, Std: 1, N: 3}, 1), verdicts.InPart, "1 of 2"},
		"one contrary": {with(rows(70, 72, 1, 3), stats.Mean{Mean: 60, Std: 1, N: 3}, 1), verdicts.Contradicted,
			"1 to the contrary"},
		"single seeds":  {rows(70, 90, 0, 1), verdicts.Undecided, "+20.0 (minicar)"}, // No deviation to take from anywhere.
		"a pooled seed": {with(rows(70, 90, 1, 3), stats.Mean{Mean: 90, N: 1}, 1), verdicts.Reproduced, "2 of 2"},
		"missing": {with(rows(70, 73, 1, 3), scores.Missing(), 2, 3), verdicts.InPart,
			"1 of 1 cell beyond noise: +3.0 [+0.7,\u00a0+5.3] (minicar); 1 more not run yet"},
		"diverged": {with(rows(70, 73, 1, 3), stats.Mean{Mean: math.NaN(), Diverged: 3}, 1), verdicts.InPart,
			"1 more diverged"},
		"all diverged": {with(rows(70, 73, 1, 3), stats.Mean{Diverged: 3}, 1, 3), verdicts.None,
			"diverged"},
		"none": {with(rows(70, 73, 1, 3), scores.Missing(), 0, 1, 2, 3), verdicts.NotRun, "2 cells"},
	} {
		numbers, err := NumbersOf(c.rows)
		if err != nil {
			t.Fatal(err)
		}
		a := finding(t, Audit(List(), numbers, numbers), quote, "")
		if a.Ours.Verdict != c.want || !strings.Contains(a.Ours.Evidence, c.evidence) {
			t.Errorf("%s: %s: %q; want %s with %q", name, a.Ours.Verdict, a.Ours.Evidence, c.want, c.evidence)
		}
	}
	// That two numbers are the same is shown by an interval that lies within the bound.
	for std, want := range map[float64]verdicts.Verdict{0.1: verdicts.Reproduced, 1: verdicts.Undecided} {
		var f scores.Table
		for _, rule := range []string{"euc/lin/con", "euc/lin-ms/con", "cos/lin/con", "cos/lin-ms/con"} {
			f = append(f, scores.Row{Table: 3, Data: "minishop", Role: "In-shop", Rule: rule, Measure: "R@1",
				Value: stats.Mean{Mean: 80, Std: std, N: 3}})
		}
		numbers, err := NumbersOf(f)
		if err != nil {
			t.Fatal(err)
		}
		if a := finding(t, Audit(List(), numbers, numbers), "same as $P^{lin}$", ""); a.Ours.Verdict != want {
			t.Errorf("equal with deviation %g: %s: %s", std, a.Ours.Verdict, a.Ours.Evidence)
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
	if m := n.Of(t2("CAR", "cos")); math.Abs(m.Mean-71) > 1e-9 || math.Abs(m.Std-1) > 1e-9 || m.N != 3 {
		t.Errorf("%+v of three seeds", m)
	}
}

// Runs that are the paper's numbers find what the paper's numbers find, as far as they speak of it; without any all are
// open. Each claim belongs to a part and can be written.
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
	audited := Audit(List(), paper, none)
	shown := 0
	for _, p := range Parts {
		table := Table(audited, somewhere, p.Name)
		if len(table.Rows) == 0 {
			t.Errorf("no claims in %s", p.Name)
		}
		shown += len(table.Rows)
		for _, format := range table.Formats() {
			if _, err := figures.Bytes(table, format); err != nil {
				t.Errorf("%s as %s: %v", p.Name, format, err)
			}
		}
	}
	if shown != len(audited) || shown != len(Table(audited, "").Rows) {
		t.Errorf("%d of %d claims are in a part", shown, len(audited))
	}
	for _, a := range audited {
		if v := a.Ours.Verdict; v != verdicts.NotRun && v != verdicts.None {
			t.Errorf("%s: without runs %s: %s", a.Quote, v, a.Ours.Evidence)
		}
		if a.Paper.Verdict == verdicts.NotRun || a.Paper.Verdict == verdicts.Undecided || a.Paper.Evidence == "" ||
			strings.Contains(a.Paper.Evidence, "NaN") ||
			strings.Contains(a.Paper.Evidence, "not run") || strings.Contains(a.Paper.Evidence, "%!") {
			t.Errorf("%s: on the paper's numbers %s: %s", a.Quote, a.Paper.Verdict, a.Paper.Evidence)
		}
		if a.Section == "" || a.Asks == "" {
			t.Errorf("%+v", a.Claim)
		}
	}
	if v := figureIn("of SOP, 78.2% with 12", "SOP,"); v != 78.2 || !math.IsNaN(figureIn("nothing", "SOP")) {
		t.Errorf("read %v", v)
	}
}

// A claim of the user's own is decided as the paper's are, on printed and on measured numbers.
func TestOwnClaim(t *testing.T) {
	paper, err := NumbersOf(scores.Printed())
	if err != nil {
		t.Fatal(err)
	}
	a, b := t2("CAR", "cos"), t2("CAR", "euc")
	if v := paper.Of(a).Mean; math.IsNaN(v) || paper.Of(t2("CAR", "nowhere")).N != 0 {
		t.Errorf("cos on CAR has %v", v)
	}
	own := Claim{Quote: "The cosine direction wins.", Check: Compare(func(c *Comparisons) Finding {
		c.Above("cos on CAR", a, b)
		return c.All(0)
	})}
	for want, means := range map[verdicts.Verdict][2]float64{verdicts.Reproduced: {80, 70},
		verdicts.Contradicted: {70, 80}, verdicts.Undecided: {75.1, 75}} {
		a, b := a, b
		a.Value = stats.Mean{Mean: means[0], Std: 1, N: 3}
		b.Value = stats.Mean{Mean: means[1], Std: 1, N: 3}
		ours, err := NumbersOf(scores.Table{a, b})
		if err != nil {
			t.Fatal(err)
		}
		audited := Audit([]Claim{own}, paper, ours)
		if audited[0].Paper.Verdict != verdicts.Reproduced || audited[0].Ours.Verdict != want {
			t.Errorf("%v: %+v, want %s", means, audited[0], want)
		}
		onPaper, onOurs := Count(audited)
		if onPaper[verdicts.Reproduced] != 1 || onOurs[want] != 1 || len(Contradicted(audited)) != 0 {
			t.Errorf("%v and %v", onPaper, onOurs)
		}
	}
}

func TestFind(t *testing.T) {
	if c, err := Find("Recall@1 accuracy [than sig-ms]"); err != nil || c.Section != "§5.2" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, words := range []string{"no such words", "Table 3"} {
		if _, err := Find(words); err == nil {
			t.Errorf("%q is no error", words)
		}
	}
}
