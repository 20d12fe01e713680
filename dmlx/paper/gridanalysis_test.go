package paper

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/paper/fullgrid"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// gridTable is the study "grid" at a preset with made-up runs on its first data set: the value of a rule and a seed,
// NaN for a diverged run, and −1 for none.
func gridTable(t *testing.T, preset string, seeds []uint64, value func(parts []string, seed uint64) float64) *Table {
	t.Helper()
	study, err := ParseStudy("grid")
	if err != nil {
		t.Fatal(err)
	}
	p, err := presets.Parse(preset)
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{Study: "grid", Preset: preset}
	cells, err := study.Cells(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if c.Data != p.FineGrained {
			continue
		}
		for _, seed := range seeds {
			v := value(strings.Split(c.Rule, "/"), seed)
			r := &runs.Result{Spec: runs.Spec{Data: c.Data, Config: train.Config{Seed: seed}},
				Measures: train.Measures{Recall: map[int]float64{1: v}}}
			if math.IsNaN(v) {
				r = &runs.Result{Spec: runs.Spec{Data: c.Data, Config: train.Config{Seed: seed}},
					Measures: train.Measures{Diverged: "collapsed"}}
			}
			if v != -1 {
				c.Runs = append(c.Runs, r)
			}
		}
		table.Cells = append(table.Cells, c)
	}
	return table
}

// theGrid is the one grid of a table.
func theGrid(t *testing.T, table *Table) *fullgrid.Grid {
	t.Helper()
	grids, err := fullgrid.Read(table.Scores(), 1)
	if err != nil || len(grids) != 1 {
		t.Fatal(grids, err)
	}
	return &grids[0]
}

// sum is a grid in which each part counts by its place, with a noise that differs from seed to seed.
func sum(g func(direction, pair, triplet int) float64) func([]string, uint64) float64 {
	return func(parts []string, seed uint64) float64 {
		d := slices.Index([]string{"euc", "cos", "euc-orth", "cos-orth"}, parts[0])
		p := slices.Index([]string{"con", "euc", "lin", "lin-ms", "sig", "sig-ms"}, parts[1])
		w := slices.Index([]string{"con", "cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"}, parts[2])
		return g(d, p, w) + 0.01*float64((7*d+3*p+5*w+int(seed)*11)%13)/13
	}
}

func TestGrids(t *testing.T) {
	table := gridTable(t, "quick", []uint64{1, 2, 3}, func(parts []string, seed uint64) float64 {
		switch {
		case parts[1] == "sig-ms" && parts[2] == "cir":
			return math.NaN()
		case seed > 1 && parts[2] != "con", parts[0] == "euc-orth" && parts[2] == "cos":
			return -1
		}
		return sum(func(d, p, w int) float64 { return 0.5 + 0.05*float64(d) })(parts, seed)
	})
	g := theGrid(t, table)
	if len(g.Rules) != 168 || len(g.Directions) != 4 || len(g.Pairs) != 6 || len(g.Triplets) != 7 ||
		g.Data != "minicar" || g.PaperData != "CAR" {
		t.Errorf("%d rules, %v, %v, %v", len(g.Rules), g.Directions, g.Pairs, g.Triplets)
	}
	// 6 rules were not run; 4 diverged with all seeds; the 24 of T = con have three seeds, one of them the grid's.
	if c := g.Coverage(); c != (fullgrid.Coverage{Rules: 168, First: 158, Several: 24, Runs: 206, Diverged: 12,
		Broken: 4}) {
		t.Errorf("%+v", c)
	}
	if n := len(g.Observations()); n != 206 {
		t.Errorf("%d observations", n)
	}
	if freedom := g.Noise().Freedom; freedom != 48 {
		t.Errorf("noise with %d degrees of freedom", freedom)
	}
	ranked := g.Ranked()
	rank := func(rule string) [2]int {
		first, last := g.Rank(rule)
		return [2]int{first, last}
	}
	shared := func(at int) [2]int { // The places of a rule with all that have the same recall.
		first, last := at, at
		for first > 0 && ranked[first-1].First.Mean == ranked[at].First.Mean {
			first--
		}
		for last+1 < len(ranked) && ranked[last+1].First.Mean == ranked[at].First.Mean {
			last++
		}
		return [2]int{first + 1, last + 1}
	}
	if len(ranked) != 158 || ranked[0].Direction != "cos-orth" || ranked[157].Direction != "euc" ||
		rank(ranked[7].Name) != shared(7) || rank("cos/sig-ms/cir") != [2]int{} {
		t.Errorf("%d ranked, from %s to %s", len(ranked), ranked[0].Name, ranked[157].Name)
	}
	if a, err := stats.Analyze(g.Observations(), g.Noise()); err != nil || a.ErrorTerm != stats.SeedsError ||
		a.Error.DF != 48 || a.Effects[0].P > 1e-6 || a.Effects[0].DF != 3 {
		t.Errorf("%+v, %v", a, err)
	}
	table.Cells = append(table.Cells, table.Cells[0])
	if _, err := fullgrid.Read(table.Scores(), 1); err == nil || !strings.Contains(err.Error(), "occurs twice") {
		t.Error(err)
	}
	if _, err := fullgrid.Read((&Table{Cells: []Cell{{Objective: presets.Named("x")}}}).Scores(), 1); err == nil {
		t.Error("a rule of one part was read")
	}
}

