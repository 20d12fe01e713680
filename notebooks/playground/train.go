package playground

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/janpfeifer/gonb/gonbui"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// Check checks a rule and returns its findings as a table. If the rule cannot be trained, the error names the line of
// the custom function, and the table is returned too.
func Check(r dmlx.Rule) (*figures.Table, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	c, err := dissect.Check(b, r)
	if err != nil {
		return nil, err
	}
	return findings(c), fault(c)
}

// fault returns the error of a rule that cannot be trained, with the line of the custom function.
func fault(c *dissect.Checked) error {
	i := slices.IndexFunc(c.Findings, func(f dissect.CheckFinding) bool { return f.Grade == dissect.Bad })
	if i < 0 {
		return nil
	}
	f := c.Findings[i]
	if line := sourceLine(f.File, f.Line); line != "" {
		return fmt.Errorf("rule %s: %s: %s: %s; the line is %s", c.Rule.Name(), f.Check, f.Part, f.Message, line)
	}
	return c.Err()
}

func findings(c *dissect.Checked) *figures.Table {
	t := &figures.Table{Caption: "Check of rule " + plainCell(c.Rule.Name()), Columns: []figures.Column{
		{Title: "check", Left: true}, {Title: "verdict", Left: true}, {Title: "part", Left: true},
		{Title: "found", Left: true}, {Title: "line", Left: true}}}
	for _, f := range c.Findings {
		grade := figures.Text(f.Grade.String())
		grade.Bold = f.Grade != dissect.Good
		t.Rows = append(t.Rows, figures.Row(f.Check, grade, plainCell(cmp.Or(f.Part, "–")), plainCell(f.Message),
			plainCell(cmp.Or(sourceLine(f.File, f.Line), "–"))))
	}
	return t
}

// plainCell returns text whose dollar signs do not start a formula.
func plainCell(s string) figures.Markup { return strings.ReplaceAll(s, "$", "＄") }

// sourceLine returns a line of a file with its position, except for a cell, whose file is a temporary one.
func sourceLine(file string, line int) string {
	if file == "" {
		return ""
	}
	where := fmt.Sprintf("%s, line %d:", filepath.Base(file), line)
	if gonbui.IsNotebook && filepath.Base(file) == "main.go" {
		where = ""
	}
	raw, err := durable.ReadAtMost(file, durable.MaxText)
	if err != nil {
		return where
	}
	for text := range bytes.Lines(raw) {
		if line--; line == 0 {
			return strings.TrimSpace(where + " " + string(bytes.TrimSpace(text)))
		}
	}
	return where
}

// Training trains rules one after the other and draws their progress. The runs differ only in the rule and its learning
// rate.
type Training struct {
	Rules []dmlx.Rule // For example a custom rule.
	Rows  []string    // Rules and losses to compare them with, as [objectives.Parse] reads them, or of Own.
	// Own are rules and losses of your own, perhaps with a learning rate, as rows name them. Other rates are the
	// preset's; that of a custom rule is its rate for cos/con/con divided by the rule's scale (see [dissect.Checked]).
	Own    []presets.Objective
	Preset string // Empty for quick.
	Data   string // Empty for the preset's fine-grained data set.
	Seed   uint64 // 0 for 1.
	// Epochs, if not 0, is a smaller number of epochs than the preset's, for a quick look. Such runs do not belong to
	// the preset.
	Epochs int
	Store  *runs.Store
	Open   func() (*backend.Choice, error) // Called if a run has to be trained.
}

// Trained is one run of a [Training].
type Trained struct {
	Spec   runs.Spec
	Result *runs.Result // nil for a run that has not finished.
}

// stopWait is how long a stopped run may take to end by itself.
const stopWait = 400 * time.Millisecond

// chartEvery is the interval between redraws of the chart.
const chartEvery = 700 * time.Millisecond

