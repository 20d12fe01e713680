package search

import (
	"context"
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Finals control how the best trials are trained again and measured.
type Finals struct {
	// Finalists is the number of best trials that are trained again, each with FreshSeeds seeds that no trial had: the
	// best of many trials with one seed is also the luckiest.
	Finalists, FreshSeeds int
	// Seeds are those of the final runs, which train on all training classes and are measured on the test classes.
	Seeds []uint64
}

// StandardFinals are four finalists with two fresh seeds each, and three seeds for the test.
var StandardFinals = Finals{Finalists: 4, FreshSeeds: 2, Seeds: []uint64{1, 2, 3}}

// Finalist is one of the best trials with its fresh runs.
type Finalist struct {
	Record
	Rule  string
	Fresh []*runs.Result // With fresh seeds; the same classes are held out.
	// HeldOut is the mean over the fresh runs. The trial's own run is not in it, because that would be biased: it is the
	// reason to pick the trial.
	HeldOut stats.Mean
}

// Selection is the outcome of a search.
type Selection struct {
	Finalists []Finalist
	Chosen    int // Index of the finalist with the best fresh runs; −1 while some are missing.
	// Tests are the runs of the chosen finalist on all training classes. Their recall on the test classes is the result of
	// the search.
	Tests []*runs.Result
}

// TrainFunc returns the results of specs, in their order. A result is nil if it is missing and nothing is to be
// trained.
type TrainFunc func(ctx context.Context, specs []runs.Spec) ([]*runs.Result, error)

// TrainObjective returns an objective that trains specs and reveals only [OutcomeOf] of their results.
func TrainObjective(train TrainFunc) Objective {
	return func(ctx context.Context, specs []runs.Spec) ([]Outcome, error) {
		results, err := train(ctx, specs)
		if err != nil {
			return nil, err
		}
		out := make([]Outcome, len(results))
		for i, r := range results {
			if r == nil {
				return nil, fmt.Errorf("run %s was not trained", specs[i].Hash())
			}
			if out[i], err = OutcomeOf(r); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// Select trains the best trials again with held-out classes, chooses one, and measures it on the test classes.
func (s *Search) Select(ctx context.Context, train TrainFunc, f Finals) (*Selection, error) {
	best := s.Best(f.Finalists)
	if len(best) == 0 {
		return nil, fmt.Errorf("search %s has no finite trial of the full length: there is nothing to choose", s.Name)
	}
	v := &Selection{Chosen: -1}
	var specs []runs.Spec
	for _, r := range best {
		spec, err := s.Spec(r.At)
		if err != nil {
			return nil, err
		}
		v.Finalists = append(v.Finalists, Finalist{Record: r, Rule: spec.Rule})
		for i := range f.FreshSeeds {
			again := spec
			again.Seed += uint64(i) + 1
			specs = append(specs, again)
		}
	}
	results, err := train(ctx, specs)
	if err != nil {
		return nil, err
	}
	highest := math.Inf(-1)
	complete := true
	for i := range v.Finalists {
		c := &v.Finalists[i]
		for _, r := range results[i*f.FreshSeeds : (i+1)*f.FreshSeeds] {
			if r == nil {
				complete = false
				continue
			}
			c.Fresh = append(c.Fresh, r)
		}
		c.HeldOut = runs.MeanOf(c.Fresh, func(r *runs.Result) float64 { return r.HeldOutRecall[1] })
		score := c.HeldOut.Mean
		if c.HeldOut.Diverged > 0 || f.FreshSeeds == 0 { // One diverged run disqualifies a finalist.
			score = math.Inf(-1)
		}
		if score > highest {
			highest, v.Chosen = score, i
		}
	}
	if !complete {
		v.Chosen = -1
		return v, nil
	}
	if v.Chosen < 0 { // All finalists diverged, or had no fresh seeds: take the best trial.
		v.Chosen = 0
	}
	spec, err := s.Spec(v.Finalists[v.Chosen].At)
	if err != nil {
		return nil, err
	}
	v.Tests, err = Test(ctx, train, spec, f.Seeds)
	return v, err
}

// Spec returns the spec of a point at the full length.
func (s *Search) Spec(at Point) (runs.Spec, error) {
	base := s.Base
	if s.base.Data != "" {
		base = s.base
	}
	return Apply(base, s.Space, at)
}

// Test trains a spec on all training classes, once per seed, and returns the results. Missing results are left out.
func Test(ctx context.Context, train TrainFunc, spec runs.Spec, seeds []uint64) ([]*runs.Result, error) {
	spec.HeldOut = 0
	var specs []runs.Spec
	for _, seed := range seeds {
		spec.Seed = seed
		specs = append(specs, spec)
	}
	results, err := train(ctx, specs)
	if err != nil {
		return nil, err
	}
	var out []*runs.Result
	for _, r := range results {
		if r != nil {
			out = append(out, r)
		}
	}
	return out, nil
}
