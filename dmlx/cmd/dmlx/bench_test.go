package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/lab"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/notebook"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

var (
	benchPeer = flag.String("peer", "", "Python interpreter with torch, torchvision, pytorch-metric-learning and "+
		"faiss-cpu: benchmarks measure these libraries in turn with this module")
	benchRecord = flag.String("record", "", "file to which the benchmarks' lines are appended, an object "+
		"a call")
)

// The benchmarks of this module's own parts, and, with -peer PYTHON, of other libraries beside them:
//
//	go test ./dmlx/cmd/dmlx -run '^$' -bench 'Losses|Step' -peer PYTHON -timeout 1h
//
// Each line has the median and the best of several repetitions, and is recorded with -record FILE. A benchmark takes
// minutes and repeats by itself: -benchtime and -count have no use.
func BenchmarkSurgery(b *testing.B)     { benchmark(b, "surgery", 1, (*session).surgery) }
func BenchmarkLosses(b *testing.B)      { benchmark(b, "losses", 3, (*session).losses) }
func BenchmarkConvolution(b *testing.B) { benchmark(b, "convolution", 1, (*session).convolution) }
func BenchmarkRun(b *testing.B)         { benchmark(b, "run", 0, (*session).run) }
func BenchmarkJobs(b *testing.B)        { benchmark(b, "jobs", 0, (*session).jobs) }
func BenchmarkStore(b *testing.B)       { benchmark(b, "store", 0, (*session).store) }
func BenchmarkCell(b *testing.B)        { benchmark(b, "cell", 0, (*session).cell) }
func BenchmarkStep(b *testing.B)        { benchmark(b, "step", 5, (*session).step) }
func BenchmarkResNet(b *testing.B)      { benchmark(b, "resnet", 1, (*session).resNet) }
func BenchmarkInput(b *testing.B)       { benchmark(b, "input", 1, (*session).input) }
func BenchmarkRecall(b *testing.B)      { benchmark(b, "recall", 1, (*session).recall) }

// session is the state of a benchmark.
type session struct {
	// Choice is the backend to measure.
	Choice *backend.Choice
	// Small measures the smallest sizes alone, once, as for a rehearsal.
	Small bool
	b     *testing.B
	lines []measurement
	// least maps the name of a loss's line to that of the products it cannot do without.
	least map[string]string
}

func (s *session) report(m measurement) { s.lines = append(s.lines, m) }

// openBench opens the backend that all benchmarks measure.
var openBench = sync.OnceValues(backend.Open)

// benchRecorded are the lines of all benchmarks.
var benchRecorded []measurement

// benchmark runs a benchmark, in rounds with the peer if there is one, and reports its lines. 0 rounds means that
// bench.py has nothing beside it.
func benchmark(b *testing.B, name string, rounds int, run func(*session, context.Context) error) {
	choice, err := openBench()
	if err != nil {
		b.Fatal(err)
	}
	s := &session{Choice: choice, Small: testing.Short(), b: b, least: make(map[string]string)}
	if *benchPeer == "" || rounds == 0 {
		err = run(s, b.Context())
	} else {
		err = s.inTurn(b.Context(), name, rounds, run)
	}
	if err != nil {
		b.Fatal(err)
	}
	if name == "step" {
		s.reportShare()
	}
	benchRecorded = append(benchRecorded, s.lines...)
	for _, m := range s.lines {
		b.Run(strings.ReplaceAll(m.Name+", "+m.Size, "/", "|"), func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // It is left out: the call does nothing.
			unit := strings.ReplaceAll(m.Unit, " ", "")
			b.ReportMetric(m.Value, unit)
			if m.Times > 1 {
				b.ReportMetric(m.Best, unit+"-best")
			}
		})
	}
}

// reportShare compares the surgery of a batch with a training step, if both were measured.
func (s *session) reportShare() {
	for _, m := range benchRecorded {
		if m.Name == surgeryLine && strings.HasSuffix(m.Size, fmt.Sprintf(" B=%d D=%d", quickBatch[0], quickBatch[1])) {
			s.report(measured("surgery's share of a training step", m.Size, "%", 100*m.Value/s.lines[0].Value))
		}
	}
}

