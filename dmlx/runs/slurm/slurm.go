// Package slurm trains runs on a cluster, as one job array of Slurm.
//
// [Submit] writes an array script for the jobs that a store lacks, hands it to sbatch and returns. The store is the
// truth: whoever submits the same jobs later submits those that are still missing. Each task calls [Task], which skips
// runs that are there, or that another process trains. Before its time limit a task stops, and goes on from its
// checkpoint when Slurm starts it again.
//
// The store must be on a file system that all nodes share, with locks between them, since a run's lock keeps two nodes
// from training it at once. NFS works unless it is mounted with nolock or local_lock.
//
//	s, err := slurm.Plan(store, runs.Jobs(specs...), slurm.Options{Partition: "gpu", Gres: "gpu:1", Time: "2:00:00"})
//	id, err := s.Submit(ctx)
package slurm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Options of a submission. The zero value uses the defaults of the cluster.
type Options struct {
	// Partition, Gres and Time are the options of sbatch: where to run, such as "gpu:1", and the time limit of a task. If
	// jobs run on several devices, an empty Gres asks for as many GPUs.
	Partition, Gres, Time string
	// MaxParallel limits the tasks that run at once; 0 is no limit.
	MaxParallel int
	// Sbatch are more options of sbatch, such as "--qos=low". They come last and override the others.
	Sbatch []string
	// Wait makes [Submission.Submit] return when all tasks have ended, as sbatch --wait does.
	Wait bool
	// Program trains the runs; "" is the running program. It must have the command line of dmlx; see [Task].
	Program string
	// Say, if not nil, receives a line before Submit waits.
	Say func(line string)
}

// Submission is an array of jobs.
type Submission struct {
	// Jobs are those that the store lacks and that no process trains now, and Busy is the number of those that one does.
	Jobs []runs.Job
	Busy int
	// Dir is the folder of the script, the jobs and the logs, NUMBER.txt for each task.
	Dir string
	// Script is the batch script.
	Script string

	store    *runs.Store
	jobs     []byte // A line for each job.
	from, to string // Where the program is, and where the tasks find a copy of it.
	o        Options
}

// The folder of this package in a store, and the number of tasks of an array by Slurm's default MaxArraySize. With more
// jobs a task does several.
const (
	folder   = ".slurm"
	maxTasks = 1000
)

