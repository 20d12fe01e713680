package evidence

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

func printedNumber(mean, std float64) scores.Row {
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
	first := &number{printed: printedNumber(69.5, 0.5), data: "minicar", ours: stats.Mean{Mean: 60, Std: 0.5, N: 3}}
	for name, c := range map[string]struct {
		number number
		want   Verdict
		why    string
	}{
		"the first row itself": {*first, DifferentSetting, "first row"},
		"same sign": {number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}}, Reproduced,
			""},
		"other sign": {number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 50, Std: 0.5, N: 3}}, Contradicted,
			""},
		"noisy": {number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 61, Std: 5, N: 3}}, Undecided,
			"our runs cannot tell; 12 seeds would"},
		"one seed": {number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 70, N: 1}}, Undecided,
			"our runs cannot tell"},
		"one seed, with the noise of others": {number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 70, N: 1},
			noise: stats.Noise{Std: 1, Freedom: 20}}, Reproduced, ""},
		"the paper's own noise": {number{printed: printedNumber(69.6, 0.5), ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}},
			Undecided, "the paper has no difference, ours is not shown to be none; 6 seeds would"},
		"no difference in either": {number{printed: printedNumber(69.6, 0.5), ours: stats.Mean{Mean: 60.1, Std: 0.5, N: 10},
			first: &number{printed: printedNumber(69.5, 0.5), ours: stats.Mean{Mean: 60, Std: 0.5, N: 10}}},
			NoDifference, "below 1 point"},
		"the paper cannot tell": {number{printed: printedNumber(72.5, 5), ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}},
			Undecided, "no seeds of ours can"},
		"another grid of rates": {number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 70, Std: 0.5, N: 3},
			apart: "another grid"}, DifferentSetting, "another grid"},
		"printed without a deviation": {number{printed: printedNumber(75.5, 0), ours: stats.Mean{Mean: 70, Std: 0.5, N: 3}},
			Reproduced, ""},
		"no runs": {number{printed: printedNumber(75.5, 0.5)}, NotRun, "not in the store"},
		"diverged": {number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Diverged: 3}}, DifferentSetting,
			"diverged"},
		"missing": {number{printed: printedNumber(75.5, 0.5), missing: "takes a GPU"}, NotRun, "takes a GPU"},
		"the same setting, equal": {number{printed: printedNumber(75.5, 0.5), own: true,
			ours: stats.Mean{Mean: 75.6, Std: 0.5, N: 5}}, Reproduced, ""},
		"the same setting, other value": {number{printed: printedNumber(75.5, 0.5), own: true,
			ours: stats.Mean{Mean: 70, Std: 0.5, N: 5}}, Contradicted, ""},
		"the same setting, one seed": {number{printed: printedNumber(75.5, 0.5), own: true,
			ours: stats.Mean{Mean: 75.6, N: 1}}, Undecided, "neither equal"},
	} {
		n := c.number
		if name != "the first row itself" && n.first == nil {
			n.first = first
		}
		r := judge([]*number{&n})[0]
		if r.Verdict != c.want || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: %s, %q; want %s, %q", name, r.Verdict, r.Why, c.want, c.why)
		}
	}
}

// A difference that is significant by itself is not among forty of which the others are noise.
func TestJudgeCorrects(t *testing.T) {
	t.Parallel()
	first := &number{printed: printedNumber(69.5, 0.5), ours: stats.Mean{Mean: 60, Std: 1, N: 3}}
	alone := &number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 63.5, Std: 1, N: 3}, first: first}
	if r := judge([]*number{alone})[0]; r.Verdict != Reproduced {
		t.Errorf("alone: %+v", r)
	}
	many := []*number{alone}
	for range 40 {
		many = append(many, &number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 60.1, Std: 1, N: 3},
			first: first})
	}
	if r := judge(many)[0]; r.Verdict != Undecided {
		t.Errorf("among forty: %+v", r)
	}
}

