package playground

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/page"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/pretrain"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
	"github.com/gradient-surgery/dml/figures"
)

// TryIt is a form that trains a rule without code: its parts and τ are chosen, rows to compare it with are ticked in a
// list, and Train shows Recall@1 growing. What is trained are linear heads on the frozen features of the pretrained
// small network, ten seeds side by side, at the rates of [presets.OnFeatures], or on request the small network itself
// as [Training] does. The results stay in a leaderboard in the store's folder tryit.
type TryIt struct {
	// Rule is the rule at first. Its custom parts can be chosen beside the paper's.
	Rule dmlx.Rule
	// Rows are the rules and losses to tick, as [presets.Named] reads them; empty for the rules and losses that
	// have a name. Ticked are those that are ticked at first; empty for the paper's best rule and cos/con/con.
	Rows, Ticked []string
	// Own are rules and losses of your own, such as one by [objectives.ByLoss], before the Rows and ticked at first.
	Own []presets.Objective
	// Data are the data sets to choose from, the first one at first; empty for the drawn ones, [datasets.Names].
	Data []string
	// Preset is that of the small network's training; empty for quick. A network trains for at most Epochs epochs, if
	// that is not 0; see [Training].
	Preset string
	Epochs int
	// Seeds is the number of heads for each rule; 0 is ten.
	Seeds int
	Store *runs.Store
	Open  func() (*backend.Choice, error) // Called when the form is shown, so that Train can start at once.
}

// Run shows the form until the context ends or End is pressed; the last curves and the leaderboard stay. If the
// notebook is executed without a browser, it trains the first rule.
func (t TryIt) Run(ctx context.Context) error {
	if t.Store == nil || t.Open == nil {
		return errors.New("try it: Store or Open is nil; want a Store for the results and Open for a backend")
	}
	if len(t.Data) == 0 {
		t.Data = datasets.Names()
		slices.Reverse(t.Data) // A linear head has more to gain on the second.
	}
	if len(t.Rows) == 0 {
		t.Rows = namedRows()
	}
	if len(t.Ticked) == 0 {
		t.Ticked = []string{"cos-orth/lin-ms/cir", "cos/con/con"}
	}
	for _, o := range slices.Backward(t.Own) {
		if slices.Contains(t.Rows, o.String()) {
			return fmt.Errorf("try it: %s of your own has the name of a row; want another name", o)
		}
		t.Rows, t.Ticked = append([]string{o.String()}, t.Rows...), append([]string{o.String()}, t.Ticked...)
	}
	for _, row := range slices.Concat(t.Ticked, t.Rows) {
		if _, err := rowOf(row, t.Own); err != nil {
			return fmt.Errorf("try it: a row: %w", err)
		}
		if !slices.Contains(t.Rows, row) {
			t.Rows = append([]string{row}, t.Rows...)
		}
	}
	b, err := backend.Go()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := &form{TryIt: t, ctx: ctx, check: func(r dmlx.Rule) (*dissect.Checked, error) { return dissect.Check(b, r) },
		board: board{filepath.Join(t.Store.Dir, "tryit", "leaderboard.json")}, parts: dmlx.PartsWith(t.Rule)}
	f.trainer = sync.OnceValues(func() (*train.Trainer, error) {
		choice, err := t.Open()
		if err != nil {
			return nil, err
		}
		return train.New(choice), nil
	})
	if os.Getenv(headlessEnv) == "" { // Train then finds them, and reports their errors.
		go func() {
			for _, data := range t.Data {
				_, _ = f.features(data)
			}
		}()
	}
	shown, err := f.panel()
	if err == nil {
		err = shown.run(ctx)
	}
	stop()
	f.wait(stopWait)
	return err
}

// form is the state of a [TryIt] that is shown.
type form struct {
	TryIt
	ctx     context.Context
	parts   dmlx.Parts
	trainer func() (*train.Trainer, error)
	check   func(dmlx.Rule) (*dissect.Checked, error)
	board   board

	reading  sync.Mutex   // Held while features are computed.
	training sync.Mutex   // Held by the training that runs.
	running  atomic.Int32 // The trainings that have not ended.

	mu      sync.Mutex
	stop    context.CancelFunc // Of the latest training.
	note    string
	problem string
	chart   chartState
}

// chartState is what the chart shows.
type chartState struct {
	about     string
	epochs    int
	reference float64 // Recall@1 of the features, in percent; NaN if unknown.
	groups    []figures.RecallGroup
}

// namedRows returns the rules and losses that have a name.
func namedRows() (rows []string) {
	for _, name := range dmlx.Aliases() {
		if r, err := dmlx.ParseRule(name); err == nil && !slices.Contains(rows, r.Name()) {
			rows = append(rows, r.Name())
		}
	}
	for _, name := range losses.Names() {
		rows = append(rows, "loss "+name)
	}
	return rows
}

