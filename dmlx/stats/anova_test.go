package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// near compares with a relative tolerance.
func near(got, want float64) bool {
	return math.Abs(got-want) <= 1e-7*(1+math.Abs(want)) || math.IsNaN(got) && math.IsNaN(want)
}

// Computed by hand: a 2×2×2 grid with two runs each, y = 10 + 2d + p + ½·d·p ± 1 with d, p, t = ±1.
// Sums of squares: 16·2², 16·1², 0, 16·½², and 16·1² of the seeds with 8 degrees of freedom. Margins: 10 ± effect.
func TestAnovaByHand(t *testing.T) {
	var runs []Observation
	for _, d := range []float64{1, -1} {
		for _, p := range []float64{1, -1} {
			for _, w := range []float64{1, -1} {
				for _, e := range []float64{1, -1} {
					y := 10 + 2*d + p + d*p/2 + e
					runs = append(runs, Observation{fmt.Sprint("d", d), fmt.Sprint("p", p), fmt.Sprint("t", w), y})
				}
			}
		}
	}
	a, err := Analyze(runs, Noise{})
	if err != nil {
		t.Fatal(err)
	}
	if a.Runs != 16 || a.Cells != 8 || a.Possible != 8 || !near(a.Mean, 10) ||
		a.ErrorTerm != SeedsError || a.Error.DF != 8 || !near(a.Error.SS, 16) {
		t.Errorf("%+v", a)
	}
	for i, want := range []struct {
		name  string
		ss, f float64
	}{
		{"direction", 64, 32}, {"pair weight", 16, 8}, {"triplet weight", 0, 0}, {"direction × pair weight", 4, 2},
		{"direction × triplet weight", 0, 0}, {"pair weight × triplet weight", 0, 0},
		{"direction × pair weight × triplet weight", 0, 0},
	} {
		e := a.Effects[i]
		if e.Name != want.name || !near(e.SS, want.ss) || !near(e.F, want.f) || e.DF != 1 || e.Full != 1 {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
	// F(1, 8) = 32 has p = 0.00048 (tables: 25.4 at 0.001); ω² = (F − 1)/(F − 1 + 16).
	if e := a.Effects[0]; e.P > 0.001 || e.P < 0.0001 || !near(e.Omega, 31.0/47) ||
		!(e.Low < e.Omega && e.Omega < e.High) || e.Low <= 0 {
		t.Errorf("%+v", e)
	}
	if e := a.Effects[2]; !near(e.P, 1) || e.Omega != 0 || e.Low != 0 || e.High != 0 {
		t.Errorf("no effect: %+v", e)
	}
	// The residual of the model with two-way interactions is 16 over 9 degrees of freedom; 8 runs a level.
	for f, effect := range []float64{2, 1, 0} {
		for i, sign := range []float64{1, -1} {
			m := a.Margins[f][i]
			if !near(m.Mean, 10+sign*effect) || !near(m.SE, math.Sqrt(16.0/9/8)) || m.Runs != 8 || m.DF != 9 ||
				!near(m.High-m.Mean, 2.262157163*m.SE) {
				t.Errorf("%s: %+v", factors[f], m)
			}
		}
	}
	if a.MarginModel != InteractionModel {
		t.Error(a.MarginModel)
	}
}

// Comparison with statsmodels. testdata/anova.py computes the numbers.
func TestAnovaAgainstStatsmodels(t *testing.T) {
	raw, err := os.ReadFile("testdata/anova.json")
	if err != nil {
		t.Fatal(err)
	}
	var sets map[string]struct {
		Runs []struct {
			Direction, Pair, Triplet string
			Value                    float64
		}
		Error struct {
			SS float64
			DF int
		}
		Effects []struct {
			SS, F, P float64
			DF       int
			Interval []float64
		}
		Margins []struct {
			Factor, Level string
			Mean, SE      float64
		}
	}
	if err := json.Unmarshal(raw, &sets); err != nil {
		t.Fatal(err)
	}
	if len(sets) != 4 {
		t.Fatalf("%d sets", len(sets))
	}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			var runs []Observation
			for _, r := range set.Runs {
				runs = append(runs, Observation{r.Direction, r.Pair, r.Triplet, r.Value})
			}
			a, err := Analyze(runs, Noise{})
			if err != nil {
				t.Fatal(err)
			}
			if a.Error.DF != set.Error.DF || !near(a.Error.SS, set.Error.SS) {
				t.Errorf("error %+v, want %+v", a.Error, set.Error)
			}
			if once := name == "one run a cell"; (a.ErrorTerm == ThreeWayError) != once ||
				math.IsNaN(a.Effects[6].SS) != once {
				t.Errorf("%s, %+v", a.ErrorTerm, a.Effects[6])
			}
			for i, want := range set.Effects {
				e := a.Effects[i]
				if e.DF != want.DF || !near(e.SS, want.SS) {
					t.Errorf("%+v, want %+v", e, want)
				}
				if want.DF == 0 {
					if !math.IsNaN(e.F) || !math.IsNaN(e.P) || !math.IsNaN(e.Omega) {
						t.Errorf("%s has no degree of freedom: %+v", e.Name, e)
					}
					continue
				}
				if !near(e.F, want.F) || !near(e.P, want.P) || !near(e.Low, want.Interval[0]) ||
					!near(e.High, want.Interval[1]) {
					t.Errorf("%+v, want %+v", e, want)
				}
			}
			margins := make(map[string]Margin)
			for f, levels := range a.Margins {
				for _, m := range levels {
					margins[[...]string{"direction", "pair", "triplet"}[f]+m.Level] = m
				}
			}
			for _, want := range set.Margins {
				if m := margins[want.Factor+want.Level]; !near(m.Mean, want.Mean) || !near(m.SE, want.SE) {
					t.Errorf("%s %s: %+v, want %+v", want.Factor, want.Level, m, want)
				}
			}
		})
	}
}

