package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Submission is jobs that were sent together, or are about to be.
type Submission struct {
	manifest
	store *runs.Store
}

// manifest is manifest.json in the submission's folder: what its tasks are to make, and by what.
type manifest struct {
	ID      string    `json:"id"`
	Date    time.Time `json:"date"`
	User    string    `json:"user"`
	Version string    `json:"version"` // Of the program,
	Digest  string    `json:"digest"`  // the SHA-256 of its file,
	Recipe  int       `json:"recipe"`  // and its recipe.
	Retries int       `json:"retries"`
	// Sbatch are the options that say on what to run, and MaxParallel bounds how many tasks do at once, as in [Options].
	Sbatch      []string `json:"sbatch"`
	MaxParallel int      `json:"max_parallel"`
	// Environment is what the tasks find in theirs; see [environment].
	Environment []string `json:"environment"`
	// Chunk is how many tasks an array has at most; see MaxArraySize in slurm.conf.
	Chunk int    `json:"chunk"`
	Tasks []Task `json:"tasks"`
}

// Task is a job of a submission. Its number is its place in the manifest.
type Task struct {
	runs.Job
	Hash string `json:"hash"` // Of the spec, when it was sent.
	// In is another submission that has the job already. Once that is cancelled, this one sends it itself, and In is "".
	QueuedIn string `json:"in,omitempty"`
}

// key tells jobs apart.
func (t Task) key() string { return fmt.Sprint(t.Hash, t.Histograms) }

// covers are the keys of the jobs that are done once the task is: a portrait comes with its run.
func (t Task) keys() []string {
	run := t
	run.Histograms = false
	if !t.Histograms {
		return []string{run.key()}
	}
	return []string{run.key(), t.key()}
}

// name is the task as a person knows it.
func (t Task) name() string {
	return fmt.Sprintf("run %s (%s on %s, seed %d)", t.Hash, t.Spec.Objective(), t.Spec.Data, t.Spec.Seed)
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

// program is where the user's copy of a program lies in the store.
func (s *Submission) program() string {
	return filepath.Join(s.bin(), s.Digest[:12], "dmlx")
}

// arrayName is the name of the array whose first task has the number offset.
func (s *Submission) arrayName(offset int) string { return fmt.Sprintf("dmlx-%s-%d", s.ID, offset) }

// log is where a task's output goes, of all its turns.
func (s *Submission) log(task int) string {
	return s.path(filepath.Join(logDir, fmt.Sprintf("%d-%d.txt", task/s.Chunk*s.Chunk, task%s.Chunk)))
}

// Open reads a submission by its name.
func Open(store *runs.Store, id string) (*Submission, error) {
	s := &Submission{store: store, manifest: manifest{ID: id}}
	if !submissionName.MatchString(id) {
		return nil, fmt.Errorf("%q is no name of a submission", id)
	}
	if err := durable.NoLink(store.Dir, filepath.Join(folder, id, manifestFile)); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(s.path(manifestFile)); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", s.path(manifestFile))
	}
	raw, err := os.ReadFile(s.path(manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no submission %q in %s", id, store.Dir)
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &s.manifest); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", s.path(manifestFile), err)
	}
	if s.ID != id || s.Chunk < 1 || !digestText.MatchString(s.Digest) {
		return nil, fmt.Errorf("%s is damaged, or of another submission", s.path(manifestFile))
	}
	for n, t := range s.Tasks {
		if !runName.MatchString(t.Hash) {
			return nil, fmt.Errorf("%s is damaged: its task %d is of %q, which is no run", s.path(manifestFile), n, t.Hash)
		}
	}
	if s.Environment == nil { // Of an older program: its script had that of the process that submitted it.
		s.Environment = environment()
	}
	return s, nil
}

// Unfinished lists the submissions of a store that are not known to be done or cancelled, the oldest first.
func Unfinished(store *runs.Store) ([]*Submission, error) {
	entries, err := os.ReadDir(filepath.Join(store.Dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var out []*Submission
	for _, e := range entries { // Their names begin with the time.
		s := &Submission{store: store, manifest: manifest{ID: e.Name()}}
		if !s.hasMark(manifestFile) || s.hasMark(cancelled) || s.hasMark(finished) {
			continue
		}
		opened, err := Open(store, e.Name())
		if err != nil && s.checkOwner() != nil { // Another user's fault is not to keep this one from working.
			if store.Warn != nil {
				store.Warn(fmt.Sprintf("left out a submission: %v", err))
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

// own are the numbers of the tasks that no other submission has.
func (s *Submission) ownTasks() []int {
	var out []int
	for n, t := range s.Tasks {
		if t.QueuedIn == "" {
			out = append(out, n)
		}
	}
	return out
}

// write makes the submission's folder; the manifest is the last of it.
func (s *Submission) write() error {
	if err := s.makeFolders(); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	return s.writeManifest()
}

func (s *Submission) writeManifest() error {
	raw, err := json.MarshalIndent(s.manifest, "", "  ")
	if err != nil {
		return err
	}
	// No one else's to write; see [Submission.mine].
	if err := durable.WriteFile(s.path(manifestFile), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("the run store cannot be written: %w", err)
	}
	return nil
}