// rowOf returns a row as an objective: one of the user's own, or one that has a name.
func rowOf(row string, own []presets.Objective) (presets.Objective, error) {
	if i := slices.IndexFunc(own, func(o presets.Objective) bool { return o.String() == row }); i >= 0 {
		return own[i], nil
	}
	return presets.Named(row).Parsed()
}

// mostTicked is the number of rows that are told apart in a picture, beside the chosen rule.
const mostTicked = 6

// aboutTry says what the form trains.
const aboutTry = "Train fits a linear head on frozen features of the pretrained small network, for several seeds at " +
	"once, under your rule and the rows that you tick. It shows how rules differ in seconds; it is no table of " +
	"the paper. The real network is trained with one seed, and takes minutes."

func (f *form) panel() (panel, error) {
	e, err := newEngine(f.Rule)
	state := "view=try&a=" + address(f.Rule)
	return panel{title: "a rule, trained", state: state, names: []string{"recall"},
		busy: f.busy,
		answer: func(method string, args []byte, arrays map[string][]byte) (page.Object, error) {
			if method == "try" {
				return f.try(args)
			}
			out, err := e.Answer(method, args, arrays)
			if method == "describe" && err == nil {
				out["data"], out["about"], out["rows"], out["ticked"] = f.Data, aboutTry, f.Rows, f.Ticked
			}
			return out, err
		},
		still: func(string) (out kept, err error) {
			if os.Getenv(headlessEnv) != "" {
				f.start(f.Rule, f.Ticked, f.Data[0], false)
				f.wait(math.MaxInt64)
			}
			out.below, err = f.board.html()
			f.mu.Lock()
			defer f.mu.Unlock()
			if err == nil && f.problem != "" {
				err = errors.New(f.problem)
			}
			picture, bad := f.chart.figure(f.Rule, f.Ticked)
			out.note, out.pictures = f.note, map[string]*figures.Figure{"recall": picture}
			return out, cmp.Or(err, bad)
		}}, err
}

// try answers the page: it begins to train, or clears the leaderboard, if a button is pressed, and says what is there.
func (f *form) try(args []byte) (page.Object, error) {
	var q struct {
		Rule, Data, Press string
		Rows              []string
		Network           bool
	}
	if err := json.Unmarshal(args, &q); err != nil {
		return nil, err
	}
	r, err := f.parts.Parse(q.Rule)
	if err != nil {
		return nil, err
	}
	tau := r.Options.Tau
	r.Options = f.Rule.Options // Those without a control are as at first.
	r.Options.Tau = tau
	switch q.Press {
	case "clear":
		err = f.board.clear()
	case "train":
		if len(q.Rows) > mostTicked {
			return nil, fmt.Errorf("%d rows are ticked; want at most %d, so that their curves are told apart", len(q.Rows),
				mostTicked)
		}
		f.start(r, q.Rows, q.Data, q.Network)
	}
	below := ""
	if err == nil {
		below, err = f.board.html()
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	chart := f.chart.orEmpty(r, q.Rows)
	groups := make([]page.Object, len(chart.groups))
	for i, g := range chart.groups {
		groups[i] = page.Object{"name": g.Name, "curves": slices.Clone(g.Curves)}
	}
	return page.Object{"note": cmp.Or(f.note, r.Name()+": press Train"), "problem": f.problem, "more": f.busy(),
		"below": below, "chart": page.Object{"about": chart.about, "epochs": chart.epochs, "reference": chart.reference,
			"groups": groups}}, nil
}

// orEmpty returns a chart of a rule that has not started if there is none.
func (c chartState) orEmpty(r dmlx.Rule, rows []string) chartState {
	if c.groups == nil {
		c = chartState{epochs: 10, reference: math.NaN(), about: "no rule was trained yet"}
		for _, name := range append([]string{r.Name()}, others(r, rows)...) {
			c.groups = append(c.groups, figures.RecallGroup{Name: plainCell(name), Recall: figures.Missing})
		}
	}
	return c
}

func (c chartState) figure(r dmlx.Rule, rows []string) (*figures.Figure, error) {
	c = c.orEmpty(r, rows)
	out, err := figures.RecallCurves(c.epochs, c.reference, "the features, no head", c.groups...)
	if err == nil {
		out.Provenance = c.about
	}
	return out, err
}

// others returns rows without a rule, which is trained anyway.
func others(r dmlx.Rule, rows []string) []string {
	return slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return row == r.Name() })
}

// busy reports whether a training runs.
func (f *form) busy() bool { return f.running.Load() > 0 }

