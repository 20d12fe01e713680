package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/estimate"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

func newReproduce(a *app) *cobra.Command {
	var (
		o            runs.Options
		out, bundled string
		estimated    bool
		pf           presetFlags
		on           cluster

		fineGrained, separated string // Data sets instead of the preset's.
	)
	cmd := &cobra.Command{
		Use:   "reproduce NAME…",
		Short: "Train the runs of a table or figure of the paper and show it beside the paper's",
		Long: `Train the runs of a table or figure of the paper and show the result beside the paper's. The names are

` + text.Wrap(paper.Names()) + `

and ` + everything + ` for all of them.

Runs that are in the store or bundled with the program are read, not trained. Each other run is stored as soon as it is
trained, so that a stopped command continues where it was. Tables share runs.

With --on slurm a cluster trains the missing runs, as a job array that continues if this command is stopped (Ctrl-C).
The same command follows it again; see also dmlx runs queue and dmlx runs cancel. The run store must be in a folder that
the cluster's nodes share.`,
		Example: "  dmlx reproduce table2 --preset quick\n" +
			"  dmlx reproduce table2 table3 table4 --no-bundled --jobs 2 --out results/\n" +
			"  dmlx reproduce all --cached-only\n" +
			"  dmlx reproduce table3 --preset paper --on slurm --partition gpu --gres gpu:1 --store /shared/runs",
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: append(paper.Names(), everything),
		RunE: func(cmd *cobra.Command, names []string) error {
			preset, err := pf.preset(a)
			if err != nil {
				return err
			}
			if preset = preset.On(fineGrained, separated); preset.FineGrained == preset.CoarseGrained {
				return usagef("--fine-grained and --separated are both %s: want two data sets", preset.CoarseGrained)
			}
			if slices.Contains(names, everything) {
				names = paper.Names()
			}
			for _, name := range names {
				if err := paper.Check(name); err != nil {
					return usage(err)
				}
			}
			if err := on.check(cmd.Flags()); err != nil {
				return err
			}
			if estimated && (out != "" || bundled != "") {
				return usagef("--estimate trains no runs and writes nothing: leave out --out and --write-bundled")
			}
			if err := checkOutDir(out); err != nil {
				return err
			}
			if err := checkOut(nil, bundled); err != nil {
				return err
			}
			store, err := a.store()
			if err != nil {
				return err
			}
			if err := setJobs(&o, store); err != nil {
				return err
			}
			choose := sync.OnceValues(a.backend)
			if estimated {
				if o.CachedOnly || on.on != "" {
					return usagef("--estimate trains no runs: leave out --cached-only and --on")
				}
				var e estimate.Estimate
				for _, name := range names {
					jobs, err := paper.Missing(cmd.Context(), name,
						paper.Request{Open: choose, Store: store, Preset: preset, Options: o})
					if err != nil {
						return err
					}
					e.Add(name, jobs)
				}
				return a.printEstimate(cmd.Context(), &e, choose)
			}
			sent := make(map[string]bool) // Runs that the cluster trains before the reports.
			if on.on != "" {
				if o.CachedOnly {
					return usagef("--cached-only trains no runs: leave out --on")
				}
				var missing []runs.Job
				for _, name := range names {
					jobs, err := paper.Missing(cmd.Context(), name,
						paper.Request{Open: choose, Store: store, Preset: preset, Options: o})
					if err != nil {
						return err
					}
					missing = append(missing, jobs...)
				}
				if on.dryRun {
					return on.dry(cmd.Context(), a, store, missing)
				}
				o.Submit = on.elsewhere(a, store)
				for _, j := range missing {
					sent[j.Spec.Hash()] = true
				}
				if err := o.Submit(cmd.Context(), missing); err != nil { // All that are known at once.
					return err
				}
			}
			line := a.line
			var results []*runs.Result
			var histograms []*runs.Histograms
			var texts []string
			sets := []reproduced{} // An array in JSON, even if empty.
			for _, name := range names {
				o.Progress = paper.Overall(func(done float64, text string) { line.Show("%s %3.0f %%  %s", name, 100*done, text) })
				r, err := paper.Make(cmd.Context(), name, paper.Request{Open: choose, Store: store, Preset: preset, Options: o})
				line.End()
				if err != nil {
					return err
				}
				for _, run := range r.Results {
					if sent[run.Hash] {
						r.Ran++
						delete(sent, run.Hash)
					}
				}
				results, histograms = append(results, r.Results...), append(histograms, r.Histograms...)
				set, text, err := present(r, out)
				if err != nil {
					return err
				}
				sets, texts = append(sets, set), append(texts, text)
			}
			if bundled != "" {
				n, err := runs.WriteBundled(bundled, results)
				if err != nil {
					return err
				}
				a.logf("wrote %d results to %s", n, bundled)
				if histograms != nil {
					path := filepath.Join(filepath.Dir(bundled), "histograms", filepath.Base(bundled))
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						return err
					}
					if err := runs.WriteBundledHistograms(path, histograms); err != nil {
						return err
					}
					a.logf("wrote the similarity histograms of Figures 4 and 5 to %s", path)
				}
			}
			return a.print(map[string]any{"tables": sets}, strings.Join(texts, "\n\n"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&fineGrained, "fine-grained", "", "fine-grained data set, or folder of images, instead of the paper's "+
		"CAR (default: the preset's)")
	f.StringVar(&separated, "separated", "", "coarse-grained data set, or folder of images, instead of the paper's "+
		"In-shop (default: the preset's)")
	pf.add(f)
	f.IntVar(&o.Jobs, "jobs", 0, jobsUsage)
	f.BoolVar(&o.IgnoreBundled, "no-bundled", false, "train again the runs that are bundled with the program")
	f.BoolVar(&o.CachedOnly, "cached-only", false, "train nothing: show the runs that are cached or bundled")
	f.StringVar(&out, "out", "", "folder for the output: tables as Markdown, CSV, LaTeX and HTML, pictures as SVG, PDF "+
		"and PNG")
	f.BoolVar(&estimated, "estimate", false,
		"train nothing: measure a few training steps and estimate the hours that the missing runs take here")
	on.flags(f)
	addDevices(f, &o.Devices)
	f.StringVar(&bundled, "write-bundled", "", "file to write the results to, in the format of dmlx/runs/bundled/")
	return cmd
}

// everything is the name for all tables and figures.
const everything = "all"

// reproduced is the JSON of a table or figure.
type reproduced struct {
	Study      string     `json:"study"`
	Preset     string     `json:"preset"`
	Provenance string     `json:"provenance"`
	Runs       int        `json:"runs"`
	Ran        int        `json:"ran"`
	Cells      []cellJSON `json:"cells,omitempty"`
	Files      []string   `json:"files,omitempty"`
}

type cellJSON struct {
	Data     string   `json:"data"`
	Row      string   `json:"row"`
	Column   string   `json:"column"`
	Rule     string   `json:"rule"`
	LR       float64  `json:"lr"`
	Mean     *float64 `json:"recall_at_1"` // A fraction; null if no run is finite.
	Std      float64  `json:"std"`
	N        int      `json:"n"`
	Diverged int      `json:"diverged"`
	HeldOut  *float64 `json:"held_out_recall_at_1,omitempty"` // Of a table that selects by held-out classes.
	Runs     []string `json:"runs"`
}

// printEstimate measures the steps of the missing runs and prints the hours.
func (a *app) printEstimate(ctx context.Context, e *estimate.Estimate, open func() (*train.Trainer, error)) error {
	if len(e.Lines) == 0 {
		return a.print(map[string]any{"lines": []string{}, "hours": 0}, "no run is missing")
	}
	t, err := open()
	if err != nil {
		return err
	}
	err = e.Measure(ctx, t.Choice, func(text string) {
		a.line.End()
		a.line.Show("%s", text)
	})
	a.line.End()
	if err != nil {
		return err
	}
	return a.print(map[string]any{"lines": e.Lines, "hours": e.Hours, "backend": t.Name}, e.Text(t.Name))
}

// present returns a report as JSON and text. If out is not empty, it writes the parts there in all formats.
func present(r *paper.Report, out string) (reproduced, string, error) {
	set := reproduced{Study: r.Name, Preset: r.Preset, Provenance: r.Provenance, Runs: r.Runs, Ran: r.Ran}
	if r.Table != nil {
		for _, c := range r.Table.Cells {
			s, held := c.Recall(1), c.HeldOutRecall(1)
			j := cellJSON{Data: c.Data, Row: c.Row, Column: c.Column, Rule: c.Rule, LR: c.LR, Std: s.Std, N: s.N,
				Diverged: s.Diverged, Runs: []string{}} // An array in JSON, even if empty.
			if s.N > 0 {
				j.Mean = &s.Mean
			}
			if held.N > 0 {
				j.HeldOut = &held.Mean
			}
			for _, run := range c.Runs {
				j.Runs = append(j.Runs, run.Hash)
			}
			set.Cells = append(set.Cells, j)
		}
	}
	var texts []string
	for _, p := range r.Parts {
		text, err := describe(p)
		if err != nil {
			return set, "", err
		}
		if text != "" {
			texts = append(texts, text)
		}
		if out == "" {
			continue
		}
		name := r.Name + "-" + r.Preset
		if p.Name != "" {
			name += "-" + p.Name
		}
		saved, err := saveAll(p.Of, filepath.Join(out, name))
		if err != nil {
			return set, "", err
		}
		set.Files = append(set.Files, saved...)
	}
	if r.Runs > 0 {
		texts = append(texts, fmt.Sprintf("%d runs, %d of them trained now", r.Runs, r.Ran))
	}
	return set, strings.Join(texts, "\n"), nil
}

// describe returns a part of a report as text: a table, or the description of the main picture; "" for other pictures.
func describe(p paper.Part) (string, error) {
	if f, ok := p.Of.(*figures.Figure); ok {
		if p.Name != "" {
			return "", nil
		}
		return strings.TrimSpace(f.Alt + "\n" + f.Provenance), nil
	}
	text, err := figures.Bytes(p.Of, "txt")
	return strings.TrimRight(string(text), "\n"), err
}
