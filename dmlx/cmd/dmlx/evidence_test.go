//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/doctor"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/training"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

var (
	evidenceDir     = flag.String("evidence", "", "folder for the records of TestEvidence, which then runs at full size")
	evidencePhotos  = flag.String("evidence-photos", "", "folder of photographs to train Table 2 on")
	evidenceNetwork = flag.String("evidence-network", "", "ONNX file of the network to train on them")
	evidenceStore   = flag.String("evidence-store", "", "folder for the runs of Table 2")
	evidenceTime    = flag.Duration("evidence-time", 9*time.Minute, "after it, TestEvidence begins no other check")
	evidenceList    = flag.Bool("evidence-list", false, "list the checks of TestEvidence with their expected times")
	evidenceSmall   = flag.Bool("evidence-small", false, "rehearse in small, with records in the folder -evidence")
	evidenceOf      = flag.String("evidence-of", "small 4 4 32", "what BenchmarkEvidenceStep trains: network, classes, "+
		"images of each, pixels and precision: bf16, tf32 or bf16-recomputed; or BenchmarkEvidenceParity: network, bf16")
)

// evidenceFile has all records of a folder, and evidencePage those that were recorded on a GPU, for people.
const (
	evidenceFile     = "evidence.json"
	evidenceRecorded = "internal/peer/testdata/evidence.json"
	evidencePage     = "../../../environment.md"
)

// evidence is a check of a device, such as a GPU that is lent for minutes. Each is a process of its own, which can be
// ended, and leaves a record.
type evidence struct {
	name, about string
	expected    time.Duration // On an H100 with 16 cores, an estimate.
	// command returns the arguments of this program. nil leaves the check out, and why says for what reason. small asks
	// for seconds on a CPU.
	command func(small bool) (args []string, why string)
	peer    bool // It needs -peer.
	env     []string
}

