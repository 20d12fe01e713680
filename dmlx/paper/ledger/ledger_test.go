package ledger

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/paper/claims"
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
		want   Verdict
		why    string
	}{
		"the first row itself": {*first, DifferentSetting, "first row"},
		"same sign": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}}, Reproduced,
			""},
		"other sign": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 50, Std: 0.5, N: 3}}, Contradicted,
			""},
		"noisy": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 61, Std: 5, N: 3}}, WithinNoise,
			"noise of seeds"},
		"one seed": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 70, N: 1}}, WithinNoise, "noise of seeds"},
		"one seed, with the noise of others": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 70, N: 1},
			Noise: stats.Noise{Std: 1, Freedom: 20}}, Reproduced, ""},
		"the paper's own noise": {Number{Printed: printed(69.6, 0.5), Ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}},
			WithinNoise, "the paper's own"},
		"printed without a deviation": {Number{Printed: printed(75.5, 0), Ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}},
			Reproduced, ""},
		"no runs":  {Number{Printed: printed(75.5, 0.5)}, NotRun, "not in the store"},
		"diverged": {Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Diverged: 3}}, DifferentSetting, "diverged"},
		"missing":  {Number{Printed: printed(75.5, 0.5), Missing: "takes a GPU"}, NotRun, "takes a GPU"},
		"the same setting, equal": {Number{Printed: printed(75.5, 0.5), SameSetting: true,
			Ours: stats.Mean{Mean: 75.6, Std: 0.5, N: 5}}, Reproduced, ""},
		"the same setting, other value": {Number{Printed: printed(75.5, 0.5), SameSetting: true,
			Ours: stats.Mean{Mean: 70, Std: 0.5, N: 5}}, Contradicted, ""},
		"the same setting, one seed": {Number{Printed: printed(75.5, 0.5), SameSetting: true,
			Ours: stats.Mean{Mean: 75.6, N: 1}}, WithinNoise, "one seed"},
	} {
		n := c.number
		if name != "the first row itself" {
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
	if r := Judge([]*Number{alone})[0]; r.Verdict != Reproduced {
		t.Errorf("alone: %+v", r)
	}
	many := []*Number{alone}
	for range 40 {
		many = append(many, &Number{Printed: printed(75.5, 0.5), Ours: stats.Mean{Mean: 60.1, Std: 1, N: 3},
			Baseline: first})
	}
	if r := Judge(many)[0]; r.Verdict != WithinNoise {
		t.Errorf("among forty: %+v", r)
	}
}

func TestOfClaim(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		paper, ours claims.Verdict
		want        Verdict
	}{
		{claims.Holds, claims.Holds, Reproduced}, {claims.Holds, claims.Fails, Contradicted},
		{claims.Holds, claims.Mixed, Contradicted}, {claims.Holds, claims.WithinNoise, WithinNoise},
		{claims.Holds, claims.NotYetRun, NotRun}, {claims.Mixed, claims.Uncheckable, Contradicted},
		{claims.Holds, claims.Uncheckable, Reproduced}, {claims.Misprint, claims.Misprint, Contradicted},
		{claims.Uncheckable, claims.Uncheckable, DifferentSetting},
	} {
		a := claims.Audited{Paper: claims.Finding{Verdict: c.paper}, Ours: claims.Finding{Verdict: c.ours}}
		if r := OfClaim(a, "quick", ""); r.Verdict != c.want {
			t.Errorf("%s, %s: %s, want %s", c.paper, c.ours, r.Verdict, c.want)
		}
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	if r := Computed("Figure 1", "", 1e-6, "", ""); r.Verdict != Reproduced {
		t.Error(r)
	}
	if r := Computed("Figure 1", "", 1e-2, "", ""); r.Verdict != Contradicted {
		t.Error(r)
	}
	row := func(v Verdict) Row { return Row{Verdict: v} }
	for _, c := range []struct {
		claims []Row
		want   Verdict
	}{
		{[]Row{row(Reproduced), row(Reproduced)}, Reproduced}, {[]Row{row(Reproduced), row(WithinNoise)}, WithinNoise},
		{[]Row{row(Contradicted), row(WithinNoise), row(Reproduced)}, Contradicted},
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
	rows := []Row{{Place: "Table 2", Verdict: Reproduced, Data: "minicar", Preset: "full"},
		{Place: "Table 3", Verdict: Reproduced}, {Place: "Table 3", Verdict: NotRun},
		{Place: "Claim, §5.1", Verdict: Reproduced}}
	for _, c := range []struct {
		filter Filter
		want   int
	}{
		{Filter{}, 4}, {Filter{Places: []string{"Table 3"}, Verdicts: []Verdict{NotRun}}, 1},
		{Filter{Verdicts: []Verdict{Reproduced}}, 3}, {Filter{Verdicts: []Verdict{Contradicted}}, 0},
		{Filter{Places: []string{"Claims", "Table 2"}}, 2}, {Filter{Places: []string{"Claim, §5.1"}}, 1},
		{Filter{Data: []string{"minicar"}, Presets: []string{"full"}}, 1},
	} {
		if got, err := c.filter.Select(rows); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d rows, want %d; %v", c.filter, len(got), c.want, err)
		}
	}
	for want, f := range map[string]Filter{
		`the ledger has no place "Table 9"`:    {Places: []string{"Table 9"}},
		`the ledger has no verdict "refuted"`:  {Verdicts: []Verdict{"refuted"}},
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
		OurEffect: "5.7", Data: "minicar", Preset: "quick", Comparable: "sign", Verdict: Reproduced, Why: "no reason"}}
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
