package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

// sweepOf are the paper's own curves of a sweep as ours, moved: all by the same, each a little. Every rate is
// multiplied by a factor, as ours are on a scale of their own. Held-out recall is test recall moved otherwise.
func sweepOf(t *testing.T, table int, shift, wobble, factor float64) []SweepPoint {
	t.Helper()
	results, err := PaperResults(table)
	if err != nil {
		t.Fatal(err)
	}
	var out []SweepPoint
	for i, r := range results {
		p := SweepPoint{Rule: r.Direction + "/" + r.Pair + "/" + r.Triplet,
			Data:  map[string]string{"CAR": "minicar", "In-shop": "minishop"}[r.Dataset],
			Paper: r.Dataset, LR: math.Round(1e6*factor*r.LR) / 1e6}
		p.Test = stats.Mean{Mean: r.Mean + shift + wobble*math.Sin(float64(7*i)), Std: 0, N: 1}
		p.HeldOut = stats.Mean{Mean: r.Mean + 4 + 2*wobble*math.Cos(float64(3*i)), Std: 0, N: 1}
		out = append(out, p)
	}
	return out
}

// seventh is Table 7 with runs that diverged, runs that were not made, and a grid of its own for one pair weight.
func seventh(t *testing.T) []SweepPoint {
	t.Helper()
	points := sweepOf(t, 7, -4, 1, 3)
	for i := range points {
		p := &points[i]
		if strings.Contains(p.Rule, "/sig-ms/") {
			p.LR /= 4
			if p.Paper == "In-shop" && p.LR >= 3 {
				p.Test, p.HeldOut = meanOf(math.NaN(), 0, 0, 1), meanOf(math.NaN(), 0, 0, 1)
			}
		}
		if p.Rule == "cos/euc/con" && p.LR > 0.5 && p.Paper == "CAR" || p.Rule == "euc/lin/con" {
			p.Test, p.HeldOut = Missing, Missing
		}
	}
	return points
}

func sweepOrFail(t *testing.T, table string, points []SweepPoint) *Sweep {
	t.Helper()
	s, err := CompareSweep(table, points, somewhere)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSweepPictures(t *testing.T) {
	sixth := sweepOf(t, 6, -3, 1, 3)
	for i := range sixth {
		sixth[i].Test.N, sixth[i].Test.Std, sixth[i].HeldOut.N = 3, 1.2, 3
	}
	for table, points := range map[string][]SweepPoint{"table6": sixth, "table7": seventh(t),
		"table8": sweepOf(t, 8, -3, 1, 2)} {
		s := sweepOrFail(t, table, points)
		checkGolden(t, "sweep"+table[5:]+"curves", s.Curves(), nil)
		checkGolden(t, "sweep"+table[5:]+"order", s.Orders(), nil)
	}
}

// Ours are far below the paper's, and made on more machines than fit one line.
func TestSweepFarFromThePaper(t *testing.T) {
	points := sweepOf(t, 6, -50, 1, 3)
	for i, p := range points {
		if strings.HasPrefix(p.Rule, "euc-orth/") {
			points[i].Test, points[i].HeldOut = meanOf(math.NaN(), 0, 0, 1), meanOf(math.NaN(), 0, 0, 1)
		}
	}
	s, err := CompareSweep("table6", points, somewhere+strings.Repeat(" · a machine of a long name, 2 cores, linux", 4))
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "sweep6far", s.Curves(), nil)
}

func TestSweepTables(t *testing.T) {
	for table, points := range map[string][]SweepPoint{"table6": sweepOf(t, 6, -3, 1, 3), "table7": seventh(t),
		"table8": sweepOf(t, 8, -3, 1, 2)} {
		s := sweepOrFail(t, table, points)
		for part, of := range map[string]*Table{"": s.Table(), "protocols": s.Protocols(), "robustness": s.Robustness(),
			"statements": s.Statements()} {
			checkText(t, "sweep"+table[5:]+part, of, nil)
		}
	}
}

// curve has a recall on test and on held-out classes at each rate, from 0.1 by factors of two.
func curve(test, heldOut []float64) sweepCurve {
	var c sweepCurve
	for i := range test {
		score := func(v float64) stats.Mean {
			switch {
			case math.IsInf(v, -1):
				return stats.Mean{Mean: math.NaN(), Diverged: 1}
			case math.IsNaN(v):
				return Missing
			}
			return stats.Mean{Mean: v, N: 1}
		}
		c = append(c, sweepValue{0.1 * math.Pow(2, float64(i)), score(test[i]), score(heldOut[i])})
	}
	return c
}

