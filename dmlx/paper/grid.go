package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// gridStudy is the full grid: all combinations of direction, pair weight and triplet weight.
func gridStudy() Study {
	return Study{
		Name: "grid", Title: "All combinations of direction, pair weight and triplet weight: Recall@1", Sweep: true,
		Fixed: true, Expand: across,
		Rows: func(p presets.Preset) []Cell {
			left := func(rule string) bool { return p.Like("smoke") && !inSmokeGrid(rule) }
			return ruleRows(slices.DeleteFunc(GridRules(), left), scores.Rule)
		},
	}
}

// inSmokeGrid tells whether a rule is one of the twelve of the grid's 168 that the smoke preset tries.
func inSmokeGrid(rule string) bool {
	parts := strings.Split(rule, "/")
	return slices.Contains([]string{"euc", "cos"}, parts[0]) && slices.Contains([]string{"con", "lin"}, parts[1]) &&
		slices.Contains([]string{"con", "cos", "cir"}, parts[2])
}

// paperChoice is the paper's best rule, composed from the best parts of its Tables 2 to 4: "Ours" in its Table 5.
const paperChoice = "cos-orth/lin-ms/cir"

// grid runs all combinations of the paper's directions, pair weights and triplet weights, which the paper left open:
// all with one seed, and the ten best and the paper's choice with all seeds of the preset.
//
// With [runs.Options.CachedOnly] it shows what is available and does not fail, however few rules that are.
func grid(ctx context.Context, q report.Request) (*Report, error) {
	study, seeds := gridStudy(), q.Seeds
	if seeds == nil {
		seeds = q.Preset.Seeds
	}
	if len(seeds) == 0 {
		return nil, fmt.Errorf("preset %s has no seeds: want at least one", q.Preset.Name)
	}
	cells, err := study.Specs(q.Preset, seeds[:1])
	if err != nil {
		return nil, err
	}
	all, err := Fill(ctx, q, cells)
	if err != nil {
		return nil, err
	}
	ran := all.Ran
	again, err := Specify(q.Preset, GridTop(all.Cells), seeds)
	if err != nil {
		return nil, err
	}
	best, err := Fill(ctx, q, again)
	if err != nil {
		return nil, err
	}
	ran += best.Ran
	q.CachedOnly = true
	if cells, err = study.Specs(q.Preset, seeds); err != nil {
		return nil, err
	}
	if all, err = Fill(ctx, q, cells); err != nil {
		return nil, err
	}
	all = all.Needing(seeds[0])
	all.Study, all.Title, all.Ran = study.Name, study.Title, ran
	r := &Report{Report: report.Report{Title: study.Title, Provenance: all.Provenance()}, Table: all}
	r.add(all)
	r.Runs -= all.Missing
	heat, err := figures.GridMap(GridSets(all.Sets(), seeds[0]), r.Provenance)
	if err != nil {
		return nil, err
	}
	r.Parts = []report.Part{{Of: heat}, {Name: "best", Of: GridBest(all.Sets(), seeds[0], r.Provenance)},
		{Name: "means", Of: GridMeans(all.Sets(), seeds[0], r.Provenance)}}
	return r, nil
}

// Needing returns the table as one that needs of each cell only the run with one seed, as the grid does: Runs counts
// that and whatever other runs are there, and Missing the cells without it.
func (t *Table) Needing(seed uint64) *Table {
	out := *t
	out.Runs, out.Missing = t.Runs-t.Missing, 0
	for _, c := range t.Cells {
		if !slices.ContainsFunc(c.Runs, func(r *runs.Result) bool { return r.Spec.Seed == seed }) {
			out.Missing++
		}
	}
	out.Runs += out.Missing
	return &out
}

// gridTop returns how many of a grid's rules are trained with all seeds: ten of 168, fewer of fewer.
func gridTop(rules int) int { return max(1, 10*rules/168) }

// GridTop returns the cells to train with all seeds: the ten best of each data set by their only runs, fewer of a
// smaller grid, and the paper's choice.
func GridTop(cells []Cell) (out []Cell) {
	for _, data := range []string{cells[0].Data, cells[len(cells)-1].Data} {
		of := slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return c.Data != data })
		top := gridTop(len(of))
		slices.SortStableFunc(of, func(a, b Cell) int { return cmp.Compare(b.Recall(1).Mean, a.Recall(1).Mean) })
		for i, c := range of { // NaN, of rules that diverged or are missing, comes last.
			if i < top && !math.IsNaN(c.Recall(1).Mean) || c.Rule == paperChoice {
				out = append(out, c)
			}
		}
		if data == cells[len(cells)-1].Data {
			break
		}
	}
	return out
}

// bySeed returns the scores of a rule with a seed, and those with others.
func bySeed(of scores.Table, seed uint64) (first, others stats.Mean) {
	return of.Where(func(r scores.Row) bool { return r.Seed == seed }).Mean(),
		of.Where(func(r scores.Row) bool { return r.Seed != seed }).Mean()
}

