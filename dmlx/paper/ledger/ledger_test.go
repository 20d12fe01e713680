package ledger

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gradient-surgery/dml/dmlx/paper/claims"
	"github.com/gradient-surgery/dml/dmlx/paper/verdicts"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

func printed(mean, std float64) scores.Row {
	n := 1
	if std > 0 {
		n = scores.PrintedSeeds
	}
	return scores.Row{Table: 2, Data: "CAR", Rule: "cos/con/con", Measure: "R@1",
		Value: stats.Mean{Mean: mean, Std: std, N: n}}
}

// Each verdict by hand: the paper's difference to its first row is +6.0 with deviations of 0.5 over five runs, and ours
// is what the case says.
func TestJudge(t *testing.T) {
	t.Parallel()
	first := &Number{Printed: printed(69.5, 0.5), Data: "minicar", Ours: stats.Mean{Mean: 60, Std: 0.5, N: 3}}
	for name, c := range map[string]struct {
		number Number
		want   verdicts.Verdict
		why    string
	}{
		"the first row itself": {*first, verdicts.DifferentSetting, "first row"},
		"same sign": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}}, verdicts.Reproduced,
			""},
		"other sign": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 50, Std: 0.5, N: 3}}, verdicts.Contradicted,
			""},
		"noisy": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 61, Std: 5, N: 3}}, verdicts.Undecided,
			"our runs cannot tell; 12 seeds would"},
		"one seed": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 70, N: 1}}, verdicts.Undecided,
			"our runs cannot tell"},
		"one seed, with the noise of others": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 70, N: 1},
			Noise: stats.Noise{Std: 1, Freedom: 20}}, verdicts.Reproduced, ""},
		"the paper's own noise": {Number{Printed: printed(69.6, 0.5), Ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}},
			verdicts.Undecided, "the paper has no difference, ours is not shown to be none; 6 seeds would"},
		"no difference in either": {Number{Printed: printed(69.6, 0.5), Ours: stats.Mean{Mean: 60.1, Std: 0.5, N: 10},
			Baseline: &Number{Printed: printed(69.5, 0.5), Ours: stats.Mean{Mean: 60, Std: 0.5, N: 10}}},
			verdicts.NoDifference, "below 1 point"},
		"the paper cannot tell": {Number{Printed: printed(72.5, 5), Ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}},
			verdicts.Undecided, "no seeds of ours can"},
		"another grid of rates": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 70, Std: 0.5, N: 3},
			Apart: "another grid"}, verdicts.DifferentSetting, "another grid"},
		"printed without a deviation": {Number{Printed: printed(75.5, 0), Ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}},
			verdicts.Reproduced, ""},
		"no runs": {Number{Printed: printed(75.5, 0.5)}, verdicts.NotRun, "not in the store"},
		"diverged": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Diverged: 3}}, verdicts.DifferentSetting,
			"diverged"},
		"missing": {Number{Printed: printed(75.5, 0.5), Missing: "takes a GPU"}, verdicts.NotRun, "takes a GPU"},
		"the same setting, equal": {Number{Printed: printed(75.5, 0.5), Setting: verdicts.PapersOwn,
			Ours: stats.Mean{Mean: 75.6, Std: 0.5, N: 5}}, verdicts.Reproduced, ""},
		"the same setting, other value": {Number{Printed: printed(75.5, 0.5), Setting: verdicts.PapersOwn,
			Ours: stats.Mean{Mean: 70, Std: 0.5, N: 5}}, verdicts.Contradicted, ""},
		"the same setting, one seed": {Number{Printed: printed(75.5, 0.5), Setting: verdicts.PapersOwn,
			Ours: stats.Mean{Mean: 75.6, N: 1}}, verdicts.Undecided, "neither equal"},
	} {
		n := c.number
		if name != "the first row itself" && n.Baseline == nil {
			n.Baseline = first
		}
		r := Judge([]*Number{&n})[0]
		if r.Verdict != c.want || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: %s, %q; want %s, %q", name, r.Verdict, r.Why, c.want, c.why)
		}
	}
}

