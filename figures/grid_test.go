package figures

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

var gridLevels = [3][]string{{"euc", "cos", "euc-orth", "cos-orth"}, {"con", "euc", "lin", "lin-ms", "sig", "sig-ms"},
	{"con", "cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"}}

func meanOf(mean, std float64, n, diverged int) stats.Mean {
	return stats.Mean{Mean: mean, Std: std, N: n, Diverged: diverged}
}

// gridScores are made-up scores of the full grid; of every sixth rule there is none, one diverged and one broke down.
func gridScores(shift float64) map[string]stats.Mean {
	scores := make(map[string]stats.Mean)
	for i, d := range gridLevels[0] {
		for j, p := range gridLevels[1] {
			for k, w := range gridLevels[2] {
				if (7*i+3*j+5*k)%6 != 0 {
					scores[d+"/"+p+"/"+w] = stats.Mean{Mean: shift + 2*float64(i) + 3*math.Sin(float64(j)) +
						float64(k)/2 - float64(i*j)/4, N: 1}
				}
			}
		}
	}
	scores["cos/sig-ms/cir"] = stats.Mean{Mean: math.NaN(), Diverged: 1}
	scores["euc/sig-ms/cir"] = stats.Mean{Mean: 12.3, N: 1}
	return scores
}

func TestGridMap(t *testing.T) {
	marks := []GridMark{{"the best", "cos-orth/lin/cir+sc2"}, {"the paper's choice", "cos-orth/lin-ms/cir"},
		{"one part at a time", "cos-orth/lin/cir+sc2"}}
	sets := []GridSet{
		{Data: "minicar", Directions: gridLevels[0], Pairs: gridLevels[1], Triplets: gridLevels[2], Scores: gridScores(70),
			Marks: marks},
		{Data: "minishop", Directions: gridLevels[0], Pairs: gridLevels[1], Triplets: gridLevels[2],
			Marks: []GridMark{{}, marks[1]},
			Scores: map[string]stats.Mean{"cos/con/con": {Mean: 80, N: 1}, "cos/lin/con": {Mean: 82, N: 1},
				"euc/lin/con": {Mean: 85, N: 1}}},
	}
	f, err := GridMap(sets, somewhere)
	checkGolden(t, "gridmap", f, err)
	for _, want := range []string{"minicar: 138 of 168 rules, from below ",
		"1 diverged; the best: cos-orth/lin/cir+sc2 with ", "minishop: 3 of 168 rules, from 80.0 to 85.0 %"} {
		if !strings.Contains(f.Alt, want) {
			t.Errorf("%q lacks %q", f.Alt, want)
		}
	}
	height := f.Height
	sets[0].Triplets = append(slices.Clone(gridLevels[2]), "own-weight-of-triplets+sc1")
	if f, err = GridMap(sets, somewhere); err != nil || f.Height <= height {
		t.Errorf("with a long name: %v", err)
	} else if n := collisions(f); n > 0 {
		t.Errorf("with a long name: %d labels are cut", n)
	}
	sets[0].Triplets = gridLevels[2]
	sets[0].Scores = nil // Nothing there yet.
	if f, err := GridMap(sets[:1], ""); err != nil {
		t.Error(err)
	} else if _, err := Bytes(f, "svg"); err != nil {
		t.Error(err)
	}
	few := []GridSet{{Data: "x", Directions: []string{"cos"}, Pairs: []string{"con"}, Triplets: []string{"con"},
		Scores: sets[1].Scores, Marks: marks}}
	if f, err := GridMap(few, ""); err != nil {
		t.Error(err)
	} else if n := collisions(f); f.Width < 300 || n > 0 {
		t.Errorf("a small grid, %v wide: %d texts collide or are cut", f.Width, n)
	}
	sets[0].Marks = append(marks, marks...)
	for _, bad := range [][]GridSet{nil, {{Data: "x"}}, sets} {
		if _, err := GridMap(bad, ""); err == nil {
			t.Errorf("%d sets were drawn", len(bad))
		}
	}
}