// By hand: cells of 5 seeds with a deviation of 1 have an error of √(2/5), and Student's t of 8 degrees the quantiles
// 2.306 and 0.889, from a table.
func TestAssess(t *testing.T) {
	t.Parallel()
	at := func(paper, ours float64) *number {
		return &number{printed: printedNumber(paper, 0.5), ours: stats.Mean{Mean: ours, Std: 1, N: 5},
			noise: stats.Noise{Std: 1, Freedom: 20}}
	}
	first, up := at(69.5, 60), at(75.5, 66)
	up.first = first
	p := assess([]*number{first, up}, "quick")
	if math.Abs(p.Detectable-math.Sqrt(0.4)*(2.306+0.889)) > 0.01 ||
		p.Paper != 6 || p.Compared != 1 || p.Found != 1 || p.Expected() < 0.99 || p.Equals != 1 || p.Pooled != 0 {
		t.Errorf("%+v", p)
	}
	small := at(70.5, 59.5) // A difference of 1 point, which 5 seeds seldom tell.
	small.first = first
	p = assess([]*number{first, small}, "quick")
	if p.Expected() > 0.5 || p.Expected() == 0 || p.OursOpen != 1 || p.Seeds != stats.Seeds(1, 1, 0.05) || p.Equals != 0 {
		t.Errorf("%+v", p)
	}
	if again := assess([]*number{first, small}, "quick"); again.Expected() != p.Expected() {
		t.Errorf("%v, and before %v", again.Expected(), p.Expected())
	}
	if table := PowerTable([]Power{p, {}}, ""); len(table.Rows) != 1 || table.Rows[0][8].Text != "0 of 1" {
		t.Errorf("%+v", table.Rows)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	if e := computed("Figure 1", "", "", 1e-6, ""); e.Verdict != Reproduced {
		t.Error(e)
	}
	if e := computed("Figure 1", "", "", 1e-2, ""); e.Verdict != ContradictsItself {
		t.Error(e)
	}
	entry := func(v Verdict) Entry { return Entry{Verdict: v} }
	for _, c := range []struct {
		claims []Entry
		want   Verdict
	}{
		{[]Entry{entry(Reproduced), entry(Reproduced)}, Reproduced},
		{[]Entry{entry(Reproduced), entry(Undecided)}, InPart},
		{[]Entry{entry(Contradicted), entry(Undecided), entry(Reproduced)}, Contradicted},
		{[]Entry{entry(Undecided), entry(NotRun)}, Undecided},
		{[]Entry{entry(DifferentSetting)}, DifferentSetting},
	} {
		if e := ofFigure("Figure 5", "", "", c.claims); e.Verdict != c.want {
			t.Errorf("%+v, want %s", e, c.want)
		}
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	entries := []Entry{{Place: "Table 2", Verdict: Reproduced, Setting: Drawn},
		{Place: "Table 3", Verdict: Reproduced, Setting: Photographs}, {Place: "Table 3", Verdict: NotRun},
		{Place: "Claim, §5.1", Verdict: Reproduced, Setting: Drawn}}
	for _, c := range []struct {
		filter Filter
		want   int
	}{
		{Filter{}, 4}, {Filter{Places: []string{"Table 3"}, Verdicts: []string{"not run"}}, 1},
		{Filter{Verdicts: []string{"reproduced"}}, 3}, {Filter{Verdicts: []string{"contradicted"}}, 0},
		{Filter{Places: []string{"Claims", "Table 2"}}, 2}, {Filter{Places: []string{"Claim, §5.1"}}, 1},
		{Filter{Settings: []string{"photographs"}}, 1},
	} {
		if got, err := c.filter.Select(entries); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d entries, want %d; %v", c.filter, len(got), c.want, err)
		}
	}
	for want, f := range map[string]Filter{
		`the ledger has no place "Table 9"`:   {Places: []string{"Table 9"}},
		`the ledger has no verdict "refuted"`: {Verdicts: []string{"refuted"}},
		`the ledger has no setting "birds"`:   {Settings: []string{"birds"}},
	} {
		if _, err := f.Select(entries); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The interval of an entry that is beside its verdict is the one that decided: it excludes 0 where the difference is
// told after Holm's correction, and has 0 where it is not, though the 95 % interval may exclude it.
func TestDecidedInterval(t *testing.T) {
	t.Parallel()
	first := &number{printed: printedNumber(69.5, 0.5), ours: stats.Mean{Mean: 60, Std: 1, N: 3}}
	near := &number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 63.5, Std: 1, N: 3}, first: first}
	numbers := []*number{near}
	for range 40 {
		numbers = append(numbers, &number{printed: printedNumber(75.5, 0.5), ours: stats.Mean{Mean: 60.1, Std: 1, N: 3},
			first: first})
	}
	alone, among := judge(numbers[:1])[0].Decided, judge(numbers)[0].Decided
	if !alone.Difference.ExcludesZero() || alone.Tests != 1 || among.Difference.ExcludesZero() || among.Tests != 41 ||
		alone.P != among.P || alone.Detectable >= among.Detectable {
		t.Errorf("%+v, and among forty %+v", alone, among)
	}
}
