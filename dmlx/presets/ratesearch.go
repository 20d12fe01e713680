package presets

import (
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// RateTrial is what one learning rate reached.
type RateTrial struct {
	Rate float64 `json:"rate"`
	// HeldOut is Recall@1 of the held-out training classes, a fraction.
	HeldOut stats.Mean `json:"held_out"`
	// Test is Recall@1 of the test classes. No choice uses it.
	Test stats.Mean `json:"test"`
}

// score is what rates are chosen by: the mean of HeldOut, in which a run that diverged counts as 0.
func (t RateTrial) score() float64 {
	if t.HeldOut.N == 0 {
		return 0
	}
	return t.HeldOut.Mean * float64(t.HeldOut.N) / float64(t.HeldOut.N+t.HeldOut.Diverged)
}

// RateChoice is the learning rate of a rule or loss that a [RateSearch] has chosen.
type RateChoice struct {
	Objective string      `json:"objective"`
	Trials    []RateTrial `json:"trials"` // By ascending rate.
	Best      int         `json:"best"`   // The trial with the most held-out recall; of equal ones the lower rate.
}

// Rate returns the chosen rate.
func (c RateChoice) Rate() float64 { return c.Trials[c.Best].Rate }

// AtEdge reports whether the chosen rate is the lowest or the highest that was tried, so that a better one may lie
// beyond.
func (c RateChoice) AtEdge() bool { return c.Best == 0 || c.Best == len(c.Trials)-1 }

// RateSearch chooses the learning rates of several rules and losses from one grid, with as many tries for each.
type RateSearch struct {
	Objectives []string
	Rates      []float64 // The first grid: at least two positive numbers.
	Seeds      []uint64
	// Wider is how many times the grid may grow. While the best rate of any objective is at an edge, it grows there by the
	// factor between its two outermost rates, for all objectives.
	Wider int
	// Spec returns the run of an objective, by its place, at a rate. It must hold out training classes.
	Spec func(objective int, rate float64, seed uint64) (runs.Spec, error)
	// Train returns the results of runs, in their order.
	Train func([]runs.Spec) ([]*runs.Result, error)
}

// Choose trains what is missing and returns the choices, in the order of the objectives.
func (s RateSearch) Choose() ([]RateChoice, error) {
	rates := slices.Compact(slices.Sorted(slices.Values(s.Rates)))
	if len(rates) < 2 || !(rates[0] > 0) || len(s.Seeds) == 0 || len(s.Objectives) == 0 {
		return nil, fmt.Errorf("%d objectives, %d seeds and learning rates %v: want at least one, one and two positive ones",
			len(s.Objectives), len(s.Seeds), s.Rates)
	}
	for wider := 0; ; wider++ {
		choices, err := s.try(rates)
		if err != nil || wider == s.Wider {
			return choices, err
		}
		n := len(rates)
		lower, upper := rates[0]*rates[0]/rates[1], rates[n-1]*rates[n-1]/rates[n-2]
		low := slices.ContainsFunc(choices, func(c RateChoice) bool { return c.Best == 0 })
		high := slices.ContainsFunc(choices, func(c RateChoice) bool { return c.Best == n-1 })
		if !low && !high {
			return choices, nil
		}
		if low {
			rates = append([]float64{twoDigits(lower)}, rates...)
		}
		if high {
			rates = append(rates, twoDigits(upper))
		}
	}
}

// try returns the choices from a grid in ascending order.
func (s RateSearch) try(rates []float64) ([]RateChoice, error) {
	var specs []runs.Spec
	for i := range s.Objectives {
		for _, rate := range rates {
			for _, seed := range s.Seeds {
				spec, err := s.Spec(i, rate, seed)
				if err != nil {
					return nil, fmt.Errorf("%s at rate %g: %w", s.Objectives[i], rate, err)
				}
				if spec.HeldOut == 0 {
					return nil, fmt.Errorf("%s at rate %g: the run holds out no training classes", s.Objectives[i], rate)
				}
				specs = append(specs, spec)
			}
		}
	}
	results, err := s.Train(specs)
	if err != nil {
		return nil, err
	}
	choices := make([]RateChoice, len(s.Objectives))
	for i, objective := range s.Objectives {
		c := RateChoice{Objective: objective}
		for _, rate := range rates {
			of := results[:len(s.Seeds)]
			results = results[len(s.Seeds):]
			t := RateTrial{Rate: rate,
				HeldOut: runs.MeanOf(of, func(r *runs.Result) float64 { return r.HeldOutRecall[1] }),
				Test:    runs.MeanOf(of, func(r *runs.Result) float64 { return r.Recall[1] })}
			c.Trials = append(c.Trials, t)
			if t.score() > c.Trials[c.Best].score() {
				c.Best = len(c.Trials) - 1
			}
		}
		choices[i] = c
	}
	return choices, nil
}
