// Package paper reproduces the tables and figures of the paper. Each has a file that says which runs it needs, at
// which learning rates, and what is read off them: table7.go is Table 7. [Make] trains the missing runs, or reads
// them from the store, and hands their numbers to package figures; the command and the notebooks both call it.
//
// A [Request] may have rows of the user's own, rules and losses as values, and a preset with other settings. The same
// can be done step by step: [Cells] lists what a table trains, which is a slice to edit, or [Specify] fills in cells of
// the user's own; [Fill] trains what is missing; [Table.Entries] has the means for figures.Compare.
package paper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/paper/ledger"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// Request says which preset, store and backend reproduce a table or figure.
type Request struct {
	// Open returns the backend. It is called when the first run has to be trained or the first graph computed.
	Open   func() (*train.Trainer, error)
	Store  *runs.Store
	Preset presets.Preset
	// Rows are the user's own: rules and losses that stand beside the paper's rows. [TakingRows] lists the tables and
	// figures that take some.
	Rows []presets.Objective
	// Entries selects the entries of the ledger; other reports have none.
	Entries ledger.Filter
	runs.Options
}

// Report is a table or figure of the paper, reproduced.
type Report struct {
	Name, Title, Preset, Provenance string
	// Changes are the settings that differ from the preset's, in words.
	Changes   []string
	Runs, Ran int // How many runs it needs, and how many of them were trained for it now.
	// Parts are its pictures and tables, in order.
	Parts []Part
	// Table is its study, nil if it has none or several.
	Table *Table
	// Results are its runs, as far as they are available. Histograms are the triplet densities that Figures 4 and 5
	// show.
	Results    []*runs.Result
	Histograms []*runs.Histograms
}

// Part is one picture or table of a report. The main one has an empty name.
type Part struct {
	Name string
	Of   figures.Output
}

// Part returns a part by its name, "" for the main one. An unknown name gives an output that fails when it is shown.
func (r *Report) Part(name string) figures.Output {
	var names []string
	for _, p := range r.Parts {
		if p.Name == name {
			return p.Of
		}
		names = append(names, fmt.Sprintf("%q", p.Name))
	}
	return figures.Failed(fmt.Errorf("%s has no part %q; there are %s", r.Name, name, strings.Join(names, ", ")))
}

// item is a table or figure that can be reproduced.
type item struct {
	name, title string
	make        func(context.Context, Request) (*Report, error)
}

// items are in the paper's order.
var items = []item{
	{"figure1", "From loss to gradient, for a real batch", figure1},
	{"table2", "Gradient directions", table2},
	{"table3", "Pair weights", table3},
	{"figure4", "Nearest-positive and nearest-negative similarities", figure4},
	{"table4", "Triplet weights", table4},
	{"table5", "The state of the art", table5},
	{"figure5", "Triplets by the Euclidean and by the cosine direction", figure5},
	{"table6", "Gradient directions over learning rates", table6},
	{"table7", "Pair weights over learning rates", table7},
	{"table8", "Triplet weights over learning rates", table8},
	{"appendix", "Relative pair weights, instability, projection lengths", appendix},
	{"claims", "The paper's claims, audited", auditClaims},
	{"ledger", "The ledger: every number, figure and claim", ledgerOf},
	{"grid", "What the paper left open: the full grid", grid},
	{"length", "How long is long enough", length},
	{"full", "Do longer runs bring the paper's order?", full},
	{"losses", "Losses with a part exchanged", losses},
	{"recommendation", "The best of all runs, against the paper's", recommendation},
}

// Names lists the tables and figures that [Make] reproduces.
func Names() []string {
	out := make([]string, len(items))
	for i, it := range items {
		out[i] = it.name
	}
	return out
}

// Check returns an error that lists the known tables and figures if the name is not one of them.
func Check(name string) error {
	_, err := find(name)
	return err
}

func find(name string) (item, error) {
	for _, it := range items {
		if it.name == name {
			return it, nil
		}
	}
	if slices.Contains([]string{"figure2", "figure3", "table1"}, name) {
		return item{}, fmt.Errorf("%s needs no runs: notebooks/%s.ipynb draws it", name, name)
	}
	return item{}, errs.NoSuch(fmt.Sprintf("no table or figure %q", name), name, Names())
}

// Make reproduces a table or figure. Runs that the store or the program has are read, the others are trained, and
// each is stored as soon as it is done. A call that was stopped can be repeated and goes on.
func Make(ctx context.Context, name string, q Request) (*Report, error) {
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

// TakingRows lists the tables and figures that take rows of the user's own; see [Request].
func TakingRows() []string {
	var out []string
	for _, s := range allStudies() {
		if s.Own != nil {
			out = append(out, s.Name)
		}
	}
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
func Cells(name string, q Request) ([]Cell, error) {
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
	if name == "table5" {
		all := s.Cells
		s.Cells = func(p presets.Preset) []Cell { return Present(all(p)) }
		if q.Seeds == nil {
			q.Seeds = Table5Seeds(q.Preset)
		}
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
		o, err := c.objective()
		if err != nil {
			return false
		}
		r, err := o.ParsedRule()
		return err == nil && r.Uses(option)
	})
}

// errListed ends the reproduction of a report whose missing runs are only to be listed.
var errListed = errors.New("listed")

// Missing lists the runs and histograms that a table or figure still lacks, without training any. Where later runs
// depend on earlier results, as in the grid, it lists the next stage alone.
func Missing(ctx context.Context, name string, q Request) ([]runs.Job, error) {
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
func study(ctx context.Context, s Study, q Request, parts func(t *Table, provenance string) ([]Part, error)) (*Report,
	error) {
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
	r := &Report{Title: t.Title, Provenance: t.Provenance(), Table: t}
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

// Overall returns a progress function for [Request]. It calls show with the share of all runs that is done, from 0
// to 1, and a line of text: the current run and the estimated time that all of them still need.
func Overall(show func(fraction float64, text string)) func(runs.Progress) {
	var mu sync.Mutex
	var started time.Time
	share := make(map[int]float64) // Of each run.
	resumed := 0.0                 // Done before this call, so it says nothing about the pace.
	return func(p runs.Progress) {
		mu.Lock()
		defer mu.Unlock()
		if started.IsZero() {
			started = time.Now()
		}
		part := float64(p.Step) / float64(max(p.Steps, 1))
		if _, known := share[p.Run]; !known {
			resumed += max(0, part-1/float64(max(p.Steps, 1)))
		}
		share[p.Run] = part
		done := 0.0
		for _, s := range share {
			done += s
		}
		runs := float64(max(p.Runs, 1))
		text := fmt.Sprintf("run %d/%d: %s on %s, seed %d, %s", p.Run, max(p.Runs, 1), p.Spec.Objective.String(), p.Spec.Data,
			p.Spec.Seed, p.Stage())
		if made := done - resumed; made > 0 {
			left := time.Duration(float64(time.Since(started)) / made * (runs - done))
			text += fmt.Sprintf(", %s left", left.Round(time.Second))
		}
		show(done/runs, text)
	}
}
