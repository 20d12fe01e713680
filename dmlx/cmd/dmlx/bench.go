package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	_ "embed" // The peer's script.

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
	"github.com/gradient-surgery/dml/dmlx/experiment"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// measurement is one line of the benchmark: what several repetitions of one thing took.
type measurement struct {
	Name   string  `json:"name"`
	Size   string  `json:"size"`
	Value  float64 `json:"value"` // The median.
	Unit   string  `json:"unit"`
	Spread float64 `json:"spread"` // From the first to the third quartile.
	Best   float64 `json:"best"`
	Times  int     `json:"times"`
}

func (m measurement) String() string {
	line := fmt.Sprintf("%-36s %-34s %9.4g %s", m.Name, m.Size, m.Value, m.Unit)
	if m.Times > 1 {
		line += fmt.Sprintf("   spread %.3g, best %.4g of %d", m.Spread, m.Best, m.Times)
	}
	return line
}

// measured sums up one value or more.
func measured(name, size, unit string, values ...float64) measurement {
	values = slices.Sorted(slices.Values(values))
	quantile := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, values, nil) }
	return measurement{name, size, quantile(0.5), unit, quantile(0.75) - quantile(0.25), values[0], len(values)}
}

// benchmarks in the order in which they run. Each calls report for each of its lines, and sees those so far.
var benchmarks = []struct {
	name string
	run  func(ctx context.Context, a *app, c *backend.Choice, sofar []measurement, report func(measurement)) error
}{
	{"surgery", benchSurgery},
	{"losses", benchLosses},
	{"step", benchStep},
	{"resnet", benchResNet},
	{"convolution", benchConvolution},
	{"input", benchInput},
	{"recall", benchRecall},
	{"run", benchRun},
	{"jobs", benchJobs},
	{"store", benchStore},
	{"cell", benchCell},
}