// Without any run there is nothing to say, and no number is made up.
func TestEmptyGrid(t *testing.T) {
	g := theGrid(t, gridTable(t, "quick", nil, nil))
	best, worst := g.Ends(10)
	if c := g.Coverage(); c != (fullgrid.Coverage{Rules: 168}) ||
		len(best)+len(worst)+len(g.Ranked())+len(g.Steps()) != 0 {
		t.Errorf("%+v, %v, %v", c, best, worst)
	}
	sd := g.Noise().Std
	if !math.IsNaN(sd) || !math.IsNaN(g.Reliability()) || !math.IsNaN(g.Behind("cos/con/con", "euc/con/con").P) ||
		g.Regress(10).N != 0 {
		t.Error("there are numbers without runs")
	}
	if _, err := g.OneAtATime(); err == nil || err.Error() != "table 2 on minicar: there is no run of euc/con/con" {
		t.Error(err)
	}
	p, err := g.Profile(fullgrid.ByDirection, fullgrid.ByPair)
	if err != nil || p.Over != nil || !math.IsNaN(p.Means[3][5].Value) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := stats.Analyze(g.Observations(), g.Noise()); err == nil {
		t.Error("analysed")
	}
}

func TestExtremes(t *testing.T) {
	value := sum(func(d, p, w int) float64 { return 0.5 + 0.02*float64(d) + 0.03*float64(p) + 0.001*float64(w) })
	first := gridTable(t, "quick", []uint64{1}, value)
	g := theGrid(t, first)
	best, worst := g.Ends(10)
	for i := 1; i < 10; i++ {
		if best[i].First.Mean > best[i-1].First.Mean || worst[i].First.Mean < worst[i-1].First.Mean {
			t.Error("not in order")
		}
	}
	p, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	cells, err := Specify(p, Extremes(fullgrid.Grids{*g}, 10, "cos-orth/lin-ms/cir", best[0].Name, "not/a/rule"), p.Seeds)
	if err != nil || len(cells) != 21 {
		t.Fatalf("%d cells, %v", len(cells), err)
	}
	// The runs are those of the grid: a seed more, nothing else.
	grid, err := ParseStudy("grid")
	if err != nil {
		t.Fatal(err)
	}
	all, err := grid.Specs(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if len(c.Specs) != 3 || !slices.ContainsFunc(all, func(o Cell) bool {
			return o.Data == c.Data && o.Rule == c.Rule && o.Specs[0].Hash() == c.Specs[0].Hash()
		}) {
			t.Errorf("%s: %d specs, or its first run is not that of the grid", c.Rule, len(c.Specs))
		}
	}
	few := theGrid(t, gridTable(t, "smoke", []uint64{1}, value))
	if best, worst := few.Ends(10); len(best) != 6 || len(worst) != 6 || best[5].Name == worst[5].Name {
		t.Errorf("%d and %d ends of 12 rules", len(best), len(worst))
	}
}

// The steps of the report stand alone: a grid of any rules is read, analyzed and drawn.
func TestGridSteps(t *testing.T) {
	table := gridTable(t, "smoke", []uint64{1, 2}, func(parts []string, seed uint64) float64 {
		if seed == 2 && parts[2] != "con" {
			return -1
		}
		return sum(func(d, p, w int) float64 { return 0.5 + 0.02*float64(d) })(parts, seed)
	})
	table.Runs, table.Missing = 24, 8
	if n := table.Needing(1); n.Runs != 16 || n.Missing != 0 || table.Missing != 8 {
		t.Errorf("%d runs, %d missing", n.Runs, n.Missing)
	}
	if n := table.Needing(2); n.Runs != 24 || n.Missing != 8 {
		t.Errorf("%d runs, %d missing", n.Runs, n.Missing)
	}
	p, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	g := theGrid(t, table)
	// Of 24 rules of the tables the grid has those of two pair weights; the second seed of some is still to be run.
	cells, err := Judged(p, fullgrid.Grids{*g}, p.Seeds)
	if err != nil || len(cells) < 4 || len(cells) > 12 || len(cells[0].Specs) != len(p.Seeds) {
		t.Errorf("%d cells, %v", len(cells), err)
	}
	a, err := g.Analyze()
	if err != nil {
		t.Fatal(err)
	}
	if a.Effects[0].DF != 1 || len(a.Margins[2]) != 3 {
		t.Errorf("%+v", a)
	}
	all := fullgrid.Grids{*g}
	if gaps, err := all.Gaps("", [2]string{"cos", "euc"}, [2]string{"cos-orth", "cos"}); err != nil ||
		len(gaps.Rows) != 1 || gaps.Rows[0][2].Test.Difference.Value < 1 {
		t.Errorf("%+v, %v", gaps, err)
	}
	if _, err := all.Gaps(""); err == nil {
		t.Error("no gap was laid out")
	}
	if _, err := all.Interactions("", fullgrid.Parts{fullgrid.ByPair, fullgrid.ByPair}); err == nil {
		t.Error("a part was crossed with itself")
	}
}

