// Package bench measures the speed of this machine: gradient surgery, losses, training steps, whole runs, image
// decoding, recall, the run store and notebook cells. It can measure PyTorch and other Python libraries for comparison.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Measurement is one line of the benchmark: several repetitions of one thing.
type Measurement struct {
	Name   string  `json:"name"`
	Size   string  `json:"size"`
	Value  float64 `json:"value"` // The median, in Unit.
	Unit   string  `json:"unit"`
	Spread float64 `json:"spread"` // From the first to the third quartile.
	Best   float64 `json:"best"`
	Times  int     `json:"times"` // The number of repetitions.
	values []float64
}

// String returns the measurement as one line of text.
func (m Measurement) String() string {
	line := fmt.Sprintf("%-36s %-34s %9.4g %s", m.Name, m.Size, m.Value, m.Unit)
	if m.Times > 1 {
		line += fmt.Sprintf("   spread %.3g, best %.4g of %d", m.Spread, m.Best, m.Times)
	}
	return line
}

// measured returns the measurement of one or more values.
func measured(name, size, unit string, values ...float64) Measurement {
	values = slices.Sorted(slices.Values(values))
	quantile := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, values, nil) }
	best := values[0]
	if strings.HasSuffix(unit, "/s") {
		best = values[len(values)-1]
	}
	return Measurement{name, size, quantile(0.5), unit, quantile(0.75) - quantile(0.25), best, len(values), values}
}

// merged returns measurements of which those of one thing are one.
func merged(all []Measurement) (out []Measurement) {
	for _, m := range all {
		i := slices.IndexFunc(out, func(o Measurement) bool {
			return o.Name == m.Name && o.Size == m.Size && o.Unit == m.Unit
		})
		if i < 0 {
			out = append(out, m)
			continue
		}
		out[i] = measured(m.Name, m.Size, m.Unit, append(out[i].values, m.values...)...)
	}
	return out
}

// Options are the options of [Run], with functions of the command that the benchmarks call.
type Options struct {
	// Choice is the backend to measure.
	Choice *backend.Choice
	// Only names the benchmarks to run; if empty, all run.
	Only []string
	// Peer is a Python interpreter with the libraries to compare with, or "".
	Peer string
	// Report is called with each line as soon as it is measured.
	Report func(Measurement)
	// Logf prints a message for the user.
	Logf func(format string, args ...any)
	// Spawn trains jobs in another process, parallel of them at a time.
	Spawn func(ctx context.Context, store *runs.Store, jobs []runs.Job, parallel int) error
	// List does the work of "dmlx runs list" on a store.
	List func(store *runs.Store) error
	// Lab returns the JupyterLab that runs notebook cells.
	Lab func() (*lab.Lab, error)
}

// session is the state of one call of [Run].
type session struct {
	Options
	lines []Measurement // The measurements so far.
	// least maps the name of a loss's line to that of the products it cannot do without.
	least map[string]string
}

func (b *session) report(m Measurement) {
	b.lines = append(b.lines, m)
	b.Report(m)
}

// benchmark is one of the names of --only.
type benchmark struct {
	name string
	run  func(*session, context.Context) error
	// Rounds is how many times the peer and this module are measured in turn; 0 if bench.py has nothing beside it.
	rounds int
}

// benchmarks lists all benchmarks in the order in which they run.
var benchmarks = []benchmark{
	{"surgery", (*session).surgery, 1},
	{"losses", (*session).losses, 3},
	{"step", (*session).step, 5},
	{"resnet", (*session).resnet, 1},
	{"convolution", (*session).convolution, 1},
	{"input", (*session).input, 1},
	{"recall", (*session).recall, 1},
	{"run", (*session).run, 0},
	{"jobs", (*session).jobs, 0},
	{"store", (*session).store, 0},
	{"cell", (*session).cell, 0},
}

// Names returns the names of the benchmarks, in the order in which they run.
func Names() []string {
	names := make([]string, len(benchmarks))
	for i, b := range benchmarks {
		names[i] = b.name
	}
	return names
}

// Run runs the benchmarks of the options. It stops at the first that fails; its error names the benchmark.
func Run(ctx context.Context, o Options) error {
	b := &session{Options: o, least: make(map[string]string)}
	var python *peerProcess
	beside := func(of benchmark) bool {
		return of.rounds > 0 && (len(o.Only) == 0 || slices.Contains(o.Only, of.name))
	}
	if o.Peer != "" && slices.ContainsFunc(benchmarks, beside) {
		var err error
		if python, err = startPeer(ctx, o.Peer, onCPU(o.Choice)); err != nil {
			return fmt.Errorf("bench --peer: %w", err)
		}
		defer python.close()
	}
	for _, of := range benchmarks {
		if len(o.Only) > 0 && !slices.Contains(o.Only, of.name) {
			continue
		}
		if python == nil || of.rounds == 0 {
			if err := of.run(b, ctx); err != nil {
				return fmt.Errorf("bench %s: %w", of.name, err)
			}
			continue
		}
		if err := b.inTurn(ctx, of, python); err != nil {
			return fmt.Errorf("bench %s: %w", of.name, err)
		}
	}
	return nil
}