// Run trains the runs that the store lacks, with a chart that is redrawn in place. When the context ends, finished
// epochs are kept, and the same training continues after them. If a rule fails the check, no rule is trained and the
// error names the first such rule. A run that diverges is not an error; its result says so.
func (t Training) Run(ctx context.Context) ([]Trained, error) {
	specs, err := t.specs()
	if err != nil {
		return nil, err
	}
	c := newChart(specs)
	defer c.keep()
	out := make([]Trained, len(specs))
	var trainer *train.Trainer
	for i, spec := range specs {
		out[i].Spec = spec
		r, found, err := t.Store.Lookup(spec)
		if err != nil {
			return out, err
		}
		if !found {
			if trainer == nil {
				open := t.Open
				if spec.Light(0) {
					open = backend.OpenLight
				}
				choice, err := open()
				if err != nil {
					return out, err
				}
				trainer = train.New(choice)
			}
			r, err = t.run(ctx, trainer, spec, func(p runs.Progress, first bool) { c.step(i, p, first, t.Store) })
			if err != nil {
				c.fail(i, err)
				return out, err
			}
		}
		out[i].Result = r
		c.done(i, r, t.Store)
	}
	return out, nil
}

// run trains one run. When the context ends it returns soon, even during the compilation of a graph, which cannot be
// interrupted; the run then ends by itself before its next step. The store is consistent at any time.
func (t Training) run(ctx context.Context, trainer *train.Trainer, spec runs.Spec,
	progress func(p runs.Progress, first bool)) (*runs.Result, error) {
	type outcome struct {
		r   *runs.Result
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		epoch := -1
		r, err := runs.Run(ctx, trainer, t.Store, spec, func(p runs.Progress) {
			if ctx.Err() == nil {
				progress(p, p.Epoch != epoch)
			}
			epoch = p.Epoch
		})
		done <- outcome{r, err}
	}()
	select {
	case o := <-done:
		return o.r, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-done:
		return o.r, o.err
	case <-time.After(stopWait):
		return nil, fmt.Errorf("stopped; the same training continues after the last finished epoch: %w", ctx.Err())
	}
}

// presetName returns the preset of a run, or the size of a run that belongs to none.
func presetName(s runs.Spec) string {
	if name := presets.Of(s); name != "custom" {
		return "preset " + name
	}
	return fmt.Sprintf("no preset, %d × %d steps", s.Epochs, s.StepsPerEpoch)
}

