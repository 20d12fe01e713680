package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/bench"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

var (
	evidenceDir    = flag.String("evidence", "", "folder for the records of TestEvidence, which then runs at full size")
	evidencePhotos = flag.String("evidence-photos", "", "folder of photographs to train Table 2 on")
	evidenceTime   = flag.Duration("evidence-time", 9*time.Minute, "after it, TestEvidence begins no other check")
)

// evidence is a check of a device, such as a GPU that is lent for minutes. Each is a process of its own, which can be
// ended, and leaves a record.
type evidence struct {
	name, about string
	limit       time.Duration // At full size.
	// command returns the arguments of this program, or of python where peer is set. nil leaves the check out, and why
	// says for what reason. small asks for seconds on a CPU.
	command func(small bool) (args []string, why string)
	peer    bool
	env     []string
}

// record is what a check leaves in its file.
type record struct {
	Check   string  `json:"check"`
	About   string  `json:"about"`
	State   string  `json:"state"` // "passed", "failed", "timed out" or "left out".
	Why     string  `json:"why,omitempty"`
	Small   bool    `json:"small,omitempty"` // A rehearsal, no measurement.
	Backend string  `json:"backend"`         // GOMLX_BACKEND, or "" for the default.
	GPU     string  `json:"gpu,omitempty"`   // Name, driver and memory, as nvidia-smi prints them.
	Machine string  `json:"machine"`
	Version string  `json:"version"`
	Date    string  `json:"date"`
	Seconds float64 `json:"seconds"`
	Output  any     `json:"output,omitempty"` // JSON, or lines of text.
}

// tests returns the arguments that run a test or benchmark of this program.
func tests(pattern string, more ...string) []string {
	return append([]string{"-test.run", "^$", "-test.timeout", "0", "-test.benchtime", "1x", "-test.bench",
		"^(" + pattern + ")$"}, more...)
}

// besidePeer returns a check that measures benchmarks, beside other libraries if a Python is given.
func besidePeer(name, about, pattern string, limit time.Duration) evidence {
	return evidence{name: name, about: about, limit: limit, command: func(small bool) ([]string, string) {
		if small {
			return nil, "a measurement"
		}
		var peer []string
		if *benchPeer != "" {
			peer = []string{"-peer", *benchPeer}
		}
		return tests(pattern, peer...), ""
	}}
}

// inProcess returns a check that is one of the benchmarks below: it prints a JSON object.
func inProcess(name, about, benchmark string, limit time.Duration, env ...string) evidence {
	return evidence{name: name, about: about, limit: limit, env: env,
		command: func(small bool) ([]string, string) {
			if small {
				return tests(benchmark, "-test.short"), ""
			}
			return tests(benchmark), ""
		}}
}

// allEvidence are the checks, the most telling first.
var allEvidence = []evidence{
	{name: "backend", about: "the backend opens: its plugin, devices and versions", limit: time.Minute,
		command: func(bool) ([]string, string) { return []string{"doctor", "--json"}, "" }},
	inProcess("rules", "gradients of the 168 rules and of the losses beside the Go backend's", "BenchmarkEvidenceRules",
		4*time.Minute),
	{name: "steps", about: "ten training steps beside PyTorch's in float64 and float32", limit: 6 * time.Minute,
		peer: true, command: func(small bool) ([]string, string) {
			args := []string{"internal/peer/parity.py", "--backends", cmp.Or(os.Getenv("GOMLX_BACKEND"), "xla"), "--dmlx"}
			if small {
				return append(args, os.Args[0], "--arch", "small", "--steps", "2"), ""
			}
			return append(args, os.Args[0]), ""
		}},
	inProcess("resume", "an interrupted run has the bits of a whole one", "BenchmarkEvidenceResume", 3*time.Minute),
	inProcess("resume-deterministic", "the same with XLA's deterministic operations", "BenchmarkEvidenceResume",
		3*time.Minute, "XLA_FLAGS=--xla_gpu_deterministic_ops=true"),
	besidePeer("speed", "training steps beside PyTorch's", "BenchmarkStep|BenchmarkResNet", 9*time.Minute),
	besidePeer("op", "gradient surgery and losses beside pytorch-metric-learning", "BenchmarkSurgery|BenchmarkLosses",
		6*time.Minute),
	besidePeer("recall", "recall of as many images as Stanford Online Products has", "BenchmarkRecall", 4*time.Minute),
	besidePeer("input", "photographs decoded, and batches cut from them", "BenchmarkInput", 4*time.Minute),
	{name: "table2", about: "Table 2 on photographs, by a ResNet-18 from random weights", limit: 9 * time.Minute,
		command: func(small bool) ([]string, string) {
			args := []string{"reproduce", "table2", "--json", "--jobs", "1", "--out", filepath.Join(*evidenceDir, "table2")}
			switch {
			case small:
				return nil, "a training"
			case *evidencePhotos == "":
				return nil, "no -evidence-photos"
			}
			return append(args, "--fine-grained", *evidencePhotos, "--arch", "resnet18", "--weights", "random", "--size",
				"112"), ""
		}},
}

