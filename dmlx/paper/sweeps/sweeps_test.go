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

// point returns the scores of a rule on a data set in the role of one of the paper's, at one learning rate.
func point(rule, data, role string, lr float64, test, heldOut stats.Mean) scores.Table {
	r := scores.Row{Data: data, Role: role, LR: lr, Measure: "R@1", Value: test}
	r.SetRule(rule)
	held := r
	held.Measure, held.Value = "held-out R@1", heldOut
	return scores.Table{r, held}
}

// paperScores returns the paper's own sweep in place of ours. Each recall is moved by shift and by a little of its own,
// and each rate is multiplied by a factor, because our rates are on another scale. Held-out recall moves differently. A
// change may alter points.
func paperScores(table int, shift, wobble, factor float64,
	change func(rule, set string, lr *float64, test, heldOut *stats.Mean)) (out scores.Table) {
	for i, r := range scores.Printed().Select(scores.Row{Table: table}) {
		lr := math.Round(1e6*factor*r.LR) / 1e6
		test := stats.Mean{Mean: r.Value.Mean + shift + wobble*math.Sin(float64(7*i)), N: 1}
		heldOut := stats.Mean{Mean: r.Value.Mean + 4 + 2*wobble*math.Cos(float64(3*i)), N: 1}
		if change != nil {
			change(r.Rule, r.Data, &lr, &test, &heldOut)
		}
		data := map[string]string{"CAR": "minicar", "In-shop": "minishop"}[r.Data]
		out = append(out, point(r.Rule, data, r.Data, lr, test, heldOut)...)
	}
	return out
}

var diverged = stats.Mean{Mean: math.NaN(), Diverged: 1}

// gaps are diverged runs, missing runs, and other rates for one pair weight of Table 7.
func gaps(rule, set string, lr *float64, test, heldOut *stats.Mean) {
	if strings.Contains(rule, "/sig-ms/") {
		*lr /= 4
		if set == "In-shop" && *lr >= 3 {
			*test, *heldOut = diverged, diverged
		}
	}
	if rule == "cos/euc/con" && *lr > 0.5 && set == "CAR" || rule == "euc/lin/con" {
		*test, *heldOut = scores.Missing(), scores.Missing()
	}
}