// record is what a check leaves in the file of its folder.
type record struct {
	Check   string  `json:"check"`
	About   string  `json:"about"`
	State   string  `json:"state"`           // "passed", "failed", "timed out", "left out" or notRun.
	Why     string  `json:"why,omitempty"`   // Of a check that has passed, what was not measured or done as asked.
	Small   bool    `json:"small,omitempty"` // A rehearsal, no measurement.
	Backend string  `json:"backend"`         // GOMLX_BACKEND, or "" for the default. It names the plugin.
	GPU     string  `json:"gpu,omitempty"`   // Name, driver and memory of the GPU, if the backend computes on one.
	Machine string  `json:"machine"`
	Version string  `json:"version"`
	Date    string  `json:"date"`
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`      // Of the check's processes, without its peer's.
	Output  any     `json:"output,omitempty"` // JSON, or lines of text.
}

// scratchPlace stands for a folder in the arguments of a check, which is removed behind it. A benchmark leaves
// linesFile there.
const scratchPlace, linesFile = "SCRATCH", "/lines.json"

// measures returns a check that is a benchmark of this program, beside other libraries if a Python is given. small
// tells whether it is rehearsed.
func measures(name, about, benchmark string, seconds int, rehearsed bool, more ...string) evidence {
	expected := time.Duration(seconds) * time.Second
	return evidence{name: name, about: about, expected: expected, command: func(small bool) ([]string, string) {
		args := append([]string{"-test.run", "^$", "-test.timeout", "0", "-test.benchtime", "1x", "-test.bench",
			"^" + benchmark + "$", "-record", scratchPlace + linesFile}, more...)
		switch {
		case small && !rehearsed:
			return nil, "another size of a check that is rehearsed"
		case small:
			args = append(args, "-test.short")
		}
		return append(args, "-peer", *benchPeer), ""
	}}
}

// step returns a check of a training step, with the arguments of -evidence-of.
func step(at string, seconds int, rehearsed bool, env ...string) evidence {
	e := measures("step "+at, "time and memory of a training step", "BenchmarkEvidenceStep", seconds, rehearsed,
		"-evidence-of", at)
	e.peer, e.env = strings.HasPrefix(at, "vit_"), env // It exports the network.
	return e
}

// parity returns a check of ten training steps beside PyTorch's, with the arguments of -evidence-of.
func parity(of string, seconds int, rehearsed bool) evidence {
	e := measures("parity "+of, "ten training steps beside PyTorch's in float64 and on the same device",
		"BenchmarkEvidenceParity", seconds, rehearsed, "-evidence-of", of)
	e.peer = true
	return e
}

// onPhotographs returns a command of this program on the photographs by the network of a file, in the setting of
// photographs.md. Its runs stay, so that more seeds go on from fewer. In small it is a step on drawn images.
func onPhotographs(small bool, command ...string) (args []string, why string) {
	network, store := *evidenceNetwork, *evidenceStore
	switch {
	case small:
		network, store = "../../onnx/testdata/efficientnet_lite0.onnx", scratchPlace
		command = append(command, "--preset", "smoke", "--set", "steps=1")
	case *evidencePhotos == "" || network == "" || store == "":
		return nil, "no -evidence-photos, no -evidence-network or no -evidence-store"
	}
	return append(command, "--json", "--jobs", "1", "--arch", network, "--store", store), ""
}

// ratesFile is the preset in the folder of the records with the rates that are chosen there for Table 2.
func ratesFile() string { return filepath.Join(*evidenceDir, "rates.toml") }

// rates returns a check that chooses the learning rates of Table 2's rules for a whole network, on held-out classes.
func rates() evidence {
	return evidence{name: "rates", about: "learning rates of a whole network on photographs, on held-out classes",
		expected: 5 * time.Minute, command: func(small bool) ([]string, string) {
			if small {
				return onPhotographs(small, "rates", "--data", "minicar", "--lr", "0.01,0.02", "--wider", "0",
					"--rule", "euc/con/con", "--write", ratesFile())
			}
			return onPhotographs(small, "rates", "--preset", "../../paper/photographs.toml", "--data",
				*evidencePhotos, "--set", "train_only=.", "--lr", "0.02,0.06,0.2", "--wider", "0", "--held-out", "4",
				"--seeds", "1", "--write", ratesFile(), "--rule", "euc/con/con", "--rule", "cos/con/con",
				"--rule", "euc-orth/con/con", "--rule", "cos-orth/con/con")
		}}
}

// table2 returns a check that trains Table 2 by the network of a file: its last blocks, at the rates that were chosen
// on a CPU for photographs.md, whose means it should come near, or all of it, at the rates of an earlier check.
func table2(whole bool, seeds string, expected time.Duration, rehearsed bool) evidence {
	name, about := "table2 seeds ", "Table 2 on photographs, by the last blocks of an ONNX file's network"
	if whole {
		name, about = "table2 whole seeds ", "Table 2 on photographs, by a whole network of an ONNX file"
	}
	return evidence{name: name + seeds, about: about, expected: expected, command: func(small bool) ([]string, string) {
		preset, bundle, more := "../../paper/photographs-rates.toml", "table2.json", []string{"--keep", "8GB"}
		if whole {
			preset, bundle, more = ratesFile(), "table2-whole.json", []string{"--set", "train_only=."}
		}
		switch _, err := os.Stat(preset); {
		case small && !rehearsed:
			return nil, "other runs of a check that is rehearsed"
		case small:
			return onPhotographs(small, "reproduce", "table2", "--no-bundled", "--seeds", seeds, "--lr", "0.01",
				"--set", "fine_grained=minicar", "--set", "coarse_grained=none", "--write-bundled",
				scratchPlace+"/table2.json", "--keep", "1GB", "--set", `train_only=blocks\.6\.|conv_head|^bn2`,
				"--set", "augment=flip") // As in photographs.toml.
		case err != nil:
			return nil, "no rates were chosen"
		}
		return onPhotographs(small, append([]string{"reproduce", "table2", "--preset", preset, "--seeds", seeds,
			"--set", "fine_grained=" + *evidencePhotos, "--write-bundled", filepath.Join(*evidenceDir, bundle)}, more...)...)
	}}
}

// allEvidence are the checks, the most telling first: every kind of number should be there after nine minutes.
// The time of a check is that of its compilations, by what they take for an H100 by its description on two cores, of
// cuDNN's choice of algorithms, and of the start of its processes.
func allEvidence() []evidence {
	deterministic := measures("resume deterministic", "an interrupted run with XLA's deterministic operations has them",
		"BenchmarkEvidenceResume", 40, true)
	deterministic.env = []string{"XLA_FLAGS=" + os.Getenv("XLA_FLAGS") + " --xla_gpu_deterministic_ops=true"}
	tf32 := "GOMLX_BACKEND=" + cmp.Or(os.Getenv("GOMLX_BACKEND"), "xla:cuda") + ",tf32"
	return []evidence{
		{name: "backend", about: "the backend opens: its plugin, devices and versions", expected: 10 * time.Second,
			command: func(bool) ([]string, string) { return []string{"doctor", "--json"}, "" }},
		measures("rules", "gradients of the 168 rules and of the losses beside the Go backend's", "BenchmarkEvidenceRules",
			75, true),
		step("resnet50 8 16 224 bf16", 110, false), parity("resnet18", 50, false),
		measures("resume", "an interrupted run has the bits of a whole one", "BenchmarkEvidenceResume", 35, true),
		measures("op", "gradient surgery beside pytorch-metric-learning", "BenchmarkSurgery", 50, true),
		measures("recall", "recall of as many images as Stanford Online Products has", "BenchmarkRecall", 45, true),
		measures("input", "photographs decoded, batches cut from them and copied to the device", "BenchmarkInput", 25,
			true),
		table2(false, "1", 2*time.Minute, true),
		step("vit_small_patch16_224 8 16 224 bf16", 90, false), parity("vit", 45, true),
		parity("resnet50 bf16", 80, false), step("resnet50 8 16 224", 100, false),
		step("resnet50 32 16 224 bf16", 120, false), deterministic, table2(false, "1-5", 2*time.Minute, false),
		parity("small bf16", 35, true), parity("vit bf16", 45, false), parity("resnet18 bf16", 50, false),
		parity("resnet50", 80, false), parity("small", 35, false),
		step("small 4 4 32", 50, true), step("resnet18 8 16 224 bf16", 80, false), step("resnet18 8 16 224", 80, false),
		step("vit_small_patch16_224 8 16 224", 90, false), step("vit_small_patch16_224 8 16 224 tf32", 90, false, tf32),
		step("vit_base_patch16_224 8 16 224 bf16", 110, false), step("vit_small_patch16_224 32 16 224 bf16", 100, false),
		step("resnet50 8 16 224 bf16-recomputed", 60, false), step("resnet50 32 16 224 bf16-recomputed", 70, false),
		step("resnet18 32 16 224 bf16", 90, false), step("vit_base_patch16_224 32 16 224 bf16", 130, false),
		rates(), table2(true, "1", 5*time.Minute, false), table2(true, "1-3", 5*time.Minute, false),
		measures("losses", "losses beside pytorch-metric-learning", "BenchmarkLosses", 240, false),
	}
}

// limit is the time after which a check is ended at full size.
func (e evidence) limit() time.Duration { return min(max(2*e.expected, time.Minute), 9*time.Minute) }

// TestEvidence runs all checks in order and leaves their records in a file of the folder -evidence, each at once. A
// check that has passed there with the same program is not run again, so that calls can follow each other. One that did
// not pass, or passed with another program, is tried again behind all others. Records of another device, backend or
// size are refused:
//
//	go test -c -o dmlx.test ./dmlx/cmd/dmlx && cd dmlx/cmd/dmlx
//	GOMLX_BACKEND=xla:PLUGIN dmlx.test -test.run TestEvidence -test.v -evidence DIR -peer PYTHON
//
// Without -evidence it rehearses, in small. With -evidence-list it lists the checks.
func TestEvidence(t *testing.T) {
	if *evidenceList {
		fmt.Print(evidenceTimes())
		return
	}
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	small := *evidenceSmall || *evidenceDir == ""
	if *evidenceDir == "" {
		*evidenceDir = t.TempDir()
	}
	if !small && os.Getenv("GOMLX_BACKEND") == "" { // The Go backend could stand in for one that is not found.
		t.Fatal("GOMLX_BACKEND is not set: want the backend to check, such as xla:/path/to/plugin.so")
	}
	if small && !strings.Contains(os.Getenv("GOMLX_BACKEND"), "cuda") { // Half of a rehearsal's time is the compilers'.
		t.Setenv("XLA_FLAGS", os.Getenv("XLA_FLAGS")+" --xla_backend_optimization_level=0")
	}
	begin, dir, now := time.Now(), *evidenceDir, func(e evidence) record {
		return record{Check: e.name, About: e.about, State: notRun, Small: small, Backend: os.Getenv("GOMLX_BACKEND"),
			Machine: runs.Machine(), Version: cmp.Or(os.Getenv("DMLX_EVIDENCE_VERSION"), runs.Version()),
			Date: time.Now().UTC().Format(time.RFC3339)}
	}
	file := filepath.Join(dir, evidenceFile)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(dir) // Locked until the end of this process: two would overwrite each other's records.
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatalf("another run writes records into %s: %v", dir, err)
	}
	earlier, err := readRecords(file)
	if err != nil {
		t.Fatal(err)
	}
	checks := allEvidence()
	refuse := func(opened record, known bool) {
		for _, other := range earlier {
			if !known {
				opened.GPU = other.GPU
			}
			if err := other.fits(opened); err != nil {
				t.Fatalf("%s: %v: want another folder", file, err)
			}
		}
	}
	refuse(now(checks[0]), false)
	if *benchPeer != "" {
		python, stop := *benchPeer, func() {}
		if *benchPeer, stop, err = startPeer(python); err != nil {
			t.Fatal(err)
		}
		defer func() { *benchPeer = python; stop() }()
	}
	records, order := planned(checks, earlier, now)
	write := func(r record) { // At once: before minutes are spent that leave no record.
		if err := durable.WriteJSON(file, records); err != nil {
			raw, _ := json.Marshal(r)
			t.Fatalf("%v: want room and the right to write there; this is not in it:\n%s", err, raw)
		}
	}
	write(records[0])
	device := ""
	for k, i := range order {
		e, r, again := checks[i], now(checks[i]), ran(records[i])
		if left := *evidenceTime - time.Since(begin); k == 0 || small || left > 10*time.Second {
			e.run(t.Context(), &r, left)
			if k == 0 {
				device = r.device(t.Context())
			}
			r.GPU, r.Date = device, time.Now().UTC().Format(time.RFC3339)
			if k == 0 && r.State == "passed" {
				refuse(r, true)
			}
			if !again || ran(r) { // Or else the earlier result is what is known.
				records[i] = r
			}
		}
		r = records[i]
		write(r)
		t.Logf("%s: %s, %.1f s (%.1f s of CPU) %s", e.name, r.State, r.Seconds, r.CPU, r.Why)
		if r.State == "failed" || r.State == "timed out" || small && strings.Contains(r.Why, "warning: ") {
			t.Errorf("%s: %s: %s\n%v", e.name, r.State, r.Why, r.Output)
			if i == 0 {
				t.Fatal("the backend does not open: no other check was run")
			}
		}
	}
	if text := evidenceText(records); device == "" && text != evidenceText(nil) {
		t.Errorf("records of a CPU are shown as a GPU's:\n%s", text)
	}
}

// notRun is the state of a check that was not run, at least not to its end.
const notRun = "not run"

// ran tells whether a record is the result of a check.
func ran(r record) bool { return r.State != "" && r.State != notRun && r.State != "left out" }

// planned returns the records of a folder, those of checks that are no more behind all others, and the order in which
// the checks are run: the backend's, which tells the device, those that did not run yet, and those whose result may be
// another now.
func planned(checks []evidence, earlier []record, now func(evidence) record) (records []record, order []int) {
	var again []int
	for i, e := range checks {
		r := now(e)
		if k := slices.IndexFunc(earlier, func(r record) bool { return r.Check == e.name }); k >= 0 && ran(earlier[k]) {
			r = earlier[k]
		}
		records = append(records, r)
		switch {
		case i == 0 || !ran(r):
			order = append(order, i)
		case r.State != "passed" || r.Version != now(e).Version:
			again = append(again, i)
		}
	}
	for _, r := range earlier {
		if !slices.ContainsFunc(checks, func(e evidence) bool { return e.name == r.Check }) {
			records = append(records, r)
		}
	}
	return records, append(order, again...)
}

// fits returns an error if the result of an earlier check is of another device, backend or size than that of now, and
// not only of its opening.
func (r record) fits(now record) error {
	of := func(r record) string {
		return fmt.Sprintf("GPU %q, GOMLX_BACKEND %q, small %v", r.GPU, r.Backend, r.Small)
	}
	if r.Check != now.Check && ran(r) && of(r) != of(now) {
		return fmt.Errorf("it has a record of %s on %s, and this is %s", r.Check, of(r), of(now))
	}
	return nil
}

// device returns the GPU of the backend that this record of its opening tells of, or "" if it computes on none: a
// plugin's name may say CUDA, as gpu.py's does, and its devices be a CPU's.
func (r record) device(ctx context.Context) string {
	var v doctor.Report
	if raw, err := json.Marshal(r.Output); err != nil || json.Unmarshal(raw, &v) != nil || v.Backend == nil {
		return ""
	}
	devices := strings.Join(v.Backend.Devices, ", ")
	if v.Backend.Name != "xla:cuda" || strings.Contains(strings.ToLower(devices), "cpu") {
		return ""
	}
	return cmp.Or(gpu(ctx), v.GPU, devices)
}

// evidenceTimes lists the checks with their expected times.
func evidenceTimes() string {
	var b strings.Builder
	sum := time.Duration(0)
	for _, e := range allEvidence() {
		sum += e.expected
		fmt.Fprintf(&b, "%4.0f s, %5.1f min in all  %-42s %s\n", e.expected.Seconds(), sum.Minutes(), e.name, e.about)
	}
	return b.String()
}

// readRecords reads the records of a file, or none if there is none.
func readRecords(file string) (records []record, err error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &records)
	}
	if err != nil {
		err = fmt.Errorf("%s holds no records: %w; want what an earlier call left, or no such file", file, err)
	}
	return records, err
}

// gpu returns what nvidia-smi says of this machine's GPUs, of equal ones once, or "". It does not know which of them
// computes: it ignores CUDA_VISIBLE_DEVICES, and has another order than CUDA.
func gpu(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total",
		"--format=csv,noheader").Output()
	if err != nil {
		return ""
	}
	gpus := slices.Sorted(strings.SplitSeq(strings.TrimSpace(string(out)), "\n"))
	return strings.Join(slices.Compact(gpus), " or ")
}

// TestEvidenceGPU checks that the GPU of a machine with several is not taken for the first of them.
func TestEvidenceGPU(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for printed, want := range map[string]string{"H100, 580, 81559 MiB": "H100, 580, 81559 MiB", "B\nA\nB": "A or B"} {
		script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", printed)
		if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if got := gpu(t.Context()); got != want {
			t.Errorf("%q is %q, want %q", printed, got, want)
		}
	}
}

// run runs a check within its limit and what is left of the time, and sets the record.
func (e evidence) run(ctx context.Context, r *record, left time.Duration) {
	args, why := e.command(r.Small)
	switch {
	case e.peer && *benchPeer == "":
		args, why = nil, "no -peer"
	case strings.Contains(strings.Join(e.env, " "), "xla_gpu") && !strings.Contains(r.Backend, "cuda"):
		args, why = nil, "not on CUDA"
	}
	r.State, r.Why = "left out", why
	if args == nil {
		return
	}
	limit := min(e.limit(), left)
	if r.Small {
		limit = 10 * time.Minute // Of a machine that does much else: rehearsals measure nothing.
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	scratch, err := os.MkdirTemp("", "dmlx-evidence-")
	if err != nil {
		r.State, r.Why = "failed", err.Error()
		return
	}
	defer os.RemoveAll(scratch)
	for i, arg := range args {
		args[i] = strings.Replace(arg, scratchPlace, scratch, 1)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 5*time.Second
	// A check starts processes that may outlive it and keep the device's memory; PyTorch's joins the group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(append(os.Environ(), checkEnv+"=1"), e.env...)
	if !strings.HasPrefix(args[0], "-test.") { // This test is the command, see TestMain.
		cmd.Env = append(cmd.Env, "DMLX_TEST_COMMAND=1")
	}
	start := time.Now()
	if _, err = cmd.StdinPipe(); err == nil { // It ends with this process.
		err = cmd.Run()
	}
	r.State, r.Why, r.Seconds, r.Output = "passed", "", time.Since(start).Seconds(), output(stdout.String())
	if errors.Is(err, exec.ErrWaitDelay) { // The check has ended well, but one of those had not.
		err = nil
	}
	if p := cmd.ProcessState; p != nil {
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
		r.CPU = (p.UserTime() + p.SystemTime()).Seconds()
	}
	if raw, err := os.ReadFile(scratch + linesFile); err == nil {
		r.Output = output(string(raw))
	}
	switch {
	case ctx.Err() != nil && limit < e.limit():
		r.State, r.Why = notRun, fmt.Sprintf("the call ended %.0f s after it had begun", limit.Seconds())
	case ctx.Err() != nil:
		r.State, r.Why = "timed out", fmt.Sprintf("after %s", limit)
	case err != nil:
		r.State, r.Why = "failed", err.Error()
		r.Output = []any{r.Output, output(stderr.String())}
	case r.allDiverged():
		r.State, r.Why = "failed", "all runs diverged"
	default:
		r.Why = strings.Join(caveats.FindAllString(stderr.String(), -1), "; ")
	}
}

// checkEnv is set for the process of a check. It ends with its group when its standard input does, since a check whose
// caller was killed would slow those of the next call.
const checkEnv = "DMLX_EVIDENCE_CHECK"

func init() {
	if os.Getenv(checkEnv) == "" {
		return
	}
	os.Unsetenv(checkEnv) // Processes that it starts are of its group.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = syscall.Kill(0, syscall.SIGKILL)
	}()
}

// TestEvidenceEnds checks that a check ends with its caller.
func TestEvidenceEnds(t *testing.T) {
	if os.Getenv("DMLX_TEST_SLEEP") != "" {
		time.Sleep(time.Minute)
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestEvidenceEnds$")
	cmd.Env = append(os.Environ(), checkEnv+"=1", "DMLX_TEST_SLEEP=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	caller, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(caller.Close(), cmd.Wait()); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v, want killed", err)
	}
}

// caveats are the lines of bench.py and of commands that say what was not done as asked.
var caveats = regexp.MustCompile(`(?m)^(?:not measured|warning): .*`)

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

// printed is what is known of the output of a check.
type printed struct {
	Summary string
	Lines   []measurement
	Tables  []struct{ Cells []training.Cell }
	Choices []presets.RateChoice
}

// printed returns what is known of the output: of lines of text, nothing.
func (r record) printed() (v printed) {
	raw, err := json.Marshal(r.Output)
	if err != nil || json.Unmarshal(raw, &v) != nil {
		return printed{}
	}
	return v
}

// allDiverged tells whether the check trained the runs of tables or learning rates, of which none has a result.
func (r record) allDiverged() bool {
	finite, diverged, v := 0, 0, r.printed()
	for _, t := range v.Tables {
		for _, c := range t.Cells {
			finite, diverged = finite+c.N, diverged+c.Diverged
		}
	}
	for _, c := range v.Choices {
		for _, t := range c.Trials {
			finite, diverged = finite+t.HeldOut.N, diverged+t.HeldOut.Diverged
		}
	}
	return finite == 0 && diverged > 0
}

// result is a record's result in a cell of a table.
func (r record) result() string {
	if r.State != "passed" {
		return strings.TrimSuffix(r.State+": "+r.Why, ": ")
	}
	v := r.printed()
	parts := []string{cmp.Or(v.Summary, r.State)}
	for _, m := range v.Lines {
		if !strings.HasSuffix(m.Name, ", bests") {
			parts = append(parts, fmt.Sprintf("%s, %s: %.3g %s", m.Name, m.Size, m.Value, m.Unit))
		}
	}
	for _, t := range v.Tables {
		for _, c := range t.Cells {
			text := fmt.Sprintf("%s: %d diverged", c.Row, c.Diverged)
			if c.Mean != nil {
				text = fmt.Sprintf("%s: Recall@1 %.1f ± %.1f of %d seeds, %d diverged", c.Row, 100**c.Mean, 100*c.Std, c.N,
					c.Diverged)
			}
			parts = append(parts, text)
		}
	}
	if r.Why != "" {
		parts = append(parts, r.Why)
	}
	return strings.Join(parts, "<br>")
}

// evidenceText is what environment.md says of the records of a GPU.
func evidenceText(records []record) string {
	var s, rows strings.Builder
	var head string // Of the first record; another one's of another day or commit has its own.
	var abouts []string
	missing, all := make(map[string][]string), make(map[string]int)
	for _, e := range allEvidence() {
		if all[e.about]++; all[e.about] == 1 {
			abouts = append(abouts, e.about)
		}
		i := slices.IndexFunc(records, func(r record) bool { return r.Check == e.name && r.GPU != "" && !r.Small && ran(r) })
		if i < 0 {
			missing[e.about] = append(missing[e.about], e.name)
			continue
		}
		r := records[i]
		of, own := fmt.Sprintf("n %s, on %s, by %s", r.GPU, strings.Split(r.Date, "T")[0], r.Version), ""
		if head == "" {
			head = of
			s.WriteString("O" + of + ":\n\n")
		} else if of != head {
			own = " (o" + of + ")"
		}
		fmt.Fprintf(&rows, "| %s: %s%s | %s |\n", r.Check, r.About, own, r.result())
	}
	if rows.Len() == 0 {
		return fmt.Sprintf("No GPU has run anything yet: %d checks wait for one, which `go test ./dmlx/cmd/dmlx "+
			"-run Evidence -evidence-list` lists.\n", len(abouts))
	}
	s.WriteString("| check | result |\n|---|---|\n" + rows.String())
	var waiting []string
	for _, about := range abouts {
		switch names := missing[about]; len(names) {
		case 0:
		case all[about]:
			waiting = append(waiting, about)
		default:
			waiting = append(waiting, about+" ("+strings.Join(names, ", ")+")")
		}
	}
	if waiting != nil {
		s.WriteString("\nNot run: " + strings.Join(waiting, "; ") + ".\n")
	}
	return s.String()
}