// specs returns the specs of the runs after all checks.
func (t Training) specs() ([]runs.Spec, error) {
	switch {
	case len(t.Rules)+len(t.Rows) == 0:
		return nil, errors.New("training: no rules; want at least one")
	case t.Store == nil || t.Open == nil:
		return nil, errors.New("training: Store or Open is nil; want a Store for the runs and Open for a backend")
	}
	preset, err := presets.Load(cmp.Or(t.Preset, "quick"))
	if err != nil {
		return nil, err
	}
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	data := cmp.Or(t.Data, preset.FineGrained)
	check := func(r dmlx.Rule) (*dissect.Checked, error) { return dissect.Check(b, r) }
	objectives, err := objectivesOf(check, t.Rules, t.Rows, t.Own)
	if err != nil {
		return nil, err
	}
	var specs []runs.Spec
	for _, o := range objectives {
		spec, err := preset.ObjectiveSpec(data, o, cmp.Or(t.Seed, 1)) // The same run as that of a row of a table.
		if err != nil {
			return nil, err
		}
		if t.Epochs > spec.Epochs {
			return nil, fmt.Errorf("training: %d epochs; want at most the %d of preset %s", t.Epochs, spec.Epochs, preset.Name)
		}
		spec.Epochs = cmp.Or(t.Epochs, spec.Epochs)
		if err := spec.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", o, err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// objectivesOf returns rules, which are checked first, and rows as objectives.
func objectivesOf(check func(dmlx.Rule) (*dissect.Checked, error), rules []dmlx.Rule, rows []string,
	own []presets.Objective) (out []presets.Objective, err error) {
	for _, r := range rules {
		checked, err := check(r)
		if err == nil {
			err = fault(checked)
		}
		if err != nil {
			return nil, err
		}
		o, err := objectives.ByRule(r.Traced())
		if err != nil {
			return nil, err
		}
		out = append(out, presets.Objective{Objective: o})
	}
	for _, row := range rows {
		o, err := rowOf(row, own)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// chart shows runs while they train: as a picture in a notebook, elsewhere as a line for each epoch.
type chart struct {
	mu     sync.Mutex
	id     string
	note   string // Preset, data, seed and backends.
	specs  []runs.Spec
	curves []figures.TrainingCurve
	line   string // The current state.
	shown  time.Time
}

func newChart(specs []runs.Spec) *chart {
	c := &chart{id: "training_" + gonbui.UniqueId(), specs: specs, curves: make([]figures.TrainingCurve, len(specs)),
		note: fmt.Sprintf("%s · %s · seed %d", presetName(specs[0]), specs[0].Data, specs[0].Seed)}
	for i, s := range specs {
		c.curves[i] = figures.TrainingCurve{Name: shortRule(s) + fmt.Sprintf(", lr %.3g", s.LR), Recall: math.NaN()}
	}
	c.show(true)
	return c
}

// shortRule returns a run's rule or loss without the digest of a function of the user's own.
func shortRule(s runs.Spec) string { return presets.Objective{Objective: s.Objective}.String() }

// step shows the progress of a run. first is set at the first step of an epoch.
func (c *chart) step(i int, p runs.Progress, first bool, store *runs.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first {
		c.read(i, store)
		if e := c.curves[i].Epochs; len(e) > 0 && !gonbui.IsNotebook {
			last := e[len(e)-1]
			fmt.Fprintf(os.Stderr, "%s: epoch %d of %d: violations %.1f %%, S_ap %.3f, S_an %.3f, gradient %.3g\n",
				shortRule(c.specs[i]), last.Epoch, c.specs[i].Epochs, 100*last.ViolationRate, last.Sap, last.San, last.GradientNorm)
		}
	}
	c.line = shortRule(c.specs[i]) + ": " + p.Stage()
	if p.Left > 0 {
		c.line += fmt.Sprintf(", %s left", p.Left)
	}
	c.show(false)
}

// read reads the finished epochs of a run.
func (c *chart) read(i int, store *runs.Store) {
	epochs, err := store.Metrics(c.specs[i].Hash())
	if err != nil {
		return // The run itself returns the error.
	}
	c.curves[i].Epochs = nil
	for _, e := range epochs {
		if e.Sap != 0 || e.San != 0 || e.GradientNorm != 0 { // All zero if not finite; the result says so.
			c.curves[i].Epochs = append(c.curves[i].Epochs,
				figures.TrainingEpoch{Epoch: e.Epoch, ViolationRate: e.ViolationRate, Sap: e.Sap, San: e.San,
					GradientNorm: e.GradientNorm})
		}
	}
}

// done shows the result of a run.
func (c *chart) done(i int, r *runs.Result, store *runs.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read(i, store)
	c.curves[i].Failed = r.Diverged
	if !strings.Contains(c.note, r.Backend) { // Runs may come from several backends.
		c.note += " · " + r.Backend
	}
	if v, measured := r.Recall[1]; measured {
		c.curves[i].Recall = 100 * v
	}
	c.line = ""
	c.show(true)
}

// fail shows that a run failed or was stopped.
func (c *chart) fail(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.curves[i].Failed = "failed"
	if errors.Is(err, context.Canceled) {
		c.curves[i].Failed = fmt.Sprintf("stopped after epoch %d", len(c.curves[i].Epochs))
	}
	c.line, _, _ = strings.Cut(err.Error(), "\n")
	c.show(true)
}

// show draws the chart, at most every chartEvery unless now is set.
func (c *chart) show(now bool) {
	if !gonbui.IsNotebook || !now && time.Since(c.shown) < chartEvery {
		return
	}
	c.shown = time.Now()
	f, err := c.figure()
	if err != nil {
		c.line = err.Error() // Keeps the last picture.
		return
	}
	picture, err := nb.Picture(f)
	if err != nil {
		c.line = err.Error()
		return
	}
	gonbui.UpdateHTML(c.id, fmt.Sprintf(`<div class="dmlx-training">%s</div><div>%s</div>`,
		picture, html.EscapeString(c.line)))
	if now {
		flush()
	}
}

func (c *chart) figure() (*figures.Figure, error) {
	f, err := figures.Training(c.specs[0].Epochs, c.curves...)
	if err == nil {
		f.Provenance = c.note
	}
	return f, err
}

// keep shows the last picture so that it stays.
func (c *chart) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, err := c.figure(); err == nil && nb.Update(c.id, f) == nil {
		flush()
	}
}
