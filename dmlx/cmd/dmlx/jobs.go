package main

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

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/host"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// jobsUsage explains --jobs.
const jobsUsage = "runs at a time, each in a process of its own (default 0: as many as cores and memory allow)"

// apart sets how many runs are made at a time, and has them made in processes of their own where that is more than one:
// one process that makes several at once is slower than one that makes them one by one ("dmlx bench --only jobs").
func (a *app) apart(o *runs.Options, store *runs.Store) error {
	if o.Jobs < 0 || o.Jobs > maxJobs {
		return usagef("--jobs %d: want a number of runs, at most %d, or 0 for as many as this machine can take", o.Jobs,
			maxJobs)
	}
	gpus := visibleGPUs()
	if o.Jobs == 0 {
		o.Jobs = machineJobs(runtime.NumCPU(), host.Memory("meminfo", "MemAvailable"), len(gpus))
	}
	if o.Jobs > 1 {
		o.RunProcess = a.process(store, o.Jobs, gpus)
	}
	return nil
}

// maxJobs is more than any machine is for.
const maxJobs = 1024

// runMemory is what a process that makes a run of the quick preset takes, rounded up: 0.7 to 0.9 GB were seen.
const runMemory = 1 << 30

// machineJobs is how many runs at a time a machine is for. On GPUs it is one on each, since XLA takes most of a GPU's
// memory for itself. On a processor it is one on every two cores, which is what one run keeps busy (1.6 of two, where
// it was measured), and no more than the memory available holds; 0 is not known.
func machineJobs(cores int, memory uint64, gpus int) int {
	if gpus > 0 {
		return gpus
	}
	jobs := max(1, cores/2)
	if memory > 0 {
		jobs = max(1, min(jobs, int(memory/runMemory)))
	}
	return jobs
}

// visibleGPUs are the NVIDIA GPUs that programs may use, as CUDA_VISIBLE_DEVICES names them; none where GOMLX_BACKEND
// asks for another kind.
func visibleGPUs() []string {
	if b := os.Getenv("GOMLX_BACKEND"); b == "go" || strings.HasPrefix(b, "go:") || b == "xla:cpu" {
		return nil
	}
	there, _ := filepath.Glob("/proc/driver/nvidia/gpus/*")
	if len(there) == 0 {
		return nil
	}
	if named, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
		if named == "" {
			return nil
		}
		return strings.Split(named, ",")
	}
	out := make([]string, len(there))
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

// process makes a job by "dmlx job" in a process of its own, on a GPU of its own if there are several.
func (a *app) process(store *runs.Store, jobs int, gpus []string) func(context.Context, runs.Job,
	func(runs.Progress)) error {
	slots := make(chan int, jobs)
	for i := range jobs {
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
		return a.spawn(ctx, store, []runs.Job{job}, 1, env, progress)
	}
}

// spawn has jobs made by another process of this program.
func (a *app) spawn(ctx context.Context, store *runs.Store, jobs []runs.Job, parallel int, env []string,
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
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe() // Open for as long as this process is: its end is the other's sign to stop.
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
		return fmt.Errorf("its process was ended from outside (%w), as by a machine that runs out of memory: take fewer "+
			"--jobs", failed)
	}
	return errors.New(strings.TrimPrefix(text.LastLine(said.String(), failed), "dmlx: "))
}

// newJob is the process that [app.spawn] starts: it makes the jobs that it reads, a list on one line, and stops when
// its input ends.
func newJob(a *app) *cobra.Command {
	var parallel int
	cmd := &cobra.Command{
		Use: "job", Hidden: true, Short: "Make runs that are read from standard input", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			trainer, err := train.Open()
			if err != nil {
				return err
			}
			store, err := a.store()
			if err != nil {
				return err
			}
			in := bufio.NewReader(cmd.InOrStdin())
			line, err := in.ReadBytes('\n')
			if err != nil {
				return fmt.Errorf("no list of jobs on standard input: %w", err)
			}
			var jobs []runs.Job
			if err := json.Unmarshal(line, &jobs); err != nil {
				return fmt.Errorf("standard input is no list of jobs: %w", err)
			}
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			go func() {
				_, _ = io.Copy(io.Discard, in)
				stop()
			}()
			said := make(chan runs.Progress)
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(max(1, parallel))
			done := make(chan struct{})
			go func() { // One writer, for all runs.
				defer close(done)
				enc, last := json.NewEncoder(a.stdout), time.Time{}
				for p := range said {
					if time.Since(last) > 100*time.Millisecond || p.Step == p.Steps {
						last = time.Now()
						_ = enc.Encode(p) // That nobody listens any more shows at the input.
					}
				}
			}()
			for _, j := range jobs {
				group.Go(func() error { return j.Run(ctx, trainer, store, func(p runs.Progress) { said <- p }) })
			}
			err = group.Wait()
			close(said)
			<-done
			return err
		},
	}
	cmd.Flags().IntVar(&parallel, "jobs", 1, "runs at a time in this process")
	return cmd
}
