package sweeps

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// paperPoints returns the paper's own sweep in place of ours. Each recall is moved by shift and by a little of its own,
// and each rate is multiplied by a factor, because our rates are on another scale. Held-out recall moves differently.
func paperPoints(t *testing.T, table int, shift, wobble, factor float64) []Point {
	t.Helper()
	results := scores.Printed().Select(scores.Row{Table: table})
	var out []Point
	for i, r := range results {
		out = append(out, Point{Rule: r.Rule,
			Data:  map[string]string{"CAR": "minicar", "In-shop": "minishop"}[r.Data],
			Paper: r.Data, LR: math.Round(1e6*factor*r.LR) / 1e6,
			Test:    stats.Mean{Mean: r.Value.Mean + shift + wobble*math.Sin(float64(7*i)), N: 1},
			HeldOut: stats.Mean{Mean: r.Value.Mean + 4 + 2*wobble*math.Cos(float64(3*i)), N: 1}})
	}
	return out
}

var diverged = stats.Mean{Mean: math.NaN(), Diverged: 1}

// withGaps returns a sweep like Table 7 with diverged runs, missing runs, and other rates for one pair weight.
func withGaps(t *testing.T) []Point {
	t.Helper()
	points := paperPoints(t, 7, -4, 1, 3)
	for i := range points {
		p := &points[i]
		if strings.Contains(p.Rule, "/sig-ms/") {
			p.LR /= 4
			if p.Paper == "In-shop" && p.LR >= 3 {
				p.Test, p.HeldOut = diverged, diverged
			}
		}
		if p.Rule == "cos/euc/con" && p.LR > 0.5 && p.Paper == "CAR" || p.Rule == "euc/lin/con" {
			p.Test, p.HeldOut = figures.Missing, figures.Missing
		}
	}
	return points
}

// read returns a sweep and its drawings.
func read(t *testing.T, table string, points []Point) (*Sweep, *figures.Sweep) {
	t.Helper()
	s, err := Read(table, points)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := s.Figures("preset quick · minicar, minishop · xla:cpu · 3 seeds · 2026-01-01")
	if err != nil {
		t.Fatal(err)
	}
	return s, drawn
}

// The golden files in testdata are written with -regen.
func TestTables(t *testing.T) {
	for table, points := range map[string][]Point{"table6": paperPoints(t, 6, -3, 1, 3), "table7": withGaps(t),
		"table8": paperPoints(t, 8, -3, 1, 2)} {
		_, s := read(t, table, points)
		for part, of := range map[string]*figures.Table{"": s.Table(), "protocols": s.Protocols(),
			"robustness": s.Robustness(), "statements": s.Statements()} {
			for _, format := range of.Formats() {
				got, err := figures.Bytes(of, format)
				if err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", "sweep"+table[5:]+part+"."+format+".golden")
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
					t.Errorf("%s differs; it is\n%s\nwant\n%s", golden, got, want)
				}
			}
		}
	}
}

// curve returns a curve with the recalls on test and on held-out classes. Its rates start at 0.1 and double. NaN stands
// for a missing run and -Inf for a diverged one.
func curve(test, heldOut []float64) scores.Curve {
	var c scores.Curve
	for i := range test {
		score := func(v float64) stats.Mean {
			switch {
			case math.IsInf(v, -1):
				return stats.Mean{Mean: math.NaN(), Diverged: 1}
			case math.IsNaN(v):
				return figures.Missing
			}
			return stats.Mean{Mean: v, N: 1}
		}
		c = append(c, scores.AtRate{LR: 0.1 * math.Pow(2, float64(i)), Test: score(test[i]), HeldOut: score(heldOut[i])})
	}
	return c
}

func TestCurve(t *testing.T) {
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
		if a, b := v.Best(), v.BestHeldOut(); a != c.byTest || b != c.byHeld {
			t.Errorf("%s: rates %d and %d, want %d and %d", name, a, b, c.byTest, c.byHeld)
		} else if a >= 0 && v.AtEdge(a) != c.edge {
			t.Errorf("%s: at the edge is %v", name, v.AtEdge(a))
		}
		for what, pair := range map[string][2]float64{"half": {v.Drop(0.5), c.half}, "twice": {v.Drop(2), c.twice},
			"spread": {v.Spread(), c.spread},
			"near":   {v.NearDrop(), c.nearest}} {
			if got, want := pair[0], pair[1]; !(math.Abs(got-want) < 1e-9 || got == want || math.IsNaN(got) &&
				math.IsNaN(want)) {
				t.Errorf("%s: %s loses %v, want %v", name, what, got, want)
			}
		}
	}
	// Half of the best rate, 0.3, is between 0.2 and 0.4; on a logarithmic scale it is log2(4/3) below 0.4.
	v := scores.Curve{{LR: 0.2, Test: stats.Mean{Mean: 60}}, {LR: 0.4, Test: stats.Mean{Mean: 64}},
		{LR: 0.6, Test: stats.Mean{Mean: 70}}}
	if got, want := v.Drop(0.5), 70-(64-4*math.Log2(4.0/3)); math.Abs(got-want) > 1e-9 {
		t.Errorf("interpolated: %v, want %v", got, want)
	}
}

