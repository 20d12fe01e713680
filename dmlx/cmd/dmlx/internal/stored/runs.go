// Package stored has the commands of dmlx runs, about the runs of the store.
package stored

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// NewRuns lists, shows, compares, verifies and removes the runs of the store.
func NewRuns(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show, compare, verify and remove the runs of the store",
		Long: `List, show, compare, verify and remove the runs of the store. Without a command, list the runs. RUN is the name
of a run or its first digits.`,
		Example: "  dmlx runs list\n  dmlx runs show 077c9a",
		Args:    cobra.NoArgs,
		RunE: app.WithStore(a.ReadStore, func(_ context.Context, store *runs.Store, _ []string) error {
			return listRuns(a, store, false)
		}),
	}
	var out string
	var alsoBundled, asCSV bool
	list := &cobra.Command{
		Use:     "list",
		Short:   "List all runs of the store",
		Example: "  dmlx runs list --json\n  dmlx runs list --bundled --csv",
		Long: `List all runs of the store.

--csv prints the measures of the finished runs as one table for a spreadsheet, pandas or R: a row for each run and
measure, in percent, with the data set, the rule and its parts, the preset, the learning rate, the seed and the
setting.`,
		Args: cobra.NoArgs,
		RunE: app.WithStore(a.ReadStore, func(_ context.Context, store *runs.Store, _ []string) error {
			if !asCSV {
				return listRuns(a, store, alsoBundled)
			}
			if a.JSON {
				return cli.Usagef("--json and --csv: want one of them")
			}
			all, err := report.Stored(store, alsoBundled)
			if err != nil {
				return err
			}
			return all.Write(a.Stdout)
		}),
	}
	list.Flags().BoolVar(&alsoBundled, "bundled", false, "list the runs that are bundled with the program, too")
	list.Flags().BoolVar(&asCSV, "csv", false, "print the measures of finished runs as CSV")
	compare := &cobra.Command{
		Use:     "compare RUN RUN…",
		Short:   "Compare runs: their specs, results and, over seeds, the significance of differences",
		Example: "  dmlx runs compare 077c9a 1f3b20 --out compared/",
		Long: `Show the measures of runs, under names that say what differs. Runs that differ only in their seed form a group.
The difference of two groups is tested over seeds, paired if both have the same seeds. --out writes the measures, tests
and curves.

RUN is the name of a run, or its first digits. To compare rules and losses, give them to dmlx train, with --cached-only
if no run shall be trained.`,
		Args: cobra.MinimumNArgs(2),
		RunE: app.WithStore(a.ReadStore, func(ctx context.Context, store *runs.Store, args []string) error {
			if err := cli.CheckOutDir(out); err != nil {
				return err
			}
			hashes, err := findAll(store, args)
			if err != nil {
				return fmt.Errorf("%w; dmlx train --rule … --loss … --cached-only compares rules and losses", err)
			}
			var results []*runs.Result
			for _, hash := range hashes {
				r, err := store.Get(hash)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			return PrintComparison(ctx, a, store, results, out, nil, nil)
		}),
	}
	compare.Flags().StringVar(&out, "out", "",
		"folder for tables, as Markdown, CSV, LaTeX and HTML, and pictures, as SVG, PDF and PNG")
	cmd.AddCommand(
		compare,
		newVerify(a),
		newMake(a),
		list,
		&cobra.Command{
			Use:     "show RUN",
			Short:   "Show a run: spec, result and epochs",
			Example: "  dmlx runs show 077c9a",
			Args:    cobra.ExactArgs(1),
			RunE:    func(_ *cobra.Command, args []string) error { return showRun(a, args[0]) },
		},
		&cobra.Command{
			Use:     "remove RUN…",
			Short:   "Delete runs",
			Example: "  dmlx runs remove 077c9a",
			Args:    cobra.MinimumNArgs(1),
			RunE: app.WithStore(a.ReadStore, func(_ context.Context, store *runs.Store, args []string) error {
				return removeRuns(a, store, args)
			}),
		},
	)
	return cmd
}

