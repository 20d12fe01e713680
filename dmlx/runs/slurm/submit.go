package slurm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Options of a submission. The zero value uses the defaults of the cluster.
type Options struct {
	// Partition, Gres and Time are the options of sbatch: where to run, such as "gpu:1", and the time limit of a task. A
	// task that reaches its limit is requeued and resumes from its checkpoint. If jobs run on several devices, an empty
	// Gres asks for as many GPUs.
	Partition, Gres, Time string
	// MaxParallel limits the tasks that run at once; 0 is no limit. If there are several arrays, the limit is divided
	// among them, but each gets at least one. Tasks that are submitted again have a limit of their own.
	MaxParallel int
	// Sbatch are more options of sbatch, such as "--qos=low". They come last and override the others.
	Sbatch []string
	// Retries is how often a failed run is tried again, and how often a task that vanished from the queue without progress
	// is submitted again. 0 is 2; a negative number is never.
	Retries int
	// Program trains the runs; "" is the running program. It must have the command line of dmlx; see [Worker.Run].
	Program string
	// NoProbe skips the probe, which checks on a node that the store and the program work there; see [Submit].
	NoProbe bool
	// Queued only follows jobs that are queued already, by any user. Submit then submits nothing, and returns an error if
	// a job is not in the queue.
	Queued bool
	// Poll is the interval between queries of Slurm; 0 is ten seconds.
	Poll time.Duration
	// Say, if not nil, receives messages of one line. Progress, if not nil, receives the status at each poll.
	Say      func(line string)
	Progress func(Status)
}

func (o Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(fmt.Sprintf(format, args...))
	}
}

func (o Options) retries() int {
	if o.Retries == 0 {
		return 2
	}
	return max(o.Retries, 0)
}

func (o Options) poll() time.Duration {
	if o.Poll <= 0 {
		return 10 * time.Second
	}
	return o.Poll
}

// Run submits jobs and follows them to the end: [Submit], then [Submission.Follow].
func Run(ctx context.Context, store *runs.Store, jobs []runs.Job, o Options) error {
	s, err := Submit(ctx, store, jobs, o)
	if err != nil {
		return err
	}
	return s.Follow(ctx, o)
}

// Submit submits the jobs that the store lacks as an array with one job per task, or as several arrays if Slurm limits
// their size. Jobs in the queue of another submission are followed but not submitted again.
//
// First, the probe, a job of its own, checks on a node that the array can work: that the node sees the store, that
// files it writes there are seen here, that its locks hold between machines, and that the program and its backend
// start. Without the probe, a store that the nodes do not see would fail all tasks, with logs that no one can read, and
// a mount without locks would let two nodes write one run. After a success, the probe is not repeated for the same
// program and options.
func Submit(ctx context.Context, store *runs.Store, jobs []runs.Job, o Options) (*Submission, error) {
	if err := installed(); err != nil {
		return nil, err
	}
	s, err := Plan(ctx, store, jobs, o)
	if err != nil || len(s.Tasks) == 0 {
		return s, err
	}
	if own := s.ownTasks(); o.Queued && len(own) > 0 {
		return nil, fmt.Errorf("%d of %d runs are not in Slurm's queue, among them %s: submit them",
			len(own), len(s.Tasks), s.Tasks[own[0]].name())
	}
	if err := s.install(o); err != nil || o.Queued {
		return s, err
	}
	if !o.NoProbe {
		if err := s.probe(ctx, o); err != nil {
			return nil, err
		}
	}
	unlock, err := store.Lock(ctx, "slurm")
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Again, because someone else may have submitted jobs during the probe.
	if err := s.findQueuedElsewhere(ctx); err != nil {
		return nil, err
	}
	if err := s.send(ctx, s.ownTasks(), o); err != nil {
		if s.hasMark(manifestFile) {
			err = errors.Join(err, s.Cancel(context.WithoutCancel(ctx))) // Do not leave a partial submission.
		}
		return nil, err
	}
	open, err := Unfinished(store)
	if err != nil {
		return nil, err
	}
	return s, prune(store, open)
}