// TestEvidence runs all checks in order and leaves a record of each in the folder -evidence, at once. A check that has
// passed there with the same program and backend is not run again, so that calls can follow each other:
//
//	go test -c -o dmlx.test ./dmlx/cmd/dmlx && cd dmlx/cmd/dmlx
//	GOMLX_BACKEND=xla:PLUGIN dmlx.test -test.run TestEvidence -test.v -evidence DIR -peer PYTHON
//
// Without -evidence it rehearses: small, and without what only measures.
func TestEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	dir, small := *evidenceDir, *evidenceDir == ""
	if small {
		dir = t.TempDir()
	}
	begin := time.Now()
	for _, e := range allEvidence {
		file := filepath.Join(dir, e.name+".json")
		if there, err := readRecord(file); err == nil && there.State == "passed" && there.Version == runs.Version() &&
			there.Backend == os.Getenv("GOMLX_BACKEND") {
			t.Logf("%s: passed before, on %s", e.name, there.Date)
			continue
		}
		r := record{State: "left out", Why: "no time was left"}
		if left := *evidenceTime - time.Since(begin); small || left > 10*time.Second {
			r = e.run(t.Context(), small, left)
		}
		r.Check, r.About, r.Small, r.Backend, r.Machine = e.name, e.about, small, os.Getenv("GOMLX_BACKEND"), runs.Machine()
		r.Version, r.Date, r.GPU = runs.Version(), time.Now().UTC().Format(time.RFC3339), gpu(t.Context())
		if err := durable.WriteJSON(file, r); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s, %.1f s %s", e.name, r.State, r.Seconds, r.Why)
		if r.State == "failed" || r.State == "timed out" {
			t.Errorf("%s: %s: %s\n%v", e.name, r.State, r.Why, r.Output)
		}
	}
}

func readRecord(file string) (r record, err error) {
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
}

// gpu returns what nvidia-smi says of the first GPU, or "".
func gpu(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total",
		"--format=csv,noheader").Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// run runs a check within its limit and what is left of the time.
func (e evidence) run(ctx context.Context, small bool, left time.Duration) (r record) {
	args, why := e.command(small)
	if e.peer && *benchPeer == "" {
		args, why = nil, "no -peer"
	}
	if args == nil {
		return record{State: "left out", Why: why}
	}
	if strings.Contains(strings.Join(e.env, " "), "xla_gpu") && !strings.Contains(os.Getenv("GOMLX_BACKEND"), "cuda") {
		return record{State: "left out", Why: "not on CUDA"}
	}
	limit := e.limit
	if !small {
		limit = min(limit, left)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	program := os.Args[0]
	if e.peer {
		program = *benchPeer
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	cmd.Env = append(os.Environ(), e.env...)
	if !strings.HasPrefix(args[0], "-test.") { // This test is the command, see TestMain.
		cmd.Env = append(cmd.Env, "DMLX_TEST_COMMAND=1")
	}
	start := time.Now()
	err := cmd.Run()
	r = record{State: "passed", Seconds: time.Since(start).Seconds(), Output: output(stdout.String())}
	switch {
	case ctx.Err() != nil:
		r.State, r.Why = "timed out", fmt.Sprintf("after %s", limit)
	case err != nil:
		r.State, r.Why = "failed", err.Error()
		r.Output = []any{r.Output, output(stderr.String())}
	}
	return r
}

// output is the JSON object that a program printed, or its lines.
func output(printed string) any {
	var v any
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &v) == nil {
			return v
		}
	}
	if json.Unmarshal([]byte(printed), &v) == nil {
		return v
	}
	const most = 400
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	return lines[max(0, len(lines)-most):]
}

