package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// recommendation compares the best rule or loss of all available runs on each data set with the paper's best rule. It
// trains no runs.
func recommendation(ctx context.Context, q report.Request) (*Report, error) {
	r := &Report{Report: report.Report{Title: "The best of all runs, against the paper's"}}
	var err error
	if r.Results, err = AllRuns(ctx, q); err != nil {
		return nil, err
	}
	r.Runs = len(r.Results)
	if len(q.Preset.Seeds) == 0 {
		return nil, fmt.Errorf("preset %s has no seeds: want at least one", q.Preset.Name)
	}
	rule, err := dmlx.ParseRule("ours")
	if err != nil {
		return nil, err
	}
	// Shares of a run count once.
	r.Provenance = (&Table{Preset: q.Preset.String(), Cells: []Cell{{Data: q.Preset.FineGrained},
		{Data: q.Preset.CoarseGrained, Runs: r.Results}}, Runs: r.Runs}).Provenance()
	table, err := RecommendationTable(r.Provenance, RecommendBoth(r.Results, q.Preset, rule.Name(), q.Preset.Seeds[0])...)
	r.Parts = []report.Part{{Of: table}}
	return r, err
}

// RecommendBoth returns what the runs recommend on each of a preset's two data sets; see [Recommend]. A data set
// without runs has no candidates.
func RecommendBoth(results []*runs.Result, preset presets.Preset, reference string, first uint64) []*Recommendation {
	var out []*Recommendation
	for _, data := range []string{preset.FineGrained, preset.CoarseGrained} {
		c, _ := Recommend(results, preset, data, reference, first) // The table says so if there is no run.
		out = append(out, c)
	}
	return out
}

// AllRuns returns the runs of all studies that the store or the program has, each once. It trains none.
func AllRuns(ctx context.Context, q report.Request) ([]*runs.Result, error) {
	q.CachedOnly = true
	all := new(Table)
	for _, s := range studies() {
		o := q.Options
		if s.Sweep { // Some of their cells have the seeds of a table.
			o.Seeds = q.Preset.Seeds
		}
		t, err := Reproduce(ctx, q.Open, q.Store, s, q.Preset, o)
		if err != nil {
			return nil, err
		}
		all.join(t)
	}
	return all.Results(), nil
}

// RecommendationTable returns a table of what each protocol chose on each data set, against the common reference.
func RecommendationTable(provenance string, all ...*Recommendation) (*figures.Table, error) {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Data", Left: true, Merged: true}, {Title: "Chosen", Left: true}, {Title: "of"},
			{Title: "Rule or loss", Left: true}, {Title: "R@1"}},
		Provenance: provenance,
	}
	reference := ""
	for _, c := range all {
		reference = c.Reference
		how := map[Protocol]figures.Markup{
			ByTestRecall:     "by test recall, mean over seeds",
			ByOneSeed:        fmt.Sprintf("by test recall with seed %d; judged by other seeds", c.First),
			ByHeldOutClasses: "by held-out training classes",
		}
		if c.Candidates == 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("No runs on %s.", c.Data))
		}
		for _, x := range c.Selections {
			gain := x.Difference.Times(100)
			t.Rows = append(t.Rows, figures.Row(c.Data, how[x.Protocol], x.Candidates, cmp.Or(x.Objective, "–"),
				x.Judged.Times(100), x.Against.Times(100), figures.Tested(gain, gain.Difference.String())))
		}
		t.Notes = append(t.Notes, recommendationNotes(c)...)
	}
	t.Notes = append(t.Notes,
		"The first row of a data set is chosen and judged by the same runs: the best of many is too good by chance, and "+
			"its interval does not know that. The second "+
			"is judged by other seeds, but on the test classes that it was chosen by. The third saw nothing of the test "+
			"classes. In brackets: 95 % by Welch's t over seeds.")
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("recommendations: no data set, want at least one")
	}
	t.Columns = append(t.Columns, figures.Column{Title: "the paper's " + reference}, figures.Column{Title: "ahead by"})
	t.Caption = "The best rule or loss of all that was trained to the same length, against the paper's " + reference + "."
	t.RuleBlocks(1)
	t.MarkSignificant()
	return t, nil
}

func recommendationNotes(c *Recommendation) []figures.Markup {
	out := []figures.Markup{fmt.Sprintf("%s: %d rules and losses, %d of them with several seeds.", c.Data, c.Candidates,
		c.Replicated)}
	i := slices.IndexFunc(c.Selections, func(x Selection) bool { return x.Protocol == ByHeldOutClasses })
	if i < 0 || c.Selections[i].Objective == "" {
		return append(out, fmt.Sprintf("%s: no runs hold training classes out.", c.Data))
	}
	x := c.Selections[i]
	note := fmt.Sprintf("%s: held-out classes chose %s at the rate %g (Recall@1 %.1f %% of them)", c.Data, x.Objective,
		x.ChosenLR, 100*x.ChosenByValue)
	if x.LR == 0 {
		return append(out, note+", which was not trained on all classes.")
	}
	return append(out, fmt.Sprintf("%s; it is judged by its runs at %g.", note, x.LR))
}

// Protocol is how a candidate is chosen.
type Protocol int

// The protocols, the most honest last.
const (
	// ByTestRecall takes the best mean over all seeds and judges it by the same runs: the maximum of many is too high.
	ByTestRecall Protocol = iota
	// ByOneSeed takes the best with the first seed and judges it by the other seeds, on the same test classes.
	ByOneSeed
	// ByHeldOutClasses takes the best on held-out training classes and judges it on the test classes, by runs that hold
	// no classes out. The test classes have no part in the choice.
	ByHeldOutClasses
)