// Plan returns the submission of jobs, and writes nothing.
func Plan(store *runs.Store, jobs []runs.Job, o Options) (*Submission, error) {
	s := &Submission{store: store, o: o}
	known := make(map[string]bool)
	for _, histograms := range []bool{true, false} { // A job with histograms trains the run, too.
		for _, j := range jobs {
			hash := j.Spec.Hash()
			if j.Histograms != histograms || known[hash] {
				continue
			}
			known[hash] = true
			if done, err := j.Done(store); err != nil {
				return nil, err
			} else if done {
				continue
			}
			if busy, err := store.Locked(hash); err == nil && busy {
				s.Busy++
				continue
			}
			if err := j.Check(); err != nil {
				return nil, err
			}
			s.Jobs = append(s.Jobs, j)
		}
	}
	var err error
	if s.jobs, err = durable.Lines(s.Jobs); err != nil {
		return nil, err
	}
	if s.from = o.Program; s.from == "" {
		if s.from, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	sum, err := durable.FileSum(s.from)
	if err != nil {
		return nil, err
	}
	s.to = filepath.Join(store.Dir, folder, fmt.Sprintf("dmlx-%d-%s", os.Geteuid(), sum[:12]))
	s.Dir = filepath.Join(store.Dir, folder, time.Now().UTC().Format("20060102-150405-")+rand.Text()[:4])
	s.Script, err = s.script(sum)
	return s, err
}

// script returns the batch script. Slurm keeps a copy of it, so that whoever may write to the store cannot change what
// it does: it starts the program only if that belongs to the user and has the checksum of the one that was submitted.
// The program is opened once, so that what is checked is what is started. Sixty seconds before the time limit the
// script gets USR1. It then stops the program, which ends with 130 if it can go on later, and has itself requeued.
func (s *Submission) script(sum string) (string, error) {
	tasks := min(len(s.Jobs), maxTasks)
	devices := 0
	for _, j := range s.Jobs {
		devices = max(devices, j.Devices)
	}
	gres := s.o.Gres
	if gres == "" && devices > 1 {
		gres = fmt.Sprintf("gpu:%d", devices)
	}
	limit := ""
	if s.o.MaxParallel > 0 {
		limit = fmt.Sprintf("%%%d", s.o.MaxParallel)
	}
	options := []string{"--job-name=dmlx", fmt.Sprintf("--array=0-%d%s", max(tasks-1, 0), limit), "--export=ALL",
		"--requeue", "--open-mode=append", "--signal=B:USR1@60", "--chdir=" + s.store.Dir,
		"--output=" + strings.ReplaceAll(s.Dir, "%", "%%") + "/%a.txt"}
	for _, given := range [][2]string{{"--partition", s.o.Partition}, {"--gres", gres}, {"--time", s.o.Time}} {
		if given[1] != "" {
			options = append(options, given[0]+"="+given[1])
		}
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	for _, option := range append(options, s.o.Sbatch...) {
		if strings.ContainsAny(option, "\n\"\\") {
			return "", fmt.Errorf("sbatch's option %q has a line break, a quotation mark or a backslash", option)
		}
		fmt.Fprintf(&b, "#SBATCH \"%s\"\n", option)
	}
	data, err := filepath.Abs(datasets.DataDir())
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "export %s=%s\n", datasets.DataEnv, quote(data))
	if dir, err := datasets.CacheDir(); err == nil && os.Getenv(datasets.CacheEnv) != "" { // Else each node has its own.
		fmt.Fprintf(&b, "export %s=%s\n", datasets.CacheEnv, quote(dir))
	}
	fmt.Fprintf(&b, `exec 9<%s || exit 66 # The store is not on a file system that this node shares.
[ -O /proc/self/fd/9 ] && [ "$(sha256sum <&9)" = '%s  -' ] ||
  { echo 'the program in the store has changed: submit again' >&2; exit 67; }
trap 'kill "$child"; wait "$child"; exit' TERM
trap 'kill "$child"; wait "$child"; code=$?
  [ $code != 130 ] || scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; exit $code' USR1
(exec -a dmlx /proc/self/fd/9 runs make --store %s --jobs %s --sum %s --task "$SLURM_ARRAY_TASK_ID" --of %d) &
child=$!
wait "$child"
`, quote(s.to), sum, quote(s.store.Dir), quote(filepath.Join(s.Dir, "jobs.jsonl")), durable.Sum(s.jobs), tasks)
	return b.String(), nil
}

// Submit writes the script and what it needs into the store, and calls sbatch. It returns the number of the array.
func (s *Submission) Submit(ctx context.Context) (id string, err error) {
	if len(s.Jobs) == 0 {
		return "", nil
	}
	if _, err := exec.LookPath("sbatch"); err != nil {
		return "", errors.New("sbatch, a command of Slurm, is not on the PATH of this machine: submit from a login node " +
			"of the cluster, or train without Slurm")
	}
	if err := s.write(); err != nil {
		return "", fmt.Errorf("the run store cannot be written: %w", err)
	}
	args := []string{"--parsable"}
	if s.o.Wait {
		args = append(args, "--wait")
	}
	cmd := exec.CommandContext(ctx, "sbatch", args...) // Not by the file, which others may be able to replace.
	cmd.Stdin = strings.NewReader(s.Script)
	cmd.Env = slices.DeleteFunc(os.Environ(), ofSession)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if s.o.Wait && s.o.Say != nil { // sbatch prints the number at its end.
		s.o.Say(fmt.Sprintf("submitting %d runs and waiting for them: squeue --me shows them, logs are in %s", len(s.Jobs),
			s.Dir))
	}
	err = cmd.Run()
	id = jobNumber(stdout.String())
	text := strings.Join(strings.Fields(strings.ReplaceAll(stderr.String(), "sbatch: error: ", "")), " ")
	switch {
	case ctx.Err() != nil:
		return id, fmt.Errorf("no longer waiting; what was submitted goes on (squeue --me, scancel JOB): %w", ctx.Err())
	case err != nil && id != "":
		return id, fmt.Errorf("tasks of job %s failed (%w): see sacct --job %s, and the logs in %s", id, err, id, s.Dir)
	case err != nil:
		return "", fmt.Errorf("sbatch: %s", cmp.Or(text, err.Error()))
	case id == "":
		return "", fmt.Errorf("sbatch printed no job number, but %q", stdout.String())
	}
	return id, nil
}

// write writes the folder of the submission, to which only this user may write, and the copy of the program: queued
// tasks start it, even if another is built meanwhile.
func (s *Submission) write() error {
	all := filepath.Dir(s.Dir)
	if err := cmp.Or(durable.NoLink(s.store.Dir, folder), os.MkdirAll(all, 0o777)); err != nil {
		return err
	}
	// Sticky, so that in a group's store nobody else can put a folder of his own in the place of this one.
	if info, err := os.Lstat(all); err != nil {
		return err
	} else if durable.Owner(info) == os.Geteuid() {
		if err := os.Chmod(all, info.Mode()|fs.ModeSticky); err != nil {
			return err
		}
	}
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		return err
	}
	raw, err := durable.ReadFile(s.from)
	if err != nil {
		return err
	}
	info, err := os.Lstat(s.to)
	if have, _ := durable.FileSum(s.to); err != nil || have != durable.Sum(raw) || durable.Owner(info) != os.Geteuid() {
		if err := durable.WriteFile(s.to, raw, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(s.to, 0o755); err != nil { // Whatever the umask, or a file that was there before.
		return err
	}
	return errors.Join(durable.WriteFile(filepath.Join(s.Dir, "jobs.jsonl"), s.jobs, 0o644),
		durable.WriteFile(filepath.Join(s.Dir, "job.sh"), []byte(s.Script), 0o755))
}

// ofSession reports whether a variable is one of the job or session that this process runs in. Inherited, a binding to
// its processors or its options would bind the tasks, too.
func ofSession(variable string) bool {
	return (strings.HasPrefix(variable, "SLURM_") || strings.HasPrefix(variable, "SBATCH_")) &&
		!strings.HasPrefix(variable, "SLURM_CONF=")
}

var jobLine = regexp.MustCompile(`(?m)^([0-9]+)(;.*)?$`)

// jobNumber returns the number in the last line of sbatch --parsable that has one: lines of a cluster's own may come
// before it, and the name of the cluster follows it. It returns "" without one.
func jobNumber(output string) string {
	lines := jobLine.FindAllStringSubmatch(output, -1)
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1][1]
}

// quote returns a text as one word of the shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