// repeat times f for about two seconds and at least five times, after a first call that does not count. If the first
// call takes more than ten seconds, it is the only one and counts.
func repeat(ctx context.Context, f func() error) (milliseconds []float64, err error) {
	first := time.Now()
	if err := f(); err != nil {
		return nil, err
	}
	if took := time.Since(first); took > 10*time.Second {
		return []float64{float64(took.Milliseconds())}, nil
	}
	for begin := time.Now(); len(milliseconds) < 5 || time.Since(begin) < 2*time.Second; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		milliseconds = append(milliseconds, float64(time.Since(start).Microseconds())/1000)
	}
	return milliseconds, nil
}

// repeatCall times a graph as [repeat] does. A call ends when its first output is on the host: all of a call's outputs
// are there at once, and gradients stay where they are, as in training.
func repeatCall(ctx context.Context, exec *graph.Exec, in ...any) (milliseconds []float64, err error) {
	return repeat(ctx, func() error {
		out, err := exec.Call(in...)
		if err != nil {
			return err
		}
		if err := out[0].ToLocal(); err != nil {
			return err
		}
		for _, t := range out {
			if err := t.FinalizeAll(); err != nil {
				return err
			}
		}
		return nil
	})
}

// gaussian returns a batch of n random embeddings in classes of 8.
func gaussian(n, dim int) (values []float32, labels []int64) {
	rng := rand.New(rand.NewPCG(1, 1))
	values, labels = make([]float32, n*dim), make([]int64, n)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		labels[i] = int64(i / 8)
	}
	return values, labels
}

// quickBatch is the batch size B and dimension D of the quick preset.
var quickBatch = [2]int{64, 32}

const surgeryLine = "surgery forward and backward"

func (b *session) surgery(ctx context.Context) error {
	for _, size := range [][2]int{quickBatch, {128, 64}, {512, 512}} {
		values, labels := gaussian(size[0], size[1])
		x := tensors.FromFlatDataAndDimensions(values, size[0], size[1])
		l := tensors.FromFlatDataAndDimensions(labels, size[0])
		for _, name := range []string{"circle", "ms", "ours"} {
			rule, err := dmlx.ParseRule(name)
			if err != nil {
				return err
			}
			exec, err := graph.NewExec(b.Choice.Backend, func(x, labels *graph.Node) *graph.Node {
				f, _ := dmlx.Surgery(x, labels, rule)
				return graph.Gradient(graph.ReduceAllSum(f), x)[0]
			})
			if err != nil {
				return err
			}
			times, err := repeatCall(ctx, exec, x, l)
			exec.Finalize()
			if err != nil {
				return err
			}
			b.report(measured(surgeryLine, fmt.Sprintf("%s B=%d D=%d", rule, size[0], size[1]), "ms", times...))
		}
	}
	return nil
}

// presetSpec returns a run of a preset by the paper's best rule.
func presetSpec(preset, data string) (runs.Spec, error) {
	p, err := presets.Parse(preset)
	if err != nil {
		return runs.Spec{}, err
	}
	rule, err := dmlx.ParseRule("ours")
	if err != nil {
		return runs.Spec{}, err
	}
	return p.Spec(data, rule, 1)
}