// Where all is noise, the best by one seed is no better with others; where nothing is, it stays.
func TestRegression(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	luck := func([]string, uint64) float64 { return 0.7 + 0.02*source.NormFloat64() }
	g := theGrid(t, gridTable(t, "quick", []uint64{1, 2, 3}, luck))
	if kept := g.Regress(40).Kept(); math.Abs(kept) > 0.2 {
		t.Errorf("%g of luck is kept", kept)
	}
	// Two variances of 168 values each: their ratio has a standard deviation of 0.15.
	if r := g.Reliability(); r > 0.4 {
		t.Errorf("luck is reliable: %g", r)
	}
	best := g.Ranked()[0]
	if e := g.At(best.Name).Others.Interval(); !(e.Value < best.First.Mean && e.Low < e.Value && e.Value < e.High) {
		t.Errorf("%+v with other seeds, %g with the first", e, best.First.Mean)
	}
	real := theGrid(t, gridTable(t, "quick", []uint64{1, 2, 3}, func(parts []string, seed uint64) float64 {
		return sum(func(d, p, w int) float64 { return 0.4 + 0.1*float64(d) + 0.02*float64(p) })(parts, 1) +
			0.03*float64(min(seed, 2)) + 0.001*float64(seed/3)
	}))
	if r := real.Regress(10); r.N != 10 || math.Abs(r.Kept()-1) > 1e-9 ||
		math.Abs(r.BestOthers-r.BestFirst-3.05) > 1e-9 {
		t.Errorf("%+v keeps %g", r, r.Kept())
	}
	if got := real.Behind("euc/con/con", "cos/con/con").Difference; math.Abs(got.Value-10) > 1.1 ||
		!(got.Low < got.Value && got.Value < got.High) {
		t.Errorf("%+v", got)
	}
	if got := real.Behind("cos/con/con", "cos/con/con"); !math.IsNaN(got.P) {
		t.Errorf("behind itself: %+v", got)
	}
}

// The noise is that of all seeds, as in the analysis of variance. Rules that have other seeds because the first was
// extreme make it larger, never smaller.
func TestNoiseOfAllSeeds(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 4))
	first := 0.0
	g := theGrid(t, gridTable(t, "quick", []uint64{1, 2, 3}, func(_ []string, seed uint64) float64 {
		v := 0.7 + 0.02*source.NormFloat64()
		if seed == 1 {
			first = v
		} else if math.Abs(first-0.7) < 0.02 {
			return -1
		}
		return v
	}))
	n := g.Noise()
	if bound := 3 * 2 / math.Sqrt(2*float64(n.Freedom)); n.Freedom < 60 || n.Std < 2-bound || n.Std > 4 {
		t.Errorf("noise %+v, want 2 points or more", n)
	}
	if a, err := stats.Analyze(g.Observations(), stats.Noise{}); err != nil || a.Error.DF != n.Freedom ||
		math.Abs(a.Error.MS-n.Std*n.Std) > 1e-9 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestOneAtATime(t *testing.T) {
	// Each part for itself would choose cos-orth, sig-ms and cir+sc2. But cos-orth does badly with sig-ms.
	trap := sum(func(d, p, w int) float64 {
		v := 0.4 + 0.03*float64(d) + 0.03*float64(p) + 0.02*float64(w)
		if d == 3 && p == 5 {
			v -= 0.3
		}
		return v
	})
	g := theGrid(t, gridTable(t, "quick", []uint64{1}, trap))
	if rule, err := g.OneAtATime(); err != nil || rule != "cos-orth/sig-ms/cir+sc2" {
		t.Error(rule, err)
	}
	steps := g.Steps() // That path sees it.
	if !slices.Equal(steps, []string{"cos-orth/con/con", "cos-orth/sig/con", "cos-orth/sig/cir+sc2"}) {
		t.Error(steps)
	}
	diverging := theGrid(t, gridTable(t, "quick", []uint64{1}, func(parts []string, seed uint64) float64 {
		if parts[1] == "sig-ms" {
			return math.NaN()
		}
		return trap(parts, seed)
	}))
	if rule, err := diverging.OneAtATime(); err != nil || rule != "cos-orth/sig/cir+sc2" {
		t.Error(rule, err)
	}
	if steps := diverging.Steps(); len(steps) != 3 || steps[1] != "cos-orth/sig/con" {
		t.Error(steps)
	}
	half := theGrid(t, gridTable(t, "quick", []uint64{1, 2, 3}, func(parts []string, seed uint64) float64 {
		if parts[1] == "sig-ms" && seed == 2 {
			return math.NaN()
		}
		return trap(parts, seed)
	}))
	if rule, err := half.OneAtATime(); err != nil || rule != "cos-orth/sig/cir+sc2" {
		t.Error("diverged with one of two seeds: ", rule, err)
	}
	small := theGrid(t, gridTable(t, "smoke", []uint64{1}, trap))
	if rule, err := small.OneAtATime(); err != nil || rule != "cos/lin/cir" {
		t.Error(rule, err)
	}
}

