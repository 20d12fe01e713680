package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// The folder of this package in a store, and its files.
const (
	folder       = ".slurm"
	manifestFile = "manifest.json"
	logDir       = "log"
	failedDir    = "failed"    // Errors of tasks that gave up, by their numbers.
	stoppedDir   = "stopped"   // Epochs at which tasks reached their time limit, by their numbers.
	cancelled    = "cancelled" // This file exists once the submission was canceled,
	finished     = "finished"  // and this one once all of it is done.
)

// Submission is a set of jobs that were submitted together, or are about to be.
type Submission struct {
	manifest
	store *runs.Store
}

// manifest is manifest.json in the folder of the submission: the jobs of its tasks, and the program that does them.
type manifest struct {
	ID      string    `json:"id"`
	Date    time.Time `json:"date"`
	User    string    `json:"user"`
	Version string    `json:"version"` // Version of the program.
	Digest  string    `json:"digest"`  // SHA-256 of the program.
	Recipe  int       `json:"recipe"`  // Recipe of the program.
	Retries int       `json:"retries"`
	// Sbatch are the options of sbatch, and MaxParallel limits the tasks that run at once; see [Options].
	Sbatch      []string `json:"sbatch"`
	MaxParallel int      `json:"max_parallel"`
	// Environment is set for the tasks; see [environment].
	Environment []string `json:"environment"`
	// Chunk is the largest number of tasks of an array; see MaxArraySize in slurm.conf.
	Chunk int      `json:"chunk"`
	Tasks taskList `json:"tasks"`
}

// taskList reads its tasks one by one: a Task takes hundreds of times the memory that a few letters of a stranger do.
type taskList []Task

// UnmarshalJSON implements [json.Unmarshaler].
func (l *taskList) UnmarshalJSON(raw []byte) error {
	var texts []json.RawMessage
	if err := json.Unmarshal(raw, &texts); err != nil {
		return err
	}
	*l = nil
	for n, text := range texts {
		const least = 100 // A spec alone is longer.
		var t Task
		if len(text) < least {
			return fmt.Errorf("task %d of %d has %d bytes: want a job with its spec", n, len(texts), len(text))
		}
		if err := json.Unmarshal(text, &t); err != nil {
			return fmt.Errorf("task %d: %w", n, err)
		}
		*l = append(*l, t)
	}
	return nil
}

// Task is a job of a submission. Its number is its index in the manifest.
type Task struct {
	runs.Job
	Hash string `json:"hash"` // Hash of the spec when it was submitted.
	// QueuedIn names another submission that has queued the job already. If that one is canceled, this submission submits
	// the job itself, and QueuedIn becomes "".
	QueuedIn string `json:"in,omitempty"`
}

// key identifies the job.
func (t Task) key() string { return fmt.Sprint(t.Hash, t.Histograms) }

// keys are the keys of the jobs that the task does: a job with histograms includes the run.
func (t Task) keys() []string {
	run := t
	run.Histograms = false
	if !t.Histograms {
		return []string{run.key()}
	}
	return []string{run.key(), t.key()}
}

// name describes the task to users.
func (t Task) name() string {
	return fmt.Sprintf("run %s (%s on %s, seed %d)", t.Hash, t.Spec.Objective.String(), t.Spec.DataName(), t.Spec.Seed)
}

func (s *Submission) dir() string { return filepath.Join(s.store.Dir, folder, s.ID) }

func (s *Submission) path(name string) string { return filepath.Join(s.dir(), name) }

func (s *Submission) hasMark(mark string) bool { return exists(s.path(mark)) }

func (s *Submission) mark(mark string) error {
	if err := durable.WriteFile(s.path(mark), nil, 0o666); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	return nil
}

// program returns the path of the user's copy of the program in the store.
func (s *Submission) program() string {
	return filepath.Join(s.bin(), s.Digest[:12], "dmlx")
}

// arrayName returns the name of the array whose first task has the number offset.
func (s *Submission) arrayName(offset int) string { return fmt.Sprintf("dmlx-%s-%d", s.ID, offset) }

// log returns the path of the log of a task, which contains the output of all its starts.
func (s *Submission) log(task int) string {
	return s.path(filepath.Join(logDir, fmt.Sprintf("%d-%d.txt", task/s.Chunk*s.Chunk, task%s.Chunk)))
}

// Open reads a submission by its name.
func Open(store *runs.Store, id string) (*Submission, error) {
	s := &Submission{store: store, manifest: manifest{ID: id}}
	if !submissionName.MatchString(id) {
		return nil, fmt.Errorf("%q is not a valid name of a submission", id)
	}
	raw, err := durable.ReadBelow(store.Dir, filepath.Join(folder, id, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no submission %q in %s", id, store.Dir)
	} else if err != nil {
		return nil, err
	}
	if err := durable.ParseJSON(raw, &s.manifest); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", s.path(manifestFile), err)
	}
	if s.ID != id || s.Chunk < 1 || !digestText.MatchString(s.Digest) {
		return nil, fmt.Errorf("%s is damaged or belongs to another submission", s.path(manifestFile))
	}
	for n, t := range s.Tasks {
		if !runName.MatchString(t.Hash) {
			return nil, fmt.Errorf("%s is damaged: task %d has %q in place of a hash", s.path(manifestFile), n, t.Hash)
		}
	}
	if s.Environment == nil { // Older programs did not store it: use that of this process.
		s.Environment = environment()
	}
	return s, nil
}

// Unfinished returns the submissions of a store that are neither done nor canceled, the oldest first.
func Unfinished(store *runs.Store) ([]*Submission, error) {
	entries, err := os.ReadDir(filepath.Join(store.Dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var out []*Submission
	for _, e := range entries { // Sorted by name, which begins with the time.
		s := &Submission{store: store, manifest: manifest{ID: e.Name()}}
		if !s.hasMark(manifestFile) || s.hasMark(cancelled) || s.hasMark(finished) {
			continue
		}
		opened, err := Open(store, e.Name())
		if err != nil && s.checkOwner() != nil { // The fault of another user must not stop this one.
			if store.Warn != nil {
				store.Warn(fmt.Sprintf("skipped a submission: %v", err))
			}
			continue
		} else if err != nil {
			return nil, err
		}
		s = opened
		out = append(out, s)
	}
	return out, nil
}

// ownTasks returns the numbers of the tasks that no other submission has queued.
func (s *Submission) ownTasks() []int {
	var out []int
	for n, t := range s.Tasks {
		if t.QueuedIn == "" {
			out = append(out, n)
		}
	}
	return out
}

// write creates the folder of the submission, and the manifest last.
func (s *Submission) write() error {
	if err := s.makeFolders(); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	return s.writeManifest()
}

func (s *Submission) writeManifest() error {
	// Only the user may write it; see [Submission.checkOwner].
	if err := durable.WriteJSON(s.path(manifestFile), s.manifest); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	return nil
}
