// Package runstest has what tests of other packages need to train: a backend, a store that warns into a list, and a run
// of a second.
package runstest

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Go returns a trainer on the Go backend, the same one at each call. It panics if the backend does not start.
var Go = sync.OnceValue(func() *train.Trainer {
	b, err := backend.Go()
	if err != nil {
		panic(err)
	}
	return train.New(&backend.Choice{Backend: b, Name: "go"})
})

// Store opens a store in a folder of the test's, which warns into the list.
func Store(t *testing.T) (s *runs.Store, warnings *[]string) {
	t.Helper()
	s, err := runs.OpenStore(filepath.Join(t.TempDir(), "runs"))
	if err != nil {
		t.Fatal(err)
	}
	warnings = new([]string)
	s.Warn = func(m string) { *warnings = append(*warnings, m) }
	return s, warnings
}

// Run trains a spec, or ends the test.
func Run(t *testing.T, trainer *train.Trainer, s *runs.Store, spec runs.Spec) *runs.Result {
	t.Helper()
	r, err := runs.Run(t.Context(), trainer, s, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Tiny returns a spec that is trained in a second on any backend.
func Tiny() runs.Spec {
	return runs.Spec{Recipe: runs.Recipe, Data: "minicar", Size: 16, TrainClasses: 4, TestClasses: 3, Config: train.Config{
		Objective: objectives.Objective{Rule: "cos/con/con"}, Arch: "small", Weights: train.Random, Dim: 8,
		ClassesPerBatch: 2, ImagesPerClass: 2, Pad: 1,
		LR: 0.1, Epochs: 3, StepsPerEpoch: 3, Seed: 1,
	}}
}
