package paper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Study is what a table of the paper compares: it only enumerates, and [Reproduce] runs.
type Study struct {
	Name  string // "table2"
	Title string
	// Cells lists the table's cells, row by row, for a preset.
	Cells func(p presets.Preset) []Cell
	// Sweep takes the preset's fewer seeds, since it has many cells.
	Sweep bool
}

// Cell is one cell of a table: a rule or a loss on a data set, over seeds.
type Cell struct {
	// Row and Column are as the table labels them. Where the data sets are no columns, as in Table 2, they are blocks:
	// each of them has all rows and columns.
	Row, Column string
	Data, Rule  string // What is run.
	// Loss, if it is not empty, is trained by instead of Rule, with Miner and Exchange as in [Spec].
	Loss, Miner, Exchange string
	PaperData             string  // The paper's data set in the same role.
	LR                    float64 // 0 is the preset's.
	// Adjust, if there is one, changes the preset's spec where a cell wants more than a rule and a rate of its own.
	Adjust func(*runs.Spec)

	// Specs and Runs are filled in by Reproduce, one of each per seed.
	Specs []runs.Spec
	Runs  []*runs.Result
}

// Recall is the cell's mean over seeds.
func (c Cell) Recall(k int) stats.Mean { return runs.MeanRecall(c.Runs, k) }

// Over is the mean of a measure over the cell's seeds.
func (c Cell) MeanOf(measure func(*runs.Result) float64) stats.Mean {
	return runs.MeanOf(c.Runs, measure)
}

// HeldOutRecall is the cell's mean over seeds on the training classes that were held out.
func (c Cell) HeldOutRecall(k int) stats.Mean {
	return runs.MeanOf(c.Runs, func(r *runs.Result) float64 {
		if v, measured := r.HeldOutRecall[k]; measured {
			return v
		}
		return math.NaN()
	})
}

// studies are the tables that can be reproduced, in the paper's order.
var studies = []Study{
	{
		Name: "table2", Title: "Gradient directions, with P = con and T = con: Recall@1",
		Cells: func(p presets.Preset) []Cell {
			return setsAcross(p, names(dmlx.Directions, func(d dmlx.Direction) string { return d.Name }),
				func(direction string) string { return direction + "/con/con" })
		},
	},
	{
		Name: "table3", Title: "Pair weights, with the Euclidean and the cosine direction and T = con: Recall@1",
		Cells: func(p presets.Preset) []Cell {
			return setsDown(p, names(dmlx.PairWeights, func(w dmlx.PairWeight) string { return w.Name }), []string{"euc", "cos"},
				func(pair, direction string) string { return direction + "/" + pair + "/con" })
		},
	},
	{
		Name: "table4", Title: "Triplet weights, with constant and linear pair weights and the cosine direction: Recall@1",
		Cells: func(p presets.Preset) []Cell {
			return setsDown(p, []string{"con", "cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"}, []string{"con", "lin"},
				func(triplet, pair string) string { return "cos/" + pair + "/" + triplet })
		},
	},
	{
		Name: "table6", Title: "Gradient directions over learning rates: Recall@1", Sweep: true,
		Cells: func(p presets.Preset) []Cell {
			return rateSweep(p, 6, names(dmlx.Directions, func(d dmlx.Direction) string { return d.Name + "/con/con" }))
		},
	},
	{
		Name: "table7", Title: "Pair weights over learning rates: Recall@1", Sweep: true,
		Cells: func(p presets.Preset) []Cell {
			var rules []string
			for _, direction := range []string{"cos", "euc"} {
				for _, w := range dmlx.PairWeights {
					rules = append(rules, direction+"/"+w.Name+"/con")
				}
			}
			return rateSweep(p, 7, rules)
		},
	},
	{
		Name: "table8", Title: "Triplet weights over learning rates: Recall@1", Sweep: true,
		Cells: func(p presets.Preset) []Cell {
			var rules []string
			for _, pair := range []string{"con", "lin"} {
				for _, triplet := range []string{"con", "cos", "cos+sc1", "cir", "cir+sc2"} {
					rules = append(rules, "cos/"+pair+"/"+triplet)
				}
			}
			return rateSweep(p, 8, rules)
		},
	},
	{
		Name: "grid", Title: "All combinations of direction, pair weight and triplet weight: Recall@1", Sweep: true,
		Cells: func(p presets.Preset) []Cell {
			var rules []string
			for _, r := range dmlx.Rules() {
				if p.Name != "smoke" || inSmokeGrid(r) {
					rules = append(rules, r.Name())
				}
			}
			return setsAcross(p, rules, func(rule string) string { return rule })
		},
	},
	{
		Name: "length", Title: "Pair weights with the cosine direction, trained for longer: Recall@1", Sweep: true,
		Cells: func(p presets.Preset) []Cell {
			var out []Cell
			for _, set := range onBoth(p, Cell{}) {
				for i, w := range dmlx.PairWeights {
					if p.Name == "smoke" && i > 1 {
						break // Two do to see that it runs.
					}
					for _, times := range lengthFactors {
						c := set
						c.Row, c.Rule, c.Column = w.Name, "cos/"+w.Name+"/con", fmt.Sprintf("%d×", times)
						c.Adjust = func(s *runs.Spec) { s.Epochs *= times }
						out = append(out, c)
					}
				}
			}
			return out
		},
	},
	{Name: "losses", Title: "Losses as published, and with one of their parts exchanged: Recall@1", Cells: lossCells},
}

