package training

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/inspect"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/search"
)

// NewSearch searches rules and training settings.
func NewSearch(a *cli.App) *cobra.Command {
	x := execution{App: a}
	var q inspect.SearchRequest
	var sampler string
	var pf settingFlags
	names, about := search.Names()
	var list strings.Builder
	for i, name := range names {
		fmt.Fprintf(&list, "  %-10s %s\n", name, about[i])
	}
	cmd := &cobra.Command{
		Use:   "search",
		Short: "Search rules and training settings for the best Recall@1 on held-out training classes",
		Long: `Search rules, their parameters, learning rates, schedules and batches for the best Recall@1 on held-out
training classes.

Trials are grouped into brackets. All trials of a bracket are trained for a quarter of the epochs, the better half for
half of the epochs, and the better half of those for all epochs. The best trials are trained again with new seeds, and
the best of them is chosen. It is trained on all training classes and measured on the test classes, which the search
never uses. The paper's best rule is measured too; its rate, schedule and batch are searched with the same budget. If
the command is stopped or killed, the same command continues the search.

Parameters are given as NAME for the usual range, NAME=LOW..HIGH, or NAME=A,B,…:
` + list.String(),
		Example: "  dmlx search --data minicar --trials 40\n" +
			"  dmlx search --data minishop --param direction --param pair --param lr=0.2..8 --hours 1\n" +
			"  dmlx search show quick-minicar --out results/",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if q.Preset, _, err = pf.preset(a); err != nil {
				return err
			}
			if q.Budget.Trials < 1 && cmd.Flags().Changed("trials") || q.Budget.Hours <= 0 && cmd.Flags().Changed("hours") {
				return cli.Usagef("a search needs a budget: --trials or --hours above 0")
			}
			if q.Bracket < 1 || q.HeldOut < 1 {
				return cli.Usagef("--bracket %d, --held-out %d: want at least 1", q.Bracket, q.HeldOut)
			}
			if q.Budget.Hours == 0 && q.Budget.Trials == 0 {
				q.Budget.Trials = 40
			}
			if err := x.check(); err != nil {
				return err
			}
			if err := x.begin(q.Preset, false); err != nil { // Many trials share a compiled step.
				return err
			}
			q.Sampler = search.Sampler(sampler)
			q.Store, q.Open, q.Options = x.store, x.open, x.Options
			q.Show = func(_ float64, stage string) { a.Line.Show("%s", stage) }
			r, err := inspect.Search(cmd.Context(), q)
			a.Line.End()
			if err != nil {
				return err
			}
			return printSearch(a, r, x.out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Name, "name", "", "name of the search in the run store (default PRESET-DATA)")
	f.StringVar(&q.Data, "data", "minicar", "data set, or a folder of images")
	f.StringVar(&q.Rule, "rule", "cos/con/con", "rule that gives the parts that are not searched")
	f.StringVar(&q.Reference, "reference", "ours", "rule to compare with, searched with the same budget, or none")
	f.StringArrayVar(&q.Parameters, "param", nil, "parameter to search; may be repeated (default all)")
	f.IntVar(&q.Budget.Trials, "trials", 0, "number of trials, rounded up to whole brackets (default 40)")
	f.Float64Var(&q.Budget.Hours, "hours", 0, "hours of training after which no new bracket starts")
	f.StringVar(&sampler, "sampler", string(search.TPE),
		"method that proposes trials: "+strings.Join(search.Samplers(), ", "))
	f.Uint64Var(&q.Seed, "seed", 1, "seed of the proposals and of the trials' runs")
	f.IntVar(&q.Bracket, "bracket", 8, "trials in a bracket")
	f.IntVar(&q.HeldOut, "held-out", 4, "hold out every n-th training class")
	pf.add(a, f)
	x.add(f)
	cmd.AddCommand(newSearchShow(a), newSearchRates(a))
	return cmd
}

func newSearchShow(a *cli.App) *cobra.Command {
	var showOut, bundled string
	show := &cobra.Command{
		Use:     "show [NAME]",
		Short:   "Show the state of a search, or list the searches of the store",
		Example: "  dmlx search show\n  dmlx search show quick-minicar --out results/",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.WithStore(func(ctx context.Context, store *runs.Store, args []string) error {
			if len(args) == 0 {
				return listSearches(a, store)
			}
			if err := errors.Join(cli.CheckOut(nil, bundled), a.CheckStyle(showOut)); err != nil {
				return err
			}
			r, err := inspect.Search(ctx, inspect.SearchRequest{Name: args[0],
				Request: report.Request{Store: store, Options: runs.Options{CachedOnly: true}}})
			if err != nil {
				return err
			}
			if bundled != "" {
				n, err := runs.WriteBundled(bundled, r.Results)
				if err != nil {
					return err
				}
				a.Logf("wrote %d results to %s", n, bundled)
			}
			return printSearch(a, r, showOut)
		}),
	}
	show.Flags().StringVar(&showOut, "out", "", "folder for tables and pictures")
	a.AddStyle(show.Flags())
	show.Flags().StringVar(&bundled, "write-bundled", "",
		"file to write the results of the finalists and of the test to, in the format of dmlx/runs/bundled/")
	return show
}

// printSearch prints the parts of a search, and writes them to out unless it is empty.
func printSearch(a *cli.App, r *report.Report, out string) error {
	words, files, err := a.Pictures(r, out, "search")
	if err != nil {
		return err
	}
	var texts []string
	for _, p := range r.Parts {
		if words[p.Name] != "" && !slices.Contains(texts, words[p.Name]) {
			texts = append(texts, words[p.Name])
		}
	}
	return a.Print(map[string]any{"provenance": r.Provenance, "parts": words, "runs": r.Results, "files": files},
		strings.Join(texts, "\n\n")+cli.FilesText(files))
}

// listSearches prints the searches of the store.
func listSearches(a *cli.App, store *runs.Store) error {
	names, err := search.List(store)
	if err != nil {
		return err
	}
	type listed struct {
		Name   string  `json:"name"`
		Data   string  `json:"data"`
		Trials int     `json:"trials"`
		Runs   int     `json:"runs"`
		Hours  float64 `json:"hours"`
	}
	out := []listed{}
	rows := []string{"search\tdata\ttrials\truns\thours"}
	for _, name := range names {
		s, err := search.Open(store, name)
		if err != nil {
			return err
		}
		l := listed{name, s.Base.Data, s.Trials(), len(s.Records), s.Seconds() / 3600}
		out = append(out, l)
		rows = append(rows, fmt.Sprintf("%s\t%s\t%d\t%d\t%.2f", l.Name, l.Data, l.Trials, l.Runs, l.Hours))
	}
	body := text.Table(rows...)
	if len(out) == 0 {
		body = "no searches in " + store.Dir
	}
	return a.Print(map[string]any{"store": store.Dir, "searches": out}, body)
}
