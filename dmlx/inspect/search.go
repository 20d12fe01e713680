package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/search"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// SearchRequest says what to search, and with what; see [Search]. Unset fields have defaults.
type SearchRequest struct {
	report.Request
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
	q.Data = cmp.Or(q.Data, "minicar")
	q.Name = cmp.Or(q.Name, q.Preset.Name+"-"+search.CleanName(filepath.Base(q.Data)))
	q.Rule, q.Reference = cmp.Or(q.Rule, "cos/con/con"), cmp.Or(q.Reference, "ours")
	q.Sampler, q.HeldOut = cmp.Or(q.Sampler, search.TPE), cmp.Or(q.HeldOut, presets.SweepHeldOut)
	q.Seed, q.Bracket = cmp.Or(q.Seed, 1), cmp.Or(q.Bracket, 8)
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
// searches, and "history" is all of them. The same can be done step by step: [RunSearch], then [Searched.Select] and
// [Searched.Test], with [Searched.Panels], [Finalists] and [SearchTests] for package figures.
func Search(ctx context.Context, q SearchRequest) (*report.Report, error) {
	s, err := RunSearch(ctx, q)
	if err != nil {
		return nil, err
	}
	r := &report.Report{Name: "search", Title: "Search " + s.Name, Preset: presets.Of(withoutHeldOut(s.Base))}
	if err := s.judge(ctx, r); err != nil {
		return nil, err
	}
	history := report.Part{Name: "history"}
	if history.Of, err = figures.SearchHistory(s.Agreement(), s.Panels()...); err != nil {
		history.Of = figures.Failed(err)
	}
	r.Parts = append(r.Parts, history)
	return r, nil
}

// Searched is a search with what it is compared with.
type Searched struct {
	*search.Search
	// Reference is the search around the reference rule, nil if there is none or it has nothing to search.
	Reference *search.Search
	// Untuned is the reference rule as the preset has it, without data if there is none.
	Untuned runs.Spec

	request SearchRequest
}

// RunSearch trains the trials of a search and of that around its reference, and returns both. Finished trials are read
// from the store, so that a call that was stopped can be repeated and goes on. With [runs.Options.CachedOnly] it opens
// the search as far as it is.
func RunSearch(ctx context.Context, q SearchRequest) (*Searched, error) {
	q = q.withDefaults()
	if !q.CachedOnly {
		return q.run(ctx)
	}
	s := &Searched{}
	var err error
	if s.Search, err = search.Open(q.Store, q.Name); err != nil {
		return nil, err
	}
	if r, err := search.Open(q.Store, referenceName(q.Name)); err == nil {
		s.Reference, s.Untuned = r, r.Base
		// It had nothing to search.
	} else if q.Preset, err = presets.Parse(presets.Of(s.Base)); err == nil && q.Reference != "none" {
		q.Data, q.Seed, q.HeldOut = s.Base.Data, s.Base.Seed, s.Base.HeldOut
		q.Preset.Memory, q.Preset.Reading = s.Base.Memory, s.Base.Reading
		if s.Untuned, err = q.base(q.Reference); err != nil {
			return nil, fmt.Errorf("reference: %w", err)
		}
	}
	s.request = q
	return s, nil
}

func withoutHeldOut(s runs.Spec) runs.Spec {
	s.HeldOut = 0
	return s
}

// run starts the searches or continues them. It starts both before it trains any run, so that errors in the request
// appear at once. If only the parts of a rule are searched there is nothing to search around the reference, which is
// then compared as it is.
func (q SearchRequest) run(ctx context.Context) (*Searched, error) {
	settings, err := q.settings(q.Name, q.Rule, func(base runs.Spec) (search.Space, error) {
		return search.NewSpace(base, q.Parameters...)
	})
	if err != nil {
		return nil, err
	}
	s := &Searched{request: q}
	if s.Search, err = search.Begin(q.Store, settings); err != nil {
		return nil, err
	}
	if q.Reference != "none" {
		settings, err := q.settings(referenceName(q.Name), q.Reference, s.Space.Around)
		if err != nil {
			return nil, fmt.Errorf("reference: %w", err)
		}
		s.Untuned = settings.Base
		if len(settings.Space) > 0 {
			if s.Reference, err = search.Begin(q.Store, settings); err != nil {
				return nil, err
			}
		}
	}
	for _, one := range s.searches() {
		if err := one.Run(ctx, search.TrainObjective(q.train(one)), q.Budget); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// searches returns the search and, if there is one, that around the reference.
func (s *Searched) searches() []*search.Search {
	if s.Reference == nil {
		return []*search.Search{s.Search}
	}
	return []*search.Search{s.Search, s.Reference}
}

// train makes runs as the request says.
func (q SearchRequest) train(s *search.Search) search.TrainFunc {
	return func(ctx context.Context, specs []runs.Spec) ([]*runs.Result, error) {
		o := q.Options
		if q.Show != nil {
			so := fmt.Sprintf("%s, %d trials so far; ", s.Name, s.Trials())
			o.Progress = report.Overall(func(done float64, text string) { q.Show(done, so+text) })
		}
		results, _, err := runs.RunAll(ctx, q.Open, q.Store, specs, o)
		return results, err
	}
}

// Select trains the best trials of one of the two searches again and measures the best of them on the test classes; see
// [search.Search.Select]. With [runs.Options.CachedOnly] it takes the runs that are available.
func (s *Searched) Select(ctx context.Context, of *search.Search, f search.Finals) (*search.Selection, error) {
	return of.Select(ctx, s.request.train(of), f)
}

// Test returns the runs of a spec on all training classes, one per seed; see [search.Test]. With
// [runs.Options.CachedOnly] it takes those that are available.
func (s *Searched) Test(ctx context.Context, spec runs.Spec, seeds []uint64) ([]*runs.Result, error) {
	return search.Test(ctx, s.request.train(s.Search), spec, seeds)
}

// Finalists returns the table of the best trials of a search, as found and with fresh seeds.
func Finalists(s *search.Search, v *search.Selection) (*figures.Table, error) {
	t := &figures.Table{
		Caption: "The best trials: Recall@1 of held-out training classes, in percent.",
		Columns: []figures.Column{{Title: "Trial"}, {Title: "Rule", Left: true}, {Title: "Values", Left: true, Wrap: 44},
			{Title: "as found"}, {Title: "fresh seeds"}},
		Notes: []figures.Markup{"As found: with the one seed that all trials share. The best of many trials is partly " +
			"luck, so fresh seeds decide."},
	}
	var again []*runs.Result
	for i, f := range v.Finalists {
		spec, err := s.Spec(f.At)
		if err != nil {
			return nil, err
		}
		again = append(again, f.Fresh...)
		row := figures.Row(f.Trial, f.Rule, values(spec), fmt.Sprintf("%.1f", 100*f.Record.HeldOut), f.HeldOut.Times(100))
		if i == v.Chosen {
			for k := range row {
				row[k].Bold = true
			}
			t.Notes = append(t.Notes, fmt.Sprintf("Chosen: trial %d.", f.Trial))
		}
		t.Rows = append(t.Rows, row)
	}
	t.Provenance = searchLine(s) + " · " + runs.Provenance(again)
	return t, nil
}

// TestedRule is a rule with its runs on all training classes.
type TestedRule struct {
	Name    string
	Results []*runs.Result
}

// SearchTests returns the rows of [figures.SearchVerdict]: the recall of the test classes, in percent, and the
// differences of each earlier rule to this one. Rules without runs are left out.
func SearchTests(rules ...TestedRule) []figures.SearchTest {
	rules = slices.DeleteFunc(slices.Clone(rules), func(r TestedRule) bool { return len(r.Results) == 0 })
	tests := make([]figures.SearchTest, len(rules))
	for i, r := range rules {
		spec := r.Results[0].Spec
		t := figures.SearchTest{Name: r.Name, Rule: spec.Rule, Values: values(spec),
			Recall: runs.MeanRecall(r.Results, 1).Times(100)}
		for _, before := range rules[:i] {
			d, err := runs.CompareSeeds(before.Results, r.Results, measured("R@1"))
			if err != nil { // All of one diverged.
				d.Difference = stats.Point(math.NaN())
			} else {
				t.Method = d.Method()
			}
			t.Behind = append(t.Behind, d.Difference)
		}
		tests[i] = t
	}
	return tests
}

// judge adds the tables: the recall of the test classes and the finalists of both searches.
func (s *Searched) judge(ctx context.Context, r *report.Report) error {
	f := search.StandardFinals
	var rules []TestedRule
	add := func(name string, results []*runs.Result) {
		if len(results) == len(f.Seeds) { // Else they are not trained yet.
			rules = append(rules, TestedRule{name, results})
			r.Results = append(r.Results, results...)
		}
	}
	r.Parts = append(r.Parts, report.Part{Name: "outcome", Of: nil}) // It comes first and is filled in last.
	var last *search.Selection
	done := false
	for i, one := range s.searches() {
		part := [...]string{"finalists", "reference"}[i]
		if len(one.Best(1)) == 0 {
			last = nil
			r.Parts = append(r.Parts, report.Part{Name: part,
				Of: figures.Failed(fmt.Errorf("search %s has no trial of the whole length yet", one.Name))})
			continue
		}
		v, err := s.Select(ctx, one, f)
		if err != nil {
			return err
		}
		table, err := Finalists(one, v)
		if err != nil {
			return err
		}
		r.Parts = append(r.Parts, report.Part{Name: part, Of: table})
		for _, again := range v.Finalists {
			r.Results = append(r.Results, again.Fresh...)
		}
		add([...]string{"searched", "reference, searched"}[i], v.Tests)
		last, done = v, done || i == 0 && len(rules) > 0
	}
	if s.Untuned.Data != "" && last != nil {
		untuned, err := s.Test(ctx, s.Untuned, f.Seeds)
		if err != nil {
			return err
		}
		add("reference, as the preset has it", untuned)
	}
	r.Runs, r.Provenance = len(r.Results), searchLine(s.Search)
	if !done {
		r.Parts[0].Of = figures.Failed(errors.New("the search is not finished: call it again to continue"))
		return nil
	}
	r.Provenance = s.Provenance(r.Results...)
	var err error
	r.Parts[0].Of, err = figures.SearchVerdict(r.Provenance, SearchTests(rules...)...)
	return err
}

// Provenance describes the search and, if there are any, runs beyond its trials, in one line.
func (s *Searched) Provenance(beyond ...*runs.Result) string {
	if len(beyond) == 0 {
		return searchLine(s.Search)
	}
	return searchLine(s.Search) + " · " + runs.Provenance(beyond)
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
	return fmt.Sprintf("search %s on %s · %d trials, %d runs, %.1f h · %s, seed %d · every %d-th training class held out",
		s.Name, s.Base.DataName(), s.Trials(), len(s.Records), s.Seconds()/3600, s.Sampler, s.Seed, s.Base.HeldOut)
}

// Agreement says in a line how well the lengths of the search agree, by Spearman's ρ of the trials that went on.
func (s *Searched) Agreement() string {
	var out []string
	for rung := range len(s.Rungs) - 1 {
		if rho, n := s.Search.Agreement(rung); !math.IsNaN(rho) {
			out = append(out, fmt.Sprintf("%d against %d epochs: ρ %.2f, n %d", s.Rungs[rung], s.Rungs[rung+1], rho, n))
		}
	}
	if out == nil {
		return s.Name
	}
	return s.Name + " · " + strings.Join(out, " · ")
}

// Panels returns the trials of the search, and beside them those around the reference, for [figures.SearchHistory].
func (s *Searched) Panels() []figures.SearchTrials {
	out := []figures.SearchTrials{trials(s.Search, s.Name)}
	if s.Reference != nil && len(s.Reference.Records) > 0 {
		out = append(out, trials(s.Reference, s.Reference.Base.Rule))
	}
	return out
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
