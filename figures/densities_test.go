package figures

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// bell returns a histogram of 100 bins on [−1, 1] around a similarity.
func bell(about, width float64) []float64 {
	out, sum := make([]float64, 100), 0.0
	for i := range out {
		z := (-1 + 2*(float64(i)+0.5)/100 - about) / width
		out[i] = math.Floor(960 * math.Exp(-z*z/2)) // Some are 0, as of finite sets.
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

func TestSimilarityDistributions(t *testing.T) {
	fine := Distribution{Title: "minicar (in the role of CAR)", Overlap: stats.Mean{Mean: 61.1, Std: 0.6, N: 3}}
	separated := Distribution{Title: "minishop (in the role of In-shop)", Overlap: stats.Mean{Mean: 41.3, Std: 1.3, N: 3}}
	for run := range 3 {
		shift := 0.01 * float64(run-1)
		fine.Positive, fine.Negative = append(fine.Positive, bell(0.9+shift, 0.06)),
			append(fine.Negative, bell(0.85-shift, 0.07))
		separated.Positive, separated.Negative = append(separated.Positive, bell(0.9+shift, 0.05)),
			append(separated.Negative, bell(0.75+shift, 0.07))
	}
	f, err := SimilarityDistributions(somewhere, fine, separated)
	checkGolden(t, "similaritydistributions", f, err)
	if !strings.Contains(f.Alt, "CAR): they share 61.1 ± 0.6 %") {
		t.Error(f.Alt)
	}
	if f, err = SimilarityDistributions("", Distribution{Title: "minicar",
		Overlap: stats.Mean{Mean: math.NaN(), Diverged: 3}}); err != nil {
		t.Errorf("without runs: %v", err)
	} else if _, err := Bytes(f, "svg"); err != nil {
		t.Errorf("without runs: %v", err)
	}

	for name, d := range map[string]Distribution{
		"no negatives": {Positive: fine.Positive},
		"other bins":   {Positive: fine.Positive[:1], Negative: [][]float64{{0.5, 0.5}}},
		"counts":       {Positive: [][]float64{{1, 2}}, Negative: [][]float64{{1, 2}}},
		"NaN":          {Positive: [][]float64{{1, 0}}, Negative: [][]float64{{1, math.NaN()}}},
	} {
		if _, err := SimilarityDistributions("", d); err == nil || !strings.HasPrefix(err.Error(), "figure 4, ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := SimilarityDistributions(""); err == nil {
		t.Error("drawn without a set")
	}
}

func TestOverlaps(t *testing.T) {
	of := func(direction, data string, m stats.Mean) scores.Row {
		return scores.Row{Label: DirectionLabel(direction), Protocol: "whole test set", Data: data, Value: m}
	}
	rows := scores.Table{of("cos", "minicar", meanOf(61.1, 0.6, 3, 0)), of("cos", "minishop", meanOf(41.3, 1.3, 3, 0)),
		of("euc", "minicar", meanOf(69.4, 1.8, 2, 1)), of("euc", "minishop", Missing)}
	table, err := Overlaps(rows, somewhere)
	checkText(t, "overlaps", table, err)
	if _, err := Overlaps(append(rows, rows[0]), ""); err == nil {
		t.Error("two scores of one cell were set")
	}
}

// heap returns counts of n×n squares around a point of the diagram.
func heap(n int, sap, san, width float64) []int {
	out := make([]int, n*n)
	for i := range out {
		at := func(k int) float64 { return -1 + 2*(float64(k)+0.5)/float64(n) }
		dx, dy := (at(i%n)-sap)/width, (at(i/n)-san)/(1.5*width)
		out[i] = int(60 * math.Exp(-(dx*dx+dy*dy)/2))
	}
	return out
}

func TestTripletDensities(t *testing.T) {
	score := func(mean float64) stats.Mean { return stats.Mean{Mean: mean, Std: 0.9, N: 3} }
	columns := []Markup{"last 5 epochs", "whole train set", "whole test set"}
	rows := []DensityRow{
		{DirectionLabel("euc"), []Density{{heap(200, 0.9, 0.4, 0.1), score(72.1), score(0.8)},
			{heap(200, 0.95, 0.88, 0.03), score(94), score(51)},
			{heap(100, 0.93, 0.9, 0.04), score(78.5), score(52.4)}}},
		{DirectionLabel("cos"), []Density{{heap(200, 0.85, 0.3, 0.12), score(46.6), score(0.1)},
			{heap(200, 0.93, 0.82, 0.05), score(86), score(27)},
			{nil, stats.Mean{Mean: math.NaN(), Diverged: 3}, stats.Mean{Mean: math.NaN(), Diverged: 3}}}},
	}
	f, err := TripletDensities(somewhere, columns, rows...)
	checkGolden(t, "tripletdensities", f, err)
	if !strings.Contains(f.Alt, "whole train set: S_ap above 0.9 in 94.0 ± 0.9 %, S_an as well in 51.0 ± 0.9 %.") {
		t.Error(f.Alt)
	}
	if f, err = TripletDensities("", columns[:1], DensityRow{"none", make([]Density, 1)}); err != nil {
		t.Errorf("without triplets: %v", err)
	} else if _, err := Bytes(f, "pdf"); err != nil {
		t.Errorf("without triplets: %v", err)
	}
	for name, panels := range map[string][]Density{
		"a panel too few": {}, "no square": {{Counts: make([]int, 10)}}, "a negative count": {{Counts: []int{1, 2, -1, 0}}},
	} {
		if _, err := TripletDensities("", columns[:1], DensityRow{"euc", panels}); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
	if _, err := TripletDensities("", nil); err == nil {
		t.Error("drawn without columns")
	}
}

// Merging squares keeps all triplets in place.
func TestDensityPanel(t *testing.T) {
	counts := make([]int, 200*200)
	counts[0], counts[1], counts[200], counts[199*200+199] = 1, 2, 3, 2
	side, shares, err := Density{Counts: counts}.shares(100)
	p := densityPanel{side: side}
	if err != nil || side != 100 || shares[0] != 6./8 || shares[100*100-1] != 2./8 || p.similarity(50) != 0 {
		t.Errorf("side %d, corners %v and %v, %v", side, shares[0], shares[len(shares)-1], err)
	}
	side, shares, err = Density{Counts: []int{0, 1, 0, 0}}.shares(100)
	if err != nil || side != 2 || !slices.Equal(shares, []float64{0, 1, 0, 0}) {
		t.Errorf("%d, %v, %v", side, shares, err)
	}
}