// BenchmarkEvidenceRules compares gradients on the backend with the Go backend's, and fails beyond a relative distance
// of 1e-5. It prints the greatest, and the rule or loss that has it.
func BenchmarkEvidenceRules(b *testing.B) {
	choice, err := openBench()
	if err != nil {
		b.Fatal(err)
	}
	reference, err := backend.Go()
	if err != nil {
		b.Fatal(err)
	}
	names, published := paper.GridRules(), losses.Names()
	if testing.Short() {
		names, published = names[:3], published[:2]
	}
	distances := make(map[string]float64)
	for _, name := range names {
		rule, err := dmlx.ParseRule(name)
		if err != nil {
			b.Fatal(err)
		}
		distances[name] = gradientDistance(b, choice.Backend, reference, 0, func(in []*graph.Node) *graph.Node {
			f, _ := dmlx.Surgery(in[0], in[1], rule)
			return graph.Gradient(graph.ReduceAllSum(f), in[0])[0]
		})
	}
	for _, name := range published {
		l, err := losses.Parse(name)
		if err != nil {
			b.Fatal(err)
		}
		distances["loss "+name] = gradientDistance(b, choice.Backend, reference, losses.PerClass(l),
			func(in []*graph.Node) *graph.Node { return lossAndGradients(l, in)[1] })
	}
	worst := slices.MaxFunc(slices.Sorted(maps.Keys(distances)), func(x, y string) int {
		return int(math.Copysign(1, distances[x]-distances[y]))
	})
	printJSON(b, map[string]any{"rules": len(names), "losses": len(published), "greatest": distances[worst], "of": worst,
		"distances": distances})
	if !(distances[worst] <= 1e-5) {
		b.Fatalf("%s differs by %g", worst, distances[worst])
	}
}

// gradientDistance is the length of the difference of a gradient on two backends over the gradient's. k is the number
// of proxies of each class.
func gradientDistance(b *testing.B, one, other compute.Backend, k int, build func([]*graph.Node) *graph.Node) float64 {
	const n, dim = 64, 32
	values, labels := bench.Gaussian(n, dim)
	rows := k * (int(labels[n-1]) + 1)
	proxies, _ := bench.Gaussian(rows, dim)
	slices.Reverse(proxies) // They are others than the embeddings.
	of := make([]int64, rows)
	for i := range of {
		of[i] = int64(i / k)
	}
	var got [2][]float32
	for i, on := range []compute.Backend{one, other} {
		in := []any{tensors.FromFlatDataAndDimensions(values, n, dim), tensors.FromFlatDataAndDimensions(labels, n)}
		if k > 0 {
			in = append(in, tensors.FromFlatDataAndDimensions(proxies, rows, dim), tensors.FromFlatDataAndDimensions(of, rows))
		}
		exec, err := graph.NewExec(on, build)
		if err != nil {
			b.Fatal(err)
		}
		out, err := exec.Call(in...)
		if err != nil {
			b.Fatal(err)
		}
		got[i] = tensors.MustCopyFlatData[float32](out[0])
		exec.Finalize()
	}
	difference, length := 0., 0.
	for i, want := range got[1] {
		difference += math.Pow(float64(got[0][i]-want), 2)
		length += math.Pow(float64(want), 2)
	}
	if length == 0 {
		return math.Sqrt(difference)
	}
	return math.Sqrt(difference / length)
}

// BenchmarkEvidenceResume trains a smoke run whole, and again with an interruption in the middle, and compares the
// files that they leave and what they measure.
func BenchmarkEvidenceResume(b *testing.B) {
	choice, err := openBench()
	if err != nil {
		b.Fatal(err)
	}
	preset, err := presets.Parse("smoke")
	if err != nil {
		b.Fatal(err)
	}
	rule, err := dmlx.ParseRule("ours")
	if err != nil {
		b.Fatal(err)
	}
	spec, err := preset.Spec("minicar", rule, 1)
	if err != nil {
		b.Fatal(err)
	}
	trainer := train.New(choice)
	var results []*runs.Result
	stopped := 0
	for _, interrupt := range []bool{false, true} {
		store, err := runs.OpenStore(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		for {
			ctx, cancel := context.WithCancel(b.Context())
			r, err := runs.Run(ctx, trainer, store, spec, func(p runs.Progress) {
				if interrupt && stopped == 0 && p.Step > spec.Steps()/2 {
					stopped = p.Step
					cancel()
				}
			})
			cancel()
			if errors.Is(err, context.Canceled) {
				continue
			}
			if err != nil {
				b.Fatal(err)
			}
			results = append(results, r)
			break
		}
	}
	same := maps.Equal(results[0].Files, results[1].Files) && maps.Equal(results[0].Recall, results[1].Recall)
	printJSON(b, map[string]any{"steps": spec.Steps(), "interrupted_at": stopped, "same_bits": same,
		"files": []any{results[0].Files, results[1].Files}})
	if !same || stopped == 0 {
		b.Fatalf("interrupted at step %d; the same bits: %v", stopped, same)
	}
}

func printJSON(b *testing.B, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("\n%s\n", raw) // The benchmark's name stands in the line before it.
}
