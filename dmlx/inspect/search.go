package inspect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/search"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// SearchRequest says what to search, and with what; see [Search]. Unset fields have defaults.
type SearchRequest struct {
	paper.Request
	// Name is that of the search in the store: preset and data set by default. With [runs.Options.CachedOnly] it is all
	// that is needed.
	Name string
	Data string // "minicar"
	// Rule has the parts that are not searched, by default cos/con/con. Reference is another to compare with: its own
	// parameters, rates and batches are searched as well, at the same budget. By default it is the paper's, "ours";
	// "none" is none.
	Rule, Reference string
	// Parameters are what is searched, as [search.NewSpace] takes them; none are all.
	Parameters []string
	HeldOut    int // Every so many-th training class is held out: 4.
	Sampler    search.Sampler
	Seed       uint64 // Of the sampler, and of the trials' runs.
	Bracket    int    // Trials that compete with each other: 8.
	Budget     search.Budget
	// Show, if set, is told in words how far the search is, and of the runs under way what part is done.
	Show func(fraction float64, text string)
}

// searchRungs is the largest number of lengths at which trials are measured: a quarter, a half, and all of the epochs.
const searchRungs = 3

func (q SearchRequest) withDefaults() SearchRequest {
	set := func(s *string, usual string) {
		if *s == "" {
			*s = usual
		}
	}
	set(&q.Data, "minicar")
	set(&q.Name, q.Preset.Name+"-"+search.CleanName(filepath.Base(q.Data)))
	set(&q.Rule, "cos/con/con")
	set(&q.Reference, "ours")
	if q.Sampler == "" {
		q.Sampler = search.TPE
	}
	if q.HeldOut == 0 {
		q.HeldOut = paper.SweepHeldOut
	}
	if q.Seed == 0 {
		q.Seed = 1
	}
	if q.Bracket == 0 {
		q.Bracket = 8
	}
	return q
}

// referenceName returns the name of the search that another is compared with.
func referenceName(name string) string { return name + ".reference" }

// settings returns the settings of a search around a rule; space returns its search space.
func (q SearchRequest) settings(name, rule string, space func(runs.Spec) (search.Space, error)) (search.Settings,
	error) {
	s := search.Settings{Name: name, Sampler: q.Sampler, Seed: q.Seed, Bracket: q.Bracket, Factor: 2}
	var err error
	if s.Base, err = q.base(rule); err != nil {
		return s, err
	}
	if s.Space, err = space(s.Base); err != nil {
		return s, errs.Invalid(err)
	}
	s.Rungs, err = search.Rungs(s.Base.Epochs, s.Factor, searchRungs)
	return s, err
}

// base returns the spec from which a search around a rule starts.
func (q SearchRequest) base(rule string) (runs.Spec, error) {
	r, err := dmlx.ParseRule(rule)
	if err != nil {
		return runs.Spec{}, err
	}
	s, err := q.Preset.Spec(q.Data, r, q.Seed)
	s.HeldOut = q.HeldOut
	return s, err
}

// Search finds the rule, rate, schedule and batch that train best, measured on held-out training classes. It chooses
// among the best trials by fresh seeds, trains the choice on all training classes and measures it on the test classes,
// beside the reference rule, searched at the same budget, and beside that rule with the preset's settings. Finished
// trials are read from the store, so that a call that was stopped can be repeated and goes on. With
// [runs.Options.CachedOnly] it shows what is available.
//
// Its parts: "outcome" is the recall of the test classes, "finalists" and "reference" are the best trials of both
// searches, and "history" is all of them.
func Search(ctx context.Context, q SearchRequest) (*paper.Report, error) {
	q = q.withDefaults()
	var s, reference *search.Search
	var base runs.Spec // The reference as the preset has it; without data if there is none.
	var err error
	if q.CachedOnly {
		if s, err = search.Open(q.Store, q.Name); err != nil {
			return nil, err
		}
		if r, err := search.Open(q.Store, referenceName(q.Name)); err == nil {
			reference, base = r, r.Base
			// It had nothing to search.
		} else if q.Preset, err = presets.Parse(presets.Of(s.Base)); err == nil && q.Reference != "none" {
			q.Data, q.Seed, q.HeldOut = s.Base.Data, s.Base.Seed, s.Base.HeldOut
			q.Preset.Memory, q.Preset.AllowPartial, q.Preset.SkipBad = s.Base.Memory, s.Base.AllowPartial, s.Base.SkipBad
			if base, err = q.base(q.Reference); err != nil {
				return nil, fmt.Errorf("reference: %w", err)
			}
		}
	} else if s, reference, base, err = q.run(ctx); err != nil {
		return nil, err
	}
	r := &paper.Report{Name: "search", Title: "Search " + q.Name, Preset: presets.Of(withoutHeldOut(s.Base))}
	r.Provenance = searchLine(s)
	if err := q.judge(ctx, r, s, reference, base); err != nil {
		return nil, err
	}
	addSearchFigures(r, s, reference)
	return r, nil
}

