package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Status is how far a submission is.
type Status struct {
	Jobs                           int // All of it: those below.
	Done, Running, Pending, Failed int
	Lost                           int // Neither done nor in the queue,
	held                           int // or pending there for ever, see [place.held].

	Fraction float64       // What is done of all, with the epochs of runs under way, from 0 to 1.
	Reason   string        // Why Slurm lets a task wait, if one does.
	Left     time.Duration // At the pace seen so far; 0 while there is none.
}

// String is the status on one line.
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
	Log      string `json:"-"` // The file with what it printed; "" if it never began.
}

// FailedError names the tasks of a submission that cannot be made.
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

// errCancelled is why a submission ends that was cancelled.
var errCancelled = errors.New("cancelled")

// follower is what is known of a submission while it is followed.
type follower struct {
	*Submission
	others  map[string]*Submission // By their names, those that have some of its jobs.
	tasks   []followedTask
	updates int
	start   float64 // The fraction when it was first known,
	since   time.Time
}

// followed is a task as it was last seen.
type followedTask struct {
	where   *Submission // Whose task it is in the queue,
	n       int         // and its number there.
	done    bool
	place   queueState
	failure *Failure
	epoch   int
	gone    time.Time // Since when it is neither done nor in the queue.
	sent    int       // How often it was sent again, or released, at this epoch.
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

// queue is that of all submissions that have some of the tasks.
func (f *follower) queue(ctx context.Context) (queued, error) {
	of := []*Submission{f.Submission}
	for _, other := range f.others {
		of = append(of, other)
	}
	return queue(ctx, of...)
}

// look brings what is known up to date.
func (f *follower) update(ctx context.Context) (Status, error) {
	q, err := f.queue(ctx) // First: what leaves it before the store is looked at is done.
	if err != nil {
		return Status{}, err
	}
	s := Status{Jobs: len(f.tasks)}
	for n := range f.tasks {
		t, job := &f.tasks[n], f.Tasks[n].Job
		t.place = q.at(t.where, t.n)
		// Of a thousand tasks that wait, few change: they are looked at now and then.
		if pending := t.place.waits() && !t.place.runs(); !t.done && (!pending || f.updates%10 == 0) {
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
		if t.failure != nil || t.place.waits() {
			t.gone = time.Time{}
		}
		switch {
		case t.failure != nil:
			s.Failed++
		case t.place.runs():
			s.Running++
		case t.place.waits():
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

// lookAt finds in the store how far a task is.
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
		t.epoch, t.sent = e, 0 // It gets on, however it does.
	}
	return nil
}

// Status looks once at how far the submission is. One that is done is not among the [Unfinished] from then on.
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

// markFinished marks that all of the submission is done, if this user may.
func (s *Submission) markFinished() error {
	err := s.mark(finished)
	if s.foreign() {
		return nil
	}
	return err
}

// Watch follows all that is queued for a store, by whomever, to its end; see [Submission.Follow].
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

// patience is how many polls long what may pass is waited for: Slurm's controller is started anew now and then.
const patience = 30

// Follow watches the submission until all its runs are in the store, and tells [Options.Progress] how far they are. Tasks that
// vanish from the queue without a result, as those of a node that died and is not to be used again, are sent again, and those
// that Slurm holds since they could not be started are released, as often as [Options.Retries] says without getting further. The error names the runs that failed, a [FailedError], once the others
// are done. If ctx is done Follow ends, and the tasks go on.
func (s *Submission) Follow(ctx context.Context, o Options) error {
	f, err := newFollower(s)
	if err != nil {
		return err
	}
	quiet := 0  // How many times in a row Slurm, or the store's file system, did not answer.
	unsent := 0 // How many times in a row it did not take what was to be sent again.
	for {
		status, err := f.update(ctx)
		switch {
		case ctx.Err() != nil:
			return f.stopped(ctx)
		case err != nil && quiet < patience:
			if quiet++; quiet == 1 {
				o.say("asking on, though %v", err)
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
						o.say("trying on to send them again, though %v", err)
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
	return fmt.Errorf("no longer following; the runs go on: %w", ctx.Err())
}

// end sums up a submission of which nothing is under way.
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

// sendAgain sends the tasks that are gone for good.
func (f *follower) sendAgain(ctx context.Context, o Options) error {
	// Between a task's end and the sight of its result lies what a network file system remembers.
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
			continue // It counts when it is looked at again.
		}
		if f.Digest != "" && t.where != f.Submission && (t.where.hasMark(cancelled) || t.where.foreign()) {
			// What another has cancelled is still wanted here, and what is another user's only he may send again.
			t.where, t.n, t.place, f.Tasks[n].QueuedIn = f.Submission, n, queueState{}, ""
		}
		switch {
		case t.where.hasMark(cancelled), t.where == f.Submission && t.place.state == "CANCELLED":
			return fmt.Errorf("%s was %w", t.where.ID, errCancelled)
		case t.where.foreign():
			if time.Since(t.gone) > patience*o.poll() { // Its user may be following it, too.
				why := fmt.Sprintf("vanished from Slurm's queue%s, and submission %v", t.place.said(), t.where.checkOwner())
				t.failure = &Failure{Attempts: 1, Error: why}
			}
		case t.sent >= o.retries():
			t.failure = &Failure{Attempts: t.sent + 1, Error: "vanished from Slurm's queue without a result or a word" + t.place.said()}
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
	q, err := f.queue(ctx) // Another follower may have been quicker.
	if err != nil {
		return err
	}
	if err := f.saveTakenOver(); err != nil {
		return err
	}
	gone := make(map[*Submission][]int)
	for _, n := range again {
		t := &f.tasks[n]
		if q.at(t.where, t.n).waits() {
			t.gone = time.Time{}
			continue
		}
		gone[t.where] = append(gone[t.where], n)
	}
	for s, tasks := range gone {
		numbers := make([]int, len(tasks))
		for i, n := range tasks {
			numbers[i] = f.tasks[n].n
		}
		if err := s.send(ctx, numbers, o); err != nil {
			return err // What is not sent stays gone, and is no attempt.
		}
		for _, n := range tasks {
			t := &f.tasks[n]
			o.say("%s had vanished from the queue%s; it was sent again", f.Tasks[n].name(), t.place.said())
			t.sent++
			t.gone = time.Time{}
		}
	}
	return nil
}

// keep writes down which tasks have been taken over from other submissions, for those who follow this one later. It wants the lock.
func (f *follower) saveTakenOver() error {
	if !f.hasMark(manifestFile) || f.foreign() {
		return nil // All of it was others' until now, and it is written when it is sent; or another user's.
	}
	known, err := Open(f.store, f.ID)
	if err != nil {
		return err
	}
	changed := false
	for n, t := range known.Tasks {
		if t.QueuedIn == "" {
			f.Tasks[n].QueuedIn = "" // Another follower was quicker.
		}
		changed = changed || t.QueuedIn != f.Tasks[n].QueuedIn
	}
	if !changed {
		return nil
	}
	return f.writeManifest()
}

// release gives tasks another chance that Slurm holds.
func (f *follower) release(ctx context.Context, o Options) {
	for n := range f.tasks {
		t := &f.tasks[n]
		if t.done || t.failure != nil || !t.place.held() || t.where.foreign() {
			continue
		}
		if t.sent >= o.retries() {
			t.failure = &Failure{Attempts: t.sent + 1, Error: fmt.Sprintf("Slurm could not start it and holds it (%s): see slurmd's log on the nodes, then scontrol release %s", t.place.reason, t.id())}
			continue
		}
		t.sent++
		if _, err := run(ctx, "scontrol", "release", t.id()); err != nil && ctx.Err() == nil {
			o.say("%v", err) // Another follower, or an administrator, may have been quicker.
			continue
		}
		o.say("Slurm could not start %s (%s); released it", f.Tasks[n].name(), t.place.reason)
	}
}

// id is what Slurm's commands call the task.
func (t *followedTask) id() string { return fmt.Sprintf("%s_%d", t.place.array, t.n%t.where.Chunk) }

// said is Slurm's last word on a task, in brackets.
func (p queueState) said() string {
	if p.state == "" {
		return ""
	}
	return fmt.Sprintf(" (Slurm says %s)", p.state)
}

// failure is why a task gave up, nil if it has not.
func (s *Submission) failure(task int) (*Failure, error) {
	raw, err := os.ReadFile(s.failureFile(task))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var f Failure
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", s.failureFile(task), err)
	}
	return &f, nil
}

// Cancel takes all of a submission's tasks out of the queue and ends those that run; what they have made is kept, and a
// later submission goes on from there. Followers of the submission end; those of others that rely on its tasks send them anew.
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
			if p.waits() && !jobs[p.array] {
				jobs[p.array] = true
				if _, err := run(ctx, "scancel", p.array); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