// Selection is a rule or a loss that a protocol chose, compared with the reference.
type Selection struct {
	Protocol      Protocol
	Objective     string // "" if there is nothing to choose from.
	LR            float64
	Candidates    int        // Of how many it is the best.
	Judged        stats.Mean // Recall@1 of the runs that it is judged by, a fraction,
	Against       stats.Mean // and of the reference, by all of its seeds that may judge in this way.
	Difference    stats.Test // Not tested where it is the reference itself.
	ChosenLR      float64    // The rate of the run that chose it.
	ChosenByValue float64    // What it was chosen by.
}

// unchosen returns a selection of nothing.
func unchosen(p Protocol) Selection {
	return Selection{Protocol: p, Judged: scores.Missing(), Against: scores.Missing(),
		Difference: stats.Untested(math.NaN()), ChosenByValue: math.Inf(-1)}
}

// Recommendation is what the runs on a data set recommend, against a reference.
type Recommendation struct {
	Data                   string
	Reference              string      // An objective: the paper's best.
	First                  uint64      // The seed that [ByOneSeed] chooses by.
	ReferenceLR            float64     // 0 if it has not been run.
	Candidates, Replicated int         // Rules and losses with one seed and with several.
	Selections             []Selection // By [Protocol].
}

// Recommend chooses among the runs on a data set that have a preset's size, by three protocols; each rule and loss at
// each rate is a candidate. first is the seed that [ByOneSeed] chooses by. Runs of another size had more or less
// training and are left out, as are candidates of which a run diverged.
func Recommend(results []*runs.Result, preset presets.Preset, data, reference string, first uint64) (*Recommendation,
	error) {
	out := &Recommendation{Data: data, Reference: reference, First: first}
	full, err := filepath.Abs(data) // As a run has its folder.
	if err != nil {
		return out, err
	}
	var whole, without []*runs.Result // Runs with all training classes, and those that hold some out.
	for _, r := range results {
		switch {
		case r.Spec.Data != data && r.Spec.Data != full || !preset.Has(r.Spec) || r.Spec.Decay != 0,
			r.Spec.Options != (train.Options{}): // A candidate is a rule or a loss, not another way of training one.
		case r.Spec.HeldOut != 0:
			without = append(without, r)
		default:
			whole = append(whole, r)
		}
	}
	with := func(results []*runs.Result, seeds func(uint64) bool) []*runs.Result {
		return slices.DeleteFunc(slices.Clone(results), func(r *runs.Result) bool { return !seeds(r.Spec.Seed) })
	}
	all := func(uint64) bool { return true }
	isFirst, others := func(s uint64) bool { return s == first }, func(s uint64) bool { return s != first }
	type candidate struct {
		spec runs.Spec
		runs []*runs.Result
	}
	var candidates []candidate
	var paper []*runs.Result
	for _, g := range runs.SameButSeed(whole) {
		if runs.MeanRecall(g, 1).Diverged > 0 {
			continue
		}
		spec := g[0].Spec
		candidates = append(candidates, candidate{spec, g})
		if len(g) > 1 {
			out.Replicated++
		}
		if spec.Objective.String() == reference && len(g) > len(paper) {
			paper, out.ReferenceLR = g, spec.LR
		}
	}
	out.Candidates = len(candidates)
	judge := func(c *Selection, results []*runs.Result, seeds func(uint64) bool) {
		c.Judged, c.Against = runs.MeanRecall(with(results, seeds), 1), runs.MeanRecall(with(paper, seeds), 1)
		c.Difference = stats.Welch(c.Judged, c.Against)
		if c.Judged.N > 0 && len(paper) > 0 && results[0].Hash == paper[0].Hash {
			c.Difference = stats.Untested(0) // With itself.
		}
	}
	best := func(protocol Protocol, least int, by, judged func(uint64) bool) Selection {
		c := unchosen(protocol)
		for _, x := range candidates {
			s := runs.MeanRecall(with(x.runs, by), 1)
			if s.N < least {
				continue
			}
			c.Candidates++
			if s.Mean > c.ChosenByValue {
				c.ChosenByValue, c.Objective, c.LR, c.ChosenLR = s.Mean, x.spec.Objective.String(), x.spec.LR, x.spec.LR
				judge(&c, x.runs, judged)
			}
		}
		return c
	}
	out.Selections = []Selection{best(ByTestRecall, 2, all, all), best(ByOneSeed, 1, isFirst, others)}
	held := unchosen(ByHeldOutClasses)
	for _, g := range runs.SameButSeed(without) {
		s := Cell{Runs: g}.HeldOutRecall(1)
		if s.N == 0 || s.Diverged > 0 {
			continue
		}
		held.Candidates++
		if s.Mean > held.ChosenByValue {
			held.ChosenByValue, held.Objective, held.ChosenLR = s.Mean, g[0].Spec.Objective.String(), g[0].Spec.LR
		}
	}
	// Of its runs with all classes those at the nearest rate, of these the ones with most seeds.
	var own []candidate
	for _, x := range candidates {
		if held.Objective != "" && x.spec.Objective.String() == held.Objective {
			own = append(own, x)
		}
	}
	if len(own) > 0 {
		far := func(x candidate) float64 { return math.Abs(math.Log(x.spec.LR / held.ChosenLR)) }
		slices.SortStableFunc(own, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(far(a), far(b)), cmp.Compare(len(b.runs), len(a.runs)))
		})
		held.LR = own[0].spec.LR
		judge(&held, own[0].runs, all)
	}
	out.Selections = append(out.Selections, held)
	if len(candidates) == 0 {
		return out, fmt.Errorf("no runs of preset %s on %s", preset.Name, data)
	}
	return out, nil
}
