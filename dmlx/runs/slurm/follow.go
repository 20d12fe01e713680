package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Status is the progress of a submission.
type Status struct {
	Jobs                           int // All jobs: the sum of those below.
	Done, Running, Pending, Failed int
	Lost                           int // Neither done nor in the queue.
	held                           int // Pending jobs that Slurm holds; see [queueState.held].

	Fraction float64       // Completed fraction, including the epochs of unfinished runs, from 0 to 1.
	Reason   string        // Why a task is pending, if one is.
	Left     time.Duration // Estimated time left; 0 while it is unknown.
}

// String returns the status as one line.
func (s Status) String() string {
	line := fmt.Sprintf("%d of %d done, %d running, %d pending", s.Done, s.Jobs, s.Running, s.Pending)
	if s.Reason != "" {
		line += " (" + s.Reason + ")"
	}
	if s.Failed > 0 {
		line += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Lost > 0 {
		line += fmt.Sprintf(", %d vanished", s.Lost)
	}
	if s.Left > 0 {
		line += fmt.Sprintf(", %s left", s.Left.Round(time.Second))
	}
	return line
}

// Failure is a task that gave up.
type Failure struct {
	Task     Task   `json:"task"`
	Attempts int    `json:"attempts"`
	Host     string `json:"host"`
	Error    string `json:"error"`
	Log      string `json:"-"` // Path of the log; "" if the task never started.
}

// FailedError lists the tasks of a submission that failed.
type FailedError struct {
	Jobs     int
	Failures []Failure
}

func (e *FailedError) Error() string {
	var parts []string
	for i, f := range e.Failures {
		if i == 3 {
			parts = append(parts, fmt.Sprintf("and %d more", len(e.Failures)-i))
			break
		}
		where := ""
		if f.Host != "" {
			where = " on " + f.Host
		}
		part := fmt.Sprintf("%s%s: %s", f.Task.name(), where, f.Error)
		if f.Log != "" {
			part += fmt.Sprintf(" (see %s)", f.Log)
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("%d of %d runs failed: %s", len(e.Failures), e.Jobs, strings.Join(parts, "; "))
}

// errCancelled means that the submission was canceled.
var errCancelled = errors.New("cancelled")

// follower is the state of a submission that is being followed.
type follower struct {
	*Submission
	others  map[string]*Submission // Submissions that have some of its jobs, by name.
	tasks   []followedTask
	updates int
	start   float64   // The first known fraction,
	since   time.Time // and when it was known.
}

// followedTask is the last known state of a task.
type followedTask struct {
	where   *Submission // The submission that queued it,
	n       int         // and its number there.
	done    bool
	place   queueState
	failure *Failure
	epoch   int
	gone    time.Time // When it was first seen neither done nor queued.
	sent    int       // How often it was submitted again or released at this epoch.
}

func newFollower(s *Submission) (*follower, error) {
	f := &follower{Submission: s, others: make(map[string]*Submission), tasks: make([]followedTask, len(s.Tasks))}
	numbers := make(map[string]map[string]int)
	for n, t := range s.Tasks {
		f.tasks[n].where, f.tasks[n].n = s, n
		if t.QueuedIn == "" {
			continue
		}
		if f.others[t.QueuedIn] == nil {
			other, err := Open(s.store, t.QueuedIn)
			if err != nil {
				return nil, err
			}
			f.others[t.QueuedIn], numbers[t.QueuedIn] = other, make(map[string]int)
			for k, t := range other.Tasks {
				for _, key := range t.keys() {
					numbers[other.ID][key] = k
				}
			}
		}
		if k, there := numbers[t.QueuedIn][t.key()]; there {
			f.tasks[n].where, f.tasks[n].n = f.others[t.QueuedIn], k
		}
	}
	return f, nil
}

// queue asks Slurm for the tasks of all submissions involved.
func (f *follower) queue(ctx context.Context) (queued, error) {
	of := []*Submission{f.Submission}
	for _, other := range f.others {
		of = append(of, other)
	}
	return queue(ctx, of...)
}

// update brings the state of all tasks up to date.
func (f *follower) update(ctx context.Context) (Status, error) {
	q, err := f.queue(ctx) // Before the store: a task that leaves the queue in between counts as done.
	if err != nil {
		return Status{}, err
	}
	s := Status{Jobs: len(f.tasks)}
	for n := range f.tasks {
		t, job := &f.tasks[n], f.Tasks[n].Job
		t.place = q.at(t.where, t.n)
		// Of a thousand pending tasks few change, so that they are checked less often.
		if pending := t.place.active() && !t.place.running(); !t.done && (!pending || f.updates%10 == 0) {
			if err := f.updateTask(n); err != nil {
				return s, err
			}
		}
		if t.done {
			s.Done++
			s.Fraction++
			continue
		}
		s.Fraction += 0.99 * float64(t.epoch) / float64(max(job.Spec.Epochs, 1))
		if t.failure != nil || t.place.active() {
			t.gone = time.Time{}
		}
		switch {
		case t.failure != nil:
			s.Failed++
		case t.place.running():
			s.Running++
		case t.place.active():
			s.Pending++
			if t.place.held() {
				s.held++
			}
			if t.place.reason != "None" {
				s.Reason = t.place.reason
			}
		default:
			s.Lost++
			if t.gone.IsZero() {
				t.gone = time.Now()
			}
		}
	}
	f.updates++
	s.Fraction /= float64(max(len(f.tasks), 1))
	if f.since.IsZero() {
		f.start, f.since = s.Fraction, time.Now()
	} else if made := s.Fraction - f.start; made > 0 && s.Fraction < 1 {
		s.Left = time.Duration(float64(time.Since(f.since)) * (1 - s.Fraction) / made)
	}
	return s, nil
}

// updateTask reads the progress of a task from the store.
func (f *follower) updateTask(n int) (err error) {
	t := &f.tasks[n]
	if t.done, err = f.Tasks[n].Done(f.store); err != nil || t.done {
		return err
	}
	if t.failure == nil {
		if t.failure, err = t.where.failure(t.n); err != nil {
			return err
		}
	}
	if e := f.store.Entry(f.Tasks[n].Hash).Epoch; e != t.epoch {
		t.epoch, t.sent = e, 0 // Progress resets the number of attempts.
	}
	return nil
}

// Status returns the present status. A submission that is done is no longer among the [Unfinished] ones.
func (s *Submission) Status(ctx context.Context) (Status, error) {
	f, err := newFollower(s)
	if err != nil {
		return Status{}, err
	}
	st, err := f.update(ctx)
	if err == nil && st.Done == st.Jobs {
		err = s.markFinished()
	}
	return st, err
}

// markFinished marks the submission as done, if this user has the permission.
func (s *Submission) markFinished() error {
	err := s.mark(finished)
	if s.foreign() {
		return nil
	}
	return err
}

// Watch follows everything that is queued for a store, by any user, until the end; see [Submission.Follow].
func Watch(ctx context.Context, store *runs.Store, o Options) error {
	open, err := Unfinished(store)
	if err != nil {
		return err
	}
	all := &Submission{store: store, manifest: manifest{ID: "what is queued", Chunk: math.MaxInt}}
	known := make(map[string]bool)
	for _, s := range open {
		for _, t := range s.Tasks {
			if t.QueuedIn == "" && !known[t.key()] {
				known[t.key()] = true
				t.QueuedIn = s.ID
				all.Tasks = append(all.Tasks, t)
			}
		}
	}
	return all.Follow(ctx, o)
}

// patience is the number of polls for which transient errors are ignored: the controller of Slurm is restarted now and
// then.
const patience = 30

// Follow watches the submission until all its runs are in the store, and reports to [Options].Progress. Tasks that
// vanish from the queue without a result, for example because their node died, are submitted again. Tasks that Slurm
// holds because they could not be started are released. Both happen at most [Options].Retries times without progress.
// When nothing is left to wait for, Follow returns a [FailedError] if runs failed. If ctx is done, Follow returns and
// the tasks continue.
func (s *Submission) Follow(ctx context.Context, o Options) error {
	f, err := newFollower(s)
	if err != nil {
		return err
	}
	quiet := 0  // Consecutive failures to query Slurm or the store.
	unsent := 0 // Consecutive failures to submit tasks again.
	for {
		status, err := f.update(ctx)
		switch {
		case ctx.Err() != nil:
			return f.stopped(ctx)
		case err != nil && quiet < patience:
			if quiet++; quiet == 1 {
				o.say("polling continues after an error: %v", err)
			}
		case err != nil:
			return err
		default:
			quiet = 0
			if o.Progress != nil {
				o.Progress(status)
			}
			if status.Done+status.Failed == status.Jobs {
				return f.end()
			}
			if status.Lost > 0 {
				switch err := f.sendAgain(ctx, o); {
				case err == nil:
					unsent = 0
				case ctx.Err() != nil:
				case errors.Is(err, errCancelled) || unsent == patience:
					return err
				default:
					if unsent++; unsent == 1 {
						o.say("cannot submit vanished tasks yet, will try again: %v", err)
					}
				}
			}
			if status.held > 0 {
				f.release(ctx, o)
			}
		}
		select {
		case <-ctx.Done():
			return f.stopped(ctx)
		case <-time.After(o.poll()):
		}
	}
}

func (f *follower) stopped(ctx context.Context) error {
	return fmt.Errorf("no longer following; the runs continue: %w", ctx.Err())
}

// end sums up a submission without active tasks.
func (f *follower) end() error {
	e := &FailedError{Jobs: len(f.tasks)}
	for n, t := range f.tasks {
		if t.failure != nil && !t.done {
			t.failure.Task = f.Tasks[n]
			if log := t.where.log(t.n); exists(log) {
				t.failure.Log = log
			}
			e.Failures = append(e.Failures, *t.failure)
		}
	}
	if f.hasMark(manifestFile) {
		if err := f.markFinished(); err != nil {
			return err
		}
	}
	if len(e.Failures) > 0 {
		return e
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sendAgain submits the tasks again that have vanished from the queue.
func (f *follower) sendAgain(ctx context.Context, o Options) error {
	// A network file system caches names, so that a result may become visible only some time after the task ended.
	wait := 2 * o.poll()
	var again []int
	for n := range f.tasks {
		t := &f.tasks[n]
		if t.gone.IsZero() || time.Since(t.gone) < wait {
			continue
		}
		f.store.Refresh(f.Tasks[n].Hash)
		if done, err := f.Tasks[n].Done(f.store); err != nil {
			return err
		} else if done {
			continue // The next update counts it.
		}
		if f.Digest != "" && t.where != f.Submission && (t.where.hasMark(cancelled) || t.where.foreign()) {
			// The job is still wanted here, though another submission was canceled, or another user would have to submit it.
			t.where, t.n, t.place, f.Tasks[n].QueuedIn = f.Submission, n, queueState{}, ""
		}
		switch {
		case t.where.hasMark(cancelled), t.where == f.Submission && t.place.state == "CANCELLED":
			return fmt.Errorf("%s was %w", t.where.ID, errCancelled)
		case t.where.foreign():
			if time.Since(t.gone) > patience*o.poll() { // Give a follower of that user time to submit it again.
				why := fmt.Sprintf("vanished from Slurm's queue%s, and submission %v", t.place.lastState(), t.where.checkOwner())
				t.failure = &Failure{Attempts: 1, Error: why}
			}
		case t.sent >= o.retries():
			why := "vanished from Slurm's queue without a result or an error" + t.place.lastState()
			t.failure = &Failure{Attempts: t.sent + 1, Error: why}
		default:
			again = append(again, n)
		}
	}
	if len(again) == 0 {
		return nil
	}
	unlock, err := f.store.Lock(ctx, "slurm")
	if err != nil {
		return err
	}
	defer unlock()
	q, err := f.queue(ctx) // Another follower may have submitted them.
	if err != nil {
		return err
	}
	if err := f.saveTakenOver(); err != nil {
		return err
	}
	gone := make(map[*Submission][]int)
	for _, n := range again {
		t := &f.tasks[n]
		if q.at(t.where, t.n).active() {
			t.gone = time.Time{}
			continue
		}
		gone[t.where] = append(gone[t.where], n)
	}
	for s, tasks := range gone {
		numbers := slice.Map(tasks, func(n int) int { return f.tasks[n].n })
		if err := s.send(ctx, numbers, o); err != nil {
			return err // These tasks stay gone, and this does not count as an attempt.
		}
		for _, n := range tasks {
			t := &f.tasks[n]
			o.say("%s had vanished from the queue%s; it was submitted again", f.Tasks[n].name(), t.place.lastState())
			t.sent++
			t.gone = time.Time{}
		}
	}
	return nil
}

// saveTakenOver writes to the manifest which tasks were taken over from other submissions, for later followers. The
// caller must hold the lock.
func (f *follower) saveTakenOver() error {
	if !f.hasMark(manifestFile) || f.foreign() {
		return nil // It has no manifest yet, which is written when tasks are submitted; or it belongs to another user.
	}
	known, err := Open(f.store, f.ID)
	if err != nil {
		return err
	}
	changed := false
	for n, t := range known.Tasks {
		if t.QueuedIn == "" {
			f.Tasks[n].QueuedIn = "" // Another follower took it over.
		}
		changed = changed || t.QueuedIn != f.Tasks[n].QueuedIn
	}
	if !changed {
		return nil
	}
	return f.writeManifest()
}

// release releases tasks that Slurm holds.
func (f *follower) release(ctx context.Context, o Options) {
	for n := range f.tasks {
		t := &f.tasks[n]
		if t.done || t.failure != nil || !t.place.held() || t.where.foreign() {
			continue
		}
		if t.sent >= o.retries() {
			why := fmt.Sprintf("Slurm could not start it and holds it (%s): see the log of slurmd on the nodes, "+
				"then scontrol release %s", t.place.reason, t.id())
			t.failure = &Failure{Attempts: t.sent + 1, Error: why}
			continue
		}
		t.sent++
		if _, err := run(ctx, "scontrol", "release", t.id()); err != nil && ctx.Err() == nil {
			o.say("%v", err) // Perhaps another follower or an administrator has released it.
			continue
		}
		o.say("Slurm could not start %s (%s); released it", f.Tasks[n].name(), t.place.reason)
	}
}

// id returns the ID of the task for Slurm's commands.
func (t *followedTask) id() string { return fmt.Sprintf("%s_%d", t.place.array, t.n%t.where.Chunk) }

// lastState returns the last known state of a task in parentheses, or "".
func (p queueState) lastState() string {
	if p.state == "" {
		return ""
	}
	return fmt.Sprintf(" (Slurm says %s)", p.state)
}

// failure returns the failure of a task that gave up, or nil.
func (s *Submission) failure(task int) (*Failure, error) {
	raw, err := durable.ReadBelow(s.dir(), filepath.Join(failedDir, filepath.Base(s.failureFile(task))))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var f Failure
	if err := durable.ParseJSON(raw, &f); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", s.failureFile(task), err)
	}
	return &f, nil
}

// Cancel removes all tasks of a submission from the queue and ends those that run. Their checkpoints and results are
// kept, and a later submission continues from them. Followers of this submission end. Followers of other submissions
// that rely on its tasks submit them again.
func (s *Submission) Cancel(ctx context.Context) error {
	if err := s.mark(cancelled); err != nil {
		return err
	}
	q, err := queue(ctx, s)
	if err != nil {
		return err
	}
	jobs := make(map[string]bool)
	for _, array := range q {
		for _, p := range array {
			if p.active() && !jobs[p.array] {
				jobs[p.array] = true
				if _, err := run(ctx, "scancel", p.array); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