// lengthFactors are how many times the preset's epochs the rules of the study "length" are trained.
var lengthFactors = []int{1, 2, 4}

// inSmokeGrid tells whether a rule is one of the twelve that the smoke preset tries of the grid's 168.
func inSmokeGrid(r dmlx.Rule) bool {
	parts := strings.Split(r.Name(), "/")
	return slices.Contains([]string{"euc", "cos"}, parts[0]) && slices.Contains([]string{"con", "lin"}, parts[1]) &&
		slices.Contains([]string{"con", "cos", "cir"}, parts[2])
}

// SweepHeldOut is which part of the training classes, one in so many, chooses the learning rates of the sweeps.
const SweepHeldOut = 4

// rateSweep makes a row of each rule on each data set, and a column of each learning rate. A run serves two ways to choose
// a rate: by the recall on the test classes, as the paper does, and on training classes that are held out. At the paper
// preset none are, so that its numbers are those of the paper's own protocol.
func rateSweep(p presets.Preset, table int, rules []string) []Cell {
	holdOut := func(s *runs.Spec) { s.HeldOut = SweepHeldOut }
	if p.Name == "paper" {
		holdOut = nil
	}
	var out []Cell
	for _, rule := range rules {
		for _, c := range onBoth(p, Cell{Row: rule, Rule: rule, Adjust: holdOut}) {
			for _, c.LR = range p.SweepRates(table, c.Data, rule) {
				c.Column = fmt.Sprintf("%g", c.LR)
				out = append(out, c)
			}
		}
	}
	return out
}

func names[T any](items []T, name func(T) string) []string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = name(item)
	}
	return out
}

// onBoth has the cells of the preset's two data sets.
func onBoth(p presets.Preset, c Cell) []Cell {
	fine, separated := c, c
	fine.Data, fine.PaperData = p.FineGrained, "CAR"
	separated.Data, separated.PaperData = p.Separated, "In-shop"
	return []Cell{fine, separated}
}

// setsAcross makes a column of each of the preset's data sets, as in Table 2.
func setsAcross(p presets.Preset, rows []string, rule func(row string) string) []Cell {
	var out []Cell
	for _, row := range rows {
		for _, c := range onBoth(p, Cell{Row: row, Rule: rule(row)}) {
			c.Column = c.Data
			out = append(out, c)
		}
	}
	return out
}

// setsDown makes a block of rows and columns of each of the preset's data sets, one under the other, as in Tables 3 and 4.
func setsDown(p presets.Preset, rows, columns []string, rule func(row, column string) string) []Cell {
	var out []Cell
	for _, set := range onBoth(p, Cell{}) {
		for _, row := range rows {
			for _, column := range columns {
				c := set
				c.Row, c.Column, c.Rule = row, column, rule(row, column)
				out = append(out, c)
			}
		}
	}
	return out
}

// Studies lists the names that Reproduce knows.
func Studies() []string {
	return names(studies, func(s Study) string { return s.Name })
}

// ParseStudy finds a study by its name; the error lists those there are.
func ParseStudy(name string) (Study, error) {
	for _, s := range studies {
		if s.Name == name {
			return s, nil
		}
	}
	return Study{}, fmt.Errorf("no table or figure %q; there are %s", name, strings.Join(Studies(), ", "))
}