// Two parts that always change together are confounded: they have no degrees of freedom and no margins.
func TestAnovaOfWhatCannotBeTold(t *testing.T) {
	var runs []Observation
	for i := range 8 {
		d := []string{"a", "b"}[i%2]
		runs = append(runs, Observation{d, d, []string{"x", "y"}[i/2%2], float64(i)})
	}
	a, err := Analyze(runs, Noise{})
	if err != nil {
		t.Fatal(err)
	}
	if a.Effects[0].DF != 0 || a.Effects[1].DF != 0 || a.Effects[2].DF != 1 || a.Possible != 8 || a.Cells != 4 {
		t.Errorf("%+v", a.Effects)
	}
	if a.MarginModel != AdditiveModel || !math.IsNaN(a.Margins[0][0].Mean) || !math.IsNaN(a.Margins[1][1].Mean) ||
		math.IsNaN(a.Margins[2][0].Mean) {
		t.Errorf("%+v", a.Margins)
	}
}

// With one triplet weight it is the analysis of the two other parts. By hand: as above, without the third part.
func TestAnovaOfTwoParts(t *testing.T) {
	var runs []Observation
	for i := range 8 {
		sign := func(b int) float64 { return float64(2*(i>>b&1) - 1) }
		y := 10 + 2*sign(0) + sign(1) + sign(0)*sign(1)/2 + sign(2)
		runs = append(runs, Observation{fmt.Sprint("d", sign(0)), fmt.Sprint("p", sign(1)), "con", y})
	}
	a, err := Analyze(runs, Noise{})
	if err != nil {
		t.Fatal(err)
	}
	for i, ss := range []float64{32, 8, 0, 2, 0, 0, 0} {
		e := a.Effects[i]
		tested := ss > 0
		if !near(e.SS, ss) || (e.DF == 1) != tested || (e.Full == 1) != tested || math.IsNaN(e.F) == tested {
			t.Errorf("%+v, want SS %g", e, ss)
		}
	}
	if a.Error.DF != 4 || !near(a.Error.SS, 8) || a.MarginModel != InteractionModel ||
		!near(a.Margins[0][1].Mean, 12) || !near(a.Margins[2][0].Mean, 10) {
		t.Errorf("%+v", a)
	}
}