// wait waits until no training runs, but not longer than most.
func (f *form) wait(most time.Duration) {
	for end := time.Now().Add(most); f.busy() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// start trains a rule and rows beside it, in place of what is training.
func (f *form) start(r dmlx.Rule, rows []string, data string, network bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		f.stop()
	}
	ctx, stop := context.WithCancel(f.ctx)
	f.stop, f.problem, f.note = stop, "", "starting"
	f.running.Add(1)
	go func() {
		defer f.running.Add(-1)
		defer stop()
		f.training.Lock()
		defer f.training.Unlock()
		if ctx.Err() != nil { // Another took its place before it began, and has the note and the chart.
			return
		}
		train := f.heads
		if network {
			train = f.network
		}
		if err := train(ctx, r, others(r, rows), data); err != nil && ctx.Err() == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.problem, _, _ = strings.Cut(err.Error(), "\n")
		}
	}()
}

func (f *form) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note = fmt.Sprintf(format, args...)
}

// frozen are the features of a data set.
type frozen struct {
	files    runs.Features
	perClass int // The largest power of two, at most 8, that no training class is smaller than.
}

// features returns the features of a data set by the pretrained small network, which are computed once in a store.
func (f *form) features(data string) (out frozen, err error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	set, err := datasets.Open(data, datasets.Options{Size: 32})
	if err != nil {
		return out, err
	}
	count := make(map[int64]int)
	for _, c := range set.Train.Labels {
		count[c]++
	}
	out.perClass = 8
	for _, n := range count {
		for out.perClass > n {
			out.perClass /= 2
		}
	}
	dir := filepath.Join(f.Store.Dir, "tryit", fmt.Sprintf("%s-%.12s-%.12s", filepath.Base(data), set.Digest,
		weights.DigestOf(backbone.Pretrained())))
	name := func(part string) string { return filepath.Join(dir, filepath.Base(data)+part+".npy") }
	out.files = runs.Features{Features: name(""), Labels: name("-labels"), TestFeatures: name("-test"),
		TestLabels: name("-test-labels")}
	if _, err := out.files.Open(); err == nil {
		return out, nil
	}
	trainer, err := f.trainer()
	if err != nil {
		return out, err
	}
	training, test, err := pretrain.Features(f.ctx, trainer.Choice, backbone.Pretrained(), set)
	if err != nil {
		return out, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return out, err
	}
	return out, errors.Join(
		npy.WriteFloat32(out.files.Features, training.Values, len(training.Classes), training.Dims[0]),
		npy.WriteInt64(out.files.Labels, training.Classes, len(training.Classes)),
		npy.WriteFloat32(out.files.TestFeatures, test.Values, len(test.Classes), test.Dims[0]),
		npy.WriteInt64(out.files.TestLabels, test.Classes, len(test.Classes)))
}

// heads trains heads with a rule and the rows beside it, and adds them to the leaderboard. A row of the leaderboard
// is not trained again.
func (f *form) heads(ctx context.Context, r dmlx.Rule, rows []string, data string) error {
	f.say("features of %s by the pretrained small network, computed once", data)
	trainer, err := f.trainer()
	if err != nil {
		return err
	}
	frozen, err := f.features(data)
	if err != nil {
		return err
	}
	p, err := presets.OnFeatures(frozen.files, "linear?start=random")
	if err == nil {
		p, err = p.With(presets.Settings{Batch: 64, ImagesPerClass: frozen.perClass})
	}
	p.Seeds = p.Seeds[:min(cmp.Or(max(f.Seeds, 0), len(p.Seeds)), len(p.Seeds))]
	if err != nil {
		return err
	}
	objectives, err := objectivesOf(f.check, []dmlx.Rule{r}, rows, f.Own)
	if err != nil {
		return err
	}
	specs := make([][]runs.Spec, len(objectives))
	for i, o := range objectives {
		for _, seed := range p.Seeds {
			spec, err := p.ObjectiveSpec("", o, seed)
			if err != nil {
				return err
			}
			specs[i] = append(specs[i], spec)
		}
	}
	samples, _, err := runs.TrainingData(specs[0][0], runs.DataOptions{Context: ctx})
	if err != nil {
		return err
	}
	raw, err := heads.FeatureRecall(ctx, trainer.Backend, samples)
	if err != nil {
		return err
	}
	known, err := f.board.read()
	if err != nil {
		return err
	}
	chart := chartState{epochs: specs[0][0].Epochs, reference: 100 * raw, about: fmt.Sprintf(
		"linear heads on frozen features · %s · %d seeds · %s", data, len(p.Seeds), trainer.Name)}
	var missing []int
	for i := range specs {
		g := figures.RecallGroup{Name: plainCell(shortRule(specs[i][0])), Curves: make([][]float64, len(p.Seeds)),
			Recall: figures.Missing}
		at := slices.IndexFunc(known, func(k tried) bool { return k.Hash == specs[i][0].Hash() })
		if at >= 0 {
			g.Curves, g.Recall = known[at].Curves, known[at].mean()
		} else {
			missing = append(missing, i)
		}
		chart.groups = append(chart.groups, g)
	}
	f.mu.Lock()
	f.chart = chart
	f.mu.Unlock()
	for _, i := range missing {
		f.say("%s: compiling the training step of %s", data, shortRule(specs[i][0]))
		if err := f.trainHeads(ctx, trainer, samples, specs[i], i); err != nil {
			return err
		}
	}
	f.say("%s on %s: done", r.Name(), data)
	return nil
}

