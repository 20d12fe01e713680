// Package paper reproduces the tables and figures of the paper. Each has a file that says which runs it needs, at
// which learning rates, and what is read off them: table7.go is Table 7. [Make] trains the missing runs, or reads
// them from the store, and hands their numbers to package figures; the command and the notebooks both call it.
//
// A [report.Request] may have rows of the user's own, rules and losses as values, and a preset with other settings. The
// same can be done step by step: [Cells] lists what a table trains, which is a slice to edit, or [Specify] fills in
// cells of the user's own; [Fill] trains what is missing; [Table.Scores] has the measures, which [Compare] lays out.
package paper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

// Report is a table or figure of the paper, reproduced.
type Report struct {
	report.Report
	// Table is its study, nil if it has none or several.
	Table *Table
}

// item is a table or figure that can be reproduced.
type item struct {
	name, title string
	make        maker
}

// maker reproduces a table or figure.
type maker func(context.Context, report.Request) (*Report, error)

// items are in the paper's order.
var items = []item{
	{"figure1", "From loss to gradient, for a real batch", figure1},
	{"table2", "Gradient directions", componentTable(table2Study(), 2)},
	{"table3", "Pair weights", componentTable(table3Study(), 3)},
	{"figure4", "Nearest-positive and nearest-negative similarities", figure4},
	{"table4", "Triplet weights", componentTable(table4Study(), 4)},
	{"table5", "The state of the art", table5},
	{"figure5", "Triplets by the Euclidean and by the cosine direction", figure5},
	{"table6", "Gradient directions over learning rates", sweepTable(table6Study())},
	{"table7", "Pair weights over learning rates", sweepTable(table7Study())},
	{"table8", "Triplet weights over learning rates", sweepTable(table8Study())},
	{"appendix", "Relative pair weights, instability, projection lengths", appendix},
	{"grid", "What the paper left open: the full grid", grid},
}

// Names lists the tables and figures that [Make] reproduces.
func Names() []string { return slice.Map(items, func(it item) string { return it.name }) }

// Check returns an error that lists the known tables and figures if the name is not one of them.
func Check(name string) error {
	_, err := find(name)
	return err
}

func find(name string) (item, error) {
	if i := slices.IndexFunc(items, func(it item) bool { return it.name == name }); i >= 0 {
		return items[i], nil
	}
	if slices.Contains([]string{"figure2", "figure3", "table1"}, name) {
		return item{}, fmt.Errorf("%s needs no runs: notebooks/%s.ipynb draws it", name, name)
	}
	return item{}, errs.NoSuch(fmt.Sprintf("no table or figure %q", name), name, Names())
}

// Make reproduces a table or figure. Runs that the store or the program has are read, the others are trained, and
// each is stored as soon as it is done. A call that was stopped can be repeated and goes on.
func Make(ctx context.Context, name string, q report.Request) (*Report, error) {
	it, err := find(name)
	if err != nil {
		return nil, err
	}
	if len(q.Rows) > 0 && !slices.Contains(TakingRows(), name) {
		return nil, noRows(name)
	}
	for _, o := range q.Rows {
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, o, err)
		}
	}
	r, err := it.make(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.Name, r.Preset, r.Changes = name, q.Preset.Name, q.Preset.Changes
	if r.Title == "" {
		r.Title = it.title
	}
	r.tellSetting(q.Preset)
	return r, nil
}

// tellSetting writes a setting that is not a preset's of this program into the captions of the tables, and into a
// column of their CSV.
func (r *Report) tellSetting(p presets.Preset) {
	if len(p.Changes) == 0 && p.Origin == "" {
		return
	}
	for _, part := range r.Parts {
		// A table that shows the paper's numbers alone names no preset.
		if t, is := part.Of.(*figures.Table); is && strings.Contains(t.Provenance, p.String()) {
			t.Setting = "preset " + p.String()
			t.Caption = strings.TrimSpace(t.Caption + " Setting: " + t.Setting + ".")
		}
	}
}

// TakingRows lists the tables and figures that take rows of the user's own; see [report.Request].
func TakingRows() []string {
	taking := slices.DeleteFunc(allStudies(), func(s Study) bool { return s.Fixed })
	out := slice.Map(taking, func(s Study) string { return s.Name })
	slices.Sort(out)
	return out
}

// allStudies lists the studies with those that have more than a table of their cells.
func allStudies() []Study {
	return append(studies(), Table5(), histogramsStudy("figure4", ""), histogramsStudy("figure5", ""))
}

// Cells returns the cells of a table or figure with their specs, and with the rows of the request's own: what [Make]
// trains, for [Fill]. It returns none for a report whose runs are known only from those of others, or that has none. An
// error says what is wrong with a row, with the preset's settings or with a data set; nothing is trained.
func Cells(name string, q report.Request) ([]Cell, error) {
	if err := Check(name); err != nil {
		return nil, err
	}
	all := allStudies()
	i := slices.IndexFunc(all, func(s Study) bool { return s.Name == name })
	if i < 0 {
		if len(q.Rows) > 0 {
			return nil, noRows(name)
		}
		return nil, nil
	}
	s, err := all[i].With(q.Preset, q.Rows)
	if err != nil {
		return nil, err
	}
	cells, err := s.Specs(q.Preset, q.Seeds)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return cells, nil
}

func noRows(name string) error {
	return fmt.Errorf("%s takes no rows of your own: the tables and figures that do are %s", name,
		strings.Join(TakingRows(), ", "))
}

// UsesOption reports whether an option of rules, by its name, changes the rule of one of the cells.
func UsesOption(cells []Cell, option string) bool {
	return slices.ContainsFunc(cells, func(c Cell) bool {
		r, err := c.ParsedRule()
		return err == nil && r.Uses(option)
	})
}

// errListed ends the reproduction of a report whose missing runs are only to be listed.
var errListed = errors.New("listed")

// Missing lists the runs and histograms that a table or figure still lacks, without training any. Where later runs
// depend on earlier results, as in the grid, it lists the next stage alone.
func Missing(ctx context.Context, name string, q report.Request) ([]runs.Job, error) {
	var out []runs.Job
	q.Submit = func(_ context.Context, jobs []runs.Job) error {
		out = jobs
		return errListed
	}
	if _, err := Make(ctx, name, q); err != nil && !errors.Is(err, errListed) {
		return nil, err
	}
	return out, nil
}

// study runs a study, with the rows of the request's own, and returns its report. parts draws its table. It is called
// once without runs before the first is trained, so that what cannot be drawn is told then.
func study(ctx context.Context, s Study, q report.Request,
	parts func(t *Table, provenance string) ([]report.Part, error)) (*Report, error) {
	s, err := s.With(q.Preset, q.Rows)
	if err != nil {
		return nil, err
	}
	cells, err := s.Specs(q.Preset, q.Seeds)
	if err != nil {
		return nil, err
	}
	if !q.CachedOnly {
		if _, err := parts(&Table{Study: s.Name, Cells: cells}, ""); err != nil {
			return nil, err
		}
	}
	t, err := Fill(ctx, q, cells)
	if err != nil {
		return nil, err
	}
	t.Study, t.Title = s.Name, s.Title
	r := &Report{Report: report.Report{Title: t.Title, Provenance: t.Provenance()}, Table: t}
	r.add(t)
	r.Parts, err = parts(t, r.Provenance)
	return r, err
}

// add counts the runs of a study's table to the report's.
func (r *Report) add(t *Table) {
	r.Runs += t.Runs
	r.Ran += t.Ran
	for _, c := range t.Cells {
		r.Results = append(r.Results, c.Runs...)
	}
}
