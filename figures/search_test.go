package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
)

func someTrials() SearchTrials {
	nan := math.NaN()
	s := SearchTrials{Title: "minicar", Lengths: []string{"6 epochs", "12 epochs", "24 epochs"}}
	for i, v := range [][]float64{{40}, {55, 60}, {50}, {61, 66, 70}, {nan}, {58, 64}, {60, 63, 68}, {52}, {57},
		{62, 67, 73}, {nan}, {63, 69, nan}, {59, 66}, {60, 67, 72}} {
		s.Trials = append(s.Trials, SearchTrial{i, v})
	}
	return s
}

func TestSearchFigures(t *testing.T) {
	reference := SearchTrials{Title: "the paper's rule", Lengths: []string{"6 epochs", "24 epochs"},
		Trials: []SearchTrial{{0, []float64{50}}, {1, []float64{55, 66}}}}
	f, err := SearchHistory("made-up numbers", someTrials(), reference)
	checkGolden(t, "searchhistory", f, err)
	if !strings.Contains(f.Alt, "minicar: 14 trials, the best of 24 epochs is number 9 with 73.0") {
		t.Error(f.Alt)
	}
}

func TestSearchTables(t *testing.T) {
	none := stats.Point(math.NaN())
	table, err := SearchVerdict("made-up numbers", SearchTest{"searched", "cos-orth/lin/cir", "lr 0.8",
		meanOf(71, 1, 3, 0), nil, ""},
		SearchTest{"the paper's rule", "cos-orth/lin-ms/cir", "lr 0.5", meanOf(70, 1, 3, 0),
			[]stats.Interval{intervalOf(1, -0.5, 2.5)}, "paired by seed, 3 pairs"},
		SearchTest{"as it was", "cos-orth/lin-ms/cir", "lr 0.1", meanOf(68, 1, 3, 0),
			[]stats.Interval{intervalOf(3, 2, 4), intervalOf(2, 1, 3)}, "paired by seed, 3 pairs"},
		SearchTest{"diverged", "cos/sig-ms/con", "lr 9", meanOf(math.NaN(), math.NaN(), 0, 3),
			[]stats.Interval{none, none, none}, ""})
	if err != nil {
		t.Fatal(err)
	}
	if text := table.String(); !strings.Contains(text, "1.0 [−0.5,\u00a02.5]") ||
		!strings.Contains(text, "the paper's rule − this") || !strings.Contains(text, "2.0 [1.0,\u00a03.0]") ||
		!strings.Contains(text, "paired by seed, 3 pairs") {
		t.Error(text)
	}
}

func TestSearchFiguresReject(t *testing.T) {
	for want, make := range map[string]func() error{
		"no searches": func() error { _, err := SearchHistory(""); return err },
		"0 trials of 1 lengths": func() error {
			_, err := SearchHistory("",
				SearchTrials{Lengths: []string{"1"}})
			return err
		},
		"trial 4 has 2 scores for 1": func() error {
			_, err := SearchHistory("", SearchTrials{Lengths: []string{"1"}, Trials: []SearchTrial{{4, []float64{1, 2}}}})
			return err
		},
		"no results": func() error { _, err := SearchVerdict(""); return err },
		"want some, and at mo": func() error {
			_, err := SearchHistory("",
				SearchTrials{Trials: []SearchTrial{{}}})
			return err
		},
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
	all := SearchTrials{Lengths: []string{"1"}, Trials: []SearchTrial{{0, []float64{math.NaN()}}}} // All diverged.
	f, err := SearchHistory("", all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Bytes(f, "svg"); err != nil {
		t.Error(err)
	}
}