// writeBenchRecord appends the lines of all benchmarks to the file of -record, with the machine that they are of.
func writeBenchRecord() error {
	if *benchRecord == "" || benchRecorded == nil {
		return nil
	}
	choice, err := openBench()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(*benchRecord, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	a := app.New(context.Background(), file, io.Discard)
	a.JSON = true
	err = a.Print(map[string]any{
		"backend": choice, "cores": runtime.NumCPU(), "go": runtime.Version(),
		"date": time.Now().UTC().Format(time.DateOnly), "machine": runs.Machine(), "version": runs.Version(),
		"lines": benchRecorded,
	}, "")
	return errors.Join(err, file.Close())
}

// quietApp returns a command whose output is lost.
func quietApp(store string) *app.App {
	a := app.New(context.Background(), io.Discard, io.Discard)
	a.StoreDir = store
	return a
}

// merged returns measurements of which those of one thing are one.
func merged(all []measurement) (out []measurement) {
	for _, m := range all {
		i := slices.IndexFunc(out, func(o measurement) bool {
			return o.Name == m.Name && o.Size == m.Size && o.Unit == m.Unit
		})
		if i < 0 {
			out = append(out, m)
			continue
		}
		out[i] = measured(m.Name, m.Size, m.Unit, append(out[i].Values, m.Values...)...)
	}
	return out
}

// repeat times a graph as [session.repeatCalls] does. A call ends when its first output is on the host: all of a
// call's outputs are there at once, and gradients stay where they are, as in training.
func (s *session) repeat(ctx context.Context, build func(in []*graph.Node) []*graph.Node, in ...any) (
	milliseconds []float64, err error) {
	exec, err := graph.NewExec(s.Choice.Backend, build)
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	return s.repeatCalls(ctx, func() error {
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

// quickBatch is the batch size B and dimension D of the quick preset.
var quickBatch = [2]int{64, 32}

const surgeryLine = "surgery forward and backward"

func (s *session) surgery(ctx context.Context) error {
	sizes := [][2]int{quickBatch, {128, 64}, {512, 512}, {2048, 512}, {8192, 512}, {16384, 512}}
	rules := []string{"ours", "table1-circle", "table1-ms"}
	if testing.Short() {
		sizes, rules = sizes[:1], rules[:1]
	} else if onCPU(s.Choice) {
		sizes = sizes[:3]
	} else {
		sizes, rules = sizes[2:], rules[:1]
	}
	for _, size := range sizes {
		values, labels := gaussian(size[0], size[1])
		x := tensors.FromFlatDataAndDimensions(values, size[0], size[1])
		l := tensors.FromFlatDataAndDimensions(labels, size[0])
		for _, name := range rules {
			rule, err := dmlx.ParseRule(name)
			if err != nil {
				return err
			}
			times, err := s.repeat(ctx, func(in []*graph.Node) []*graph.Node { return surgeryGradient(rule, in) }, x, l)
			if err != nil {
				return err
			}
			s.report(measured(surgeryLine, fmt.Sprintf("%s B=%d D=%d", rule, size[0], size[1]), "ms", times...))
		}
	}
	return nil
}

// surgeryGradient returns the gradient of a rule at the embeddings in[0] with the labels in[1].
func surgeryGradient(rule dmlx.Rule, in []*graph.Node) []*graph.Node {
	f, _ := dmlx.Surgery(in[0], in[1], rule)
	return graph.Gradient(graph.ReduceAllSum(f), in[0])
}

// run times whole processes, since this process keeps compiled graphs.
func (s *session) run(ctx context.Context) error {
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
			spec, err := benchSpec(of.preset, data)
			if err != nil {
				return err
			}
			var seconds []float64
			for range of.times {
				cmd := exec.CommandContext(ctx, self, "train", "--preset", of.preset, "--data", data,
					"--rule", spec.Rule, "--store", s.b.TempDir(), "--json")
				cmd.Env = append(os.Environ(), "DMLX_TEST_COMMAND=1") // This test is the command, see TestMain.
				if of.backend != "" {
					cmd.Env = append(cmd.Env, "GOMLX_BACKEND="+of.backend)
				}
				start := time.Now()
				if out, err := cmd.CombinedOutput(); err != nil {
					return errors.New(text.LastLine(string(out), err))
				}
				seconds = append(seconds, time.Since(start).Seconds())
			}
			s.report(measured(name, fmt.Sprintf("%s, %d steps", data, spec.Steps()), "s", seconds...))
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

func (s *session) cell(ctx context.Context) error {
	l, err := notebook.Lab(quietApp(os.TempDir()).Console)
	if err != nil {
		return err
	}
	if err := l.Setup(ctx); err != nil {
		return err
	}
	if err := l.Ready(); err != nil {
		return err
	}
	var cells []any
	for i := range 10 {
		source := importsCell
		if i > 0 {
			source = strings.ReplaceAll(diagramCell, "REPETITION", fmt.Sprint(i))
		}
		cells = append(cells, map[string]any{"cell_type": "code", "source": source, "metadata": map[string]any{},
			"outputs": []any{}, "execution_count": nil, "id": fmt.Sprintf("cell%d", i)})
	}
	notebook, err := json.Marshal(map[string]any{
		"cells": cells, "nbformat": 4, "nbformat_minor": 5,
		"metadata": map[string]any{"kernelspec": map[string]string{"name": lab.Kernel, "display_name": lab.KernelTitle,
			"language": "go"}},
	})
	if err != nil {
		return err
	}
	path := filepath.Join(s.b.TempDir(), "bench.ipynb")
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
	s.report(measured("notebook cell", "a rule and its triplet diagram", "s", times...))
	return nil
}