func withoutHeldOut(s runs.Spec) runs.Spec {
	s.HeldOut = 0
	return s
}

// run starts the searches or continues them. It starts both before it trains any run, so that errors in the request
// appear at once. If only the parts of a rule are searched there is nothing to search around the reference, which is
// then compared as it is, by base.
func (q SearchRequest) run(ctx context.Context) (s, reference *search.Search, base runs.Spec, err error) {
	settings, err := q.settings(q.Name, q.Rule, func(base runs.Spec) (search.Space,
		error) {
		return search.NewSpace(base, q.Parameters...)
	})
	if err != nil {
		return nil, nil, base, err
	}
	if s, err = search.Begin(q.Store, settings); err != nil {
		return nil, nil, base, err
	}
	if q.Reference != "none" {
		settings, err := q.settings(referenceName(q.Name), q.Reference, s.Space.Around)
		if err != nil {
			return nil, nil, base, fmt.Errorf("reference: %w", err)
		}
		base = settings.Base
		if len(settings.Space) > 0 {
			if reference, err = search.Begin(q.Store, settings); err != nil {
				return nil, nil, base, err
			}
		}
	}
	for _, one := range []*search.Search{s, reference} {
		if one == nil {
			continue
		}
		if err := one.Run(ctx, search.TrainObjective(q.train(one)), q.Budget); err != nil {
			return nil, nil, base, err
		}
	}
	return s, reference, base, nil
}

// train makes runs as the request says.
func (q SearchRequest) train(s *search.Search) search.TrainFunc {
	return func(ctx context.Context, specs []runs.Spec) ([]*runs.Result, error) {
		o := q.Options
		if q.Show != nil {
			so := fmt.Sprintf("%s, %d trials so far; ", s.Name, s.Trials())
			o.Progress = paper.Overall(func(done float64, text string) { q.Show(done, so+text) })
		}
		results, _, err := runs.RunAll(ctx, q.Open, q.Store, specs, o)
		return results, err
	}
}

// judge adds the tables: the finalists of both searches and the recall of the test classes.
func (q SearchRequest) judge(ctx context.Context, r *paper.Report, s, reference *search.Search,
	base runs.Spec) error {
	var tests []figures.SearchTest
	var earlier [][]*runs.Result
	add := func(name string, results []*runs.Result) {
		if len(results) < len(search.StandardFinals.Seeds) {
			return // They are not trained yet.
		}
		t := figures.SearchTest{Name: name, Rule: results[0].Spec.Rule, Values: values(results[0].Spec),
			Recall: runs.MeanRecall(results, 1).Times(100)}
		for _, before := range earlier {
			d, err := runs.CompareSeeds(before, results, recallAt(1))
			if err != nil { // All of one diverged.
				d.Difference = stats.Point(math.NaN())
			} else {
				t.Method = d.Method()
			}
			t.Behind = append(t.Behind, d.Difference)
		}
		tests, earlier = append(tests, t), append(earlier, results)
		r.Results = append(r.Results, results...)
	}
	finalists := func(part string, s *search.Search) (*search.Selection, error) {
		if len(s.Best(1)) == 0 {
			r.Parts = append(r.Parts, paper.Part{Name: part,
				Of: figures.Failed(fmt.Errorf("search %s has no trial of the whole length yet", s.Name))})
			return nil, nil
		}
		v, err := s.Select(ctx, q.train(s), search.StandardFinals)
		if err != nil {
			return nil, err
		}
		var rows []figures.SearchFinalist
		var again []*runs.Result
		for i, f := range v.Finalists {
			spec, err := s.Spec(f.At)
			if err != nil {
				return nil, err
			}
			again = append(again, f.Fresh...)
			rows = append(rows, figures.SearchFinalist{Trial: f.Trial, Rule: f.Rule, Values: values(spec),
				Found: 100 * f.Record.HeldOut,
				Again: f.HeldOut.Times(100), Chosen: i == v.Chosen})
		}
		r.Results = append(r.Results, again...)
		table, err := figures.SearchFinalists(searchLine(s)+" · "+runs.Provenance(again), rows...)
		r.Parts = append(r.Parts, paper.Part{Name: part, Of: table})
		return v, err
	}
	r.Parts = append(r.Parts, paper.Part{Name: "outcome", Of: nil}) // It comes first and is filled in last.
	v, err := finalists("finalists", s)
	if err != nil {
		return err
	}
	if v != nil {
		add("searched", v.Tests)
	}
	done := len(earlier) > 0
	if reference != nil {
		if v, err = finalists("reference", reference); err != nil {
			return err
		}
		if v != nil {
			add("reference, searched", v.Tests)
		}
	}
	if base.Data != "" && v != nil {
		untuned, err := search.Test(ctx, q.train(s), base, search.StandardFinals.Seeds)
		if err != nil {
			return err
		}
		add("reference, as the preset has it", untuned)
	}
	r.Runs = len(r.Results)
	if !done {
		r.Parts[0].Of = figures.Failed(errors.New("the search is not done: call it again, and it goes on"))
		return nil
	}
	r.Provenance += " · " + runs.Provenance(r.Results)
	r.Parts[0].Of, err = figures.SearchVerdict(r.Provenance, tests...)
	return err
}