// The protocols disagree on the rate of one rule, which changes its rank.
func TestProtocols(t *testing.T) {
	var points []Point
	for rule, c := range map[string]scores.Curve{
		"euc/con/con":      curve([]float64{60, 61, 62, 60}, []float64{70, 71, 72, 70}),
		"cos/con/con":      curve([]float64{60, 66, 61.5, 60}, []float64{70, 71, 73, 70}),
		"cos-orth/con/con": curve([]float64{60, 64, 63, 60}, []float64{70, 75, 73, 70}),
	} {
		for _, v := range c {
			points = append(points, Point{Rule: rule, Data: "minicar", Paper: "CAR", LR: v.LR, Test: v.Test,
				HeldOut: v.HeldOut})
		}
	}
	s, drawn := read(t, "table6", points)
	for i, c := range s.choices(0) {
		want := map[string][3]int{"cos-orth/con/con": {0, 1, 0}, "cos/con/con": {1, 0, 2},
			"euc/con/con": {2, 2, 1}}[s.rows[i].Rule]
		if got := [3]int{c.Paper.Rank, c.ByTest.Rank, c.ByHeldOut.Rank}; got != want {
			t.Errorf("%s: ranks %v in the paper, by test and by held-out classes, want %v", s.rows[i].Rule, got, want)
		}
	}
	text := drawn.Protocols().String()
	for _, want := range []string{"4.5", "On minicar, 3 of 3 configurations: both choose the same rate for 2; optimism " +
		"is 1.5 points in the mean and 4.5 at most; 3 change their rank; the rate chosen on test is at its grid's edge " +
		"for 0.", "one protocol against the other ρ = −0.50, n = 3",
		"chosen on test ρ = 0.50, n = 3, p = 0.5; chosen on held-out classes ρ = 0.50, n = 3"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The recalls at the best rates of the paper's sweeps are those in its main tables.
func TestPaperBest(t *testing.T) {
	for table, number := range map[string]int{"table6": 6, "table7": 7, "table8": 8} {
		s, _ := read(t, table, paperPoints(t, number, 0, 0, 1))
		for _, r := range s.rows {
			for set := range r.Cells {
				c := r.Cells[set].Theirs
				if best := c.Best(); len(c) != 4 || best < 0 || c[best].Test.Mean != r.main[set].Mean {
					t.Errorf("%s, %s, data set %d: %v against %v", table, r.Rule, set, c, r.main[set])
				}
			}
		}
	}
}

// Curves are had by name, also those of a loss and of a rule with options, which stand as rows of the user's own; what
// there is none of is missing.
func TestCurves(t *testing.T) {
	points := paperPoints(t, 6, -2, 0, 2)
	score := stats.Mean{Mean: 70, N: 1}
	points = append(points, Point{Rule: "cos/lin/con?tau=2", Data: "minicar", Paper: "CAR", LR: 0.1, Test: score},
		Point{Rule: "loss ms", Data: "minicar", Paper: "CAR", LR: 0.1, Test: score, Own: true})
	s, drawn := read(t, "table6", points)
	ours, papers := s.Curves("minicar", "cos/con/con")
	if len(ours) != 4 || len(papers) != 4 || papers.Peak().Mean != 75.5 || ours.Peak().Mean != 73.5 ||
		ours.At(2*papers[0].LR).Mean != papers[0].Test.Mean-2 {
		t.Errorf("%+v, %+v", ours, papers)
	}
	for _, own := range []string{"cos/lin/con?tau=2", "loss ms"} {
		if ours, papers = s.Curves("minicar", own); ours.At(0.1) != score || papers != nil {
			t.Errorf("%s: %+v, %+v", own, ours, papers)
		}
	}
	if !math.IsNaN(ours.At(7).Mean) || !math.IsNaN(papers.Peak().Mean) {
		t.Error("there is recall where nothing was run")
	}
	if ours, papers = s.Curves("minicar", "nothing"); ours != nil || papers != nil {
		t.Errorf("%+v, %+v", ours, papers)
	}
	text, err := figures.Bytes(drawn.Table(), "md")
	if want := "$\\mathbf{e^{cos}}$, $P^{lin}$, tau=2"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("no %s in %v\n%s", want, err, text)
	}
}

func TestReadRejects(t *testing.T) {
	good := Point{Rule: "cos/con/con", Data: "minicar", Paper: "CAR", LR: 0.1, Test: stats.Mean{Mean: 60, N: 1},
		HeldOut: figures.Missing}
	change := func(f func(*Point)) []Point {
		p := good
		f(&p)
		return []Point{good, p}
	}
	for want, points := range map[string][]Point{
		"there are no results":               nil,
		"occurs twice":                       change(func(*Point) {}),
		"want direction/pair/triplet":        change(func(p *Point) { p.Rule = "cos" }),
		`beside "CAR" and beside "In-shop"`:  change(func(p *Point) { p.LR, p.Paper = 0.2, "In-shop" }),
		"learning rate 0; want a positive":   change(func(p *Point) { p.LR = 0 }),
		"learning rate NaN; want a positive": change(func(p *Point) { p.LR = math.NaN() }),
	} {
		if _, err := Read("table6", points); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := Read("table2", []Point{good}); err == nil ||
		!strings.Contains(err.Error(), "table6, table7, table8") {
		t.Errorf("table2: %v", err)
	}
	// Sweeps with one run, with none, and without a data set of the paper can be drawn.
	missing := good
	missing.Test = figures.Missing
	alone := good
	alone.Paper = ""
	alone.Rule = "cos/lin/con"
	for _, points := range [][]Point{{good}, {missing}, {alone}} {
		_, s := read(t, "table6", points)
		for _, o := range []figures.Output{s.Table(), s.Curves(), s.Protocols(), s.Orders(), s.Robustness(), s.Statements()} {
			for _, format := range o.Formats() {
				if _, err := figures.Bytes(o, format); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
