// Package jobs trains runs in other processes of this program. Several runs at once in one process are slower than one
// after the other; in processes of their own they are faster (BenchmarkJobs of cmd/dmlx).
package jobs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/host"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Max is the largest number of runs at a time that the command accepts.
const Max = 1024

// runMemory is the memory of a process that trains a run of the quick preset, rounded up: 0.7 to 0.9 GB were measured.
const runMemory = 1 << 30

// Set completes the options of a command that trains runs. Zero jobs become as many as this machine can train at a
// time. More than one job are trained in processes of their own.
func Set(o *runs.Options, store *runs.Store) {
	gpus := visibleGPUs()
	each := max(1, o.Devices)
	switch {
	case o.Jobs > 0:
	case o.Devices == train.AllDevices, each > 1 && len(gpus) == 0:
		o.Jobs = 1
	default:
		o.Jobs = max(1, atATime(runtime.NumCPU(), host.Memory("meminfo", "MemAvailable"), len(gpus))/each)
	}
	if o.Jobs > 1 {
		o.RunProcess = Process(store, o.Jobs, shares(gpus, each))
	}
}

// shares divides GPUs into groups of a size, for a process each, as CUDA_VISIBLE_DEVICES names them. GPUs that are left
// over are in no group. There is none if the GPUs do not fill one.
func shares(gpus []string, size int) []string {
	var out []string
	for ; len(gpus) >= size; gpus = gpus[size:] {
		out = append(out, strings.Join(gpus[:size], ","))
	}
	return out
}

// atATime returns how many runs a machine can train at a time. On GPUs it is one on each, since XLA takes most of a
// GPU's memory for itself. On a CPU it is one on every two cores, since one run keeps 1.6 of two cores busy, and no
// more than fit into the available memory in bytes; 0 is not known.
func atATime(cores int, memory uint64, gpus int) int {
	if gpus > 0 {
		return gpus
	}
	jobs := max(1, cores/2)
	if memory > 0 {
		jobs = max(1, min(jobs, int(memory/runMemory)))
	}
	return jobs
}

// visibleGPUs returns the NVIDIA GPUs that programs may use, as CUDA_VISIBLE_DEVICES names them. It returns none if
// GOMLX_BACKEND asks for a CPU.
func visibleGPUs() []string {
	if b := os.Getenv("GOMLX_BACKEND"); b == "go" || strings.HasPrefix(b, "go:") || b == "xla:cpu" {
		return nil
	}
	found, _ := filepath.Glob("/proc/driver/nvidia/gpus/*")
	if len(found) == 0 {
		return nil
	}
	if named, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
		if named == "" {
			return nil
		}
		return strings.Split(named, ",")
	}
	out := make([]string, len(found))
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

// Process returns a function that trains a job in a process of its own, on GPUs of its own if there are several groups
// of them. At most parallel of them run at a time.
func Process(store *runs.Store, parallel int, gpus []string) func(context.Context, runs.Job,
	func(runs.Progress)) error {
	slots := make(chan int, parallel)
	for i := range parallel {
		slots <- i
	}
	return func(ctx context.Context, job runs.Job, progress func(runs.Progress)) error {
		if err := job.Check(); err != nil {
			return err
		}
		slot := <-slots
		defer func() { slots <- slot }()
		var env []string
		if len(gpus) > 1 {
			env = append(env, "CUDA_VISIBLE_DEVICES="+gpus[slot%len(gpus)])
		}
		return Spawn(ctx, store, []runs.Job{job}, 1, env, progress)
	}
}

// Spawn trains jobs in another process of this program, parallel of them at a time, with additional environment
// variables. progress may be nil.
func Spawn(ctx context.Context, store *runs.Store, jobs []runs.Job, parallel int, env []string,
	progress func(runs.Progress)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "job", "--store", store.Dir, "--jobs", fmt.Sprint(parallel))
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // It stops at its next step.
	cmd.WaitDelay = 30 * time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe() // It stays open as long as this process lives: the other process stops at its end.
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = in.Write(append(raw, '\n'))
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p runs.Progress
		if progress != nil && json.Unmarshal(lines.Bytes(), &p) == nil {
			progress(p)
		}
	}
	failed := cmd.Wait()
	switch {
	case failed == nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("stopped; the same runs go on from there: %w", ctx.Err())
	case cmd.ProcessState.ExitCode() < 0:
		return fmt.Errorf("the process of the run was killed (%w); the usual reason is too little memory: use fewer "+
			"--jobs", failed)
	}
	return ended(stderr.String(), failed)
}

// ended returns the error of a process that failed by itself. Where Go's runtime or a C library ran out of memory,
// standard error ends with a trace, of which one line says so.
func ended(stderr string, failed error) error {
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "out of memory") || strings.Contains(line, "cannot allocate memory") ||
			strings.Contains(line, "pthread_create failed") {
			return fmt.Errorf("the process of the run had too little memory (%s): use fewer --jobs",
				strings.TrimSpace(line))
		}
	}
	return errors.New(strings.TrimPrefix(text.LastLine(stderr, failed), "dmlx: "))
}

// Serve is the other side of [Spawn]: it reads a list of jobs on one line, trains them, parallel at a time, and prints
// their progress as lines of JSON. It stops when the input ends, since then the process that started it is gone.
func Serve(ctx context.Context, input io.Reader, output io.Writer, store *runs.Store, parallel int) error {
	in := bufio.NewReader(input)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no list of jobs on standard input: %w", err)
	}
	var jobs []runs.Job
	if err := json.Unmarshal(line, &jobs); err != nil {
		return fmt.Errorf("standard input is no list of jobs: %w", err)
	}
	trainer, err := runs.OpenTrainer(jobs...)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	steps := make(chan runs.Progress)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, parallel))
	done := make(chan struct{})
	go func() { // One writer for all runs.
		defer close(done)
		enc, last := json.NewEncoder(output), time.Time{}
		for p := range steps {
			if time.Since(last) > 100*time.Millisecond || p.Step == p.Steps {
				last = time.Now()
				_ = enc.Encode(p) // If nobody reads it, the input has ended as well.
			}
		}
	}()
	for _, j := range jobs {
		group.Go(func() error { return j.Run(ctx, trainer, store, func(p runs.Progress) { steps <- p }) })
	}
	err = group.Wait()
	close(steps)
	<-done
	return err
}
