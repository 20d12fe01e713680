package training

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/paper/evidence"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

// NewLedger gives each number, figure and sentence of the paper a verdict by the available runs.
func NewLedger(a *app.App) *cobra.Command {
	var f evidence.Filter
	var out string
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Say of each number, figure and sentence of the paper whether the available runs reproduce it",
		Long: `Give each printed number, figure and measurable sentence of the paper one verdict, by the runs that are in the
store or bundled with the program. It trains none. With the preset quick, each table and sentence is judged by the
longest training of which all runs are there.

A verdict has a setting: drawn images and photographs say nothing about the paper's own, which the preset paper trains.
The verdicts are

` + strings.Join(slice.Map(evidence.Meanings, func(m evidence.Meaning) string {
			return "  " + string(m.Verdict) + ": " + m.Says
		}), "\n") + `

--table 3 begins with the paper's sentences about that table, and whether each holds.

--out writes all columns of the entries: the interval and the p-value that decided, the number of tests they are
corrected for, what could have been detected, the seeds and the IDs of the runs, and the command that trains them.`,
		Example: "  dmlx ledger\n  dmlx ledger --table 3 --verdict undecided\n  dmlx ledger --out results/",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for i, place := range f.Places {
				if place != "" && strings.Trim(place, "0123456789") == "" {
					f.Places[i] = "Table " + place
				}
			}
			return printLedger(cmd.Context(), a, f, out)
		},
	}
	cmd.Flags().StringArrayVar(&f.Places, "table", nil,
		`show these entries: "3", "Figures", "Claims" or "Claim, §6"; may be repeated`)
	cmd.Flags().StringArrayVar(&f.Verdicts, "verdict", nil, `show the entries with this verdict; may be repeated`)
	cmd.Flags().StringArrayVar(&f.Settings, "setting", nil,
		`show the entries of this setting: "drawn images" or "photographs"; may be repeated`)
	a.AddPreset(cmd.Flags())
	a.AddStore(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "folder for the tables, as Markdown, CSV, LaTeX and HTML")
	return cmd
}

func printLedger(ctx context.Context, a *app.App, f evidence.Filter, out string) error {
	if err := cli.CheckOutDir(out); err != nil {
		return err
	}
	preset, err := presets.Load(cmp.Or(a.Preset, "quick"))
	if err != nil {
		return cli.Usage(err)
	}
	store, err := a.ReadStore()
	if err != nil {
		return err
	}
	l, err := evidence.Of(ctx, report.Request{Open: a.Backend, Store: store, Preset: preset, Options: runs.Options{}})
	if err != nil {
		return err
	}
	entries, err := f.Select(l.Entries)
	if err != nil {
		return cli.Usage(err)
	}
	l.Parts = []report.Part{{Of: evidence.Table(entries, l.Provenance)},
		{Name: "summary", Of: evidence.Summary(entries, l.Provenance)},
		{Name: "power", Of: evidence.PowerTable(l.Powers, l.Provenance)}}
	words, files, err := a.Pictures(&l.Report, out, "ledger-"+preset.FileName())
	if err != nil {
		return err
	}
	text := words["summary"]
	if len(f.Places)+len(f.Verdicts)+len(f.Settings) > 0 {
		tables := []figures.Output{evidence.Brief(entries, l.Provenance)}
		for _, place := range f.Places {
			answers := evidence.Answers(l.Entries, "", place)
			if len(answers.Statements) > 0 && strings.HasPrefix(place, "Table") {
				tables = append([]figures.Output{answers}, tables...)
			}
		}
		var all bytes.Buffer
		for _, t := range tables {
			said, err := figures.Bytes(t, "txt")
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, "%s\n", said)
		}
		text = strings.TrimRight(all.String(), "\n")
	}
	return a.Print(map[string]any{"provenance": l.Provenance, "files": files,
		"entries": slice.Map(entries, jsonEntry)}, text)
}

// entry is the JSON of an entry of the ledger. What does not apply is left out.
type entry struct {
	Place      string           `json:"place"`
	What       string           `json:"what"`
	Verdict    evidence.Verdict `json:"verdict"`
	Setting    evidence.Setting `json:"setting,omitempty"`
	Why        string           `json:"why,omitempty"`
	Paper      string           `json:"paper,omitempty"`
	Ours       string           `json:"ours,omitempty"`
	Cell       string           `json:"cell,omitempty"` // That decided.
	Difference []float64        `json:"difference,omitempty"`
	P          *float64         `json:"p,omitempty"`
	Tests      int              `json:"tests,omitempty"`
	Detectable *float64         `json:"detectable,omitempty"`
	Data       string           `json:"data,omitempty"`
	Preset     string           `json:"preset,omitempty"`
	Steps      int              `json:"steps,omitempty"`
	Seeds      int              `json:"seeds,omitempty"`
	Command    string           `json:"command,omitempty"`
	Runs       []string         `json:"runs,omitempty"`
}

func jsonEntry(e evidence.Entry) entry {
	known := func(v float64) *float64 {
		if math.IsNaN(v) || e.Decided.Tests == 0 {
			return nil
		}
		return &v
	}
	out := entry{Place: e.Place, What: e.What, Verdict: e.Verdict, Setting: e.Setting, Why: e.Why, Paper: e.Paper,
		Ours: e.Ours, Cell: e.Decided.Cell, P: known(e.Decided.P), Tests: e.Decided.Tests,
		Detectable: known(e.Decided.Detectable), Data: e.Data, Preset: e.Preset, Steps: e.Steps, Seeds: e.Seeds,
		Command: e.Command, Runs: e.Runs}
	if d := e.Decided.Difference; known(d.Low) != nil {
		out.Difference = []float64{d.Value, d.Low, d.High}
	}
	return out
}
