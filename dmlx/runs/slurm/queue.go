package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// installed tells whether Slurm's commands are here.
func installed() error {
	for _, name := range []string{"sbatch", "squeue", "scontrol", "scancel"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s, a command of Slurm, is not on this machine's PATH: submit from where the cluster's jobs are submitted, or make the runs here", name)
		}
	}
	return nil
}

// scriptInput is where sbatch reads a batch script that it is handed.
const scriptInput = "/dev/stdin"

// submit calls sbatch with a batch script, which lies in no file on its way.
func submit(ctx context.Context, script string, args ...string) (string, error) {
	return call(ctx, script, "sbatch", args...)
}

// run calls one of Slurm's commands and gives what it prints. The error is what it says itself, on one line.
func run(ctx context.Context, name string, args ...string) (string, error) {
	return call(ctx, "", name, args...)
}

func call(ctx context.Context, input, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		var lines []string
		for line := range strings.Lines(stderr.String()) {
			text := strings.TrimPrefix(strings.TrimSpace(line), name+": ")
			lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(text, "error: "), "fatal: "))
		}
		if len(lines) == 0 {
			lines = []string{err.Error()}
		}
		return "", fmt.Errorf("%s: %s", name, strings.Join(lines, "; "))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// maxArray is how many tasks an array may have.
func maxArray(ctx context.Context) (int, error) {
	config, err := run(ctx, "scontrol", "show", "config")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(config) {
		if name, value, _ := strings.Cut(line, "="); strings.TrimSpace(name) == "MaxArraySize" {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err == nil && n < 2 {
				err = errors.New("this cluster has no job arrays: its MaxArraySize is less than 2")
			}
			return n - 1, err
		}
	}
	return 0, errors.New("scontrol show config does not say MaxArraySize")
}

// place is where a task stands in Slurm's queue. The zero value is nowhere.
type queueState struct {
	state  string // Slurm's own word: PENDING, RUNNING, …
	reason string // Why it waits.
	array  string // The array's job.
}

// ended are the states from which a task does not go on by itself.
var ended = []string{"", "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"}

// waiting are the states from which it does, but not yet.
var waiting = []string{"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT", "SUSPENDED"}

// waits tells whether the task is queued or runs.
func (p queueState) waits() bool { return !slices.Contains(ended, p.state) }

// held tells whether Slurm lets the task wait until someone releases it, because it could not be started where it was sent. What
// a person holds is theirs to release.
func (p queueState) held() bool {
	reason := strings.ReplaceAll(p.reason, "_", " ")
	return p.waits() && (reason == "launch failed requeued held" || reason == "JobHoldMaxRequeue")
}

// runs tells whether the task runs, or is about to end.
func (p queueState) runs() bool {
	return p.waits() && !slices.Contains(waiting, p.state)
}

// queued is what Slurm knows of submissions: by array's name and index; index -1 is the rest of an array that was ended as one.
type queued map[string]map[int]queueState

func (q queued) at(s *Submission, task int) queueState {
	array := q[s.arrayName(task/s.Chunk*s.Chunk)]
	if p, known := array[task%s.Chunk]; known {
		return p
	}
	return array[-1]
}

// queue asks Slurm for all tasks of submissions: those that ended are there for a while.
func queue(ctx context.Context, of ...*Submission) (queued, error) {
	var names []string
	for _, s := range of {
		for offset := 0; offset < len(s.Tasks); offset += min(s.Chunk, len(s.Tasks)) {
			names = append(names, s.arrayName(offset))
		}
	}
	out := make(queued)
	for names := range slices.Chunk(names, 500) { // A command line has an end.
		text, err := run(ctx, "squeue", "--noheader", "--array", "--states=all", "--name="+strings.Join(names, ","), "--format=%j|%F|%K|%T|%r")
		if err != nil {
			return nil, err
		}
		out.read(text)
	}
	return out, nil
}

// read adds lines of squeue. Of a task that is there several times, having been sent again, the one that goes on counts, or
// the latest.
func (q queued) read(text string) {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 5)
		if len(f) != 5 {
			continue
		}
		index, err := strconv.Atoi(f[2])
		if err != nil {
			index = -1
		}
		array := q[f[0]]
		if array == nil {
			array = make(map[int]queueState)
			q[f[0]] = array
		}
		p, old := queueState{f[3], f[4], f[1]}, array[index]
		if later := number(p.array) >= number(old.array); p.waits() && !old.waits() || p.waits() == old.waits() && later {
			array[index] = p
		}
	}
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // What is none is the oldest.
	return n
}
