package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/experiment"
	results "github.com/gradient-surgery/dml/dmlx/experiment/report" // doctor has a type report.
	"github.com/gradient-surgery/dml/figures"
)

func newReproduce(a *app) *cobra.Command {
	var (
		o    experiment.Options
		out  string
		ship string
	)
	cmd := &cobra.Command{
		Use:   "reproduce NAME…",
		Short: "Run what a table of the paper needs and print it beside the paper's",
		Long: "Run what a table of the paper needs and print it beside the paper's: " + strings.Join(experiment.Studies(), ", ") + ".\n\n" +
			"Runs that the store has, or that came with the program, are read; the others are made, each kept as soon as it is\n" +
			"done. Stopped and called again, it goes on.",
		Example: "  dmlx reproduce table2 --preset quick\n  dmlx reproduce table2 table3 table4 --fresh --jobs 2 --out results/",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			preset, err := experiment.ParsePreset(a.presetOr("quick"))
			if err != nil {
				return err
			}
			studies := make([]experiment.Study, len(names))
			for i, name := range names {
				if studies[i], err = experiment.ParseStudy(name); err != nil {
					return err
				}
			}
			store, err := a.store()
			if err != nil {
				return err
			}
			line := newLiveLine(a.stderr)
			choose := sync.OnceValues(a.backend)
			tables := make([]*experiment.Table, len(studies))
			var runs []*experiment.Result
			for i, study := range studies {
				o.Progress = results.Overall(func(done float64, text string) { line.show("%3.0f %%  %s", 100*done, text) })
				tables[i], err = experiment.Reproduce(cmd.Context(), choose, store, study, preset, o)
				line.end()
				if err != nil {
					return err
				}
				for _, c := range tables[i].Cells {
					runs = append(runs, c.Runs...)
				}
			}
			if ship != "" {
				if err := experiment.Ship(ship, runs); err != nil {
					return err
				}
				a.logf("wrote %d results to %s", len(runs), ship)
			}
			var texts []string
			var reports []reproduced
			for _, table := range tables {
				set, text, err := present(table, out)
				if err != nil {
					return err
				}
				reports, texts = append(reports, set), append(texts, text)
			}
			return a.print(map[string]any{"tables": reports}, strings.Join(texts, "\n\n"))
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Jobs, "jobs", 1, "runs at a time; they share the cores")
	f.BoolVar(&o.Fresh, "fresh", false, "do without the results that came with the program")
	f.StringVar(&out, "out", "", "folder to write the tables and pictures to: Markdown, CSV, LaTeX, HTML, SVG, PDF, PNG")
	f.StringVar(&ship, "ship", "", "file to write the results to, as the program carries them (dmlx/experiment/shipped/)")
	return cmd
}

// reproduced is a table as reproduce prints it with --json.
type reproduced struct {
	Study      string     `json:"study"`
	Preset     string     `json:"preset"`
	Provenance string     `json:"provenance"`
	Runs       int        `json:"runs"`
	Ran        int        `json:"ran"`
	Cells      []cellJSON `json:"cells"`
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
	Runs     []string `json:"runs"`
}

// present sets a table beside the paper's and, if out is not empty, writes it there in all formats.
func present(t *experiment.Table, out string) (reproduced, string, error) {
	set := reproduced{Study: t.Study, Preset: t.Preset, Provenance: t.Provenance(), Runs: t.Runs, Ran: t.Ran}
	for _, c := range t.Cells {
		s := c.Recall(1)
		j := cellJSON{Data: c.Data, Row: c.Row, Column: c.Column, Rule: c.Rule, LR: c.LR, Std: s.Std, N: s.N, Diverged: s.Diverged}
		if !math.IsNaN(s.Mean) {
			j.Mean = &s.Mean
		}
		for _, r := range c.Runs {
			j.Runs = append(j.Runs, r.Hash)
		}
		set.Cells = append(set.Cells, j)
	}
	comparison, err := results.Compare(t)
	if err != nil {
		return set, "", err
	}
	table := comparison.Table()
	text, err := figures.Bytes(table, "txt")
	if err != nil {
		return set, "", err
	}
	if out != "" {
		if err := os.MkdirAll(out, 0o755); err != nil {
			return set, "", err
		}
		for _, f := range []struct {
			suffix  string
			of      figures.Output
			formats string
		}{{"", table, "md csv tex html"}, {"-gains", comparison.Gains(), "md csv tex html"}, {"", comparison.Plot(), "svg pdf png"}} {
			for format := range strings.FieldsSeq(f.formats) {
				path := filepath.Join(out, t.Study+"-"+t.Preset+f.suffix+"."+format)
				if err := figures.Save(f.of, path); err != nil {
					return set, "", err
				}
				set.Files = append(set.Files, path)
			}
		}
	}
	return set, strings.TrimRight(string(text), "\n") + fmt.Sprintf("\n%d runs, %d of them made now", t.Runs, t.Ran), nil
}