// A difference that is significant by itself is not among forty of which the others are noise.
func TestJudgeCorrects(t *testing.T) {
	t.Parallel()
	first := &Number{Printed: printed(69.5, 0.5), Ours: stats.Mean{Mean: 60, Std: 1, N: 3}}
	alone := &Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 63.5, Std: 1, N: 3}, Baseline: first}
	if r := Judge([]*Number{alone})[0]; r.Verdict != verdicts.Reproduced {
		t.Errorf("alone: %+v", r)
	}
	many := []*Number{alone}
	for range 40 {
		many = append(many, &Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 60.1, Std: 1, N: 3},
			Baseline: first})
	}
	if r := Judge(many)[0]; r.Verdict != verdicts.Undecided {
		t.Errorf("among forty: %+v", r)
	}
}

func TestOfClaim(t *testing.T) {
	t.Parallel()
	finding := func(v verdicts.Verdict) claims.Finding { return claims.Finding{Verdict: v} }
	for _, c := range []struct {
		paper, ours claims.Finding
		want        verdicts.Verdict
		in          verdicts.Setting
		preset, why string
	}{
		{finding(verdicts.Reproduced), finding(verdicts.Contradicted), verdicts.Contradicted, verdicts.Drawn, "quick", ""},
		{finding(verdicts.ContradictsItself), finding(verdicts.InPart), verdicts.InPart, verdicts.Drawn, "quick", ""},
		{finding(verdicts.Reproduced), claims.Finding{Verdict: verdicts.Undecided, Times: 3}, verdicts.Undecided,
			verdicts.Drawn, "quick", "3 times the seeds"},
		{finding(verdicts.Reproduced), finding(verdicts.NotRun), verdicts.NotRun, verdicts.NoSetting, "", "store"},
		{finding(verdicts.ContradictsItself), finding(verdicts.None), verdicts.ContradictsItself, verdicts.Print, "",
			"no run bears on it"},
		{claims.Finding{Verdict: verdicts.ContradictsItself, Misprint: true}, finding(verdicts.None),
			verdicts.ContradictsItself, verdicts.Print, "", "misprint"},
		{finding(verdicts.None), finding(verdicts.None), verdicts.DifferentSetting, verdicts.Print, "", "no table"},
	} {
		r := OfClaim(claims.Audited{Paper: c.paper, Ours: c.ours}, "quick", verdicts.Drawn, "")
		if r.Verdict != c.want || r.Setting != c.in || r.Preset != c.preset || !strings.Contains(r.Why, c.why) {
			t.Errorf("%+v, %+v: %+v, want %s in %q", c.paper, c.ours, r, c.want, c.in)
		}
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	if r := Computed("Figure 1", "", 1e-6, "", ""); r.Verdict != verdicts.Reproduced {
		t.Error(r)
	}
	if r := Computed("Figure 1", "", 1e-2, "", ""); r.Verdict != verdicts.ContradictsItself {
		t.Error(r)
	}
	row := func(v verdicts.Verdict) Row { return Row{Verdict: v} }
	for _, c := range []struct {
		claims []Row
		want   verdicts.Verdict
	}{
		{[]Row{row(verdicts.Reproduced), row(verdicts.Reproduced)}, verdicts.Reproduced},
		{[]Row{row(verdicts.Reproduced), row(verdicts.Undecided)}, verdicts.InPart},
		{[]Row{row(verdicts.Contradicted), row(verdicts.Undecided), row(verdicts.Reproduced)}, verdicts.Contradicted},
	} {
		if r, err := OfFigure("Figure 5", "", c.claims); err != nil || r.Verdict != c.want {
			t.Errorf("%+v, %v, want %s", r, err, c.want)
		}
	}
	if _, err := OfFigure("Figure 9", "", nil); err == nil {
		t.Error("a figure without claims has a verdict")
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	rows := []Row{{Place: "Table 2", Verdict: verdicts.Reproduced, Data: "minicar", Preset: "full"},
		{Place: "Table 3", Verdict: verdicts.Reproduced}, {Place: "Table 3", Verdict: verdicts.NotRun},
		{Place: "Claim, §5.1", Verdict: verdicts.Reproduced}}
	for _, c := range []struct {
		filter Filter
		want   int
	}{
		{Filter{}, 4}, {Filter{Places: []string{"Table 3"}, Verdicts: []verdicts.Verdict{verdicts.NotRun}}, 1},
		{Filter{Verdicts: []verdicts.Verdict{verdicts.Reproduced}}, 3},
		{Filter{Verdicts: []verdicts.Verdict{verdicts.Contradicted}}, 0},
		{Filter{Places: []string{"Claims", "Table 2"}}, 2}, {Filter{Places: []string{"Claim, §5.1"}}, 1},
		{Filter{Data: []string{"minicar"}, Presets: []string{"full"}}, 1},
	} {
		if got, err := c.filter.Select(rows); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d rows, want %d; %v", c.filter, len(got), c.want, err)
		}
	}
	for want, f := range map[string]Filter{
		`the ledger has no place "Table 9"`:    {Places: []string{"Table 9"}},
		`the ledger has no verdict "refuted"`:  {Verdicts: []verdicts.Verdict{"refuted"}},
		`the ledger has no data set "minicat"`: {Data: []string{"minicat"}},
		`the ledger has no preset "paper"`:     {Presets: []string{"paper"}},
	} {
		if _, err := f.Select(rows); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	rows := []Row{{Place: "Table 2", What: "cos/con/con", Paper: "75.5", Ours: "77.6", PaperEffect: "6.0",
		OurEffect: "5.7", Data: "minicar", Preset: "quick", Comparable: "sign", Verdict: verdicts.Reproduced,
		Why: "no reason"}}
	table := Brief(rows, "made-up numbers")
	var titles, texts []string
	for i, c := range table.Columns {
		titles, texts = append(titles, c.Title), append(texts, table.Rows[0][i].Text)
	}
	if got := strings.Join(titles, ", "); got != "Place, What, paper, ours, preset, paper, ours, verdict" {
		t.Error(got)
	}
	if got := strings.Join(texts, ", "); got != "Table 2, cos/con/con, 75.5, 77.6, quick, 6.0, 5.7, reproduced" {
		t.Error(got)
	}
}

// By hand: cells of 5 seeds with a deviation of 1 have an error of √(2/5), and Student's t of 8 degrees the quantiles
// 2.306 and 0.889, from a table.
func TestAssess(t *testing.T) {
	t.Parallel()
	at := func(paper, ours float64) *Number {
		return &Number{Printed: printed(paper, 0.5), Ours: stats.Mean{Mean: ours, Std: 1, N: 5},
			Noise: stats.Noise{Std: 1, Freedom: 20}}
	}
	first, up := at(69.5, 60), at(75.5, 66)
	up.Baseline = first
	p := Assess([]*Number{first, up})
	if math.Abs(p.Detectable-math.Sqrt(0.4)*(2.306+0.889)) > 0.01 || math.Abs(p.Critical-math.Sqrt(0.4)*2.306) > 0.01 ||
		p.Paper != 6 || p.Compared != 1 || p.Found != 1 || p.Expected < 0.99 || p.Equals != 1 || p.Pooled != 0 {
		t.Errorf("%+v", p)
	}
	small := at(70.5, 59.5) // A difference of 1 point, which 5 seeds seldom tell.
	small.Baseline = first
	p = Assess([]*Number{first, small})
	if p.Expected > 0.5 || p.Expected == 0 || p.OursOpen != 1 || p.Seeds != stats.Seeds(1, 1, 0.05) || p.Equals != 0 {
		t.Errorf("%+v", p)
	}
	if again := Assess([]*Number{first, small}); again != p {
		t.Errorf("%+v, and before %+v", again, p)
	}
	if table := PowerTable([]Power{p, {}}, ""); len(table.Rows) != 1 || table.Rows[0][8].Text != "0 of 1" {
		t.Errorf("%+v", table.Rows)
	}
}

// What a terminal shows fits it, whatever the entries are, and no drawn images contradict the paper.
func TestText(t *testing.T) {
	t.Parallel()
	var rows []Row
	for i := range 500 {
		v := verdicts.All()[i%len(verdicts.All())]
		rows = append(rows, Row{Place: fmt.Sprintf("Table %d", i/50), What: strings.Repeat("long ", 60), Verdict: v,
			OurEffect: strings.Repeat("evidence ", 30), Setting: verdicts.Drawn, P: float64(i)})
	}
	text, err := Text(rows, strings.Repeat("somewhere · ", 40))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if len(lines) > 40 || !strings.Contains(text, "no evidence against the paper") {
		t.Errorf("%d lines\n%s", len(lines), text)
	}
	for i, r := range Telling(rows, 10) {
		if r.Verdict == verdicts.NotRun || r.Verdict == verdicts.DifferentSetting || i == 0 && r.P != 0 {
			t.Errorf("%+v is telling", r)
		}
	}
	if got := Telling(rows[7:8], 10); len(got) != 1 || got[0].Verdict != verdicts.NotRun {
		t.Errorf("%+v", got)
	}
}