// trainHeads trains the seeds of group i of the chart.
func (f *form) trainHeads(ctx context.Context, trainer *train.Trainer, samples *samples.Data, specs []runs.Spec,
	i int) error {
	dir, err := os.MkdirTemp("", "dmlx-tryit-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	trainings := make([]train.Training, len(specs))
	for k, spec := range specs {
		sub := filepath.Join(dir, fmt.Sprint(k))
		if err := os.Mkdir(sub, 0o755); err != nil {
			return err
		}
		trainings[k] = train.Training{Config: spec.Config, ID: spec.Hash(), Data: samples, Dir: sub, Every: 1,
			Progress: func(p train.Progress) { f.step(i, k, shortRule(spec), p) }}
	}
	outs, err := trainer.TrainTogether(ctx, trainings)
	if err != nil {
		return err
	}
	s := specs[0]
	k := tried{Hash: s.Hash(), Data: strings.TrimSuffix(filepath.Base(s.Data), ".npy"), Rule: shortRule(s),
		Trained: fmt.Sprintf("linear head, %d × %d steps", s.Epochs, s.StepsPerEpoch), LR: s.LR, Seeds: len(specs),
		Backend: trainer.Name}
	f.mu.Lock()
	k.Curves = slices.Clone(f.chart.groups[i].Curves)
	f.mu.Unlock()
	for _, o := range outs {
		if recall, ok := o.Recall[1]; ok && o.Diverged == "" {
			k.Recall = append(k.Recall, 100*recall)
		} else {
			k.Diverged++
		}
	}
	if err := f.board.add(k); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chart.groups[i].Recall = k.mean()
	return nil
}

// step shows the progress of a seed of group i of the chart.
func (f *form) step(i, seed int, rule string, p train.Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note = fmt.Sprintf("%s, seed %d: %s", rule, seed+1, p.Stage())
	curves := f.chart.groups[i].Curves
	if p.RecallEpoch == len(curves[seed])+1 && p.Recall-p.Recall == 0 {
		curves[seed] = append(curves[seed], 100*p.Recall)
	}
}

// network trains the small network with a rule and the rows beside it, with a chart of its own below the form.
func (f *form) network(ctx context.Context, r dmlx.Rule, rows []string, data string) error {
	f.say("training the small network on %s, preset %s, one seed: see the chart below", data, cmp.Or(f.Preset, "quick"))
	open := func() (*backend.Choice, error) {
		trainer, err := f.trainer()
		if err != nil {
			return nil, err
		}
		return trainer.Choice, nil
	}
	all, err := Training{Rules: []dmlx.Rule{r}, Rows: rows, Own: f.Own, Preset: f.Preset, Data: data, Epochs: f.Epochs,
		Store: f.Store, Open: open}.Run(ctx)
	for _, one := range all {
		if one.Result == nil {
			continue
		}
		k := tried{Hash: one.Spec.Hash(), Data: filepath.Base(data), Rule: shortRule(one.Spec), LR: one.Spec.LR, Seeds: 1,
			Trained: "the network, " + presetName(one.Spec), Backend: one.Result.Backend}
		if recall, ok := one.Result.Recall[1]; ok && one.Result.Diverged == "" {
			k.Recall = []float64{100 * recall}
		} else {
			k.Diverged = 1
		}
		err = errors.Join(err, f.board.add(k))
	}
	if err == nil {
		f.say("%s on %s: the network is trained", r.Name(), data)
	}
	return err
}

// tried is a row of the leaderboard.
type tried struct {
	Hash     string  `json:"hash"` // Of the first seed's spec.
	Data     string  `json:"data"`
	Rule     string  `json:"rule"`
	Trained  string  `json:"trained"` // What was trained, in words.
	LR       float64 `json:"lr"`
	Seeds    int     `json:"seeds"`
	Backend  string  `json:"backend"`
	Diverged int     `json:"diverged,omitempty"`
	// Recall is Recall@1 in percent of the seeds that did not diverge, and Curves that after each epoch of each seed.
	Recall []float64   `json:"recall"`
	Curves [][]float64 `json:"curves,omitempty"`
}

func (t tried) mean() stats.Mean {
	m := stats.MeanOf(t.Recall)
	if m.N == 0 {
		m.Mean = math.NaN()
	}
	m.Diverged = t.Diverged
	return m
}