func TestSweepChoices(t *testing.T) {
	nan, diverged := math.NaN(), math.Inf(-1)
	for name, c := range map[string]struct {
		test, heldOut   []float64
		byTest, byHeld  int
		edge            bool
		half, twice     float64 // Points lost.
		spread, nearest float64
	}{
		"inside":              {[]float64{60, 70, 68, 50}, []float64{80, 85, 90, 70}, 1, 2, false, 10, 2, 20, 10},
		"at the edge":         {[]float64{60, 62, 64, 66}, []float64{90, 80, 80, 80}, 3, 0, true, 2, nan, 6, 2},
		"the lower of equals": {[]float64{60, 66, 66, 60}, []float64{80, 90, 90, 90}, 1, 1, false, 6, 0, 6, 6},
		"diverged": {[]float64{60, 70, diverged, 50}, []float64{80, 81, diverged, 70}, 1, 1, false, 10,
			math.Inf(1), math.Inf(1), math.Inf(1)},
		"not all run": {[]float64{60, 70, nan, 50}, []float64{80, 85, nan, 70}, -1, -1, false, nan, nan, nan, nan},
		"all diverged": {[]float64{diverged, diverged}, []float64{diverged, diverged}, -1, -1, false, nan, nan, nan,
			nan},
		"nothing held out":      {[]float64{60, 70, 65}, []float64{nan, nan, nan}, 1, -1, false, 10, 5, 10, 10},
		"no rate, so no choice": {nil, nil, -1, -1, false, nan, nan, nan, nan},
	} {
		v := curve(c.test, c.heldOut)
		if a, b := v.best(testOf), v.best(heldOutOf); a != c.byTest || b != c.byHeld {
			t.Errorf("%s: rates %d and %d, want %d and %d", name, a, b, c.byTest, c.byHeld)
		} else if a >= 0 && v.edge(a) != c.edge {
			t.Errorf("%s: at the edge is %v", name, v.edge(a))
		}
		for what, pair := range map[string][2]float64{"half": {v.drop(0.5), c.half}, "twice": {v.drop(2), c.twice},
			"spread": {v.spread(), c.spread},
			"near":   {v.nearDrop(), c.nearest}} {
			if got, want := pair[0], pair[1]; !(math.Abs(got-want) < 1e-9 || got == want || math.IsNaN(got) &&
				math.IsNaN(want)) {
				t.Errorf("%s: %s loses %v, want %v", name, what, got, want)
			}
		}
	}
	// Between the rates 0.2 and 0.4 lies half of 0.6: as far from the upper as log 4/3 is of log 2.
	v := sweepCurve{{0.2, stats.Mean{Mean: 60}, Missing}, {0.4, stats.Mean{Mean: 64}, Missing},
		{0.6, stats.Mean{Mean: 70}, Missing}}
	if got, want := v.drop(0.5), 70-(64-4*math.Log2(4.0/3)); math.Abs(got-want) > 1e-9 {
		t.Errorf("interpolated: %v, want %v", got, want)
	}
}