func TestProfile(t *testing.T) {
	// Of T = cos there is one rule only: the others' means would not be over the same.
	value := func(parts []string, seed uint64) float64 {
		if parts[2] == "con" || parts[2] == "cir" || parts[2] == "cos" && parts[0]+parts[1] == "coscon" {
			return 0.5 + map[string]float64{"euc": 0, "cos": 0.2, "euc-orth": 0.1, "cos-orth": 0.3}[parts[0]] +
				map[bool]float64{true: 0.01}[parts[2] == "cir"] +
				0.001*float64(seed)
		}
		return -1
	}
	g := theGrid(t, gridTable(t, "quick", []uint64{1, 2}, value))
	p, err := g.Profile(fullgrid.ByPair, fullgrid.ByDirection)
	if err != nil || !slices.Equal(p.Over, []string{"con", "cir"}) || len(p.Means) != 6 || len(p.Means[0]) != 4 {
		t.Fatalf("%+v, %v", p, err)
	}
	// The noise is that of 0.1 points between two seeds, 0.1/√2, with 49 degrees of freedom; a mean is over four runs, a
	// gap is between two such.
	if m := p.Means[2][1]; math.Abs(m.Value-70.65) > 1e-9 ||
		math.Abs(m.High-m.Value-2.0096*0.1/math.Sqrt2/2) > 1e-4 {
		t.Errorf("%+v", m)
	}
	q, gaps := g.Gap("cos", "euc")
	if !slices.Equal(q.Over, []string{"con", "cir"}) || len(gaps) != 6 || math.Abs(gaps[3].Difference.Value-20) > 1e-9 ||
		math.Abs(gaps[3].Difference.High-20-2.0096*0.1/2) > 1e-4 {
		t.Errorf("%+v, %+v", q.Over, gaps)
	}
	if p, err := g.Profile(fullgrid.ByDirection, fullgrid.ByTriplet); err != nil ||
		!slices.Equal(p.Over, []string{"con"}) || !math.IsNaN(p.Means[0][1].Value) {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range [][2]fullgrid.Factor{{fullgrid.ByPair, fullgrid.ByPair}, {-1, fullgrid.ByPair},
		{fullgrid.ByPair, 3}} {
		if _, err := g.Profile(bad[0], bad[1]); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

// The shipped results of Tables 2 to 4 are a part of the grid.
func TestGridOfShipped(t *testing.T) {
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	study, err := ParseStudy("grid")
	if err != nil {
		t.Fatal(err)
	}
	p, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	never := func() (*train.Trainer, error) { t.Error("a backend was asked for"); return nil, context.Canceled }
	table, err := Reproduce(context.Background(), never, store, study, p,
		runs.Options{CachedOnly: true, Seeds: p.Seeds})
	if err != nil {
		t.Fatal(err)
	}
	grids, err := fullgrid.Read(table.Scores(), p.Seeds[0])
	if err != nil || len(grids) != 2 {
		t.Fatal(len(grids), err)
	}
	for _, g := range grids {
		c := g.Coverage()
		if c.Rules != 168 || c.First < 14 || c.Runs < 42 {
			t.Errorf("%s: %+v", g.Data, c)
		}
		if a, err := stats.Analyze(g.Observations(), g.Noise()); err != nil || a.Error.DF < 14 {
			t.Errorf("%s: %+v, %v", g.Data, a, err)
		}
	}
}
