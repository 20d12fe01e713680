package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Study is a table of the paper as rows, each with its cells to compare. It only enumerates the runs; [Reproduce]
// trains them.
type Study struct {
	Name  string // "table2"
	Title string
	// Rows lists the table's rows for a preset: objectives on no data set yet.
	Rows func(p presets.Preset) []Cell
	// Expand returns the cells of a row, of the table or of the user's own. It returns an error for an objective that the
	// table cannot have.
	Expand func(p presets.Preset, row Cell) ([]Cell, error)
	// Fixed says that the study takes no rows of the user's own; see [Study.With].
	Fixed bool
	// Present leaves out the data sets that are not on this machine.
	Present bool
	// Sweep says that the study takes the preset's fewer seeds, since it has many cells.
	Sweep bool
	// AtMost is the largest number of the preset's seeds that the study takes, 0 for all.
	AtMost int
}

// Cell is one cell of a table: a rule or a loss on a data set, over seeds.
type Cell struct {
	// Row and Column are the table's labels. Where the data sets are not the columns, each of them is a block with all
	// rows and columns.
	Row, Column string
	// Data and the objective are what is run, at the objective's learning rate or, without one, at the preset's.
	Data string
	presets.Objective
	Own       bool   // A row of the user's own, which the paper does not have.
	PaperData string // The paper's data set in the same role.
	Method    string // Of Table 5, or the loss whose parts are exchanged.
	Times     int    // The batch or the length as a multiple of the preset's, where a table varies it.
	// Adjust changes the preset's spec where a cell needs more than its own objective; it may be nil.
	Adjust func(*runs.Spec)

	// Preset, Specs and LR are filled in by [Specify], and Runs by [Fill]; of runs and specs there is one per seed.
	Preset string
	Specs  []runs.Spec
	Runs   []*runs.Result
}

// Recall returns the mean of Recall@k over the cell's seeds, as a fraction.
func (c Cell) Recall(k int) stats.Mean { return runs.MeanRecall(c.Runs, k) }

// Printed returns the Recall@1 in percent that one of the paper's Tables 2 to 4 prints for the cell's rule on
// PaperData. Its mean is NaN where the table has no such number.
func (c Cell) Printed(table int) stats.Mean {
	if c.own() {
		return scores.Missing()
	}
	return printed(table, c.PaperData, c.Rule)
}

func printed(table int, data, rule string) stats.Mean {
	if data == "" {
		return scores.Missing()
	}
	return scores.Printed().Select(scores.Row{Table: table, Data: data, Rule: rule}).Mean()
}

// Scores returns the measures of the cell's runs. A cell without runs has a score without a value.
func (c Cell) Scores() scores.Table {
	out := report.Scores(c.Runs...)
	if len(c.Runs) == 0 {
		planned := scores.Row{Data: c.Data, LR: c.LR, Value: scores.Missing()}
		if len(c.Specs) > 0 {
			planned = report.Planned(c.Specs[0])
		}
		planned.Measure = report.Recall(1)
		out = scores.Table{planned}
	}
	for i := range out {
		r := &out[i]
		r.Preset, r.Role, r.Method, r.Times, r.Own, r.Label = c.Preset, c.PaperData, c.Method, c.Times, c.own(), c.Label
		r.SetRule(c.String()) // Without the options of the preset.
	}
	return out
}

// Scores returns the scores of all cells.
func (t *Table) Scores() scores.Table {
	var out scores.Table
	for _, c := range t.Cells {
		out = append(out, c.Scores()...)
	}
	return out
}

// Sets returns the scores of Recall@1 by data set.
func (t *Table) Sets() []scores.Group {
	return t.Scores().Select(scores.Row{Measure: report.Recall(1)}).Group(scores.Data.Of)
}