// Plan returns the submission that [Submit] would make, without writing or submitting anything.
func Plan(ctx context.Context, store *runs.Store, jobs []runs.Job, o Options) (*Submission, error) {
	if strings.ContainsRune(store.Dir, '\\') {
		return nil, fmt.Errorf("the path of the run store, %s, contains a backslash, with which Slurm does not expand "+
			"the names of logs: choose another folder with --store", store.Dir)
	}
	s := &Submission{store: store}
	known := make(map[string]bool)
	for _, histograms := range []bool{true, false} { // A job with histograms includes the run.
		for _, j := range jobs {
			t := Task{Job: j, Hash: j.Spec.Hash()}
			if j.Histograms != histograms || known[t.Hash] {
				continue
			}
			known[t.Hash] = true
			if err := j.Check(); err != nil {
				return nil, err
			}
			if done, err := j.Done(store); err != nil {
				return nil, err
			} else if !done {
				s.Tasks = append(s.Tasks, t)
			}
		}
	}
	var random [2]byte
	_, _ = rand.Read(random[:]) // Never fails.
	s.ID = time.Now().UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
	devices := 0
	for _, t := range s.Tasks {
		devices = max(devices, t.Devices)
	}
	o, err := o.onDevices(devices)
	if err != nil {
		return nil, err
	}
	s.Sbatch, s.MaxParallel, s.Environment = o.sbatchOptions(), o.MaxParallel, environment()
	s.Date = time.Now().UTC().Truncate(time.Second)
	s.Version, s.Recipe, s.Retries = runs.Version(), runs.Recipe, o.retries()
	if u, err := user.Current(); err == nil {
		s.User = u.Username
	}
	source, err := o.program()
	if err != nil {
		return nil, err
	}
	if s.Digest, err = durable.FileSum(source); err != nil {
		return nil, err
	}
	s.Chunk = 1000 // The default MaxArraySize is 1001, which is one more than the last index.
	if installed() != nil {
		return s, nil
	}
	if s.Chunk, err = maxArray(ctx); err != nil {
		return nil, err
	}
	return s, s.findQueuedElsewhere(ctx)
}

func (o Options) program() (string, error) {
	if o.Program != "" {
		return o.Program, nil
	}
	return os.Executable()
}

// findQueuedElsewhere finds which tasks are queued by other submissions.
func (s *Submission) findQueuedElsewhere(ctx context.Context) error {
	others, err := Unfinished(s.store)
	if err != nil {
		return err
	}
	q, err := queue(ctx, others...)
	if err != nil {
		return err
	}
	in := make(map[string]string)
	for _, other := range others {
		for n, t := range other.Tasks {
			if !q.at(other, n).active() {
				continue
			}
			for _, key := range t.keys() {
				in[key] = other.ID
			}
		}
	}
	for n := range s.Tasks {
		s.Tasks[n].QueuedIn = in[s.Tasks[n].key()]
	}
	return nil
}

// install copies the program into the store under its digest, so that queued tasks are not affected when the program is
// built again.
func (s *Submission) install(o Options) error {
	to := s.program()
	if err := sharedFolder(filepath.Join(s.store.Dir, folder), 0o777); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	for _, dir := range []string{s.bin(), filepath.Dir(to)} {
		if err := ownFolder(dir); err != nil {
			return fmt.Errorf("the program cannot be stored in the run store: %w", err)
		}
	}
	if have, err := durable.FileSum(to); err == nil && have == s.Digest && owned(to, 0o022) == nil {
		now := time.Now()
		_ = os.Chtimes(to, now, now) // So that prune keeps it.
		return nil
	}
	source, err := o.program()
	if err != nil {
		return err
	}
	raw, err := durable.ReadFile(source)
	if err != nil {
		return err
	}
	if durable.Sum(raw) != s.Digest {
		return fmt.Errorf("%s changed during the submission: submit again", source)
	}
	err = durable.WriteFile(to, raw, 0o755)
	if err == nil {
		err = os.Chmod(to, 0o755) // Independent of the umask.
	}
	if err != nil {
		return fmt.Errorf("the program cannot be copied into the run store: %w", err)
	}
	return nil
}

// prune removes the user's programs that no submission needs. Those of the last week stay, because they may be about to
// be submitted.
func prune(store *runs.Store, open []*Submission) error {
	needed := make(map[string]bool)
	for _, s := range open {
		needed[s.program()] = true
	}
	bin := (&Submission{store: store}).bin()
	if owned(bin, 0o022) != nil {
		return nil
	}
	programs, err := os.ReadDir(bin)
	if err != nil {
		return err
	}
	for _, e := range programs {
		path := filepath.Join(bin, e.Name(), "dmlx")
		info, err := os.Lstat(path)
		if err != nil || needed[path] || time.Since(info.ModTime()) < 7*24*time.Hour {
			continue
		}
		if err := os.RemoveAll(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// send submits tasks by their numbers, in as many arrays as necessary.
func (s *Submission) send(ctx context.Context, tasks []int, o Options) error {
	if len(tasks) == 0 {
		return nil
	}
	if !s.hasMark(manifestFile) {
		if err := s.write(); err != nil {
			return err
		}
	}
	if err := s.checkOwner(); err != nil {
		return err
	}
	arrays := s.arrays(tasks)
	for _, a := range arrays {
		id, err := submit(ctx, s.Script(), append(s.arguments(a, len(arrays)), scriptInput, fmt.Sprint(a.offset))...)
		if err != nil {
			return err
		}
		id, _, _ = strings.Cut(id, ";") // The name of a cluster may follow.
		o.say("submitted %d runs as array %s (%s)", len(a.indices), id, s.ID)
	}
	return nil
}
