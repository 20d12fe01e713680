// Package slurm has runs made by a cluster's own queue: Slurm's job arrays, one run a task.
//
// [Submit] writes a manifest of the jobs that a store lacks into the store, with the program that is to make them beside
// it, and sends an array; [Submission.Follow] watches it to its end, and [Run] does both: it is what
// [runs.Options.Submit] wants. Each task of the array calls [Make].
//
// All that is known of a submission is in the store and in Slurm's queue, so that whoever follows it may go and come back, and
// others may submit the same: what is queued already is left out, and what is made by two tasks nevertheless is made once,
// since a run is written by the one that holds its lock.
//
// The store must lie where the nodes see it, and may lie on NFS. A lock (flock) is one at the server there, Linux having made
// it a lock of the file's bytes since 2.6.12: it holds between machines, and the server frees that of a machine that died once
// its lease is over, with NFS 4, or its lock daemon hears that it is up again, with NFS 3. What a client remembers of names
// that were not there is refreshed before a run is taken to be missing; see [runs.Store.Refresh]. A file system that is
// mounted without locks between machines (nolock, local_lock) does not do, which the probe finds. Those who share a store
// must be of one group, with a umask that lets the group write, as 002 does.
//
//	jobs, err := report.Missing(ctx, "table2", request)
//	err = slurm.Run(ctx, store, jobs, slurm.Options{Partition: "gpu", Gres: "gpu:1", Time: "2:00:00"})
package slurm

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Options of a submission. The zero value takes the cluster's own defaults.
type Options struct {
	// Partition, Gres and Time are those of sbatch: where to run, as with "gpu:1", and for how long a task at most. A task whose
	// time ends before its run does goes on from its checkpoint in another turn.
	Partition, Gres, Time string
	// MaxParallel is how many tasks run at once; 0 is as many as Slurm lets. Where it takes several arrays each has its share, and at
	// least one. Tasks that are sent again are counted by themselves, and may run beside what is left of the others.
	MaxParallel int
	// Sbatch are further options of sbatch, such as "--qos=low". They come last, and so win.
	Sbatch []string
	// Retries is how often a run that fails is tried again, and how often one that vanished from the queue is sent again
	// without having got further; 0 is 2, and less is never.
	Retries int
	// Program makes the runs; "" is this one. It must have the command line of dmlx: it is called as in [Make].
	Program string
	// NoProbe sends the array without having seen that the nodes find the store, and start the program there.
	NoProbe bool
	// Queued is for following what is queued already, by whomever: Submit sends nothing, and fails if something is in no queue.
	Queued bool
	// Poll is how often Slurm is asked; 0 is every ten seconds.
	Poll time.Duration
	// Say, if set, is told what happens, a line each; Progress how far all is, at each poll.
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

// The folder of a store that this package writes to, and what is in it.
const (
	folder       = ".slurm"
	manifestFile = "manifest.json"
	logDir       = "log"
	failedDir    = "failed"    // Why a task gave up, by its number.
	stoppedDir   = "stopped"   // At which epoch a task's time ended, by its number.
	cancelled    = "cancelled" // A file that is there once it was cancelled,
	finished     = "finished"  // or once all of it is done.
)

// Run submits jobs and follows them to their end: [Submit], then [Submission.Follow].
func Run(ctx context.Context, store *runs.Store, jobs []runs.Job, o Options) error {
	s, err := Submit(ctx, store, jobs, o)
	if err != nil {
		return err
	}
	return s.Follow(ctx, o)
}

// Submit sends the jobs that the store lacks as an array, one a task; as several where Slurm bounds an array's size. Jobs
// that another submission has in the queue are not sent a second time, but followed with the rest.
//
// Before the array, a job of its own finds whether the nodes see the store and can start the program; once that went well
// it is not asked again for the same program and options.
func Submit(ctx context.Context, store *runs.Store, jobs []runs.Job, o Options) (*Submission, error) {
	if err := installed(); err != nil {
		return nil, err
	}
	s, err := Plan(ctx, store, jobs, o)
	if err != nil || len(s.Tasks) == 0 {
		return s, err
	}
	if own := s.ownTasks(); o.Queued && len(own) > 0 {
		return nil, fmt.Errorf("%d of %d runs are not in Slurm's queue, %s for one: submit them", len(own), len(s.Tasks), s.Tasks[own[0]].name())
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
	if err := s.findQueuedElsewhere(ctx); err != nil { // Again: someone may have been quicker during the probe.
		return nil, err
	}
	if err := s.send(ctx, s.ownTasks(), o); err != nil {
		if s.hasMark(manifestFile) {
			err = errors.Join(err, s.Cancel(context.WithoutCancel(ctx))) // Half of it is not what was wanted.
		}
		return nil, err
	}
	open, err := Unfinished(store)
	if err != nil {
		return nil, err
	}
	return s, prune(store, open)
}

// Plan is [Submit] up to the point where something is written or sent: what would be.
func Plan(ctx context.Context, store *runs.Store, jobs []runs.Job, o Options) (*Submission, error) {
	if strings.ContainsRune(store.Dir, '\\') {
		return nil, fmt.Errorf("the path of the run store, %s, has a backslash, by which Slurm takes a log's name literally: "+
			"choose another folder, by --store", store.Dir)
	}
	s := &Submission{store: store}
	known := make(map[string]bool)
	for _, portrait := range []bool{true, false} { // A portrait comes with its run.
		for _, j := range jobs {
			t := Task{Job: j, Hash: j.Spec.Hash()}
			if j.Histograms != portrait || known[t.Hash] {
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
	_, _ = rand.Read(random[:]) // It does not fail.
	s.ID = time.Now().UTC().Format("20060102-150405-") + hex.EncodeToString(random[:])
	s.Sbatch, s.MaxParallel, s.Environment = o.sbatchOptions(), o.MaxParallel, environment()
	s.Date, s.Version, s.Recipe, s.Retries = time.Now().UTC().Truncate(time.Second), runs.Version(), runs.Recipe, o.retries()
	if u, err := user.Current(); err == nil {
		s.User = u.Username
	}
	source, err := o.program()
	if err != nil {
		return nil, err
	}
	if s.Digest, err = digest(source); err != nil {
		return nil, err
	}
	s.Chunk = 1000 // MaxArraySize, the last index and one, is 1001 if nothing else is said.
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

// leaveOut finds which of the tasks are queued by other submissions.
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
			if !q.at(other, n).waits() {
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

// install copies the program into the store under its digest, so that what is queued stays what it is when it is built anew.
func (s *Submission) install(o Options) error {
	to := s.program()
	if err := sharedFolder(filepath.Join(s.store.Dir, folder), 0o777); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	for _, dir := range []string{s.bin(), filepath.Dir(to)} {
		if err := ownFolder(dir); err != nil {
			return fmt.Errorf("the program cannot be kept in the run store: %w", err)
		}
	}
	if have, err := digest(to); err == nil && have == s.Digest && owned(to, 0o022) == nil {
		now := time.Now()
		_ = os.Chtimes(to, now, now) // For prune.
		return nil
	}
	source, err := o.program()
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != s.Digest {
		return fmt.Errorf("%s has changed while it was about to be submitted: submit again", source)
	}
	err = durable.WriteFile(to, raw, 0o755)
	if err == nil {
		err = os.Chmod(to, 0o755) // Whatever the umask is.
	}
	if err != nil {
		return fmt.Errorf("the program cannot be copied into the run store: %w", err)
	}
	return nil
}

// prune removes the user's programs that no submission needs any more. Those of the last week stay, since they may be
// about to be submitted.
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

// send submits tasks by their numbers, in as many arrays as it takes.
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
		id, _, _ = strings.Cut(id, ";") // A cluster's name may follow.
		o.say("submitted %d runs as array %s (%s)", len(a.indices), id, s.ID)
	}
	return nil
}

// digest is the SHA-256 of a file.
func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
