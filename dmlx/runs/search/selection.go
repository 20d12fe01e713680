package search

import (
	"context"
	"fmt"
	"math"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Finals says how a search's best trials are tried again and measured.
type Finals struct {
	// Finalists is how many of the best trials are trained again, with Again seeds that no trial had: the best of many by one seed is
	// also the luckiest.
	Finalists, FreshSeeds int
	// Seeds are those of the runs on all training classes, which are measured on the test classes.
	Seeds []uint64
}

// StandardFinals are four finalists with two fresh seeds, and three seeds for the test.
var StandardFinals = Finals{Finalists: 4, FreshSeeds: 2, Seeds: []uint64{1, 2, 3}}

// Finalist is one of the best trials, tried again.
type Finalist struct {
	Record
	Rule    string
	Fresh   []*runs.Result // With fresh seeds, held-out classes left out as in the search.
	HeldOut stats.Mean     // Over these; the trial's own run, by which it was picked, is not in it.
}

// Verdict is what a search has come to.
type Selection struct {
	Finalists []Finalist
	Chosen    int // Of the finalists, the one whose fresh runs are best; −1 while they are missing.
	// Tests are its runs on all training classes; their recall on the test classes is the search's outcome.
	Tests []*runs.Result
}

// Train has the results of specs, in their order: nil for those that are not there, where none are to be made.
type TrainFunc func(ctx context.Context, specs []runs.Spec) ([]*runs.Result, error)

// Learner is an objective that trains and knows of the results what a search may; see [Learn].
func TrainObjective(train TrainFunc) Objective {
	return func(ctx context.Context, specs []runs.Spec) ([]Outcome, error) {
		results, err := train(ctx, specs)
		if err != nil {
			return nil, err
		}
		out := make([]Outcome, len(results))
		for i, r := range results {
			if r == nil {
				return nil, fmt.Errorf("run %s was not made", specs[i].Hash())
			}
			if out[i], err = OutcomeOf(r); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// Verdict tries the best trials again on the held-out classes, chooses one, and measures it on the test classes.
func (s *Search) Select(ctx context.Context, train TrainFunc, f Finals) (*Selection, error) {
	best := s.Best(f.Finalists)
	if len(best) == 0 {
		return nil, fmt.Errorf("search %s has no trial of the whole length that did not diverge: there is nothing to choose", s.Name)
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
		if c.HeldOut.Diverged > 0 || f.FreshSeeds == 0 { // What diverges once is not to be recommended.
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
	if v.Chosen < 0 { // All diverged with other seeds, or none were tried: the trials' own runs decide.
		v.Chosen = 0
	}
	spec, err := s.Spec(v.Finalists[v.Chosen].At)
	if err != nil {
		return nil, err
	}
	v.Tests, err = Test(ctx, train, spec, f.Seeds)
	return v, err
}

// Spec is the spec of a point at the whole length.
func (s *Search) Spec(at Point) (runs.Spec, error) {
	base := s.Base
	if s.base.Data != "" {
		base = s.base
	}
	return Apply(base, s.Space, at)
}

// Test trains a spec on all training classes, with each of the seeds. What is not there is left out.
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
