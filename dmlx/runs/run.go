package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Progress reports on a run that is being trained.
type Progress struct {
	Hash      string
	Spec      Spec
	Run, Runs int // Number of this run, from 1, and of all runs; 0 for a single run.
	train.Progress
}

// Run returns the result of a spec from the store, or trains and evaluates it. Training resumes from a checkpoint of
// the same backend, if there is one; see [train.Trainer.Train]. A run that diverged has a result, too; see
// [train.Measures].Diverged.
//
// progress, if not nil, is called after each step, and during decoding and embedding of images. It must return quickly.
func Run(
	ctx context.Context, trainer *train.Trainer, store *Store, spec Spec, progress func(Progress),
) (*Result, error) {
	if err := spec.Ready(); err != nil {
		return nil, err
	}
	all, err := runTasks(ctx, trainer, store, []task{{Job: Job{Spec: spec}, hash: spec.Hash()}}, progress)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// runTasks is [Run] for several specs that are [Spec.Ready], whose results it returns in their order. They are trained
// by [train.Trainer.TrainTogether].
func runTasks(
	ctx context.Context, trainer *train.Trainer, store *Store, tasks []task, progress func(Progress),
) (all []*Result, err error) {
	defer errs.Catch(&err)
	results := make(map[string]*Result)
	missing := make(map[string]Job)
	for _, t := range tasks {
		hash, spec := t.hash, t.Spec
		if r, err := store.read(hash); err == nil { // Without the lock, because a read-only store has none.
			if results[hash], _, err = store.resolve(hash, spec, r, nil); err != nil {
				return nil, err
			}
			continue
		}
		missing[hash] = t.Job
	}
	var trainings []train.Training
	skipped := make(map[string]int)
	// In the order of the hashes, so that no two processes wait for each other.
	for _, hash := range slices.Sorted(maps.Keys(missing)) {
		spec := missing[hash].Spec
		unlock, err := store.lock(ctx, hash)
		if err != nil {
			return nil, err
		}
		defer unlock()
		if r, found, err := store.lookupLocked(hash, spec); err != nil {
			return nil, err
		} else if found {
			results[hash] = r
			continue
		}
		training := train.Training{Config: spec.Config, ID: hash, HeldOut: spec.HeldOut, Warn: store.Warn,
			Every: missing[hash].Measure}
		training.Data, skipped[hash], err = TrainingData(spec, store.dataOptions(ctx, spec, progress))
		if err != nil {
			return nil, err
		}
		if training.Dir, err = store.prepareDirectory(hash, spec); err != nil {
			return nil, err
		}
		if progress != nil {
			training.Progress = func(p train.Progress) { progress(Progress{Hash: hash, Spec: spec, Progress: p}) }
		}
		trainings = append(trainings, training)
	}
	outs, err := trainer.TrainTogether(ctx, trainings)
	if err != nil {
		return nil, err
	}
	for i, out := range outs {
		t := trainings[i]
		r := &Result{
			Hash: t.ID, Spec: missing[t.ID].Spec, Backend: trainer.Name, Devices: out.Devices, Machine: Machine(),
			Version: Version(), Date: time.Now().UTC().Truncate(time.Second), DataDigest: t.Data.Digest,
			Skipped: skipped[t.ID], Seconds: out.Seconds, Measures: out.Measures, Files: out.Files,
		}
		if err := r.seal(); err != nil {
			return nil, err
		}
		if err := durable.WriteJSON(filepath.Join(t.Dir, resultFile), r); err != nil {
			return nil, fmt.Errorf("the result cannot be written: %w", err)
		}
		results[t.ID] = r
	}
	return slice.Map(tasks, func(t task) *Result { return results[t.hash] }), nil
}

// prepareDirectory creates the directory of a run and writes its spec. A directory that is damaged or belongs to
// another run is set aside.
func (s *Store) prepareDirectory(hash string, spec Spec) (dir string, err error) {
	dir = s.Path(hash)
	if _, err := checkDirectory(dir, hash); err != nil {
		var bad *unusable
		if !errors.As(err, &bad) {
			return "", err
		}
		if err := s.setAside(dir, bad); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("the run store cannot be written: %w", err)
	}
	durable.Sweep(dir, func(name string) bool { return outputFile.MatchString(name) || "."+name == refreshPrefix })
	if err := durable.WriteJSON(filepath.Join(dir, specFile), spec); err != nil {
		return "", fmt.Errorf("the run store cannot be written: %w", err)
	}
	return dir, nil
}

// dataOptions returns the options with which a run opens its data set.
func (s *Store) dataOptions(ctx context.Context, spec Spec, progress func(Progress)) DataOptions {
	return DataOptions{Context: ctx, Warn: s.Warn, Decoded: func(_ string, done, total int) {
		if progress != nil {
			p := train.Progress{Epochs: spec.Epochs, Steps: spec.Steps(), Decoded: done, Images: total}
			progress(Progress{Hash: spec.Hash(), Spec: spec, Progress: p})
		}
	}}
}

// checkDirectory returns the spec in the directory of a run, the zero spec if it is not known, and an [unusable] error
// if the directory exists and is not that of the run. A directory without a spec passes while it has no checkpoint: a
// process was killed just after it created the directory.
func checkDirectory(dir, hash string) (spec Spec, err error) {
	if _, err := listFiles(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return spec, err
	}
	path := filepath.Join(dir, specFile)
	raw, err := durable.ReadAtMost(path, durable.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, train.CheckpointDir, train.CheckpointFile)); err == nil {
			return spec, &unusable{fmt.Errorf("contains a checkpoint but no %s", specFile)}
		}
		return spec, nil
	} else if err != nil {
		return spec, err
	}
	if err := durable.ParseJSON(raw, &spec); err != nil {
		return Spec{}, &unusable{fmt.Errorf("contains a damaged %s: %w", specFile, err)}
	}
	switch have := spec.Hash(); {
	case have == hash:
		return spec, nil
	case !knowsAllFields(raw, new(Spec)):
		return spec, fmt.Errorf("%s %w", path, errNewer)
	default:
		return Spec{}, &unusable{fmt.Errorf("does not belong here: its spec has the hash %s", have)}
	}
}

// Machine returns the name of the processor, the number of cores that Go uses, and the operating system.
func Machine() string {
	name := runtime.GOARCH
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", name, runtime.GOMAXPROCS(0), runtime.GOOS)
}

// Version returns this module's version or commit in the running program; results record it. If the Go toolchain has
// stamped neither on the program, it is "checkout" and the commit that git tells of the sources' folder, with
// "+changes" if files differ from it; without git it is "(devel)".
func Version() string { return buildinfo.Get().String() }