// HeldOutRecall returns the mean over seeds of Recall@k on the held-out training classes, as a fraction.
func (c Cell) HeldOutRecall(k int) stats.Mean {
	return runs.MeanOf(c.Runs, func(r *runs.Result) float64 {
		if v, measured := r.HeldOutRecall[k]; measured {
			return v
		}
		return math.NaN()
	})
}

// studies lists the studies in the paper's order.
func studies() []Study {
	return []Study{table2Study(), table3Study(), table4Study(), table6Study(), table7Study(), table8Study(), gridStudy()}
}

// onBoth returns a cell on each of the preset's data sets: the fine-grained one in the role of CAR and, if there is
// one, the coarse-grained one in that of In-shop.
func onBoth(p presets.Preset, c Cell) []Cell {
	fine, separated := c, c
	fine.Data, fine.PaperData = p.FineGrained, "CAR"
	separated.Data, separated.PaperData = p.CoarseGrained, "In-shop"
	if separated.Data == "" {
		return []Cell{fine}
	}
	return []Cell{fine, separated}
}

// OnBothSets returns a cell for each rule on each of the preset's two data sets, first all rules on the fine-grained
// one. A rule may be a loss, as [presets.Named] reads it. [Specify] checks them.
func OnBothSets(p presets.Preset, rules ...string) []Cell {
	var out []Cell
	for _, c := range onBoth(p, Cell{}) {
		for _, rule := range rules {
			c.Objective = presets.Named(rule)
			out = append(out, c)
		}
	}
	return out
}

// ruleRows returns rows of rules, which are named after a part of them.
func ruleRows(rules []string, name scores.Column) []Cell {
	return slice.Map(rules, func(rule string) Cell {
		return Cell{Row: name.Of(ruleOf(rule)), Objective: presets.Named(rule)}
	})
}

// expanded returns a [Study.Expand] that has some cells for a row on each of the preset's data sets.
func expanded(of func(p presets.Preset, c Cell) ([]Cell, error)) func(presets.Preset, Cell) ([]Cell, error) {
	return func(p presets.Preset, row Cell) (out []Cell, err error) {
		for _, c := range onBoth(p, row) {
			cells, err := of(p, c)
			if err != nil {
				return nil, err
			}
			out = append(out, cells...)
		}
		return out, nil
	}
}

// across is the [Study.Expand] of a table whose columns are the data sets.
func across(p presets.Preset, row Cell) ([]Cell, error) {
	return slice.Map(onBoth(p, row), func(c Cell) Cell {
		c.Column = c.Data
		return c
	}), nil
}

// byPart is the [Study.Expand] of a table whose columns are parts of rules. A row of the user's own has none.
func byPart(column scores.Column) func(presets.Preset, Cell) ([]Cell, error) {
	return func(p presets.Preset, row Cell) ([]Cell, error) {
		if !row.Own {
			row.Column = column.Of(ruleOf(row.Rule))
		}
		return onBoth(p, row), nil
	}
}

// Rules returns the names of all combinations of directions, pair weights and triplet weights, the last changing first.
func Rules(directions, pairs, triplets []string) []string {
	var out []string
	for _, direction := range directions {
		for _, pair := range pairs {
			for _, triplet := range triplets {
				out = append(out, direction+"/"+pair+"/"+triplet)
			}
		}
	}
	return out
}