// listed is the JSON of a run in list.
type listed struct {
	Run    string       `json:"run"`
	Dir    string       `json:"dir"`
	State  string       `json:"state"` // finished, diverged, unfinished, unusable, or bundled.
	Why    string       `json:"why,omitempty"`
	Epoch  int          `json:"epoch"`  // Number of finished epochs.
	Preset string       `json:"preset"` // "" without a spec.
	Spec   *runs.Spec   `json:"spec"`   // nil if an unusable run has none that can be read.
	Result *runs.Result `json:"result,omitempty"`
}

func listRuns(a *app.App, store *runs.Store, alsoBundled bool) error {
	entries, err := store.List()
	if err != nil {
		return err
	}
	if alsoBundled {
		all, err := runs.Bundled()
		if err != nil {
			return err
		}
		for _, hash := range slices.Sorted(maps.Keys(all)) {
			if !slices.ContainsFunc(entries, func(e runs.Entry) bool { return e.Hash == hash }) {
				entries = append(entries, runs.Entry{Hash: hash, Spec: all[hash].Spec, Result: all[hash]})
			}
		}
	}
	out := make([]listed, len(entries))
	bad := ""
	rows := []string{"run\tdata\trule or loss\tseed\tlr\tpreset\tR@1\tstate\tbackend\tdate"}
	for i, e := range entries {
		l := listed{Run: e.Hash, Dir: store.Path(e.Hash), State: "unfinished", Epoch: e.Epoch, Result: e.Result}
		recall, backend, date := "–", "", ""
		switch {
		case e.Bad != "":
			l.State, l.Why = "unusable", e.Bad
			bad += fmt.Sprintf("\nrun %s cannot be used: %s", e.Hash, e.Bad)
		case e.Result != nil:
			l.State, l.Epoch = "finished", e.Spec.Epochs
			if e.Result.Diverged != "" {
				l.State, l.Why = "diverged", e.Result.Diverged
			}
			if v, ok := e.Result.Recall[1]; ok {
				recall = fmt.Sprintf("%.1f", 100*v)
			}
			backend, date = e.Result.Backend, e.Result.Date.Format("2006-01-02 15:04")
			if e.Result.Bundled {
				l.Dir, l.State = "", "bundled"
			}
		}
		about := "?\t?\t?\t?\t?"
		if s := e.Spec; s.Data != "" {
			l.Preset, l.Spec = presets.Of(s), &s
			about = fmt.Sprintf("%s\t%s\t%d\t%g\t%s", s.DataName(), s.Objective.String(), s.Seed, s.LR, l.Preset)
		}
		state := l.State
		if state == "unfinished" {
			state = stage(store, e)
		}
		out[i] = l
		rows = append(rows, strings.Join([]string{e.Hash, about, recall, state, backend, date}, "\t"))
	}
	body := strings.TrimSuffix(text.Table(rows...)+"\n"+bad, "\n")
	if len(entries) == 0 {
		body = "no runs in " + store.Dir
	}
	return a.Print(map[string]any{"store": store.Dir, "runs": out}, body)
}

// stage says how far an unfinished run is, and whether it was stopped or killed there.
func stage(store *runs.Store, e runs.Entry) string {
	text := fmt.Sprintf("epoch %d/%d", e.Epoch, e.Spec.Epochs)
	if working, err := store.Locked(e.Hash); err == nil && !working {
		text = "stopped at " + text
	}
	return text
}

// bundled tells whether a run that [runs.Store.Find] found is bundled with the program and not in the store.
func bundled(store *runs.Store, hash string) bool {
	_, err := os.Lstat(store.Path(hash)) // A link that leads nowhere is there.
	return errors.Is(err, fs.ErrNotExist)
}

func removeRuns(a *app.App, store *runs.Store, prefixes []string) error {
	hashes, err := findAll(store, prefixes) // Before removing any.
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(hashes, func(h string) bool { return bundled(store, h) }); i >= 0 {
		return fmt.Errorf("run %s is bundled with the program and cannot be removed", hashes[i])
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	for _, h := range hashes {
		if err := store.Remove(h); err != nil {
			return err
		}
	}
	return a.Print(map[string]any{"removed": hashes}, "removed "+strings.Join(hashes, ", "))
}
