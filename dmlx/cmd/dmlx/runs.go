package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/inspect"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func newRuns(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show, compare, export and remove the runs of the store",
		Long: `List, show, compare and remove the runs of the store, exchange them with other stores, and follow those that a
cluster trains. Without a command, list the runs. RUN is the name of a run or its first digits.`,
		Example: "  dmlx runs list\n  dmlx runs show 077c9a",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.listRuns(false) },
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
		RunE: func(*cobra.Command, []string) error {
			if !asCSV {
				return a.listRuns(alsoBundled)
			}
			if a.json {
				return usagef("--json and --csv: want one of them")
			}
			return a.writeScores(alsoBundled)
		},
	}
	list.Flags().BoolVar(&alsoBundled, "bundled", false, "list the runs that are bundled with the program, too")
	list.Flags().BoolVar(&asCSV, "csv", false, "print the measures of finished runs as CSV")
	compare := &cobra.Command{
		Use:   "compare RUN|RULE|LOSS|DATA|PRESET…",
		Short: "Compare runs: their specs, results and, over seeds, the significance of differences",
		Example: "  dmlx runs compare 077c9a 1f3b20 --out compared/\n" +
			"  dmlx runs compare cos/con/con cos/lin/cir \"loss ms\"\n" +
			"  dmlx runs compare cos/con/con minicar minishop --preset quick",
		Long: `Show runs side by side, with the parts of their specs that differ. Runs that differ only in their seed form a
group. The difference of two groups is tested over seeds, paired if both have the same seeds. --out writes the measures,
tests and curves, and the difference of the triplet densities on the triplet diagram.

Name a run by its name or first digits, or select runs by rules, losses (as dmlx runs list prints them), data sets and
presets: the finished runs, also of those bundled with the program, that match one of each kind given. Without a data
set it is the preset's fine-grained one, and without a preset that of --preset. Runs of a sweep or a search, which hold
out classes, are found by their names alone.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkStyle(out); err != nil {
				return err
			}
			return a.compareRuns(cmd.Context(), args, out)
		},
	}
	compare.Flags().StringVar(&out, "out", "",
		"folder for tables, as Markdown, CSV, LaTeX and HTML, and pictures, as SVG, PDF and PNG")
	a.addStyle(compare.Flags())
	cmd.AddCommand(
		compare,
		newLook(a),
		newExport(a),
		newImport(a),
		newMerge(a),
		newQueue(a),
		newCancel(a),
		newMake(a),
		newProbe(a),
		list,
		&cobra.Command{
			Use:     "show RUN",
			Short:   "Show a run: spec, result and epochs",
			Example: "  dmlx runs show 077c9a",
			Args:    cobra.ExactArgs(1),
			RunE:    func(_ *cobra.Command, args []string) error { return a.showRun(args[0]) },
		},
		&cobra.Command{
			Use:     "remove RUN…",
			Short:   "Delete runs",
			Example: "  dmlx runs remove 077c9a",
			Args:    cobra.MinimumNArgs(1),
			RunE:    func(_ *cobra.Command, args []string) error { return a.removeRuns(args) },
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
	Epoch  int          `json:"epoch"` // Number of finished epochs.
	Preset string       `json:"preset"`
	Spec   runs.Spec    `json:"spec"`
	Result *runs.Result `json:"result,omitempty"`
}

// writeScores prints the measures of finished runs as CSV.
func (a *app) writeScores(alsoBundled bool) error {
	store, err := a.store()
	if err != nil {
		return err
	}
	all, err := report.Stored(store, alsoBundled)
	if err != nil {
		return err
	}
	return all.Write(a.stdout)
}

func (a *app) listRuns(alsoBundled bool) error {
	store, err := a.store()
	if err != nil {
		return err
	}
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
	rows := []string{"run\tdata\trule or loss\tseed\tlr\tpreset\tR@1\tstate\tbackend\tdate"}
	for i, e := range entries {
		l := listed{Run: e.Hash, Dir: store.Path(e.Hash), State: "unfinished", Epoch: e.Epoch, Spec: e.Spec, Result: e.Result}
		recall, backend, date := "–", "", ""
		switch {
		case e.Bad != "":
			l.State, l.Why = "unusable", e.Bad
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
		l.Preset = presets.Of(e.Spec)
		state := l.State
		if state == "unfinished" {
			state = fmt.Sprintf("epoch %d/%d", e.Epoch, e.Spec.Epochs)
		}
		out[i] = l
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d\t%g\t%s\t%s\t%s\t%s\t%s",
			e.Hash, e.Spec.DataName(), e.Spec.Objective.String(), e.Spec.Seed, e.Spec.LR, l.Preset, recall, state, backend,
			date))
	}
	body := text.Table(rows...)
	if len(entries) == 0 {
		body = "no runs in " + store.Dir
	}
	return a.print(map[string]any{"store": store.Dir, "runs": out}, body)
}

func (a *app) showRun(prefix string) error {
	store, hash, err := a.find(prefix)
	if err != nil {
		return err
	}
	epochs, err := store.Metrics(hash)
	if err != nil {
		return err
	}
	var body strings.Builder
	var shown any
	if e := store.Entry(hash); e.Bad != "" && !bundled(store, hash) {
		return fmt.Errorf("run %s cannot be used: %s (%s)", hash, e.Bad, store.Path(hash))
	} else if e.Result == nil && e.Bad == "" {
		fmt.Fprintf(&body, "%s\n\nrun %s is not finished: epoch %d of %d, in %s\n\n", e.Spec.Canonical(), hash, e.Epoch,
			e.Spec.Epochs, store.Path(hash))
		shown = struct {
			Run    string        `json:"run"`
			Dir    string        `json:"dir"`
			State  string        `json:"state"`
			Spec   runs.Spec     `json:"spec"`
			Epochs []train.Epoch `json:"epochs"`
		}{hash, store.Path(hash), "unfinished", e.Spec, epochs}
	} else {
		r, err := store.Get(hash)
		if err != nil {
			return err
		}
		dir, where := store.Path(hash), store.Path(hash)
		if r.Bundled {
			dir, where = "", "bundled with the program"
		}
		fmt.Fprintf(&body, "%s\n%s\n\n", r.Spec.Canonical(), resultText(r, where))
		if r.Recall != nil {
			fmt.Fprintf(&body, "overlap of nearest-positive and nearest-negative similarities %.2f, compact anchors %.2f\n",
				r.Overlap, r.Compact)
		}
		fmt.Fprintf(&body, "%s, version %s, %s\n\n", r.Machine, r.Version, r.Date.Format("2006-01-02 15:04 MST"))
		shown = struct {
			trained
			Epochs []train.Epoch `json:"epochs"`
		}{trained{Result: r, Dir: dir}, epochs}
	}
	if len(epochs) > 0 {
		rows := []string{"epoch\tlr\tviolations %\tS_ap\tS_an\t|gradient|\tempty batches\t"}
		for _, e := range epochs {
			rows = append(rows, fmt.Sprintf("%d\t%g\t%.1f\t%.3f\t%.3f\t%.4f\t%d\t", e.Epoch, e.LR, 100*e.ViolationRate,
				e.Sap, e.San, e.GradientNorm, e.EmptyBatches))
		}
		body.WriteString(text.Right(rows...))
	}
	return a.print(shown, strings.TrimRight(body.String(), "\n"))
}

// compareRuns prints runs side by side, by their names or by what they are.
func (a *app) compareRuns(ctx context.Context, args []string, out string) error {
	store, err := a.store()
	if err != nil {
		return err
	}
	hashes, err := a.selectRuns(store, args)
	if err != nil {
		return err
	}
	if len(hashes) < 2 {
		return fmt.Errorf("there is one such run, %s: want at least two to compare", hashes[0])
	}
	return a.printComparison(ctx, store, hashes, out, nil)
}

// selectRuns returns the runs that arguments name: names of runs, and rules, losses, data sets and presets that the
// others have.
func (a *app) selectRuns(store *runs.Store, args []string) (hashes []string, err error) {
	var s inspect.Selection
	entries, err := store.List()
	if err != nil {
		return nil, err
	}
	isData := func(name string) bool {
		_, published := datasets.PublishedName(name)
		return published || slices.Contains(datasets.Names(), name) ||
			slices.ContainsFunc(entries, func(e runs.Entry) bool { return inspect.IsData(e.Spec, name) })
	}
	for _, arg := range args {
		objective, known := objectiveName(arg, entries)
		switch {
		case slices.Contains(presets.Names(), arg) || strings.HasSuffix(arg, ".toml"):
			p, err := presets.Load(arg)
			if err != nil {
				return nil, err
			}
			s.Presets = append(s.Presets, p)
		case isData(arg):
			s.Data = append(s.Data, arg)
		case known:
			s.Objectives = append(s.Objectives, objective)
		default:
			hash, err := store.Find(arg)
			if err != nil {
				if strings.ContainsAny(arg, "/ ") { // No name of a run.
					if _, err := train.ParseObjective(arg); err != nil {
						return nil, usage(err)
					}
				}
				return nil, fmt.Errorf("%w, nor is it a rule, a loss, a data set or a preset", err)
			}
			hashes = append(hashes, hash)
		}
	}
	if s.Presets == nil && s.Data == nil && s.Objectives == nil {
		return hashes, nil
	}
	if s.Presets == nil {
		p, err := presets.Load(cmp.Or(a.preset, "quick"))
		if err != nil {
			return nil, usage(err)
		}
		s.Presets = []presets.Preset{p}
	}
	if s.Data == nil {
		s.Data = []string{s.Presets[0].FineGrained}
	}
	selected, err := s.Runs(store)
	if err != nil {
		return nil, err
	}
	for _, r := range selected {
		if !slices.Contains(hashes, r.Hash) {
			hashes = append(hashes, r.Hash)
		}
	}
	return hashes, nil
}

// objectiveName returns a rule or loss as runs name it. The name of a loss without "loss" before it is one unless it is
// that of a rule.
func objectiveName(text string, entries []runs.Entry) (name string, known bool) {
	for _, e := range entries { // A rule of the user's own cannot be parsed.
		if o := e.Spec.Objective.String(); o == text || strings.HasPrefix(o, text+"#") {
			return text, true
		}
	}
	o, err := train.ParseObjective(text)
	if err != nil {
		o, err = train.ParseLoss(text)
	}
	return o.String(), err == nil
}

// printComparison prints runs side by side, and the report on them if out names a folder or if groups can be tested
// over seeds. head, if not nil, adds to the JSON and returns a line that comes before the text.
func (a *app) printComparison(ctx context.Context, store *runs.Store, hashes []string, out string,
	head func(v map[string]any) string) error {
	var results []*runs.Result
	for _, hash := range hashes {
		r, err := store.Get(hash)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	groups := runs.SameButSeed(results)
	v, body := map[string]any{"runs": results}, ""
	if head != nil {
		body = head(v) + "\n\n"
	}
	references, err := a.references(ctx, store, results)
	if err != nil {
		return err
	}
	if references != nil {
		v["references"] = references
		body += headsText(groups)
	}
	tested := len(groups) > 1 && len(groups) < len(results) || references != nil
	if len(results) <= mostColumns {
		body += sideBySide(results)
	}
	if out == "" && !tested && len(results) <= mostColumns {
		return a.print(v, body) // No group has several seeds.
	}
	open := a.backend
	if out == "" {
		open = func() (*train.Trainer, error) { return nil, errors.New("pictures need --out") }
	}
	c, err := inspect.Compare(store, hashes...)
	if err != nil {
		return err
	}
	c.References = references
	r, err := c.Report(ctx, open)
	if err != nil {
		return err
	}
	if out == "" { // The other parts are pictures.
		r.Parts = slices.DeleteFunc(r.Parts, func(p report.Part) bool { return p.Name != "metrics" && p.Name != "tests" })
	}
	words, files, err := a.pictures(r, out, "compare")
	if err != nil {
		return err
	}
	v["parts"], v["files"] = words, files
	for _, p := range r.Parts {
		if body != "" && !strings.HasSuffix(body, "\n\n") {
			body += "\n\n"
		}
		body += words[p.Name]
	}
	return a.print(v, body+filesText(files))
}

// mostColumns is the number of runs that stand side by side; of more only the groups are shown.
const mostColumns = 8

// sideBySide returns runs as a table with a column each, and the parts of their specs that differ.
func sideBySide(results []*runs.Result) string {
	var rows []string
	row := func(name string, always bool, of func(*runs.Result) string) {
		differ := always
		for _, r := range results[1:] {
			differ = differ || of(r) != of(results[0])
		}
		if !differ {
			return
		}
		for _, r := range results {
			name += "\t" + of(r)
		}
		rows = append(rows, name)
	}
	type result = *runs.Result
	row("run", true, func(r result) string { return r.Hash })
	for _, f := range []struct {
		name string
		of   func(s runs.Spec) any
	}{
		{"data", func(s runs.Spec) any { return s.Data }},
		{"data digest", func(s runs.Spec) any { return s.DataDigest }},
		{"rule or loss", func(s runs.Spec) any { return s.Objective.String() }},
		{"proxy lr", func(s runs.Spec) any { return s.ProxyLR }},
		{"lr", func(s runs.Spec) any { return s.LR }},
		{"decay", func(s runs.Spec) any { return s.Decay }},
		{"last layer's lr", func(s runs.Spec) any { return s.HeadLR }},
		{"seed", func(s runs.Spec) any { return s.Seed }},
		{"network", func(s runs.Spec) any { return s.Network() + ", " + s.Weights + " " + s.WeightsDigest }},
		{"dimension", func(s runs.Spec) any { return s.Dim }},
		{"image size", func(s runs.Spec) any { return s.Size }},
		{"classes", func(s runs.Spec) any { return fmt.Sprint(s.TrainClasses, "/", s.TestClasses) }},
		{"batch", func(s runs.Spec) any { return fmt.Sprintf("%dx%d", s.ClassesPerBatch, s.ImagesPerClass) }},
		{"padding", func(s runs.Spec) any { return s.Pad }},
		{"steps", func(s runs.Spec) any { return fmt.Sprintf("%d×%d", s.Epochs, s.StepsPerEpoch) }},
		{"held out", func(s runs.Spec) any { return s.HeldOut }},
		{"data options", func(s runs.Spec) any {
			return fmt.Sprintf("partial %v, unreadable %v, cropped %v", s.AllowPartial, s.SkipBad, s.CropBoxes)
		}},
		{"precision", func(s runs.Spec) any { return cmp.Or(s.Precision, "float32") }},
		{"micro-batch", func(s runs.Spec) any { return s.MicroBatch }},
		{"recomputed", func(s runs.Spec) any { return s.Recompute }},
		{"recipe", func(s runs.Spec) any { return s.Recipe }},
	} {
		row(f.name, false, func(r result) string { return fmt.Sprint(f.of(r.Spec)) })
	}
	for _, f := range train.OptionFields {
		none := "–"
		if f.Flag == "optimizer" {
			none = "sgd"
		}
		row(strings.TrimSuffix(f.Name, ":"), false, func(r result) string { return cmp.Or(*f.Of(&r.Spec.Options), none) })
	}
	row("backend", false, func(r result) string { return r.BackendText() })
	row("diverged", false, func(r result) string { return r.Diverged })
	for _, k := range []int{1, 2, 4, 8} {
		row(fmt.Sprintf("Recall@%d", k), true, func(r result) string {
			if v, ok := r.Recall[k]; ok {
				return fmt.Sprintf("%.1f", 100*v)
			}
			return "–"
		})
	}
	for _, m := range []struct {
		name, format string
		of           func(result) float64
	}{
		{"MAP@R", "%.1f", func(r result) float64 { return 100 * r.MAPAtR }},
		{"overlap", "%.2f", func(r result) float64 { return r.Overlap }},
		{"compact", "%.2f", func(r result) float64 { return r.Compact }},
	} {
		row(m.name, true, func(r result) string {
			if r.Recall == nil { // It diverged and was never measured.
				return "–"
			}
			return fmt.Sprintf(m.format, m.of(r))
		})
	}
	row("seconds", true, func(r result) string { return fmt.Sprintf("%.1f", r.Seconds) })
	return text.Table(rows...)
}

// bundled tells whether a run that [runs.Store.Find] found is bundled with the program and not in the store.
func bundled(store *runs.Store, hash string) bool {
	_, err := os.Stat(store.Path(hash))
	return errors.Is(err, fs.ErrNotExist)
}

func (a *app) removeRuns(prefixes []string) error {
	store, err := a.store()
	if err != nil {
		return err
	}
	hashes := make([]string, len(prefixes))
	for i, p := range prefixes { // Find all before removing any.
		if hashes[i], err = store.Find(p); err != nil {
			return err
		}
		if bundled(store, hashes[i]) {
			return fmt.Errorf("run %s is bundled with the program and cannot be removed", hashes[i])
		}
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	for _, h := range hashes {
		if err := store.Remove(h); err != nil {
			return err
		}
	}
	return a.print(map[string]any{"removed": hashes}, "removed "+strings.Join(hashes, ", "))
}
