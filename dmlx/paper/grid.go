package paper

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/paper/fullgrid"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
)

// gridStudy is the full grid: all combinations of direction, pair weight and triplet weight.
func gridStudy() Study {
	return Study{
		Name: "grid", Title: "All combinations of direction, pair weight and triplet weight: Recall@1", Sweep: true,
		Fixed: true, Expand: across,
		Rows: func(p presets.Preset) []Cell {
			var rules []string
			for _, rule := range GridRules() {
				if !p.Like("smoke") || inSmokeGrid(rule) {
					rules = append(rules, rule)
				}
			}
			return ruleRows(rules, scores.Rule)
		},
	}
}

// inSmokeGrid tells whether a rule is one of the twelve of the grid's 168 that the smoke preset tries.
func inSmokeGrid(rule string) bool {
	parts := strings.Split(rule, "/")
	return slices.Contains([]string{"euc", "cos"}, parts[0]) && slices.Contains([]string{"con", "lin"}, parts[1]) &&
		slices.Contains([]string{"con", "cos", "cir"}, parts[2])
}

// grid runs all combinations of the paper's directions, pair weights and triplet weights, which the paper left open.
// First it runs all rules with one seed. Then it runs with all seeds of the preset the best and the worst of them,
// those of Tables 2 to 4, and those that are chosen one part at a time. It then reads all available runs of any seed.
//
// With [runs.Options.CachedOnly] it shows what is available and does not fail, however few rules that are.
func grid(ctx context.Context, q report.Request) (*Report, error) {
	study := gridStudy()
	several := q.Options
	if several.Seeds == nil {
		several.Seeds = q.Preset.Seeds
	}
	if len(several.Seeds) == 0 {
		return nil, fmt.Errorf("preset %s has no seeds: want at least one", q.Preset.Name)
	}
	seed := several.Seeds[0]
	read := func() (*Table, fullgrid.Grids, error) {
		o := several
		o.CachedOnly = true
		all, err := Reproduce(ctx, q.Open, q.Store, study, q.Preset, o)
		if err != nil {
			return nil, nil, err
		}
		all = all.Needing(seed)
		grids, err := fullgrid.Read(all.Scores(), seed)
		return all, grids, err
	}
	ran := 0
	if !q.CachedOnly {
		run := func(cells []Cell, err error) error {
			if err != nil {
				return err
			}
			t, err := Fill(ctx, q, cells)
			if err == nil {
				ran += t.Ran
			}
			return err
		}
		if err := run(study.Specs(q.Preset, several.Seeds[:1])); err != nil {
			return nil, err
		}
		for range 2 { // What our Tables 2 to 4 choose is known once their rules have all seeds.
			_, grids, err := read()
			if err != nil {
				return nil, err
			}
			if err := run(Judged(q.Preset, grids, several.Seeds)); err != nil {
				return nil, err
			}
		}
	}
	all, grids, err := read()
	if err != nil {
		return nil, err
	}
	all.Ran = ran
	r := &Report{Report: report.Report{Title: study.Title, Provenance: all.Provenance()}, Table: all}
	r.add(all)
	r.Runs -= all.Missing
	r.Parts = grids.Draw(r.Provenance)
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

// Extremes returns the n best and the n worst rules of each data set by one seed, as cells for [Specify]. They are to
// be run with all seeds of the preset, since the best of many by one seed is also the luckiest. Additional rules are
// there too if the grid has them.
func Extremes(grids fullgrid.Grids, n int, besides ...string) []Cell {
	var out []Cell
	for _, g := range grids {
		best, worst := g.Ends(n)
		for _, r := range g.Rules { // In the grid's order.
			is := func(o fullgrid.Rule) bool { return o.Name == r.Name }
			if slices.ContainsFunc(best, is) || slices.ContainsFunc(worst, is) || slices.Contains(besides, r.Name) {
				o := presets.Named(r.Name)
				o.LR = r.LR
				out = append(out, Cell{Row: r.Name, Column: g.Data, Data: g.Data, PaperData: g.PaperData, Objective: o})
			}
		}
	}
	return out
}

// Judged returns the cells of the grid that are run with several seeds: the best and the worst rules by the grid's
// seed, those of Tables 2 to 4, and those that are chosen one part at a time by the paper, by its printed tables, and
// part after part. What our Tables 2 to 4 choose is among them once all their rules have runs with all the seeds: call
// Judged again then. An error is that of [Specify].
func Judged(p presets.Preset, grids fullgrid.Grids, seeds []uint64) ([]Cell, error) {
	var tables []string
	for _, name := range []string{"table2", "table3", "table4"} {
		s, err := ParseStudy(name)
		if err != nil {
			return nil, err
		}
		cells, err := s.Cells(p)
		if err != nil {
			return nil, err
		}
		for _, c := range cells {
			tables = append(tables, c.Rule)
		}
	}
	besides := append([]string{fullgrid.PaperChoice}, tables...)
	for _, g := range grids {
		if rule, err := fullgrid.PaperOneAtATime(g.PaperData); err == nil {
			besides = append(besides, rule)
		}
		if steps := g.Steps(); len(steps) == 3 {
			besides = append(besides, steps...)
		}
		lacking := func(rule string) bool {
			r := g.At(rule)
			return r != nil && r.All.N+r.All.Diverged < len(seeds)
		}
		if rule, err := g.OneAtATime(); err == nil && !slices.ContainsFunc(tables, lacking) {
			besides = append(besides, rule)
		}
	}
	return Specify(p, Extremes(grids, grids.EndSize(), besides...), seeds)
}