// What is chosen and ranked is what the points say: here the protocols disagree on one rule, and it changes places.
func TestSweepProtocols(t *testing.T) {
	var points []SweepPoint
	for rule, c := range map[string]sweepCurve{
		"euc/con/con":      curve([]float64{60, 61, 62, 60}, []float64{70, 71, 72, 70}),
		"cos/con/con":      curve([]float64{60, 66, 61.5, 60}, []float64{70, 71, 73, 70}),
		"cos-orth/con/con": curve([]float64{60, 64, 63, 60}, []float64{70, 75, 73, 70}),
	} {
		for _, v := range c {
			points = append(points, SweepPoint{rule, "minicar", "CAR", v.lr, v.test, v.heldOut})
		}
	}
	s := sweepOrFail(t, "table6", points)
	papers, onTest, honest := sweepRanks(s.choices(0))
	rank := make(map[string][3]int)
	for i, c := range s.choices(0) {
		rank[c.row.rule] = [3]int{papers[i], onTest[i], honest[i]}
	}
	for rule, want := range map[string][3]int{"cos-orth/con/con": {0, 1, 0}, "cos/con/con": {1, 0, 2},
		"euc/con/con": {2, 2, 1}} {
		if rank[rule] != want {
			t.Errorf("%s: ranks %v in the paper, by test and by held-out classes, want %v", rule, rank[rule], want)
		}
	}
	text := s.Protocols().String()
	for _, want := range []string{"4.5", "On minicar, 3 of 3 configurations: both choose the same rate for 2; optimism " +
		"is 1.5 points in the mean and 4.5 at most; 3 change their rank; " +
		"the rate chosen on test is at its grid's edge for 0.", "one protocol against the other ρ = −0.50, n = 3",
		"chosen on test ρ = 0.50, n = 3, p = 0.5; chosen on held-out classes ρ = 0.50, n = 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The best rates of the paper's own sweeps are the numbers of its main tables, so its curves are read aright.
func TestSweepsBestIsTheMainTable(t *testing.T) {
	for table, number := range map[string]int{"table6": 6, "table7": 7, "table8": 8} {
		for _, r := range sweepOrFail(t, table, sweepOf(t, number, 0, 0, 1)).rows {
			for set := range r.theirs {
				c := r.theirs[set]
				best := c.best(testOf)
				if len(c) != 4 || best < 0 || c[best].test.Mean != r.main[set].Mean {
					t.Errorf("%s, %s, data set %d: %v against %v", table, r.rule, set, c, r.main[set])
				}
			}
		}
	}
}

func TestSweepRejects(t *testing.T) {
	good := SweepPoint{"cos/con/con", "minicar", "CAR", 0.1, stats.Mean{Mean: 60, N: 1}, Missing}
	change := func(f func(*SweepPoint)) []SweepPoint {
		p := good
		f(&p)
		return []SweepPoint{good, p}
	}
	for want, points := range map[string][]SweepPoint{
		"there are no results":               nil,
		"is there twice":                     change(func(*SweepPoint) {}),
		"want direction/pair/triplet":        change(func(p *SweepPoint) { p.Rule = "cos" }),
		`beside "CAR" and beside "In-shop"`:  change(func(p *SweepPoint) { p.LR, p.Paper = 0.2, "In-shop" }),
		"learning rate 0; want a positive":   change(func(p *SweepPoint) { p.LR = 0 }),
		"learning rate NaN; want a positive": change(func(p *SweepPoint) { p.LR = math.NaN() }),
	} {
		if _, err := CompareSweep("table6", points, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := CompareSweep("table2", []SweepPoint{good}, ""); err == nil ||
		!strings.Contains(err.Error(), "table6, table7, table8") {
		t.Errorf("table2: %v", err)
	}
	// Little, nothing, and nothing of the paper's are drawn all the same.
	missing := good
	missing.Test = Missing
	alone := good
	alone.Paper = ""
	alone.Rule = "cos/lin/con"
	for _, points := range [][]SweepPoint{{good}, {missing}, {alone}} {
		s := sweepOrFail(t, "table6", points)
		for _, o := range []Output{s.Table(), s.Curves(), s.Protocols(), s.Orders(), s.Robustness(), s.Statements()} {
			for _, format := range o.Formats() {
				if _, err := Bytes(o, format); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// A panel shows the best of either side, however far apart the two are, and is cut only where a curve falls far below
// both.
func TestSweepScale(t *testing.T) {
	row := func(ours, theirs []float64) []sweepRow {
		return []sweepRow{{ours: []sweepCurve{curve(ours, ours)}, theirs: []sweepCurve{curve(theirs, theirs)}}}
	}
	none := []float64{math.NaN()}
	for _, c := range []struct {
		rows      []sweepRow
		low, high float64 // Without the room around them.
	}{
		{row([]float64{70, 60}, []float64{80}), 60, 80},
		{row([]float64{70, 5}, []float64{80}), 40, 80},
		{row([]float64{25, 17}, []float64{77}), 17, 77},
		{row([]float64{40, 1}, []float64{90}), 20, 90},
		{row([]float64{60, 1}, none), 20, 60},
	} {
		s := &Sweep{rows: c.rows}
		room := max(0.08*(c.high-c.low), 0.5)
		if low, high := s.recalls(0); math.Abs(low-(c.low-room)) > 1e-9 || math.Abs(high-(c.high+room)) > 1e-9 {
			t.Errorf("%g to %g, want %g to %g with %g around", low, high, c.low, c.high, room)
		}
	}
	if low, high := (&Sweep{rows: row(none, none)}).recalls(0); low != 0 || high != 100 {
		t.Errorf("nothing: %g to %g", low, high)
	}
}
