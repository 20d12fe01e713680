package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

func request(t *testing.T, preset string) report.Request {
	t.Helper()
	p, err := presets.Parse(preset)
	if err != nil {
		t.Fatal(err)
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return report.Request{Store: store, Preset: p}
}

// The ledger of the bundled runs has every printed number, a verdict in each row, and runs behind what is judged.
func TestLedger(t *testing.T) {
	t.Parallel()
	q := request(t, "quick")
	l, err := Of(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	rows, powers := l.Entries, l.Powers
	numbers, figures, claims := 0, 0, 0
	for _, row := range rows {
		switch {
		case row.Setting == Photographs: // Beside that on drawn images.
			number, want := strings.HasPrefix(row.Place, "Table"), "photographs"
			if slices.Contains([]string{"Table 2", "Table 3", "Table 5"}, row.Place) {
				want = "photographs, 960 steps"
			}
			if number && (row.Preset != want || row.Data != "cars-160") ||
				!strings.HasPrefix(row.Place, "Figure") && !strings.Contains(row.Command, "--arch lite0.onnx") ||
				strings.Contains(row.Preset, "960") != strings.Contains(row.Command, "photographs-long.toml") {
				t.Errorf("%+v", row)
			}
			if row.Preset == "photographs" && number && row.Verdict != Undecided && row.Verdict != DifferentSetting {
				t.Errorf("short runs decide: %+v", row)
			}
			if row.Preset == "photographs" && strings.Contains(row.Why+row.OurEffect, "seeds would") {
				t.Errorf("more short runs would decide: %+v", row)
			}
			if strings.HasSuffix(row.Why, "not run at length") != (row.Verdict != DifferentSetting) {
				t.Errorf("a verdict on runs that meet no condition of trained.md does not say so: %+v", row)
			}
		case strings.Contains(row.Why, "at length"):
			t.Errorf("it is about photographs: %+v", row)
		case strings.HasPrefix(row.Place, "Table"):
			numbers++
			judged := row.Verdict != NotRun && row.Verdict != DifferentSetting
			if judged != (row.Asks != "") || judged && len(row.Runs) == 0 {
				t.Errorf("%+v", row)
			}
		case strings.HasPrefix(row.Place, "Figure"):
			figures++
		default:
			claims++
		}
		if row.Setting == PapersOwn {
			t.Errorf("runs on drawn images are the paper's own setting: %+v", row)
		}
		if row.Verdict == "" || row.What == "" || row.Verdict == NotRun && row.Why == "" {
			t.Errorf("no verdict, or no reason: %+v", row)
		}
	}
	if numbers != 422 || figures != 6 || claims < 60 {
		t.Errorf("%d numbers, %d figures, %d claims", numbers, figures, claims)
	}
	if !strings.Contains(l.Provenance, "preset quick") || !strings.Contains(l.Provenance, "preset full") {
		t.Error(l.Provenance)
	}
	powers = slices.DeleteFunc(powers, func(p Power) bool { return strings.HasPrefix(p.Preset, "photographs") })
	if len(powers) != 7 {
		t.Errorf("%d tables", len(powers))
	}
	for _, p := range powers {
		if !(p.Detectable > p.Paper) || p.Compared == 0 || p.OursOpen > 0 && p.Seeds == 0 {
			t.Errorf("%+v", p)
		}
	}
	for _, row := range rows { // Of Tables 2 and 3 the program has all full runs, of 5 to 8 none.
		want := map[string]string{"Table 2": "full", "Table 3": "full", "Table 6": "quick", "Table 7": "quick"}[row.Place]
		if want != "" && row.Setting == Drawn && row.Preset != want {
			t.Errorf("judged by preset %s: %+v", row.Preset, row)
		}
	}
}

// A p-value tells a difference from the bound of its claim as the interval does that stands beside it.
func TestPValueIsOfTheBound(t *testing.T) {
	t.Parallel()
	test := stats.Welch(stats.Mean{Mean: 73, Std: 1, N: 3}, stats.Mean{Mean: 70, Std: 1, N: 3})
	seen := make(map[bool]int)
	for _, sign := range []float64{1, -1} {
		test.Difference.Value *= sign
		for _, bound := range []float64{-6, -1, 0, 0.1, 1, 2.5, 3, 6} {
			d := Claim{Is: Above, Bound: bound}.decision(Cell{Test: test}, 1)
			outside := bound < d.Difference.Low || bound > d.Difference.High
			if seen[outside]++; outside != (d.P <= level) || bound == 0 && math.Abs(d.P-test.P) > 1e-9 {
				t.Errorf("%+v, bound %g", d, bound)
			}
		}
	}
	if seen[true] < 4 || seen[false] < 4 {
		t.Errorf("outside and inside: %v", seen)
	}
}

// The sentences about a table stand once each, with the verdicts that the ledger has of them.
func TestAnswers(t *testing.T) {
	t.Parallel()
	l, err := Of(t.Context(), request(t, "quick"))
	if err != nil {
		t.Fatal(err)
	}
	of := Answers(l.Entries, l.Provenance, "Table 3", "Fig. 4")
	verdicts := make(map[string][]figures.Evidence)
	for _, a := range of.Statements {
		if verdicts[a.Says+a.ReadAs] != nil {
			t.Errorf("twice: %s", a.Says)
		}
		verdicts[a.Says+a.ReadAs] = a.Of
	}
	if want := []string{"in its own numbers", "in drawn images", "in photographs"}; !slices.Equal(of.Kinds, want) {
		t.Fatalf("%q", of.Kinds)
	}
	found := 0
	for _, e := range l.Entries {
		about := slices.Contains(e.Tables, 3) || strings.Contains(e.Place, "Fig. 4")
		got, is := verdicts[e.What+e.Asks]
		if !strings.HasPrefix(e.Place, "Claim") || is != about {
			if is {
				t.Errorf("not about them: %+v", e)
			}
			continue
		}
		if !is {
			continue
		}
		found++
		at := map[Setting]int{Drawn: 1, Photographs: 2}[e.Setting]
		if at > 0 && got[at].Answer.Text != string(e.Verdict) || got[0].Answer.Text == "" ||
			at == 0 && got[1].Answer.Text+got[2].Answer.Text != "––" {
			t.Errorf("%q, %s: %+v; want %s", e.What, e.Setting, got, e.Verdict)
		}
		if at == 0 {
			continue
		}
		if n := len(got[at].Numbers); n != len(e.OurFinding.Cells)-e.OurFinding.Missing || n < e.OurFinding.Of {
			t.Errorf("%q, %s: %d numbers behind it: %+v", e.What, e.Setting, n, e.OurFinding)
		}
		for i, d := range got[at].Numbers {
			c := e.OurFinding.Cells[i]
			if len(c.Terms) == 2 && c.Terms[0].Weight == 1 && math.Abs(stats.MeanOf(d.First).Mean-
				stats.MeanOf(d.Second).Mean-c.Test.Difference.Value) > 1e-4 {
				t.Errorf("%s: the repetitions %v and %v, the difference %v", d.Name, d.First, d.Second, c.Test.Difference)
			}
		}
	}
	if found < len(of.Statements) || len(of.Statements) < 10 {
		t.Errorf("%d entries, %d statements", found, len(of.Statements))
	}
	notes := strings.Join(of.Notes, " ")
	if !strings.Contains(notes, "contradicts itself: the paper's own") || strings.Contains(notes, "not run:") {
		t.Errorf("the words that stand there are not said: %s", notes)
	}
	if none := Answers(l.Entries, "", "Table 9"); len(none.Statements) != 0 {
		t.Errorf("%+v", none.Statements)
	}
}

// Without runs no number is judged. The figures and claims that are computed still are.
func TestLedgerWithoutRuns(t *testing.T) {
	t.Parallel()
	q := request(t, "full")
	q.IgnoreBundled = true
	l, err := Of(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range l.Entries {
		if strings.HasPrefix(row.Place, "Table") && row.Verdict != NotRun {
			t.Errorf("%+v", row)
		}
	}
	if Count(l.Entries)[Reproduced] == 0 {
		t.Error("no formula is reproduced")
	}
}

// The longest complete runs judge, alone: a longer complete length replaces a shorter, and no shorter one nor a part of
// a longer one changes what they say.
func TestLongestJudges(t *testing.T) {
	t.Parallel()
	source := rand.New(rand.NewPCG(3, 4))
	claim := Claim{Says: "The cosine direction wins.", Table: 2, On: []string{"CAR"}, Is: Above,
		Cells: []string{"cos/con/con - euc/con/con"}}
	printed, err := NumbersOf(scores.Printed())
	if err != nil {
		t.Fatal(err)
	}
	said := func(of ...Runs) (out []Entry) {
		by, err := numbersOf(of)
		if err != nil {
			t.Fatal(err)
		}
		entries, _ := judgeTables(by)
		for _, e := range append(entries, judgeClaim(claim, printed, by)) {
			if len(e.Runs) > 0 && !strings.HasPrefix(e.What, "euc/") {
				e.OurEffect, _, _ = strings.Cut(e.OurEffect, " At ")
				out = append(out, e)
			}
		}
		return out
	}
	seen := make(map[Verdict]int)
	for repetition := range 60 {
		var of []Runs
		longest := 0
		whole := repetition%2 == 0 // Else no length has all rows: it is that of all that shorter ones have that judges.
		for i := range 4 {
			r := Runs{Preset: fmt.Sprint(i), Setting: Photographs, Short: i == 0, Complete: map[int]bool{2: true}}
			for _, rule := range []string{"cos/con/con", "euc/con/con"} {
				if i > 0 && source.IntN(3) == 0 {
					r.Complete[2] = false
					continue
				}
				value := stats.Mean{Mean: 70 + 3*source.NormFloat64(), Std: 1, N: 3}
				r.Scores = append(r.Scores, scores.Row{Table: 2, Role: "CAR", Data: "cars-160", Rule: rule, Direction: rule[:3],
					Pair: "con", Triplet: "con", Measure: report.Recall(1), Preset: r.Preset, Run: rule + r.Preset,
					Steps: 100 << (2 * i), Value: value})
			}
			if r.Complete[2] {
				longest = i
			}
			r.Complete[2] = r.Complete[2] && whole
			of = append(of, r)
		}
		steps := 0
		for k := range of { // More lengths never go back to a shorter one.
			if e := said(of[:k+1]...)[0]; e.Steps < steps {
				t.Fatalf("%d steps judge in place of %d: %+v", e.Steps, steps, e)
			} else {
				steps = e.Steps
			}
		}
		all, alone := said(of...), said(of[longest])
		if len(all) != 2 {
			t.Fatalf("%d entries", len(all))
		}
		for i, e := range all {
			if seen[e.Verdict]++; e.Preset != of[longest].Preset || e.Steps != 100<<(2*longest) ||
				e.Verdict != alone[i].Verdict || e.Why != alone[i].Why || e.OurEffect != alone[i].OurEffect ||
				!slices.Equal(e.Runs, alone[i].Runs) {
				t.Fatalf("%+v, by the longest complete length alone %+v", e, alone[i])
			}
			if of[longest].Short && e.Verdict != Undecided {
				t.Fatalf("decided by short runs: %+v", e)
			}
		}
	}
	for _, v := range []Verdict{Reproduced, Contradicted, Undecided} {
		if seen[v] < 4 {
			t.Errorf("only %d are %s", seen[v], v)
		}
	}
}

// A longer training of part of a table judges it only with every number that a shorter one has, in as many seeds.
func TestCovers(t *testing.T) {
	t.Parallel()
	of := func(rules string, seeds uint64) *judged {
		var rows scores.Table
		for _, rule := range strings.Fields(rules) {
			for seed := range seeds {
				rows = append(rows, scores.Row{Table: 5, Role: "CAR", Rule: rule, Seed: seed, Value: stats.Mean{Mean: 1, N: 1}})
			}
		}
		n, err := NumbersOf(rows)
		if err != nil {
			t.Fatal(err)
		}
		return &judged{known: n}
	}
	short := of("a/a/a b/b/b", 2)
	for _, c := range []struct {
		longer *judged
		want   bool
	}{{of("b/b/b a/a/a", 2), true}, {of("a/a/a b/b/b c/c/c", 3), true}, {of("a/a/a c/c/c", 3), false},
		{of("a/a/a b/b/b", 1), false}, {of("", 0), false}} {
		if c.longer.covers(short, 5) != c.want || c.longer.covers(short, 4) || c.longer.covers(of("", 0), 5) {
			t.Errorf("%+v: want %v", c.longer.known.rows, c.want)
		}
	}
}

// Tables and the ledger correct for one family of tests: what one has in bold the other decides, and rows that the
// paper does not have change neither.
func TestOneFamily(t *testing.T) {
	t.Parallel()
	q := request(t, "quick")
	l, err := Of(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	q.Preset, q.CachedOnly = paper.LongPhotographsPreset(), true
	con := []string{"con"}
	for table, rules := range map[int][]string{
		2: append(paper.Rules([]string{"euc", "cos", "euc-orth", "cos-orth"}, con, con), "cos/lin/con", "cos/lin-ms/con"),
		3: paper.Rules([]string{"euc", "cos"}, []string{"con", "euc", "lin", "lin-ms", "sig", "sig-ms"}, con),
	} {
		cells, err := paper.Specify(q.Preset, paper.OnBothSets(q.Preset, rules...), q.Preset.Seeds)
		if err != nil {
			t.Fatal(err)
		}
		trained, err := paper.Fill(t.Context(), q, cells)
		if err != nil {
			t.Fatal(err)
		}
		compared, err := paper.Compare(table, trained.Scores(), "")
		if err != nil {
			t.Fatal(err)
		}
		bold := make(map[string]bool) // By the difference as text.
		for _, row := range compared.Gains().Rows {
			for _, c := range row {
				if c.Family == "of rows" {
					bold[strings.ReplaceAll(figures.Plain(c.Text), "+", "")] = c.Bold
				}
			}
		}
		tests := 0
		for _, e := range In(l.Entries, Photographs) {
			if e.Place != fmt.Sprintf("Table %d", table) || e.OurEffect == "" {
				continue
			}
			shown, ok := bold[figures.Plain(e.OurEffect)]
			if decided := e.Verdict == Reproduced || e.Verdict == Contradicted; !ok || shown != decided {
				t.Errorf("%s is %s, %s in bold %v, %v", e.What, e.Verdict, e.OurEffect, shown, bold)
			}
			tests++
		}
		if want := map[int]int{2: 3, 3: 10}[table]; tests != want || len(bold) != want {
			t.Errorf("Table %d: %d tests, and %d in the table, want %d", table, tests, len(bold), want)
		}
	}
}