func newBench(a *app) *cobra.Command {
	var only []string
	var backendName, peer string
	names := make([]string, len(benchmarks))
	for i, b := range benchmarks {
		names[i] = b.name
	}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of this machine at what takes the time",
		Long: `Measure the speed of this machine at what takes the time: the median of several repetitions, its spread
(between the quartiles) and the best.

  surgery      mining, composed gradient and its way back through the normalisation, of one batch
  losses       each published loss and its gradient, of one batch
  step         a training step of the quick preset
  resnet       training steps of ResNet-18 and ResNet-50, whole, in pieces, recomputed and in bfloat16
  convolution  ResNet-18's convolutions and their gradients, layer by layer
  input        photographs decoded and kept, and batches cut from them
  recall       Recall@K, R-precision and MAP@R of one set
  run          whole runs of the smoke and the quick preset, from nothing
  jobs         several runs one after the other, and two at once in one process and in two
  store        lists and a table from a store of 100,000 runs
  cell         warm notebook cells (sets JupyterLab up where it is not)

With --peer PYTHON, an interpreter that has torch, torchvision, pytorch-metric-learning and faiss-cpu, the same goes through
theirs in the same run, with as many threads or on the same GPU, and ratios are printed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range only {
				if !slices.Contains(names, name) {
					return fmt.Errorf("--only %s: there are %s", name, strings.Join(names, ", "))
				}
			}
			if backendName != "" {
				if err := os.Setenv("GOMLX_BACKEND", backendName); err != nil {
					return err
				}
			}
			c, err := a.backend()
			if err != nil {
				return err
			}
			var lines []measurement
			report := func(m measurement) {
				lines = append(lines, m)
				if !a.json {
					fmt.Fprintln(a.stdout, m)
				}
			}
			for _, b := range benchmarks {
				if len(only) > 0 && !slices.Contains(only, b.name) {
					continue
				}
				if err := b.run(cmd.Context(), a, c, lines, report); err != nil {
					return fmt.Errorf("bench %s: %w", b.name, err)
				}
			}
			if peer != "" {
				if err := benchPeer(cmd.Context(), peer, c, only, lines, report); err != nil {
					return fmt.Errorf("bench --peer: %w", err)
				}
			}
			if !a.json {
				return nil
			}
			return a.print(map[string]any{
				"backend": c, "cores": runtime.NumCPU(), "go": runtime.Version(), "date": time.Now().UTC().Format(time.DateOnly), "lines": lines,
			}, "")
		},
	}
	cmd.AddCommand(newBenchSlurm(a))
	cmd.Flags().StringSliceVar(&only, "only", nil, "what to measure: "+strings.Join(names, ", ")+" (default all)")
	cmd.Flags().StringVar(&backendName, "backend", "", "backend to measure, as in GOMLX_BACKEND: xla or go (default the one doctor names)")
	cmd.Flags().StringVar(&peer, "peer", "", "a Python with torch, torchvision, pytorch-metric-learning and faiss-cpu to measure beside")
	return cmd
}

// repeat times f, after one call that is not counted, for about two seconds and at least five times; what takes more than
// ten seconds, once.
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

// repeatCall times a graph as [repeat] does: a call is not done before its outputs are here.
func repeatCall(ctx context.Context, exec *graph.Exec, in ...any) (milliseconds []float64, err error) {
	return repeat(ctx, func() error {
		out, err := exec.Call(in...)
		if err != nil {
			return err
		}
		for _, t := range out {
			if err := t.ToLocal(); err != nil {
				return err
			}
			if err := t.FinalizeAll(); err != nil {
				return err
			}
		}
		return nil
	})
}

// gaussian is a batch of n embeddings in classes of 8, as an untrained network might give them.
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

// quickBatch is that of the quick preset, B and D.
var quickBatch = [2]int{64, 32}

const surgeryLine = "surgery forward and backward"

func benchSurgery(ctx context.Context, _ *app, c *backend.Choice, _ []measurement, report func(measurement)) error {
	for _, size := range [][2]int{quickBatch, {128, 64}, {512, 512}} {
		values, labels := gaussian(size[0], size[1])
		x := tensors.FromFlatDataAndDimensions(values, size[0], size[1])
		l := tensors.FromFlatDataAndDimensions(labels, size[0])
		for _, name := range []string{"circle", "ms", "ours"} {
			rule, err := dmlx.ParseRule(name)
			if err != nil {
				return err
			}
			exec, err := graph.NewExec(c.Backend, func(x, labels *graph.Node) *graph.Node {
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
			report(measured(surgeryLine, fmt.Sprintf("%s B=%d D=%d", rule, size[0], size[1]), "ms", times...))
		}
	}
	return nil
}

// benchSpec is a run of a preset.
func benchSpec(preset, data string) (experiment.Spec, error) {
	p, err := experiment.ParsePreset(preset)
	if err != nil {
		return experiment.Spec{}, err
	}
	rule, err := dmlx.ParseRule("ours")
	if err != nil {
		return experiment.Spec{}, err
	}
	return p.Spec(data, rule, 1)
}

// inEmptyStore runs a spec from nothing.
func inEmptyStore(ctx context.Context, c *backend.Choice, spec experiment.Spec, progress func(experiment.Progress)) error {
	dir, err := os.MkdirTemp("", "dmlx-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := experiment.OpenStore(dir)
	if err != nil {
		return err
	}
	_, err = experiment.Run(ctx, c, store, spec, progress)
	return err
}

func benchStep(ctx context.Context, _ *app, c *backend.Choice, sofar []measurement, report func(measurement)) error {
	spec, err := benchSpec("quick", "minicar")
	if err != nil {
		return err
	}
	spec.Epochs, spec.StepsPerEpoch = 1, 120
	times, _, err := timeSteps(ctx, c, spec, 10)
	if err != nil {
		return err
	}
	step := measured("training step", fmt.Sprintf("quick minicar, B=%d, %d px", spec.ClassesPerBatch*spec.ImagesPerClass, spec.Size), "ms", times...)
	report(step)
	for _, done := range sofar {
		if done.Name == surgeryLine && strings.HasSuffix(done.Size, fmt.Sprintf(" B=%d D=%d", quickBatch[0], quickBatch[1])) {
			report(measured("surgery's share of a training step", done.Size, "%", 100*done.Value/step.Value))
		}
	}
	return nil
}

func benchRecall(ctx context.Context, _ *app, c *backend.Choice, _ []measurement, report func(measurement)) error {
	for _, size := range [][2]int{{1000, 32}, {10000, 512}, {60502, 512}} { // The last is Stanford Online Products.
		values, labels := gaussian(size[0], size[1])
		e := &retrieval.Embeddings{Values: values, Dim: size[1], Labels: labels}
		peak := watchPeak()
		times, err := repeat(ctx, func() error {
			_, err := retrieval.Evaluate(ctx, c.Backend, e, nil, []int{1, 2, 4, 8})
			return err
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("N=%d D=%d", size[0], size[1])
		report(measured("recall, R-precision and MAP@R", what, "ms", times...))
		reportPeak(c, what, peak(), report)
	}
	return nil
}

// benchRun times whole processes: a run in this one would find graphs that are compiled.
func benchRun(ctx context.Context, _ *app, _ *backend.Choice, _ []measurement, report func(measurement)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, of := range []struct {
		preset string
		times  int
	}{{"smoke", 3}, {"quick", 1}} {
		for _, data := range []string{"minicar", "minishop"} {
			spec, err := benchSpec(of.preset, data)
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
				cmd := exec.CommandContext(ctx, self, "train", "--preset", of.preset, "--data", data, "--rule", spec.Rule, "--store", store, "--json")
				start := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					return errors.New(lastLine(string(out), err))
				}
				seconds = append(seconds, time.Since(start).Seconds())
			}
			report(measured(of.preset+" run", fmt.Sprintf("%s, %d steps", data, spec.Steps()), "s", seconds...))
		}
	}
	return nil
}

// importsCell comes first, as in the notebooks; diagramCell builds a rule and draws its triplet diagram. Each repetition is
// another program.
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

func benchCell(ctx context.Context, a *app, _ *backend.Choice, _ []measurement, report func(measurement)) error {
	l, err := a.lab()
	if err != nil {
		return err
	}
	if err := l.Setup(ctx); err != nil {
		return err
	}
	// In the checkout, since the kernel finds it from the notebook's folder.
	dir, err := os.MkdirTemp(filepath.Join(l.Root, "notebooks"), ".bench-")
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
		"metadata": map[string]any{"kernelspec": map[string]string{"name": lab.Kernel, "display_name": lab.KernelTitle, "language": "go"}},
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
		if cell > 3 { // The first ones fill the build cache.
			times = append(times, seconds)
		}
	}})
	if err != nil {
		return err
	}
	report(measured("notebook cell", "a rule and its triplet diagram", "s", times...))
	return nil
}

//go:embed bench_peer.py
var peerScript string

// benchPeer runs what others have on the same sizes and the same kind of device, and prints how ours compares.
func benchPeer(ctx context.Context, python string, c *backend.Choice, only []string, ours []measurement, report func(measurement)) error {
	device := "cuda"
	if onCPU(c) {
		device = "cpu"
	}
	cmd := exec.CommandContext(ctx, python, append([]string{"-c", peerScript, device}, only...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w; it needs torch, torchvision, pytorch-metric-learning and faiss-cpu", python, err)
	}
	var lines []struct {
		Name, Size string
		Ours       string // The name of our line that it is to be compared with.
		Times      []float64
	}
	if err := json.Unmarshal(out, &lines); err != nil {
		return errors.New("its output is not what bench_peer.py prints")
	}
	for _, line := range lines {
		if len(line.Times) == 0 {
			return errors.New("its output is not what bench_peer.py prints")
		}
		peer := measured(line.Name, line.Size, "ms", line.Times...)
		report(peer)
		for _, our := range ours {
			if our.Name == line.Ours && strings.HasSuffix(our.Size, line.Size) {
				report(measured("ratio to "+line.Name, our.Size, "×", our.Value/peer.Value))
			}
		}
	}
	return nil
}