// ParseStudy returns a study by its name; the error lists the known ones.
func ParseStudy(name string) (Study, error) {
	all := append(studies(), Table5())
	if i := slices.IndexFunc(all, func(s Study) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Study{}, errs.NoSuch(fmt.Sprintf("no table or figure %q", name), name,
		slice.Map(all, func(s Study) string { return s.Name }))
}

// Table is a study with its results.
type Table struct {
	Study, Title, Preset string
	Cells                []Cell // As the study lists them.
	Runs, Ran            int    // How many runs it needs, and how many of them were trained for it now.
	Missing              int    // How many of them are not available; see [runs.Options.CachedOnly].
}

// At returns the cell of a data set, row and column, nil if there is none.
func (t *Table) At(data, row, column string) *Cell {
	i := slices.IndexFunc(t.Cells, func(c Cell) bool { return c.Data == data && c.Row == row && c.Column == column })
	if i < 0 {
		return nil
	}
	return &t.Cells[i]
}

// Of returns the first cell of a rule or loss on a data set. Where there is none, it returns a cell without runs, whose
// means are missing.
func (t *Table) Of(data, rule string) Cell {
	o := presets.Named(rule)
	i := slices.IndexFunc(t.Cells, func(c Cell) bool { return c.Data == data && c.String() == o.String() })
	if i < 0 {
		return Cell{Data: data, Objective: o}
	}
	return t.Cells[i]
}

// Provenance describes the table's runs in one line: preset, data, seeds, backends, machines and dates, and the bundled
// files that they come from with their digests. A run that stands in several cells counts once.
func (t *Table) Provenance() string {
	all := make(map[string]bool)
	p := report.Provenance{Preset: t.Preset, Runs: t.Runs, Missing: t.Missing, Results: t.Results()}
	for _, c := range t.Cells {
		set := c.Data
		if slices.ContainsFunc(c.Specs, func(s runs.Spec) bool { return s.AllowPartial }) {
			set += ", in part"
		}
		p.Data = append(p.Data, set)
		for _, s := range c.Specs {
			all[s.Hash()] = true
		}
	}
	if n := len(all); n > 0 && n < p.Runs { // Cells share runs.
		p.Runs, p.Missing = n, n-len(p.Results)
	}
	return p.String()
}

// Cells lists the study's cells for a preset by data set, and there row by row.
func (s Study) Cells(p presets.Preset) ([]Cell, error) {
	var out []Cell
	var sets []string
	for _, row := range s.Rows(p) {
		cells, err := s.Expand(p, row)
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", row.Objective, s.Name, err)
		}
		for _, c := range cells {
			out, sets = append(out, c), slice.AddNew(sets, c.Data)
		}
	}
	slices.SortStableFunc(out, func(a, b Cell) int {
		return cmp.Compare(slices.Index(sets, a.Data), slices.Index(sets, b.Data))
	})
	return out, nil
}

// Specs returns the study's cells with the specs of each, one per seed. Without seeds it takes the preset's.
func (s Study) Specs(p presets.Preset, seeds []uint64) ([]Cell, error) {
	if seeds == nil {
		seeds = p.Seeds
		if s.Sweep {
			seeds = p.SweepSeeds
		} else if s.AtMost > 0 {
			seeds = seeds[:min(s.AtMost, len(seeds))]
		}
	}
	cells, err := s.Cells(p)
	if err != nil {
		return nil, err
	}
	if s.Present {
		cells = Present(cells)
	}
	return Specify(p, cells, seeds)
}

// With returns the study with rows of the user's own after its own. A row that the study has already is left out: a
// rule or loss by its name, at the preset's rates. It returns an error if the study takes none or cannot have one, and
// for another row whose label, or name if it has none, is that of a row.
func (s Study) With(p presets.Preset, own []presets.Objective) (Study, error) {
	if len(own) == 0 {
		return s, nil
	}
	if s.Fixed {
		return s, noRows(s.Name)
	}
	rows := s.Rows(p)
	its := rows
	name := func(o presets.Objective) string { return cmp.Or(o.Label, o.String()) }
	for i, o := range own {
		if slices.ContainsFunc(own[:i], func(other presets.Objective) bool { return name(other) == name(o) }) {
			return s, fmt.Errorf("%s is given twice as a row: give each a label of its own", name(o))
		}
		if slices.ContainsFunc(its, func(c Cell) bool { return c.Row == name(o) || c.String() == name(o) }) {
			if o.Label == "" && o.LR == 0 && o.ProxyLR == 0 && !o.Custom() {
				continue
			}
			return s, fmt.Errorf("%s in %s: it has a row %q already: give yours a label of its own", o, s.Name, name(o))
		}
		rows = append(rows, Cell{Row: name(o), Objective: o, Own: true})
	}
	s.Rows = func(presets.Preset) []Cell { return rows }
	_, err := s.Cells(p)
	return s, err
}

