package paper

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/figures"
)

// recommendation is the best rule or loss of all runs that are there, on each data set, against the paper's best. It makes
// no runs.
func recommendation(ctx context.Context, q Request) (*Report, error) {
	q.CachedOnly = true
	r := &Report{Title: "The best of all runs, against the paper's"}
	var all []Cell // Of all studies.
	for _, name := range Studies() {
		s, err := ParseStudy(name)
		if err != nil {
			return nil, err
		}
		o := q.Options
		if s.Sweep { // Some of their cells have the seeds of a table.
			o.Seeds = q.Preset.Seeds
		}
		t, err := Reproduce(ctx, q.Open, q.Store, s, q.Preset, o)
		if err != nil {
			return nil, err
		}
		all = append(all, t.Cells...)
	}
	seen := make(map[string]bool)
	for _, c := range all {
		for _, run := range c.Runs {
			if !seen[run.Hash] {
				seen[run.Hash] = true
				r.Results = append(r.Results, run)
			}
		}
	}
	r.Runs = len(r.Results)
	if len(q.Preset.Seeds) == 0 {
		return nil, fmt.Errorf("preset %s has no seeds", q.Preset.Name)
	}
	rule, err := dmlx.ParseRule("ours")
	if err != nil {
		return nil, err
	}
	// Shares of a run count once.
	r.Provenance = (&Table{Preset: q.Preset.Name, Cells: []Cell{{Data: q.Preset.FineGrained}, {Data: q.Preset.CoarseGrained, Runs: r.Results}}, Runs: r.Runs}).Provenance()
	var rows []figures.Recommended
	var notes []figures.Markup
	first := q.Preset.Seeds[0]
	how := map[Protocol]figures.Markup{
		ByTestRecall:     "by test recall, mean over seeds",
		ByOneSeed:        fmt.Sprintf("by test recall with seed %d; judged by other seeds", first),
		ByHeldOutClasses: "by held-out training classes",
	}
	for _, data := range []string{q.Preset.FineGrained, q.Preset.CoarseGrained} {
		c, err := Recommend(r.Results, q.Preset, data, rule.Name(), first)
		if c.Candidates == 0 && err != nil {
			notes = append(notes, err.Error()+".")
		}
		for _, x := range c.Selections {
			rows = append(rows, figures.Recommended{Data: data, How: how[x.Protocol], Objective: x.Objective, Of: x.Candidates, Score: x.Judged.Times(100),
				Against: x.Against.Times(100), Gain: x.Difference.Times(100)})
		}
		notes = append(notes, recommendationNotes(c)...)
	}
	notes = append(notes,
		"The first row of a data set is chosen and judged by the same runs: the best of many is too good by chance, and its interval does not know that. The second "+
			"is judged by other seeds, but on the test classes that it was chosen by. The third saw nothing of the test classes.",
		"Intervals: 95 % by the standard deviation over seeds, pooled over all rules and losses with several. Bold: zero is outside.")
	table, err := figures.Recommendations("the paper's "+rule.Name(), rows, notes, r.Provenance)
	r.Parts = []Part{{"", table}}
	return r, err
}

func recommendationNotes(c *Recommendation) []figures.Markup {
	out := []figures.Markup{fmt.Sprintf("%s: %d rules and losses, %d of them with several seeds; the standard deviation over seeds is %.1f points.", c.Data,
		c.Candidates, c.Replicated, 100*c.Noise.Std)}
	i := slices.IndexFunc(c.Selections, func(x Selection) bool { return x.Protocol == ByHeldOutClasses })
	if i < 0 || c.Selections[i].Objective == "" {
		return append(out, fmt.Sprintf("%s: no runs hold training classes out.", c.Data))
	}
	x := c.Selections[i]
	note := fmt.Sprintf("%s: held-out classes chose %s at the rate %g (Recall@1 %.1f %% of them)", c.Data, x.Objective, x.ChosenLR, 100*x.ChosenByValue)
	if x.LR == 0 {
		return append(out, note+", which was not trained on all classes.")
	}
	return append(out, fmt.Sprintf("%s; it is judged by its runs at %g.", note, x.LR))
}