func read(t *testing.T, table string, all scores.Table) *Sweep {
	t.Helper()
	s, err := Read(table, all, "preset quick · minicar, minishop · xla:cpu · 3 seeds · 2026-01-01")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The golden files in testdata are written with -regen.
func TestTables(t *testing.T) {
	for table, all := range map[string]scores.Table{"table6": paperScores(6, -3, 1, 3, nil),
		"table7": paperScores(7, -4, 1, 3, gaps), "table8": paperScores(8, -3, 1, 2, nil)} {
		s := read(t, table, all)
		for part, of := range map[string]*figures.Table{"": s.Table(), "protocols": s.Protocols(),
			"robustness": s.Robustness()} {
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
				return scores.Missing()
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
		test, heldOut  []float64
		byTest, byHeld int
		edge           bool
		half, twice    float64 // Points lost.
		spread         float64
	}{
		"inside":              {[]float64{60, 70, 68, 50}, []float64{80, 85, 90, 70}, 1, 2, false, 10, 2, 20},
		"at the edge":         {[]float64{60, 62, 64, 66}, []float64{90, 80, 80, 80}, 3, 0, true, 2, nan, 6},
		"the lower of equals": {[]float64{60, 66, 66, 60}, []float64{80, 90, 90, 90}, 1, 1, false, 6, 0, 6},
		"diverged": {[]float64{60, 70, diverged, 50}, []float64{80, 81, diverged, 70}, 1, 1, false, 10,
			math.Inf(1), math.Inf(1)},
		"not all run":           {[]float64{60, 70, nan, 50}, []float64{80, 85, nan, 70}, -1, -1, false, nan, nan, nan},
		"all diverged":          {[]float64{diverged, diverged}, []float64{diverged, diverged}, -1, -1, false, nan, nan, nan},
		"nothing held out":      {[]float64{60, 70, 65}, []float64{nan, nan, nan}, 1, -1, false, 10, 5, 10},
		"no rate, so no choice": {nil, nil, -1, -1, false, nan, nan, nan},
	} {
		v := curve(c.test, c.heldOut)
		if a, b := v.Best(), v.BestHeldOut(); a != c.byTest || b != c.byHeld {
			t.Errorf("%s: rates %d and %d, want %d and %d", name, a, b, c.byTest, c.byHeld)
		} else if a >= 0 && v.AtEdge(a) != c.edge {
			t.Errorf("%s: at the edge is %v", name, v.AtEdge(a))
		}
		for what, pair := range map[string][2]float64{"half": {v.Drop(0.5), c.half}, "twice": {v.Drop(2), c.twice},
			"spread": {v.Spread(), c.spread}} {
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
	var all scores.Table
	for rule, c := range map[string]scores.Curve{
		"euc/con/con":      curve([]float64{60, 61, 62, 60}, []float64{70, 71, 72, 70}),
		"cos/con/con":      curve([]float64{60, 66, 61.5, 60}, []float64{70, 71, 73, 70}),
		"cos-orth/con/con": curve([]float64{60, 64, 63, 60}, []float64{70, 75, 73, 70}),
	} {
		for _, v := range c {
			all = append(all, point(rule, "minicar", "CAR", v.LR, v.Test, v.HeldOut)...)
		}
	}
	s := read(t, "table6", all)
	for _, r := range s.rows {
		c := r.cells[0]
		want := map[string][3]int{"cos-orth/con/con": {0, 1, 0}, "cos/con/con": {1, 0, 2},
			"euc/con/con": {2, 2, 1}}[r.id]
		if got := [3]int{c.paper.rank, c.byTest.rank, c.byHeldOut.rank}; got != want {
			t.Errorf("%s: ranks %v in the paper, by test and by held-out classes, want %v", r.id, got, want)
		}
	}
	text := s.Protocols().String()
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
		s := read(t, table, paperScores(number, 0, 0, 1, nil))
		for _, r := range s.rows {
			for i, set := range s.sets {
				main := scores.Printed().Select(scores.Row{Table: s.main, Data: set.paper, Rule: r.id}).Mean()
				c := r.cells[i].theirs
				if best := c.Best(); len(c) != 4 || best < 0 || main.N > 0 && c[best].Test.Mean != main.Mean {
					t.Errorf("%s, %s, %s: %v against %v", table, r.id, set.data, c, main)
				}
			}
		}
	}
}

// Curves are had by name, also those of a loss and of a rule with options, which stand as rows of the user's own; what
// there is none of is missing.
func TestCurves(t *testing.T) {
	all, score := paperScores(6, -2, 0, 2, nil), stats.Mean{Mean: 70, N: 1}
	all = append(all, point("cos/lin/con?tau=2", "minicar", "CAR", 0.1, score, scores.Missing())...)
	loss := point("loss ms", "minicar", "CAR", 0.1, score, scores.Missing())[:1]
	loss[0].Own = true
	s := read(t, "table6", append(all, loss...))
	ours, papers := s.Of("minicar", "cos/con/con")
	if len(ours) != 4 || len(papers) != 4 || papers.Peak().Mean != 75.5 || ours.Peak().Mean != 73.5 ||
		ours.At(2*papers[0].LR).Mean != papers[0].Test.Mean-2 {
		t.Errorf("%+v, %+v", ours, papers)
	}
	for _, own := range []string{"cos/lin/con?tau=2", "loss ms"} {
		if ours, papers = s.Of("minicar", own); ours.At(0.1) != score || papers != nil {
			t.Errorf("%s: %+v, %+v", own, ours, papers)
		}
	}
	if !math.IsNaN(ours.At(7).Mean) || !math.IsNaN(papers.Peak().Mean) {
		t.Error("there is recall where nothing was run")
	}
	if ours, papers = s.Of("minicar", "nothing"); ours != nil || papers != nil {
		t.Errorf("%+v, %+v", ours, papers)
	}
	text, err := figures.Bytes(s.Table(), "md")
	if want := "$\\mathbf{e^{cos}}$, $P^{lin}$, tau=2"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("no %s in %v\n%s", want, err, text)
	}
}

func TestReadRejects(t *testing.T) {
	score := stats.Mean{Mean: 60, N: 1}
	good := point("cos/con/con", "minicar", "CAR", 0.1, score, scores.Missing())
	for want, all := range map[string]scores.Table{
		"there are no results":        nil,
		"occurs twice":                append(good[:2:2], good...),
		"want direction/pair/triplet": point("cos", "minicar", "CAR", 0.1, score, score),
		`beside "CAR" and beside "In-shop"`: append(good[:2:2],
			point("cos/con/con", "minicar", "In-shop", 0.2, score, score)...),
		"learning rate 0; want a positive":   point("cos/con/con", "minicar", "CAR", 0, score, score),
		"learning rate NaN; want a positive": point("cos/con/con", "minicar", "CAR", math.NaN(), score, score),
	} {
		if _, err := Read("table6", all, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := Read("table2", good, ""); err == nil || !strings.Contains(err.Error(), "table6, table7, table8") {
		t.Errorf("table2: %v", err)
	}
	// Sweeps with one run, with none, and without a data set of the paper can be drawn.
	for _, all := range []scores.Table{good,
		point("cos/con/con", "minicar", "CAR", 0.1, scores.Missing(), scores.Missing()),
		point("cos/lin/con", "minicar", "", 0.1, score, score)} {
		s := read(t, "table6", all)
		for _, o := range []figures.Output{s.Table(), s.Curves(), s.Protocols(), s.Robustness()} {
			for _, format := range o.Formats() {
				if _, err := figures.Bytes(o, format); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
