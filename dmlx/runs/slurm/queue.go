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

// installed returns an error if the commands of Slurm are not on the PATH.
func installed() error {
	for _, name := range []string{"sbatch", "squeue", "scontrol", "scancel"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s, a command of Slurm, is not on the PATH of this machine: submit from a login node "+
				"of the cluster, or train without Slurm", name)
		}
	}
	return nil
}

// scriptInput is the file from which sbatch reads its batch script.
const scriptInput = "/dev/stdin"

// submit calls sbatch with a batch script on standard input, so that no file can be replaced.
func submit(ctx context.Context, script string, args ...string) (string, error) {
	return call(ctx, script, "sbatch", args...)
}

// run calls a command of Slurm and returns its output. The error is the error message of the command on one line.
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

// maxArray returns the largest number of tasks of an array.
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

// queueState is the state of a task in the queue. The zero value means that the task is not there.
type queueState struct {
	state  string // As Slurm names it: PENDING, RUNNING, …
	reason string // Why it is pending.
	array  string // The job ID of the array.
}

// ended are the states of tasks that have ended.
var ended = []string{"", "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
	"PREEMPTED", "REVOKED", "TIMEOUT"}

// waiting are the states of tasks that are queued but do not run.
var waiting = []string{"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT",
	"SUSPENDED"}

// active reports whether the task is queued or running.
func (p queueState) active() bool { return !slices.Contains(ended, p.state) }

// held reports whether Slurm holds the task because it could not be started. Tasks that a person holds are not meant.
func (p queueState) held() bool {
	reason := strings.ReplaceAll(p.reason, "_", " ")
	return p.active() && (reason == "launch failed requeued held" || reason == "JobHoldMaxRequeue")
}

// running reports whether the task is running or about to end.
func (p queueState) running() bool {
	return p.active() && !slices.Contains(waiting, p.state)
}

// queued is the state of submissions in Slurm: by the name of the array and by index. Index −1 is the rest of an
// array that was ended as a whole.
type queued map[string]map[int]queueState

func (q queued) at(s *Submission, task int) queueState {
	array := q[s.arrayName(task/s.Chunk*s.Chunk)]
	if p, known := array[task%s.Chunk]; known {
		return p
	}
	return array[-1]
}

// queue asks Slurm for all tasks of submissions. Slurm lists ended tasks for a while, too.
func queue(ctx context.Context, of ...*Submission) (queued, error) {
	var names []string
	for _, s := range of {
		for offset := 0; offset < len(s.Tasks); offset += min(s.Chunk, len(s.Tasks)) {
			names = append(names, s.arrayName(offset))
		}
	}
	out := make(queued)
	for names := range slices.Chunk(names, 500) { // The length of a command line is limited.
		text, err := run(ctx, "squeue", "--noheader", "--array", "--states=all", "--name="+strings.Join(names, ","),
			"--format=%j|%F|%K|%T|%r")
		if err != nil {
			return nil, err
		}
		out.read(text)
	}
	return out, nil
}

// read adds lines of squeue. If a task occurs several times because it was submitted again, the active one counts, or
// else the latest.
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
		if later := number(p.array) >= number(old.array); p.active() && !old.active() || p.active() == old.active() && later {
			array[index] = p
		}
	}
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // 0 if it is not a number, which counts as the oldest.
	return n
}