// TestEvidencePage checks that environment.md says what the records of a GPU say, and what was not run. -regen writes
// it anew. The records are a file of TestEvidence, put into its place.
func TestEvidencePage(t *testing.T) {
	records, err := readRecords(evidenceRecorded)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- Records of a GPU: go test ./dmlx/cmd/dmlx -run EvidencePage -regen -->\n", "<!-- end -->\n"
	raw, err := os.ReadFile(evidencePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), begin)
	have, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the records: want a line %q and %q", evidencePage, begin, end)
	}
	want := evidenceText(records)
	if *cmpimg.GenerateTestData {
		if err := durable.WriteFile(evidencePage, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if have != want {
		t.Errorf("%s does not say what %s says: go test ./dmlx/cmd/dmlx -run EvidencePage -regen\nwant %s", evidencePage,
			evidenceRecorded, want)
	}
	device := record{Output: map[string]any{"backend": map[string]any{"name": "xla:cuda", "devices": []string{"a GPU"}},
		"nvidia_gpu": "a GPU"}}.device(t.Context())
	if device == "" {
		t.Error("a GPU is none")
	}
	for _, name := range []string{"xla:cpu", "xla:cuda"} {
		beside := record{Output: map[string]any{"backend": map[string]any{"name": name, "devices": []string{"TFRT_CPU_0"}},
			"nvidia_gpu": "a GPU"}}
		if got := beside.device(t.Context()); got != "" {
			t.Errorf("a CPU beside a GPU, called %s, is %q", name, got)
		}
	}
	of := func(check, state, why, version string, output any) record {
		return record{Check: check, About: "of " + check, State: state, Why: why, GPU: device, Date: "2026-01-02T03:04:05Z",
			Version: version, Output: output}
	}
	small, cpu := of("recall", "passed", "", "v1", nil), of("resume", "passed", "", "v1", nil)
	small.Small, cpu.GPU = true, ""
	text := evidenceText([]record{small, cpu,
		of("rules", "passed", "", "v1", map[string]any{"summary": "well"}), of("op", "timed out", "after 1s", "v1", nil),
		of("losses", "passed", "not measured: a peer", "v0", map[string]any{"lines": []any{map[string]any{"name": "loss ms",
			"size": "B=512", "value": 1.5, "unit": "ms"}}}),
		of("input", notRun, "the call ended", "v1", nil),
		of("table2 seeds 1", "passed", "", "v1", map[string]any{"tables": []any{map[string]any{"cells": []any{map[string]any{
			"row": "cos", "recall_at_1": 0.5, "n": 1}, map[string]any{"row": "euc", "diverged": 1}}}}}),
	})
	for _, part := range []string{"On " + device + ", on 2026-01-02, by v1:\n", "| rules: of rules | well |",
		"| op: of op | timed out: after 1s |", "cos: Recall@1 50.0 ± 0.0 of 1 seeds, 0 diverged<br>euc: 1 diverged",
		"| losses: of losses (on " + device + ", on 2026-01-02, by v0) | passed<br>loss ms, B=512: 1.5 ms<br>not measured: " +
			"a peer |\n", "\nNot run: ", "; an interrupted run has the bits of a whole one; ",
		"; recall of as many images as Stanford Online Products has; ",
		"; photographs decoded, batches cut from them and copied to the device; ", " (table2 seeds 1-5)",
		"ten training steps beside PyTorch's in float64 and on the same device; "} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
}

// TestEvidenceGoesOn checks what a call does with the records of earlier ones: none is lost, and none of another
// device, backend or size stands beside its own.
func TestEvidenceGoesOn(t *testing.T) {
	t.Parallel()
	now := func(e evidence) record {
		return record{Check: e.name, State: notRun, GPU: "G", Backend: "b", Version: "v2"}
	}
	of := func(check, state, version string) record {
		return record{Check: check, State: state, GPU: "G", Backend: "b", Version: version}
	}
	checks := allEvidence()[:7]
	earlier := []record{of("backend", "passed", "v2"), of(checks[1].name, "passed", "v2"),
		of(checks[2].name, "passed", "v1"), of(checks[3].name, "failed", "v2"), of(checks[4].name, notRun, "v1"),
		of(checks[5].name, "left out", "v1"), of("a check of v1", "passed", "v1")}
	records, order := planned(checks, earlier, now)
	if !slices.Equal(order, []int{0, 4, 5, 6, 2, 3}) {
		t.Errorf("order %v", order)
	}
	for i, want := range []record{earlier[0], earlier[1], earlier[2], earlier[3], now(checks[4]), now(checks[5]),
		now(checks[6]), earlier[6]} {
		if !reflect.DeepEqual(records[i], want) {
			t.Errorf("record %d is %v, want %v", i, records[i], want)
		}
	}
	opened := now(checks[0])
	for what, change := range map[string]func(*record){
		"":        func(*record) {},
		"GPU":     func(r *record) { r.GPU = "H" },
		"no GPU":  func(r *record) { r.GPU = "" },
		"backend": func(r *record) { r.Backend = "c" },
		"size":    func(r *record) { r.Small = true },
		"opening": func(r *record) { r.Check, r.Backend, r.GPU = opened.Check, "c", "" },
		"none":    func(r *record) { r.State, r.Backend = notRun, "c" },
	} {
		r := of(checks[1].name, "passed", "v1")
		change(&r)
		if refused := r.fits(opened) != nil; refused != slices.Contains([]string{"GPU", "no GPU", "backend", "size"}, what) {
			t.Errorf("another %s: %v", what, r.fits(opened))
		}
	}
	damaged := filepath.Join(t.TempDir(), evidenceFile)
	if err := os.WriteFile(damaged, []byte(`[{"check": "rul`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecords(damaged); err == nil || !strings.Contains(err.Error(), damaged+" holds no records: ") {
		t.Errorf("damaged: %v", err)
	}
}

// TestEvidenceCommands checks that the commands of all checks are commands, also those that are not rehearsed.
func TestEvidenceCommands(t *testing.T) {
	for _, f := range []*string{evidencePhotos, evidenceNetwork, evidenceStore, evidenceDir} {
		before := *f
		*f = t.TempDir()
		t.Cleanup(func() { *f = before })
	}
	if err := os.WriteFile(ratesFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range allEvidence() {
		args, _ := e.command(false)
		if e.peer || args == nil || strings.HasPrefix(args[0], "-test.") {
			continue
		}
		n++
		var stderr bytes.Buffer
		if code := run(t.Context(), append(args, "--help"), io.Discard, &stderr); code != 0 {
			t.Errorf("%s: %v ends with %d: %s", e.name, args, code, stderr.String())
		}
	}
	if n != 6 {
		t.Errorf("%d commands, want doctor's, one of rates and four of Table 2", n)
	}
}

// TestEvidenceDiverged checks that a check whose runs all diverged is told from one with a result, by what commands
// print.
func TestEvidenceDiverged(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]bool{
		`{"tables": [{"cells": [{"recall_at_1": null, "n": 0, "diverged": 2}]}]}`:                         true,
		`{"tables": [{"cells": [{"n": 0, "diverged": 2}, {"recall_at_1": 0.5, "n": 1, "diverged": 1}]}]}`: false,
		`{"choices": [{"trials": [{"held_out": {"N": 0, "Diverged": 1}}]}]}`:                              true,
		`{"choices": [{"trials": [{"held_out": {"N": 0, "Diverged": 1}}, {"held_out": {"N": 1}}]}]}`:      false,
		`{"summary": "the same bits: true"}`:                                                              false,
		"lines\nof text":                                                                                  false,
	} {
		if got := (record{Output: output(printed)}).allDiverged(); got != want {
			t.Errorf("%s: %v, want %v", printed, got, want)
		}
	}
}

// BenchmarkEvidenceStep times a training step, and compares the memory of its program with what gpu.py foretold.
func BenchmarkEvidenceStep(b *testing.B) {
	var network, precision string
	var classes, images, pixels int
	if n, _ := fmt.Sscan(*evidenceOf, &network, &classes, &images, &pixels, &precision); n < 4 {
		b.Fatalf("-evidence-of %q: want a network, classes, images of each and pixels, as in small 4 4 32", *evidenceOf)
	}
	arch, dump := network, b.TempDir() // Before the plugin is loaded, which reads the variable.
	b.Setenv("XLA_FLAGS", strings.TrimSpace(os.Getenv("XLA_FLAGS")+" --xla_dump_to="+dump))
	if strings.HasPrefix(arch, "vit_") {
		arch = exportNetwork(b, arch)
	}
	spec, err := someSteps(arch, pixels, classes, images)
	if err != nil {
		b.Fatal(err)
	}
	if strings.HasPrefix(precision, train.BFloat16) {
		spec.Memory = train.Memory{Precision: train.BFloat16, Recompute: precision != train.BFloat16}
	}
	size := stepText(spec)
	if precision == "tf32" {
		size += ", tf32"
	}
	peer, rounds := strings.TrimSpace(fmt.Sprintln("train", network, spec.Batch(), spec.Size, precision)), 1
	if spec.Memory.Recompute {
		rounds = 0 // PyTorch's networks are not recomputed.
	}
	benchmark(b, peer, rounds, func(s *session, ctx context.Context) error {
		times, _, err := timeSteps(ctx, s.Choice, spec, 2)
		if err != nil {
			return err
		}
		s.report(measured("training step", size, "ms", times...))
		for name, gb := range map[string]float64{"memory of the step's program": programMemory(b, dump),
			"memory that gpu.txt foretells": foretold(b, size)} {
			if gb > 0 {
				s.report(measured(name, size, "GB", gb))
			}
		}
		return nil
	})
}

// BenchmarkEvidenceParity trains beside PyTorch, and fails if it is too far from it.
func BenchmarkEvidenceParity(b *testing.B) {
	python, err := openPeer()
	if err != nil {
		b.Fatal(err)
	}
	arch, precision, _ := strings.Cut(*evidenceOf, " ")
	flags := fmt.Sprintf("parity --backends '%s' --dmlx \"%s\" --steps-by \"'%s'\" --arch %s "+
		"--rules cos-orth/lin-ms/cir --precision '%s'",
		cmp.Or(os.Getenv("GOMLX_BACKEND"), "xla"), thisCommand(), stepsProgram(b), arch, precision)
	switch {
	case testing.Short():
		flags += " --steps 2"
	case gpu(b.Context()) != "":
		flags += " --device cuda"
	}
	answer, err := python.measure(flags)
	if err != nil {
		b.Fatal(err)
	}
	recordEvidence(b, answer.Result)
	if answer.Result["good"] != true {
		b.Fatal("too far from PyTorch")
	}
}

// exportNetwork has the peer write the ONNX file of a network of timm.
func exportNetwork(b *testing.B, name string) (file string) {
	python, err := openPeer()
	if err != nil {
		b.Fatal(err)
	}
	file = filepath.Join(b.TempDir(), name+".onnx")
	if _, err := python.measure(fmt.Sprintf("export %s '%s' \"%s\"", name, file, thisCommand())); err != nil {
		b.Fatal(err)
	}
	return file
}

// thisCommand is the command line by which bench.py runs dmlx.
func thisCommand() string { return "env DMLX_TEST_COMMAND=1 '" + os.Args[0] + "'" }

// stepsProgram is the tests of package train, which take steps on given batches: beside this program, or built here.
func stepsProgram(b *testing.B) string {
	path := filepath.Join(filepath.Dir(os.Args[0]), "train.test")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path = filepath.Join(b.TempDir(), "train.test")
	build := exec.CommandContext(b.Context(), "go", "test", "-c", "-o", path, "../../train")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return path
}

// programMemory is the greatest memory in GB that a program takes of those that XLA has dumped: of arguments, results
// and what lies between. It is 0 on another backend.
func programMemory(b *testing.B, dump string) (gb float64) {
	files, err := filepath.Glob(filepath.Join(dump, "*memory-usage-report.txt"))
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			b.Fatal(err)
		}
		for _, total := range regexp.MustCompile(`Total bytes(?: used)?: (\d+)`).FindAllSubmatch(raw, -1) {
			gb = max(gb, number(b, total[1])/1e9)
		}
	}
	return gb
}

// foretold is the memory in GB of a step in gpu.txt, or 0.
func foretold(b *testing.B, size string) (gb float64) {
	raw, err := os.ReadFile("internal/peer/testdata/gpu.txt")
	if err != nil {
		b.Fatal(err)
	}
	name := regexp.QuoteMeta(strings.Replace(size, ", 224 px", "", 1))
	if found := regexp.MustCompile(`(?m)^` + name + ` {2,}([0-9.]+) GB`).FindSubmatch(raw); found != nil {
		gb = number(b, found[1])
	}
	return gb
}

func number(b *testing.B, digits []byte) float64 {
	v, err := strconv.ParseFloat(string(digits), 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
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
	// A graph has many of them, since XLA takes a while for each graph; k is the number of proxies of each class.
	type gradient func(in []*graph.Node) *graph.Node
	builds, byProxies := make(map[string]gradient), make(map[int][]string)
	for _, name := range names {
		rule, err := dmlx.ParseRule(name)
		if err != nil {
			b.Fatal(err)
		}
		builds[name] = func(in []*graph.Node) *graph.Node { return surgeryGradient(rule, in)[0] }
		byProxies[0] = append(byProxies[0], name)
	}
	for _, name := range published {
		l, err := losses.Parse(name)
		if err != nil {
			b.Fatal(err)
		}
		k := losses.PerClass(l)
		builds["loss "+name] = func(in []*graph.Node) *graph.Node { return lossAndGradients(l, in)[1] }
		byProxies[k] = append(byProxies[k], "loss "+name)
	}
	distances := make(map[string]float64)
	for k, all := range byProxies {
		for some := range slices.Chunk(all, 24) {
			apart := gradientDistances(b, choice.Backend, reference, k, func(in []*graph.Node) (out []*graph.Node) {
				for _, name := range some {
					out = append(out, graph.ConvertDType(builds[name](in), dtypes.Float64))
				}
				return out
			})
			for i, name := range some {
				distances[name] = apart[i]
			}
		}
	}
	worst := slices.MaxFunc(slices.Sorted(maps.Keys(distances)), func(x, y string) int {
		return cmp.Compare(distances[x], distances[y])
	})
	recordEvidence(b, map[string]any{"summary": fmt.Sprintf("at most %.1g of the gradient apart, %s", distances[worst],
		worst), "rules": len(names), "losses": len(published), "greatest": distances[worst], "of": worst,
		"distances": distances})
	if !(distances[worst] <= 1e-5) {
		b.Fatalf("%s differs by %g", worst, distances[worst])
	}
}

// gradientDistances are the lengths of the differences of gradients on two backends over the gradients'. k is the
// number of proxies of each class.
func gradientDistances(
	b *testing.B, one, other compute.Backend, k int, build func([]*graph.Node) []*graph.Node,
) (distances []float64) {
	var got [2][][]float64
	for i, on := range []compute.Backend{one, other} {
		exec, err := graph.NewExec(on, build)
		if err != nil {
			b.Fatal(err)
		}
		out, err := exec.Call(lossInputs(quickBatch[0], quickBatch[1], k)...)
		if err != nil {
			b.Fatal(err)
		}
		for _, t := range out {
			got[i] = append(got[i], tensors.MustCopyFlatData[float64](t))
		}
		exec.Finalize()
	}
	for g, want := range got[1] {
		distances = append(distances, apart(got[0][g], want))
	}
	return distances
}

// apart is the length of the difference of two vectors over that of the second one, and very large if it is no number.
func apart(got, want []float64) float64 {
	length := floats.Norm(want, 2)
	if length == 0 {
		length = 1
	}
	if d := floats.Distance(got, want, 2) / length; d <= math.MaxFloat64 {
		return d
	}
	return math.MaxFloat64 // JSON has no NaN, and NaN is the least of all.
}

func TestEvidenceApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want, distance float64 }{{3, 2, 0.5}, {1, 0, 1}, {0, 0, 0},
		{math.NaN(), 1, math.MaxFloat64}, {1, math.NaN(), math.MaxFloat64}, {math.Inf(1), 1, math.MaxFloat64}} {
		if d := apart([]float64{c.got}, []float64{c.want}); d != c.distance {
			t.Errorf("%g and %g are %g apart, want %g", c.got, c.want, d, c.distance)
		}
	}
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
	recordEvidence(b, map[string]any{"summary": fmt.Sprintf("the same bits: %v", same), "steps": spec.Steps(),
		"interrupted_at": stopped, "same_bits": same,
		"files": []any{results[0].Files, results[1].Files}})
	if !same || stopped == 0 {
		b.Fatalf("interrupted at step %d; the same bits: %v", stopped, same)
	}
}

// recordEvidence appends a result to the file of -record, or prints it.
func recordEvidence(b *testing.B, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	if *benchRecord == "" {
		b.Logf("%s", raw)
	} else if err := os.WriteFile(*benchRecord, append(raw, '\n'), 0o644); err != nil {
		b.Fatal(err)
	}
}