// inEmptyStore trains a spec in a new store.
func inEmptyStore(ctx context.Context, c *backend.Choice, spec runs.Spec,
	progress func(runs.Progress)) error {
	dir, err := os.MkdirTemp("", "dmlx-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := runs.OpenStore(dir)
	if err != nil {
		return err
	}
	_, err = runs.Run(ctx, train.New(c), store, spec, progress)
	return err
}

func (b *session) step(ctx context.Context) error {
	spec, err := presetSpec("quick", "minicar")
	if err != nil {
		return err
	}
	spec.Epochs, spec.StepsPerEpoch = 1, 120
	times, _, err := timeSteps(ctx, b.Choice, spec, 10)
	if err != nil {
		return err
	}
	size := fmt.Sprintf("quick minicar, B=%d, %d px", spec.Batch(), spec.Size)
	step := measured("training step", size, "ms", times...)
	b.report(step)
	for _, done := range b.lines {
		if done.Name == surgeryLine && strings.HasSuffix(done.Size, fmt.Sprintf(" B=%d D=%d", quickBatch[0], quickBatch[1])) {
			b.report(measured("surgery's share of a training step", done.Size, "%", 100*done.Value/step.Value))
		}
	}
	return nil
}

func (b *session) recall(ctx context.Context) error {
	for _, size := range [][2]int{{1000, 32}, {10000, 512}, {60502, 512}} { // The last is Stanford Online Products.
		values, labels := gaussian(size[0], size[1])
		e := &retrieval.Embeddings{Values: values, Dim: size[1], Labels: labels}
		peak := watchPeak()
		times, err := repeat(ctx, func() error {
			_, err := retrieval.Evaluate(ctx, b.Choice.Backend, e, nil, []int{1, 2, 4, 8})
			return err
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("N=%d D=%d", size[0], size[1])
		b.report(measured("recall, R-precision and MAP@R", what, "ms", times...))
		b.reportPeak(what, peak())
	}
	return nil
}

// run times whole processes, since this process keeps compiled graphs.
func (b *session) run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, of := range []struct {
		preset  string
		times   int
		backend string // For GOMLX_BACKEND; "" leaves the choice to the command.
	}{{"smoke", 3, ""}, {"smoke", 3, "xla"}, {"quick", 1, ""}} {
		name := of.preset + " run"
		if of.backend != "" {
			if !backend.Linked(of.backend) {
				continue
			}
			name += ", " + of.backend
		}
		for _, data := range []string{"minicar", "minishop"} {
			spec, err := presetSpec(of.preset, data)
			if err != nil {
				return err
			}
			var seconds []float64
			for range of.times {
				store, err := os.MkdirTemp("", "dmlx-bench-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(store)
				cmd := exec.CommandContext(ctx, self, "train", "--preset", of.preset, "--data", data,
					"--rule", spec.Rule, "--store", store, "--json")
				if of.backend != "" {
					cmd.Env = append(os.Environ(), "GOMLX_BACKEND="+of.backend)
				}
				start := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					return errors.New(text.LastLine(string(out), err))
				}
				seconds = append(seconds, time.Since(start).Seconds())
			}
			b.report(measured(name, fmt.Sprintf("%s, %d steps", data, spec.Steps()), "s", seconds...))
		}
	}
	return nil
}

// importsCell is the first cell, as in the notebooks; diagramCell builds a rule and draws its triplet diagram.
// REPETITION makes each repetition another program.
const (
	importsCell = `import (
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/figures"
	"github.com/gradient-surgery/dml/notebooks/nb"
)
`
	diagramCell = `%%
rule := nb.Must(dmlx.ParseRule("cos-orth/lin-ms/cir?tau=REPETITION"))
sap, san := figures.SimilarityGrid(0, 1, 101)
_, _, weight, err := dissect.Weights(nb.Must(backend.Go()), rule, sap, san)
nb.Check(err)
nb.Show(nb.Must(figures.TripletDiagram(figures.Diagram{Field: figures.Field{Title: rule.Name(), Values: weight}})))
`
)

func (b *session) cell(ctx context.Context) error {
	l, err := b.Lab()
	if err != nil {
		return err
	}
	if err := l.Setup(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "dmlx-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	type cell struct {
		Type     string         `json:"cell_type"`
		Source   string         `json:"source"`
		Metadata map[string]any `json:"metadata"`
		Outputs  []any          `json:"outputs"`
		Count    any            `json:"execution_count"`
		ID       string         `json:"id"`
	}
	var cells []cell
	for i := range 10 {
		source := importsCell
		if i > 0 {
			source = strings.ReplaceAll(diagramCell, "REPETITION", fmt.Sprint(i))
		}
		cells = append(cells, cell{"code", source, map[string]any{}, []any{}, nil, fmt.Sprintf("cell%d", i)})
	}
	notebook, err := json.Marshal(map[string]any{
		"cells": cells, "nbformat": 4, "nbformat_minor": 5,
		"metadata": map[string]any{"kernelspec": map[string]string{"name": lab.Kernel, "display_name": lab.KernelTitle,
			"language": "go"}},
	})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "bench.ipynb")
	if err := os.WriteFile(path, notebook, 0o644); err != nil {
		return err
	}
	var times []float64
	err = l.Execute(ctx, path, lab.ExecuteOptions{Timeout: 5 * time.Minute, Cell: func(cell, _ int, seconds float64) {
		if cell > 3 { // The first cells fill the build cache.
			times = append(times, seconds)
		}
	}})
	if err != nil {
		return err
	}
	b.report(measured("notebook cell", "a rule and its triplet diagram", "s", times...))
	return nil
}
