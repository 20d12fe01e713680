package training

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

// reproduction is a call of reproduce.
type reproduction struct {
	execution
	objectiveFlags
	set     settingFlags
	bundled string // File to write the results to; "" writes none.

	names    []string                  // Of the tables and figures; set by plan.
	requests map[string]report.Request // By name; set by plan.
}

// NewReproduce trains the runs of tables and figures of the paper.
func NewReproduce(a *app.App) *cobra.Command {
	r := reproduction{execution: execution{App: a}}
	cmd := &cobra.Command{
		Use:   "reproduce NAME…",
		Short: "Train the runs of a table or figure of the paper and show it beside the paper's",
		Long: `Train the runs of a table or figure of the paper and show the result beside the paper's. The names are

` + text.Wrap(paper.Names()) + `

and ` + everything + ` for all of them.

Runs that are in the store or bundled with the program are read, not trained. Each other run is stored as soon as it is
trained, so that a command that was stopped continues where it was. Tables share runs. All runs are checked before the
first is trained.

--add-rule and --add-loss put rows of your own beside the paper's, with a dash where the paper has no number. A name
and " = " before a rule or loss label its row; formulas stand between dollar signs. These tables and figures take some:
` + text.Wrap(paper.TakingRows()) + `

--set fine_grained=DIR and --set coarse_grained=DIR put your data sets in the roles of the paper's CAR and In-shop.

The flags of dmlx train change the setting of all runs, and so does a preset of your own in a TOML file. The tables and
the names of their files then say what differs from the preset:
  # mine.toml, for --preset mine.toml
  from = "quick"
  seeds = [1, 2, 3, 4, 5]
  options = "tau=2"
  [sets.minishop]
  batch = "8x4"

With --on slurm the missing runs are submitted as a job array, and the command ends; squeue and sacct tell of the job,
and scancel ends it. The same command later shows the results, or submits what is missing then: not the runs that are
being trained, but also those whose tasks are still queued. A task whose run is there, or is trained by another, ends at
once. The run store must be in a folder that the cluster's nodes share.`,
		Example: "  dmlx reproduce table2 --preset quick\n" +
			"  dmlx reproduce table2 table3 table4 --no-bundled --jobs 2 --out results/\n" +
			"  dmlx reproduce all --cached-only\n" +
			"  dmlx reproduce table3 --add-rule 'Ours = cos/lin/cir?tau=2' --add-loss ms\n" +
			"  dmlx reproduce table4 --set options=tau=2 --batch 16x4 --seeds 1-5\n" +
			"  dmlx reproduce table3 --preset paper --on slurm --partition gpu --gres gpu:1 --store /shared/runs",
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: append(paper.Names(), everything),
		RunE:      func(cmd *cobra.Command, names []string) error { return r.run(cmd.Context(), names) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&r.rules, "add-rule", nil, `rule as a row of your own, with a label if you like: `+
		`"Ours = cos/lin/cir"; may be repeated`)
	f.StringArrayVar(&r.losses, "add-loss", nil,
		`loss as a row of your own, as in "ms, miner ms"; may be repeated`)
	r.set.add(a, f)
	f.Lookup("lr").Usage = "learning rate, or several for the sweeps of Tables 6 to 8 (default: the preset's for each)"
	f.BoolVar(&r.IgnoreBundled, "no-bundled", false, "train again the runs that are bundled with the program")
	f.BoolVar(&r.CachedOnly, "cached-only", false, "train nothing: show the runs that are cached or bundled")
	f.StringVar(&r.bundled, "write-bundled", "", "file to write the results to, in the format of dmlx/runs/bundled/")
	r.execution.add(f)
	return cmd
}

// run reproduces the tables and figures with these names.
func (r *reproduction) run(ctx context.Context, names []string) error {
	if err := r.plan(names); err != nil {
		return err
	}
	submitted := make(map[string]bool) // Runs that the cluster has trained.
	if r.Submit != nil {               // All runs that are known are submitted at once.
		missing, err := r.missing(ctx)
		if err != nil {
			return err
		}
		if err := r.Submit(ctx, slices.Concat(missing...)); err != nil {
			return err
		}
		for _, j := range slices.Concat(missing...) {
			submitted[j.Spec.Hash()] = true
		}
	} else if !r.CachedOnly {
		if err := r.checkAll(ctx); err != nil {
			return err
		}
	}
	return r.makeAll(ctx, submitted)
}

// plan checks the flags and sets the names and the requests.
func (r *reproduction) plan(names []string) error {
	rows, err := r.parse(true)
	if err != nil {
		return err
	}
	preset, seeds, err := r.set.preset(r.App, 0)
	if err != nil {
		return err
	}
	r.Seeds = seeds
	all := slices.Contains(names, everything)
	if r.names = names; all {
		r.names = paper.Names()
	}
	for _, name := range r.names {
		if err := paper.Check(name); err != nil {
			return cli.Usage(err)
		}
	}
	if err := cmp.Or(r.check(), cli.CheckOut(nil, r.bundled)); err != nil {
		return err
	}
	r.light = preset.Light(r.Devices)
	if err := r.begin(preset); err != nil {
		return err
	}
	r.requests, err = plan(r.names, report.Request{Open: r.open, Store: r.store, Preset: preset,
		Rows: rows, Options: r.Options}, all, len(r.set.lr) > 1)
	return err
}

// missing returns the runs and histograms that each table or figure lacks.
func (r *reproduction) missing(ctx context.Context) ([][]runs.Job, error) {
	out := make([][]runs.Job, len(r.names))
	for i, name := range r.names {
		var err error
		if out[i], err = paper.Missing(ctx, name, r.requests[name]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// makeAll makes the tables and figures, one after the other, and prints them.
func (r *reproduction) makeAll(ctx context.Context, submitted map[string]bool) error {
	var results []*runs.Result
	var histograms []*runs.Histograms
	var texts []string
	sets := []reproduced{} // An array in JSON, even if empty.
	for _, name := range r.names {
		r.show(name + " ")
		q := r.requests[name]
		q.Progress = r.Progress
		report, err := paper.Make(ctx, name, q)
		r.Line.End()
		if err != nil {
			return err
		}
		for _, run := range report.Results {
			if submitted[run.Hash] {
				report.Ran++
				delete(submitted, run.Hash)
			}
		}
		results, histograms = append(results, report.Results...), append(histograms, report.Histograms...)
		table, text, err := present(r.App, report, r.out)
		if err != nil {
			return err
		}
		sets, texts = append(sets, table), append(texts, text)
	}
	if err := r.writeBundled(results, histograms); err != nil {
		return err
	}
	return r.Print(map[string]any{"tables": sets}, strings.Join(texts, "\n\n"))
}

// writeBundled writes results, and similarity histograms into a folder beside them, as --write-bundled asks for.
func (r *reproduction) writeBundled(results []*runs.Result, histograms []*runs.Histograms) error {
	if r.bundled == "" {
		return nil
	}
	n, err := runs.WriteBundled(r.bundled, results)
	if err != nil {
		return err
	}
	r.Logf("wrote %d results to %s", n, r.bundled)
	if histograms == nil {
		return nil
	}
	path := filepath.Join(filepath.Dir(r.bundled), "histograms", filepath.Base(r.bundled))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := runs.WriteBundledHistograms(path, histograms); err != nil {
		return err
	}
	r.Logf("wrote the similarity histograms of Figures 4 and 5 to %s", path)
	return nil
}

// plan returns the request for each table, or an error for a row, a setting or a data set that it cannot have. Of all
// tables each takes the rows that it can have.
func plan(names []string, q report.Request, all, sweeps bool) (map[string]report.Request, error) {
	out := make(map[string]report.Request)
	var cells []paper.Cell
	taken := make([]bool, len(q.Rows))
	for _, name := range names {
		own := q
		own.Rows = nil
		if sweeps && !slices.Contains([]string{"table6", "table7", "table8"}, name) {
			return nil, cli.Usagef("several learning rates are for the sweeps table6, table7 and table8: want one for %s", name)
		}
		of, err := paper.Cells(name, own)
		if err != nil {
			return nil, err
		}
		for i, row := range q.Rows {
			with := own
			with.Rows = append(slices.Clone(own.Rows), row)
			more, err := paper.Cells(name, with)
			switch {
			case err == nil:
				own, of, taken[i] = with, more, true
			case !all:
				return nil, cli.Usage(err)
			}
		}
		cells = append(cells, of...)
		out[name] = own
	}
	if i := slices.Index(taken, false); i >= 0 {
		return nil, cli.Usagef("no table takes the row %s", q.Rows[i])
	}
	for option := range strings.SplitSeq(q.Preset.RuleOptions, "&") {
		option, _, _ = strings.Cut(option, "=")
		if option != "" && len(cells) > 0 && !paper.UsesOption(cells, option) {
			return nil, cli.Usagef("the option %s changes no rule of %s", option, strings.Join(names, ", "))
		}
	}
	return out, nil
}

// checkAll checks the missing runs of all tables before the first is trained. Runs that are known only from the results
// of others are checked when they are.
func (r *reproduction) checkAll(ctx context.Context) error {
	if len(r.names) < 2 {
		return nil // A table checks its own.
	}
	var missing []runs.Spec
	for _, name := range r.names {
		cells, err := paper.Cells(name, r.requests[name])
		if err != nil {
			return err
		}
		for _, c := range cells {
			for _, spec := range c.Specs {
				_, found, err := r.store.Lookup(spec)
				if err != nil {
					return err
				}
				if !found || r.IgnoreBundled {
					missing = append(missing, spec)
				}
			}
		}
	}
	return r.Check(ctx, r.store, runs.Jobs(missing...))
}

// everything is the name for all tables and figures.
const everything = "all"

// reproduced is the JSON of a table or figure.
type reproduced struct {
	Study      string   `json:"study"`
	Preset     string   `json:"preset"`
	Changes    []string `json:"changes,omitempty"` // Settings that differ from the preset's.
	Provenance string   `json:"provenance"`
	Runs       int      `json:"runs"`
	Ran        int      `json:"ran"`
	Cells      []Cell   `json:"cells,omitempty"`
	Files      []string `json:"files,omitempty"`
}

// Cell is the JSON of a cell of a table.
type Cell struct {
	Data     string   `json:"data"`
	Row      string   `json:"row"`
	Column   string   `json:"column"`
	Rule     string   `json:"rule"`
	Loss     string   `json:"loss,omitempty"`
	Own      bool     `json:"own,omitempty"` // A row that the paper does not have.
	Label    string   `json:"label,omitempty"`
	LR       float64  `json:"lr"`
	Mean     *float64 `json:"recall_at_1"` // A fraction; null if no run is finite.
	Std      float64  `json:"std"`
	N        int      `json:"n"`
	Diverged int      `json:"diverged"`
	HeldOut  *float64 `json:"held_out_recall_at_1,omitempty"` // Of a table that selects by held-out classes.
	Runs     []string `json:"runs"`
}

// present returns a report as JSON and text. If out is not empty, it writes the parts there in all formats.
func present(a *app.App, r *paper.Report, out string) (reproduced, string, error) {
	set := reproduced{Study: r.Name, Preset: r.Preset, Changes: r.Changes, Provenance: r.Provenance, Runs: r.Runs,
		Ran: r.Ran}
	if r.Table != nil {
		for _, c := range r.Table.Cells {
			s, held := c.Recall(1), c.HeldOutRecall(1)
			rule, _, _ := strings.Cut(c.Rule, "#") // Without the digests of functions of the user's own.
			loss, _, _ := strings.Cut(c.Loss, "#")
			j := Cell{Data: c.Data, Row: c.Row, Column: c.Column, Rule: rule, Loss: loss, Own: c.Own, Label: c.Label,
				LR: c.LR, Std: s.Std, N: s.N, Diverged: s.Diverged,
				Runs: slice.Map(c.Runs, func(run *runs.Result) string { return run.Hash })}
			if s.N > 0 {
				j.Mean = &s.Mean
			}
			if held.N > 0 {
				j.HeldOut = &held.Mean
			}
			set.Cells = append(set.Cells, j)
		}
	}
	for _, p := range r.Parts {
		if err := figures.Failure(p.Of); err != nil {
			return set, "", err
		}
	}
	name := presets.Preset{Name: r.Preset, Changes: r.Changes}.FileName()
	words, files, err := a.Pictures(&r.Report, out, r.Name+"-"+name)
	if err != nil {
		return set, "", err
	}
	set.Files = files
	var texts []string
	for _, p := range r.Parts { // Only the main picture is described.
		text := words[p.Name]
		if f, ok := p.Of.(*figures.Figure); ok && p.Name == "" {
			text = strings.TrimSpace(text + "\n" + f.Provenance)
		} else if ok {
			continue
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	if r.Runs > 0 {
		texts = append(texts, fmt.Sprintf("%d runs, %d of them trained now", r.Runs, r.Ran))
	}
	return set, strings.Join(texts, "\n"), nil
}