func TestAnovaErrors(t *testing.T) {
	run := func(d, p, w string, v float64) Observation { return Observation{d, p, w, v} }
	for want, runs := range map[string][]Observation{
		"no runs":                               nil,
		"run 1, a/b/c, has the value NaN":       {run("a", "b", "c", 1), run("a", "b", "c", math.NaN())},
		"run 0 has no pair weight":              {run("a", "", "c", 1)},
		"all 2 runs are of a/b/c":               {run("a", "b", "c", 1), run("a", "b", "c", 2)},
		"2 runs of 2 combinations leave nothin": {run("a", "b", "c", 1), run("b", "a", "d", 1)},
	} {
		if _, err := Analyze(runs, Noise{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}

// Without noise, F is undefined.
func TestAnovaWithoutNoise(t *testing.T) {
	var runs []Observation
	for i := range 16 {
		at := func(b int) string { return fmt.Sprint(i >> b & 1) }
		runs = append(runs, Observation{at(0), at(1), at(2), 0.1*float64(i&1) + 0.7})
	}
	a, err := Analyze(runs, Noise{})
	if err != nil {
		t.Fatal(err)
	}
	if e := a.Effects[0]; !near(e.SS, 16*0.05*0.05) || !math.IsNaN(e.F) || !math.IsNaN(e.Omega) {
		t.Errorf("%+v", e)
	}
}

// The mean of three equal runs differs from them by rounding. That is not noise, also if the noise is given.
func TestAnovaOfEqualTriples(t *testing.T) {
	var runs []Observation
	for i := range 24 {
		at := func(b int) string { return fmt.Sprint(i / 3 >> b & 1) }
		runs = append(runs, Observation{at(0), at(1), at(2), 0.1*float64(i/3&1) + 0.07*float64(i/3>>1&1) + 0.7})
	}
	for _, seeds := range []Noise{{}, {Std: 1e-17, Freedom: 16}} {
		a, err := Analyze(runs, seeds)
		if err != nil {
			t.Fatal(err)
		}
		if a.Error.SS != 0 || a.Error.DF != 16 || !math.IsNaN(a.Effects[0].F) || !math.IsNaN(a.Effects[0].High) {
			t.Errorf("%+v, %+v", a.Error, a.Effects[0])
		}
	}
}

// The interval of an effect of any size takes a bounded number of terms, contains F, and has no jump at mixtureLimit.
func TestLargeNoncentrality(t *testing.T) {
	if first, last := poissonRange(mixtureLimit / 2); last-first > 2000 {
		t.Errorf("%g terms at most", last-first+1)
	}
	for _, f := range []float64{1e3, 1e6, 1e24} {
		for _, d1 := range []float64{1, 6} {
			for _, d2 := range []float64{16, 336} {
				low, high := noncentrality(f, d1, d2, 0.975), noncentrality(f, d1, d2, 0.025)
				// With so large a λ, F is λ/d1 over a χ² by its degrees of freedom.
				chi := distuv.ChiSquared{K: d2}
				wantLow, wantHigh := d1*f*chi.Quantile(0.025)/d2, d1*f*chi.Quantile(0.975)/d2
				tolerance := 1e-4 + 60/f
				far := f >= 1e6 && (math.Abs(low/wantLow-1) > tolerance || math.Abs(high/wantHigh-1) > tolerance)
				if far || !(low < d1*f && d1*f < high) {
					t.Errorf("F(%g, %g) = %g: λ from %g to %g, want about %g to %g", d1, d2, f, low, high, wantLow, wantHigh)
				}
			}
		}
	}
	for _, d1 := range []float64{1, 3, 30} {
		for _, d2 := range []float64{2, 16, 336} {
			for _, k := range []float64{0.9, 1, 1.1} {
				f := k * (d1 + mixtureLimit) / d1
				sum, integral := noncentralF(f, d1, d2, mixtureLimit), farNoncentralF(f, d1, d2, mixtureLimit)
				if math.Abs(sum-integral) > 1e-7 {
					t.Errorf("F(%g, %g) at %g: %g as a sum, %g as an integral", d1, d2, f, sum, integral)
				}
			}
		}
	}
}
