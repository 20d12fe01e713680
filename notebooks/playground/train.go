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
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// Check checks a rule and sets what was found as a table. A rule that cannot be trained is an error too, which names the
// line of the user's own function.
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

// fault is what makes a rule unfit for training, with the line of the user's own function.
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
	t := &figures.Table{Caption: "What a check of " + plainCell(c.Rule.Name()) + " found", Columns: []figures.Column{
		{Title: "check", Left: true}, {Title: "verdict", Left: true}, {Title: "part", Left: true}, {Title: "found", Left: true}, {Title: "line", Left: true}}}
	for _, f := range c.Findings {
		grade := figures.Text(f.Grade.String())
		grade.Bold = f.Grade != dissect.Good
		t.Rows = append(t.Rows, []figures.Cell{figures.Text(f.Check), grade, figures.Text(plainCell(cmp.Or(f.Part, "–"))),
			figures.Text(plainCell(f.Message)), figures.Text(plainCell(cmp.Or(sourceLine(f.File, f.Line), "–")))})
	}
	return t
}

// plainCell is text in which no dollar sign begins a formula.
func plainCell(s string) figures.Markup { return strings.ReplaceAll(s, "$", "＄") }

// sourceLine is a line of a file, with the file's name where that means something: a cell's is a temporary one.
func sourceLine(file string, line int) string {
	if file == "" {
		return ""
	}
	where := fmt.Sprintf("%s, line %d:", filepath.Base(file), line)
	if gonbui.IsNotebook && filepath.Base(file) == "main.go" {
		where = ""
	}
	raw, err := os.ReadFile(file)
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

// Training trains rules one after the other, the same in all but the rule and its learning rate, and draws how they go.
type Training struct {
	Rules  []dmlx.Rule // Such as one of the user's own, then the ones that it is held against.
	Preset string      // Empty: quick.
	Data   string      // Empty: the preset's fine-grained set.
	Seed   uint64      // 0: 1.
	// Epochs, if not 0, is fewer than the preset's, to see sooner where it leads. Such runs are not the preset's.
	Epochs int
	// Rates are learning rates by the rules' places, where the preset's are not to be taken. A custom rule without one
	// has the preset's for cos/con/con over its scale (see [dissect.Checked]).
	Rates map[int]float64
	Store *runs.Store
	Open  func() (*backend.Choice, error) // Asked once there is something to train.
}

// Trained is a run of a training.
type Trained struct {
	Spec   runs.Spec
	Result *runs.Result // nil if it has not ended.
}

// stopWait is what a run is given to end by itself when it is stopped.
const stopWait = 400 * time.Millisecond

// chartEvery is the pace of the chart.
const chartEvery = 700 * time.Millisecond

// Run trains what the store does not have yet, with a chart that is redrawn in place. When the context ends, epochs that
// are done are kept, and the same training goes on from there. Rules that fail the check are not trained: the error names
// the first. A run that diverges is no error; its result says so.
func (t Training) Run(ctx context.Context) ([]Trained, error) {
	specs, err := t.specs()
	if err != nil {
		return nil, err
	}
	c := newChart(specs)
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
				choice, err := t.Open()
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

// run makes a run. When the context ends it returns soon even if a graph is being compiled, which nothing interrupts: what
// is left behind ends by itself before the next step, and what the store has is whole at any time.
func (t Training) run(ctx context.Context, trainer *train.Trainer, spec runs.Spec, progress func(p runs.Progress, first bool)) (*runs.Result, error) {
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
		return nil, fmt.Errorf("stopped; the same training goes on from the last epoch that is done: %w", ctx.Err())
	}
}

// PresetName says which preset a run is of, or what is not as in the preset.
func PresetName(s runs.Spec) string {
	if name := presets.Of(s); name != "custom" {
		return "preset " + name
	}
	return fmt.Sprintf("no preset, %d × %d steps", s.Epochs, s.StepsPerEpoch)
}

// specs are the runs, checked.
func (t Training) specs() ([]runs.Spec, error) {
	switch {
	case len(t.Rules) == 0:
		return nil, errors.New("training: no rules")
	case t.Store == nil || t.Open == nil:
		return nil, errors.New("training: want a Store for the runs and Open for a backend")
	}
	preset, err := presets.Parse(cmp.Or(t.Preset, "quick"))
	if err != nil {
		return nil, err
	}
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	data := cmp.Or(t.Data, preset.FineGrained)
	var specs []runs.Spec
	for i, r := range t.Rules {
		checked, err := dissect.Check(b, r)
		if err == nil {
			err = fault(checked)
		}
		if err != nil {
			return nil, err
		}
		spec, err := preset.Spec(data, r.Traced(), cmp.Or(t.Seed, 1))
		if err != nil {
			return nil, err
		}
		if r.Custom() && checked.Scale > 0 {
			base, err := preset.Spec(data, dmlx.Rule{}, 1)
			if err != nil {
				return nil, err
			}
			spec.LR = twoDigits(base.LR / checked.Scale)
		}
		if rate, given := t.Rates[i]; given {
			spec.LR = rate
		}
		if t.Epochs > spec.Epochs {
			return nil, fmt.Errorf("training: %d epochs are more than the %d of preset %s", t.Epochs, spec.Epochs, preset.Name)
		}
		spec.Epochs = cmp.Or(t.Epochs, spec.Epochs)
		if err := spec.Validate(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name(), err)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// twoDigits rounds to two significant digits: a rate is a choice, not a measurement.
func twoDigits(x float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	return math.Round(x/unit) * unit
}

// chart shows runs while they train: a picture in a notebook, elsewhere a line for each epoch.
type chart struct {
	mu     sync.Mutex
	id     string
	note   string // Which preset, data and seed.
	specs  []runs.Spec
	curves []figures.TrainingCurve
	line   string // What is going on.
	shown  time.Time
}

func newChart(specs []runs.Spec) *chart {
	c := &chart{id: "training_" + gonbui.UniqueId(), specs: specs, curves: make([]figures.TrainingCurve, len(specs)),
		note: fmt.Sprintf("%s · %s · seed %d", PresetName(specs[0]), specs[0].Data, specs[0].Seed)}
	for i, s := range specs {
		c.curves[i] = figures.TrainingCurve{Name: shortRule(s) + fmt.Sprintf(", lr %.3g", s.LR), Recall: math.NaN()}
	}
	c.show(true)
	return c
}

// shortRule is a run's rule without the digest of one of the user's own.
func shortRule(s runs.Spec) string {
	name, _, _ := strings.Cut(s.Rule, "#")
	return name
}

// step tells that a run is under way; first, that an epoch has begun.
func (c *chart) step(i int, p runs.Progress, first bool, store *runs.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first {
		c.read(i, store)
		if e := c.curves[i].Epochs; len(e) > 0 && !gonbui.IsNotebook {
			last := e[len(e)-1]
			fmt.Fprintf(os.Stderr, "%s: epoch %d of %d: violations %.1f %%, S_ap %.3f, S_an %.3f, gradient %.3g\n", shortRule(c.specs[i]),
				last.Epoch, c.specs[i].Epochs, 100*last.ViolationRate, last.Sap, last.San, last.GradientNorm)
		}
	}
	c.line = shortRule(c.specs[i]) + ": " + p.Stage()
	if p.Left > 0 {
		c.line += fmt.Sprintf(", %s left", p.Left)
	}
	c.show(false)
}

// read reads the epochs of a run that are done.
func (c *chart) read(i int, store *runs.Store) {
	epochs, err := store.Metrics(c.specs[i].Hash())
	if err != nil {
		return // The run itself will tell.
	}
	c.curves[i].Epochs = nil
	for _, e := range epochs {
		if e.Sap != 0 || e.San != 0 || e.GradientNorm != 0 { // All zero: not finite, and the result says so.
			c.curves[i].Epochs = append(c.curves[i].Epochs,
				figures.TrainingEpoch{Epoch: e.Epoch, ViolationRate: e.ViolationRate, Sap: e.Sap, San: e.San, GradientNorm: e.GradientNorm})
		}
	}
}

// done tells that a run has ended.
func (c *chart) done(i int, r *runs.Result, store *runs.Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read(i, store)
	c.curves[i].Failed = r.Diverged
	if !strings.Contains(c.note, r.Backend) { // Known with the first result; runs may be of several.
		c.note += " · " + r.Backend
	}
	if v, measured := r.Recall[1]; measured {
		c.curves[i].Recall = 100 * v
	}
	c.line = ""
	c.show(true)
}

// fail tells that a run could not be made, or was stopped.
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

// show draws the chart, unless it has just done so.
func (c *chart) show(now bool) {
	if !gonbui.IsNotebook || !now && time.Since(c.shown) < chartEvery {
		return
	}
	c.shown = time.Now()
	f, err := figures.Training(c.specs[0].Epochs, c.curves...)
	if err != nil {
		c.line = err.Error() // The last picture stays.
		return
	}
	f.Provenance = c.note
	picture, err := nb.Picture(f)
	if err != nil {
		c.line = err.Error()
		return
	}
	gonbui.UpdateHTML(c.id, fmt.Sprintf(`<div class="dmlx-training" style="background:#fff">%s</div><div>%s</div>`, picture, html.EscapeString(c.line)))
	if now {
		flush()
	}
}

// Runs sets runs as a table, as "dmlx runs list" does: those of a training or all of a store, the latest first.
func Runs(store *runs.Store, only ...Trained) (*figures.Table, error) {
	entries, err := store.List()
	if err != nil {
		return nil, err
	}
	t := &figures.Table{Columns: []figures.Column{{Title: "run", Left: true}, {Title: "data", Left: true}, {Title: "rule", Left: true}, {Title: "seed"}, {Title: "lr"},
		{Title: "preset", Left: true}, {Title: "R@1, %"}, {Title: "state", Left: true}, {Title: "backend", Left: true}, {Title: "date", Left: true}}}
	hashes := make([]string, len(only))
	for i, r := range only {
		hashes[i] = r.Spec.Hash()
		if r.Result != nil && r.Result.Bundled {
			entries = append(entries, runs.Entry{Hash: hashes[i], Spec: r.Spec, Result: r.Result})
		}
	}
	for _, e := range entries {
		if len(only) > 0 && !slices.Contains(hashes, e.Hash) {
			continue
		}
		recall, state, on, date := "–", fmt.Sprintf("epoch %d of %d", e.Epoch, e.Spec.Epochs), "", ""
		switch r := e.Result; {
		case e.Bad != "":
			state = e.Bad
		case r != nil:
			state = cmp.Or(r.Diverged, "finished")
			if v, measured := r.Recall[1]; measured {
				recall = fmt.Sprintf("%.1f", 100*v)
			}
			on, date = r.Backend, r.Date.Format("2006-01-02 15:04")
		}
		row := []string{e.Hash, filepath.Base(e.Spec.Data), e.Spec.Rule, fmt.Sprint(e.Spec.Seed), fmt.Sprintf("%g", e.Spec.LR), PresetName(e.Spec), recall, state, on, date}
		cells := make([]figures.Cell, len(row))
		for i, s := range row {
			cells[i] = figures.Text(plainCell(s))
		}
		t.Rows = append(t.Rows, cells)
	}
	if len(t.Rows) == 0 {
		return nil, errors.New("no runs in the store")
	}
	return t, nil
}