// Table is a study with its results.
type Table struct {
	Study, Title, Preset string
	Cells                []Cell // As the study lists them.
	Runs, Ran            int    // How many runs it rests on, and how many of them were made for it now.
	Missing              int    // How many of them are not there; see [Options.Have].
}

// At is the cell of a data set, row and column, nil if there is none.
func (t *Table) At(data, row, column string) *Cell {
	for i, c := range t.Cells {
		if c.Data == data && c.Row == row && c.Column == column {
			return &t.Cells[i]
		}
	}
	return nil
}

// Provenance says in one line what made the table: preset, data, seeds, backends, machines and dates.
func (t *Table) Provenance() string {
	var sets, seeds []string
	var results []*runs.Result
	shipped := 0
	for _, c := range t.Cells {
		results = append(results, c.Runs...)
		set := c.Data
		if slices.ContainsFunc(c.Specs, func(s runs.Spec) bool { return s.AllowPartial }) {
			set += ", in part"
		}
		sets = runs.AddNew(sets, set)
		for _, r := range c.Runs {
			seeds = runs.AddNew(seeds, fmt.Sprint(r.Spec.Seed))
			if r.Bundled {
				shipped++
			}
		}
	}
	line := "preset " + t.Preset
	if len(results) > 0 {
		line += fmt.Sprintf(" · %s · seeds %s · %s", strings.Join(sets, ", "), strings.Join(seeds, ", "), runs.Provenance(results))
	}
	if shipped > 0 {
		line += fmt.Sprintf(" · %d of %d runs shipped with the program", shipped, t.Runs)
	}
	if t.Missing > 0 {
		line += fmt.Sprintf(" · %d of %d runs not made yet", t.Missing, t.Runs)
	}
	return line
}

// Specs enumerates a study's cells with the specs of each.
func (s Study) Specs(p presets.Preset, seeds []uint64) ([]Cell, error) {
	if seeds == nil {
		seeds = p.Seeds
		if s.Sweep {
			seeds = p.SweepSeeds
		}
	}
	if len(seeds) == 0 {
		return nil, fmt.Errorf("preset %s has no seeds: want one at least", p.Name)
	}
	cells := s.Cells(p)
	for i := range cells {
		c := &cells[i]
		rate := c.LR
		for _, seed := range seeds {
			spec, err := c.spec(p, seed)
			if err != nil {
				return nil, err
			}
			if rate != 0 {
				spec.LR = rate
			}
			if c.Adjust != nil {
				c.Adjust(&spec)
			}
			c.LR = spec.LR
			c.Specs = append(c.Specs, spec)
		}
	}
	return cells, nil
}

// spec is the preset's for what the cell trains by.
func (c *Cell) spec(p presets.Preset, seed uint64) (runs.Spec, error) {
	if c.Loss != "" {
		return p.LossSpec(c.Data, c.Loss, c.Miner, c.Exchange, seed)
	}
	rule, err := dmlx.ParseRule(c.Rule)
	if err != nil {
		return runs.Spec{}, err
	}
	return p.Spec(c.Data, rule, seed)
}

// Reproduce makes a study's table: runs that the store or the program has are read, the missing ones are made, each
// kept as soon as it is done. Stopped and called again, it goes on. choose is called when the first run has to be made,
// so that a table which is all there needs no backend.
func Reproduce(ctx context.Context, choose func() (*train.Trainer, error), store *runs.Store, study Study, preset presets.Preset, o runs.Options) (*Table, error) {
	cells, err := study.Specs(preset, o.Seeds)
	if err != nil {
		return nil, err
	}
	t := &Table{Study: study.Name, Title: study.Title, Preset: preset.Name, Cells: cells}
	var specs []runs.Spec
	for _, c := range t.Cells {
		specs = append(specs, c.Specs...)
	}
	t.Runs = len(specs)
	results, ran, err := runs.RunAll(ctx, choose, store, specs, o)
	if err != nil {
		return nil, err
	}
	t.Ran = ran
	for i := range t.Cells {
		c := &t.Cells[i]
		for _, r := range results[:len(c.Specs)] {
			if r == nil {
				t.Missing++
			} else {
				c.Runs = append(c.Runs, r)
			}
		}
		results = results[len(c.Specs):]
	}
	return t, nil
}