// own reports whether the cell is no rule of the paper: one of the user's own, a loss, or a rule with a miner.
func (c Cell) own() bool { return c.Own || !c.IsRule() || c.Miner != "" }

// Specify returns cells with the specs of each, one per seed, at a preset. It returns an error for a cell whose rule,
// loss or data set cannot be had; nothing is trained.
func Specify(p presets.Preset, cells []Cell, seeds []uint64) ([]Cell, error) {
	if len(seeds) == 0 {
		return nil, fmt.Errorf("preset %s has no seeds: want at least one", p.Name)
	}
	cells = slices.Clone(cells)
	for i := range cells {
		c := &cells[i]
		var err error
		if c.Objective, err = c.Parsed(); err != nil {
			return nil, err
		}
		if c.own() {
			c.Row = cmp.Or(c.Row, c.Label, c.String())
		}
		c.Preset, c.Specs, c.Runs = p.String(), nil, nil
		o := c.Objective // Adjust may change the rate of each seed's spec.
		for _, seed := range seeds {
			spec, err := p.ObjectiveSpec(c.Data, o, seed)
			if err != nil {
				return nil, err
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

// Reproduce trains a study's missing runs and returns its table. Runs that the store or the program has are read, and
// each new one is stored as soon as it is done. A call that was stopped can be repeated and goes on. It calls choose
// when it has to train the first run, so that a complete table needs no backend.
func Reproduce(ctx context.Context, choose func() (*train.Trainer, error), store *runs.Store, study Study,
	preset presets.Preset, o runs.Options) (*Table, error) {
	cells, err := study.Specs(preset, o.Seeds)
	if err != nil {
		return nil, err
	}
	t, err := Fill(ctx, report.Request{Open: choose, Store: store, Preset: preset, Options: o}, cells)
	if err != nil {
		return nil, err
	}
	t.Study, t.Title = study.Name, study.Title
	return t, nil
}

// Fill trains the missing runs of cells, which [Specify] or [Study.Specs] returned, and returns them as a table with
// their runs. Runs that the store or the program has are read. All are checked before the first is trained.
func Fill(ctx context.Context, q report.Request, cells []Cell) (*Table, error) {
	t, _, err := fill(ctx, q, cells, runs.RunAll, func(r *runs.Result) *runs.Result { return r })
	return t, err
}

// fill gets something of each run of cells, and returns the cells as a table with their runs and, for each, what of its
// runs there is.
func fill[T any](ctx context.Context, q report.Request, cells []Cell,
	get func(context.Context, func() (*train.Trainer, error), *runs.Store, []runs.Spec, runs.Options) ([]*T, int, error),
	run func(*T) *runs.Result) (*Table, [][]*T, error) {
	t := &Table{Cells: slices.Clone(cells)}
	var specs []runs.Spec
	var from []string
	for _, c := range cells {
		specs, from = append(specs, c.Specs...), slice.AddNew(from, c.Preset)
	}
	t.Preset, t.Runs = strings.Join(from, " and "), len(specs)
	all, ran, err := get(ctx, q.Open, q.Store, specs, q.Options)
	if err != nil {
		return nil, nil, err
	}
	t.Ran = ran
	out := make([][]*T, len(cells))
	for i := range t.Cells {
		c := &t.Cells[i]
		c.Runs = nil
		for _, r := range all[:len(c.Specs)] {
			if r == nil {
				t.Missing++
			} else {
				out[i], c.Runs = append(out[i], r), append(c.Runs, run(r))
			}
		}
		all = all[len(c.Specs):]
	}
	return t, out, nil
}
