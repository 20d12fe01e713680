package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// failureFile contains the error of a task that gave up.
func (s *Submission) failureFile(task int) string {
	return s.path(filepath.Join(failedDir, strconv.Itoa(task)))
}

// stoppedFile contains the epoch at which a task reached its time limit.
func (s *Submission) stoppedFile(task int) string {
	return s.path(filepath.Join(stoppedDir, strconv.Itoa(task)))
}

// Worker does the tasks of a submission on a node.
type Worker struct {
	// Open opens the backend, for a job or for the probe of a node; see [runs.OpenTrainer]. It is called only if there is
	// something to do.
	Open func(...runs.Job) (*train.Trainer, error)
	// Say, if not nil, receives messages of one line; Progress, if not nil, is called after each training step.
	Say      func(line string)
	Progress func(runs.Progress)
}

func (w Worker) say(format string, args ...any) {
	if w.Say != nil {
		w.Say(fmt.Sprintf(format, args...))
	}
}

// Run does a task of the submission with the given manifest. A task of the array calls it with the command line
//
//	dmlx runs make --manifest FILE --task N
//
// Run returns at once if the store has the output of the job. A job that fails is tried again, as often as the
// submission says; then its error is stored for followers and returned. If ctx is done, for example after the signal
// that Slurm sends before the time limit, the run stops after its current step. If the time limit was the reason, Run
// asks Slurm to requeue the task, which then resumes.
func (w Worker) Run(ctx context.Context, manifestPath string, task int) error {
	dir := filepath.Dir(manifestPath)
	store, err := runs.OpenStore(filepath.Dir(filepath.Dir(dir)))
	if err != nil {
		return err
	}
	store.Warn = w.Say
	s, err := Open(store, filepath.Base(dir))
	if err != nil {
		return err
	}
	if err := s.checkOwner(); err != nil {
		return err
	}
	if task < 0 || task >= len(s.Tasks) {
		return fmt.Errorf("%s has no task %d: want 0 to %d", manifestPath, task, len(s.Tasks)-1)
	}
	t := s.Tasks[task]
	if done, err := t.Done(store); err != nil {
		return err
	} else if done {
		w.say("%s is in the store already", t.name())
		return nil
	}
	if s.hasMark(cancelled) {
		return fmt.Errorf("%s: %s was %w", t.name(), s.ID, errCancelled)
	}
	if err := s.checkProgram(t); err != nil {
		return s.giveUp(task, 0, err)
	}
	for attempt := 1; ; attempt++ {
		err := w.attempt(ctx, store, t)
		if err == nil {
			w.say("%s is done", t.name())
			return nil
		}
		if ctx.Err() == nil {
			w.say("%s: attempt %d of %d: %v", t.name(), attempt, s.Retries+1, err)
			if attempt > s.Retries {
				return s.giveUp(task, attempt, err)
			}
			select { // Wait, because a lack of memory or of disk space may be temporary.
			case <-ctx.Done():
			case <-time.After(time.Duration(attempt) * time.Second):
			}
		}
		if ctx.Err() != nil {
			return s.stop(ctx, w, task, err)
		}
	}
}

func (w Worker) attempt(ctx context.Context, store *runs.Store, t Task) error {
	trainer, err := w.Open(t.Job)
	if err != nil {
		return err
	}
	w.say("%s: on %s, %s", t.name(), hostname(), trainer)
	return t.Run(ctx, trainer, store, w.Progress)
}

// checkProgram returns an error if this program is not the one that was submitted.
func (s *Submission) checkProgram(t Task) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	have, err := durable.FileSum(self)
	if err != nil {
		return err
	}
	switch {
	case have != s.Digest:
		return fmt.Errorf("wrong program: %s has the digest %s, but %s was submitted with %s; submit again",
			self, have[:12], s.ID, s.Digest[:12])
	case s.Recipe != runs.Recipe:
		return fmt.Errorf("submitted for recipe %d, but this program trains with recipe %d; submit again",
			s.Recipe, runs.Recipe)
	case t.Spec.Hash() != t.Hash:
		return fmt.Errorf("the spec has the hash %s in this program, but was submitted as %s; submit again",
			t.Spec.Hash(), t.Hash)
	}
	return nil
}

// giveUp stores and returns the error of a task that failed.
func (s *Submission) giveUp(task, attempts int, why error) error {
	f := Failure{Task: s.Tasks[task], Attempts: attempts, Host: hostname(), Error: why.Error()}
	if attempts > 1 {
		f.Error = fmt.Sprintf("%d attempts: %s", attempts, f.Error)
	}
	return errors.Join(fmt.Errorf("%s: %w", f.Task.name(), why), durable.WriteJSON(s.failureFile(task), f))
}

// stop ends a task that received a signal. If its time limit is near, it asks to be requeued, unless the previous start
// ended in the same epoch: then an epoch takes longer than the time limit.
func (s *Submission) stop(ctx context.Context, w Worker, task int, why error) error {
	ctx = context.WithoutCancel(ctx)
	id := ownID()
	if id == "" || s.hasMark(cancelled) {
		return why
	}
	text, err := run(ctx, "scontrol", "--oneliner", "show", "job", id)
	if err != nil || !timeEnds(text, time.Now()) {
		return why
	}
	t := s.Tasks[task]
	done := s.store.Entry(t.Hash).Epoch
	epoch := strconv.Itoa(done)
	name := filepath.Join(stoppedDir, filepath.Base(s.stoppedFile(task)))
	if last, err := durable.ReadBelow(s.dir(), name); err == nil && strings.TrimSpace(string(last)) == epoch {
		return s.giveUp(task, 2, fmt.Errorf("its time ended twice in epoch %d of %d: an epoch takes longer "+
			"than the time limit of a task; raise it with --time", done+1, t.Spec.Epochs))
	}
	if err := durable.WriteFile(s.stoppedFile(task), []byte(epoch+"\n"), 0o666); err != nil {
		return errors.Join(why, err)
	}
	w.say("%s: time ends after epoch %s of %d; asking to be requeued", t.name(), epoch, t.Spec.Epochs)
	if _, err := run(ctx, "scontrol", "requeue", id); err != nil {
		return errors.Join(why, err)
	}
	return why
}

// ownID returns the ID of the current task for Slurm's commands, or "" outside of Slurm. One task of an array has the
// ID of the whole array as SLURM_JOB_ID, with which scontrol would affect all tasks.
func ownID() string {
	if array := os.Getenv("SLURM_ARRAY_JOB_ID"); array != "" {
		return array + "_" + os.Getenv("SLURM_ARRAY_TASK_ID")
	}
	return os.Getenv("SLURM_JOB_ID")
}

// timeEnds reports whether a running job is near its time limit, from the output of scontrol. The signal may come up to
// a minute earlier than requested.
func timeEnds(job string, now time.Time) bool {
	if field(job, "JobState") != "RUNNING" {
		return false
	}
	end, err := time.ParseInLocation("2006-01-02T15:04:05", field(job, "EndTime"), now.Location())
	return err == nil && end.Sub(now) < (signalSeconds+90)*time.Second
}

// field returns a value of the Key=Value list of scontrol, or "".
func field(text, key string) string {
	for _, f := range strings.Fields(text) {
		if name, value, _ := strings.Cut(f, "="); name == key {
			return value
		}
	}
	return ""
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "an unknown machine"
	}
	return name
}
