package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

func newReproduce(a *app) *cobra.Command {
	var (
		o        runs.Options
		out      string
		ship     string
		estimate bool

		pf presetFlags
		// Data sets in the place of the preset's.
		fineGrained, separated string

		on cluster
	)
	cmd := &cobra.Command{
		Use:   "reproduce NAME…",
		Short: "Run what a table or figure of the paper needs and show it beside the paper's",
		Long: "Run what a table or figure of the paper needs and show it beside the paper's:\n" +
			strings.Join(paper.Names(), ", ") + ",\nor all of them: " + everything + `.

Runs that are in the store, or bundled with the program, are read. The others are trained; each is stored as soon as it
is done. If the command is stopped, the same command goes on. Tables share runs.

With --on slurm a cluster's queue trains the missing runs, as a job array that goes on if this command is stopped
(Ctrl-C). The same command comes back to it; see also dmlx runs queue and dmlx runs cancel. The run store must lie where
the cluster's nodes see it.`,
		Example: "  dmlx reproduce table2 --preset quick\n" +
			"  dmlx reproduce table2 table3 table4 --fresh --jobs 2 --out results/\n" +
			"  dmlx reproduce all --have\n" +
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
			if estimate && (out != "" || ship != "") {
				return usagef("--estimate makes no runs and writes nothing: leave out --out and --ship")
			}
			if err := checkOutDir(out); err != nil {
				return err
			}
			if err := checkOut(nil, ship); err != nil {
				return err
			}
			store, err := a.store()
			if err != nil {
				return err
			}
			if err := a.apart(&o, store); err != nil {
				return err
			}
			choose := sync.OnceValues(a.backend)
			if estimate {
				if o.CachedOnly || on.on != "" {
					return usagef("--estimate makes no runs: leave out --have and --on")
				}
				var e estimation
				for _, name := range names {
					jobs, err := paper.Missing(cmd.Context(), name,
						paper.Request{Open: choose, Store: store, Preset: preset, Options: o})
					if err != nil {
						return err
					}
					e.add(name, jobs)
				}
				return e.print(cmd.Context(), a, choose)
			}
			sent := make(map[string]bool) // Runs that are made elsewhere, in front of the reports.
			if on.on != "" {
				if o.CachedOnly {
					return usagef("--have makes no runs: leave out --on")
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
				if err := o.Submit(cmd.Context(), missing); err != nil { // All of them at once, as far as they are known.
					return err
				}
			}
			line := a.line
			var results []*runs.Result
			var portraits []*runs.Histograms
			var texts []string
			sets := []reproduced{} // An array in JSON, even if there is nothing.
			for _, name := range names {
				o.Progress = paper.Overall(func(done float64, text string) { line.show("%s %3.0f %%  %s", name, 100*done, text) })
				r, err := paper.Make(cmd.Context(), name, paper.Request{Open: choose, Store: store, Preset: preset, Options: o})
				line.end()
				if err != nil {
					return err
				}
				for _, run := range r.Results {
					if sent[run.Hash] {
						r.Ran++
						delete(sent, run.Hash)
					}
				}
				results, portraits = append(results, r.Results...), append(portraits, r.Histograms...)
				set, text, err := present(r, out)
				if err != nil {
					return err
				}
				sets, texts = append(sets, set), append(texts, text)
			}
			if ship != "" {
				n, err := runs.WriteBundled(ship, results)
				if err != nil {
					return err
				}
				a.logf("wrote %d results to %s", n, ship)
				if portraits != nil {
					path := filepath.Join(filepath.Dir(ship), "portraits", filepath.Base(ship))
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						return err
					}
					if err := runs.WriteBundledHistograms(path, portraits); err != nil {
						return err
					}
					a.logf("wrote the portraits of Figures 4 and 5 to %s", path)
				}
			}
			return a.print(map[string]any{"tables": sets}, strings.Join(texts, "\n\n"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&fineGrained, "fine-grained", "", "data set, or folder of images, in the place of the paper's CAR, "+
		"whose classes look alike (default: the preset's)")
	f.StringVar(&separated, "separated", "", "data set, or folder of images, in the place of the paper's In-shop, "+
		"whose classes are well apart (default: the preset's)")
	pf.add(f)
	f.IntVar(&o.Jobs, "jobs", 0, jobsUsage)
	f.BoolVar(&o.IgnoreBundled, "fresh", false, "ignore the results that are bundled with the program")
	f.BoolVar(&o.CachedOnly, "have", false, "train nothing: show what the store has")
	f.StringVar(&out, "out", "", "folder to write to: tables as Markdown, CSV, LaTeX and HTML, pictures as SVG, PDF "+
		"and PNG")
	f.BoolVar(&estimate, "estimate", false,
		"train nothing: measure some steps of the missing runs, and estimate the hours that they take here")
	on.flags(f)
	f.StringVar(&ship, "ship", "", "file to write the results to, as the program carries them (dmlx/runs/bundled/)")
	return cmd
}

// everything stands for all tables and figures.
const everything = "all"

// reproduced is a table or figure as reproduce prints it with --json.
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
	HeldOut  *float64 `json:"held_out_recall_at_1,omitempty"` // Of a sweep.
	Runs     []string `json:"runs"`
}

// present turns a report into JSON and text and, if out is not empty, writes its parts there in all formats.
func present(r *paper.Report, out string) (reproduced, string, error) {
	set := reproduced{Study: r.Name, Preset: r.Preset, Provenance: r.Provenance, Runs: r.Runs, Ran: r.Ran}
	if r.Table != nil {
		for _, c := range r.Table.Cells {
			s, held := c.Recall(1), c.HeldOutRecall(1)
			j := cellJSON{Data: c.Data, Row: c.Row, Column: c.Column, Rule: c.Rule, LR: c.LR, Std: s.Std, N: s.N,
				Diverged: s.Diverged,
				Runs:     []string{}} // An array in JSON, even if there is nothing.
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
		texts = append(texts, fmt.Sprintf("%d runs, %d of them made now", r.Runs, r.Ran))
	}
	return set, strings.Join(texts, "\n"), nil
}

// describe is the part of a report as a terminal shows it: the main part, and every table; a picture in words.
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