// ranked returns the rules of a data set by their Recall@1 with a seed, the best first, without those that have none.
func ranked(set scores.Group, seed uint64) []scores.Group {
	first := func(g scores.Group) float64 { m, _ := bySeed(g.Rows, seed); return m.Mean }
	of := slices.DeleteFunc(set.Rows.Group(scores.Rule.Of), func(g scores.Group) bool { return math.IsNaN(first(g)) })
	slices.SortStableFunc(of, func(a, b scores.Group) int { return cmp.Compare(first(b), first(a)) })
	return of
}

// GridSets returns the Recall@1 of the rules with a seed on each data set, for [figures.GridMap]. The best and the
// paper's choice are marked.
func GridSets(sets []scores.Group, seed uint64) []figures.GridSet {
	var out []figures.GridSet
	for _, set := range sets {
		s := figures.GridSet{Data: set.Key, Directions: set.Rows.Values(scores.Direction.Of),
			Pairs: set.Rows.Values(scores.Pair.Of), Triplets: set.Rows.Values(scores.Triplet.Of),
			Scores: make(map[string]stats.Mean), Marks: []figures.GridMark{
				{Name: fmt.Sprintf("the best with seed %d, as shown", seed)}, {Name: "the paper's choice"}}}
		for _, rule := range set.Rows.Group(scores.Rule.Of) {
			if first, _ := bySeed(rule.Rows, seed); first.N+first.Diverged > 0 {
				s.Scores[rule.Key] = first
				if rule.Key == paperChoice {
					s.Marks[1].Rule = rule.Key
				}
			}
		}
		if of := ranked(set, seed); len(of) > 0 {
			s.Marks[0].Rule = of[0].Key
		}
		out = append(out, s)
	}
	return out
}

// GridBest returns the table of the ten best rules of each data set by a seed, fewer of a smaller grid, and of the
// paper's choice, with what they do with other seeds.
func GridBest(sets []scores.Group, seed uint64, provenance string) *figures.Table {
	t := &figures.Table{Provenance: provenance, Columns: []figures.Column{{Title: "Data", Left: true, Merged: true},
		{Title: "rank"}, {Title: "Direction"}, {Title: "PairWeight"}, {Title: "TripletWeight"}, {Title: "first seed"},
		{Title: "other seeds [95 %]"}},
		Caption: "The best rules by one seed, the paper's choice, and what they do with others: Recall@1 in percent.",
		Notes: []figures.Markup{"The first seed chose which rules stand here, so its numbers are too good. All is on the " +
			"test classes that the choice was made by."}}
	for _, set := range sets {
		of := ranked(set, seed)
		for i, rule := range of {
			if i >= gridTop(len(set.Rows.Values(scores.Rule.Of))) && rule.Key != paperChoice {
				continue
			}
			first, others := bySeed(rule.Rows, seed)
			r := rule.Rows[0]
			t.Rows = append(t.Rows, figures.Row(set.Key, fmt.Sprintf("%d of %d", i+1, len(of)),
				figures.DirectionLabel(r.Direction), figures.PairLabel(r.Pair), figures.TripletLabel(r.Triplet), first,
				others.Interval()))
		}
	}
	t.RuleBlocks(1)
	return t
}

// GridMeans returns the table of main effects: the mean of each level of a part over all rules that have it, by a seed.
// Rules that diverged or have no run are left out. Notes say how far the levels of each part are apart.
func GridMeans(sets []scores.Group, seed uint64, provenance string) *figures.Table {
	t := &figures.Table{Provenance: provenance, Columns: []figures.Column{{Title: "Data", Left: true, Merged: true},
		{Title: "Part", Left: true, Merged: true}, {Title: "Level", Left: true}, {Title: "rules"}, {Title: "R@1"}},
		Caption: "The mean over all rules with a level, and their standard deviation: Recall@1 in percent, with one seed."}
	for _, set := range sets {
		of := set.Rows.Where(func(r scores.Row) bool { return r.Seed == seed && r.Value.N > 0 })
		var apart []string
		for _, part := range []struct {
			name  string
			level scores.Column
		}{{"direction", scores.Direction}, {"pair weight", scores.Pair}, {"triplet weight", scores.Triplet}} {
			var means []float64
			for _, level := range of.Group(part.level.Of) {
				m := level.Rows.Mean()
				means = append(means, m.Mean)
				t.Rows = append(t.Rows, figures.Row(set.Key, part.name, figures.PartLabel(part.level, level.Key), m.N, m))
			}
			if slices.Sort(means); len(means) > 1 {
				text := fmt.Sprintf("%.1f points between %ss", means[len(means)-1]-means[0], part.name)
				if len(means) > 2 {
					text += fmt.Sprintf(" (%.1f without the lowest)", means[len(means)-1]-means[1])
				}
				apart = append(apart, text)
			}
		}
		if apart != nil {
			t.Notes = append(t.Notes, fmt.Sprintf("%s: %s.", set.Key, strings.Join(apart, ", ")))
		}
	}
	t.RuleBlocks(2)
	t.Notes = append(t.Notes, "The mean of a level is over all combinations of the other two parts. Rates go with the "+
		"pair weight, so its effect is one of weight and rate.")
	return t
}
