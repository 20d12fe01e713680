package presets

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// The runs of these searches are made up: recall falls with the distance of a rate from the best one, in powers of two.
func made(best []float64, diverges float64) func([]runs.Spec) ([]*runs.Result, error) {
	return func(specs []runs.Spec) ([]*runs.Result, error) {
		var out []*runs.Result
		for _, s := range specs {
			r := &runs.Result{Spec: s}
			if s.LR > diverges && s.Seed == 1 {
				r.Diverged = "loss is NaN"
			} else {
				r.HeldOutRecall = map[int]float64{1: 0.9 - math.Abs(math.Log2(s.LR/best[s.Dim]))/20}
				r.Recall = map[int]float64{1: s.LR} // It rises with the rate, and must not matter.
			}
			out = append(out, r)
		}
		return out, nil
	}
}

func rateSearch(wider int) RateSearch {
	return RateSearch{Objectives: []string{"a", "b"}, Rates: []float64{0.4, 0.1, 0.2}, Seeds: []uint64{1, 2}, Wider: wider,
		Spec: func(i int, rate float64, seed uint64) (runs.Spec, error) {
			return runs.Spec{HeldOut: 4, Config: train.Config{Dim: i, LR: rate, Seed: seed}}, nil
		}}
}

func TestRatesAreChosenOnHeldOutClasses(t *testing.T) {
	t.Parallel()
	s := rateSearch(0)
	s.Train = made([]float64{0.2, 0.4}, 1)
	got, err := s.Choose()
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Rate() != 0.2 || got[0].AtEdge() || got[1].Rate() != 0.4 || !got[1].AtEdge() {
		t.Errorf("%+v", got)
	}

	// The grid grows at both ends, for all alike, and ends.
	s = rateSearch(5)
	s.Train = made([]float64{0.05, 1.6}, 100)
	if got, err = s.Choose(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.05, 1.6} {
		var rates []float64
		for _, trial := range got[i].Trials {
			rates = append(rates, trial.Rate)
		}
		grid := []float64{0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2}
		if got[i].Rate() != want || got[i].AtEdge() || !slices.Equal(rates, grid) {
			t.Errorf("%s: %g of %v", got[i].Objective, got[i].Rate(), rates)
		}
	}
	s = rateSearch(1)
	s.Train = made([]float64{100, 100}, 1000)
	if got, err = s.Choose(); err != nil || len(got[0].Trials) != 4 || !got[0].AtEdge() {
		t.Errorf("%+v, %v", got, err)
	}

	// Half of the runs above 0.2 diverge: 0.4 would be the best by the mean of the others.
	s = rateSearch(0)
	s.Train = made([]float64{0.4, 0.4}, 0.3)
	if got, err = s.Choose(); err != nil || got[0].Rate() != 0.2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRateSearchRefusesWhatItCannotCompare(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*RateSearch){
		"two positive":            func(s *RateSearch) { s.Rates = []float64{0.1, 0.1} },
		"learning rates [-1 0.1]": func(s *RateSearch) { s.Rates = []float64{-1, 0.1} },
		"0 seeds":                 func(s *RateSearch) { s.Seeds = nil },
		"holds out no training": func(s *RateSearch) {
			s.Spec = func(int, float64, uint64) (runs.Spec, error) { return runs.Spec{}, nil }
		},
	} {
		s := rateSearch(1)
		s.Train = made([]float64{1, 1}, 1)
		change(&s)
		if _, err := s.Choose(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