// values lists a spec's rate, schedule and batch.
func values(s runs.Spec) string {
	decay := s.Decay
	if decay == 0 {
		decay = 0.6
	}
	return fmt.Sprintf("lr %g, a tenth from %.0f %%, %d×%d images, %d steps", s.LR, 100*decay, s.ClassesPerBatch,
		s.ImagesPerClass, s.Steps())
}

// searchLine returns a search's provenance.
func searchLine(s *search.Search) string {
	return fmt.Sprintf("search %s on %s · %d trials, %d runs, %.1f h · %s, seed %d · every %d-th training class "+
		"held out",
		s.Name, s.Base.Data,
		s.Trials(), len(s.Records), s.Seconds()/3600, s.Sampler, s.Seed, s.Base.HeldOut)
}

// agreementLine says how well the lengths of a search agree.
func agreementLine(s *search.Search) string {
	var out []string
	for rung := range len(s.Rungs) - 1 {
		if rho, n := s.Agreement(rung); !math.IsNaN(rho) {
			out = append(out, fmt.Sprintf("%d against %d epochs: ρ %.2f, n %d", s.Rungs[rung], s.Rungs[rung+1], rho, n))
		}
	}
	if out == nil {
		return s.Name
	}
	return s.Name + " · " + strings.Join(out, " · ")
}

func addSearchFigures(r *paper.Report, s, reference *search.Search) {
	add := func(name string, make func() (figures.Output, error)) {
		out, err := make()
		if err != nil {
			out = figures.Failed(err)
		}
		r.Parts = append(r.Parts, paper.Part{Name: name, Of: out})
	}
	add("history", func() (figures.Output, error) {
		histories := []figures.SearchTrials{trials(s, s.Name)}
		if reference != nil && len(reference.Records) > 0 {
			histories = append(histories, trials(reference, reference.Base.Rule))
		}
		return figures.SearchHistory(agreementLine(s), histories...)
	})
}

// trials returns a search's records by trial.
func trials(s *search.Search, title string) figures.SearchTrials {
	out := figures.SearchTrials{Title: title}
	for _, e := range s.Rungs {
		out.Lengths = append(out.Lengths, fmt.Sprintf("%d epochs", e))
	}
	place := make(map[int]int)
	for _, r := range s.Records {
		i, known := place[r.Trial]
		if !known {
			i = len(out.Trials)
			place[r.Trial] = i
			out.Trials = append(out.Trials, figures.SearchTrial{Number: r.Trial})
		}
		out.Trials[i].Scores = append(out.Trials[i].Scores, percentOf(r))
	}
	return out
}

func percentOf(r search.Record) float64 {
	if r.Diverged != "" {
		return math.NaN()
	}
	return 100 * r.HeldOut
}
