package runs

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// someFeatures writes features of eight classes.
func someFeatures(t *testing.T) Features {
	t.Helper()
	dir := t.TempDir()
	f := Features{Features: filepath.Join(dir, "x.npy"), Labels: filepath.Join(dir, "l.npy")}
	var values []float32
	var labels []int64
	for c := range int64(8) {
		for i := range 5 {
			for j := range 6 {
				values = append(values, float32(c>>j&1)+0.1*float32((int64(i*j)+c)%4))
			}
			labels = append(labels, c)
		}
	}
	if err := npy.WriteFloat32(f.Features, values, 40, 6); err != nil {
		t.Fatal(err)
	}
	if err := npy.WriteInt64(f.Labels, labels, 40); err != nil {
		t.Fatal(err)
	}
	return f
}

func tinyHead(t *testing.T, f Features) Spec {
	t.Helper()
	spec := Spec{Config: train.Config{Objective: objectives.Objective{Rule: "cos/con/con"}, Dim: 3,
		ClassesPerBatch: 2, ImagesPerClass: 3, LR: 0.1, Epochs: 2, StepsPerEpoch: 3, Seed: 1}}
	var err error
	if spec.Config, err = spec.WithHead("linear"); err != nil {
		t.Fatal(err)
	}
	if spec, err = f.On(spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// Seeds of a head are runs like others: each has its result, that it has alone, and is trained once.
func TestHeadsSideBySide(t *testing.T) {
	trainer := trainers()[0]
	f := someFeatures(t)
	var specs []Spec
	for seed := range uint64(3) {
		s := tinyHead(t, f)
		s.Seed = seed
		specs = append(specs, s)
	}
	open := func() *Store {
		s, err := OpenStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	together, alone := open(), open()
	first, err := Run(t.Context(), trainer, together, specs[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	results, ran, err := RunAll(t.Context(), func() (*train.Trainer, error) { return trainer, nil }, together, specs,
		Options{Progress: func(p Progress) { seen[p.Hash] = true }})
	if err != nil || ran != 2 || len(seen) != 2 || results[1].Date != first.Date {
		t.Fatalf("%d trained, progress of %d, %v", ran, len(seen), err)
	}
	for i, spec := range specs {
		want, err := Run(t.Context(), trainer, alone, spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := results[i]; fmt.Sprint(got.Measures, got.Files, got.DataDigest) !=
			fmt.Sprint(want.Measures, want.Files, want.DataDigest) {
			t.Errorf("seed %d: %+v, alone %+v", i, got, want)
		}
	}
	// The spec is enough for another process, and a copy of the files under other names is the same run but for Data.
	raw, err := json.Marshal(Job{Spec: specs[0]})
	if err != nil {
		t.Fatal(err)
	}
	var job Job
	if err := json.Unmarshal(raw, &job); err != nil || job.Check() != nil || job.Spec.Hash() != specs[0].Hash() {
		t.Errorf("as JSON: %s, %v", raw, err)
	}
	moved := job.Spec
	moved.Data, moved.Labels = "/elsewhere/x.npy", "/elsewhere/labels.npy"
	if moved.Hash() != specs[0].Hash() {
		t.Error("the folder of the features changes the hash")
	}
	// Other features under the same name are refused.
	values, shape, err := npy.ReadFloat32(f.Features)
	if err != nil {
		t.Fatal(err)
	}
	values[0]++
	if err := npy.WriteFloat32(f.Features, values, shape...); err != nil {
		t.Fatal(err)
	}
	if changed := tinyHead(t, f); changed.Hash() == specs[0].Hash() {
		t.Error("other features have the same hash")
	}
	next := specs[0]
	next.Seed = 77
	_, err = Run(t.Context(), trainer, alone, next, nil)
	if err == nil || !strings.Contains(err.Error(), "have changed") {
		t.Errorf("changed features: %v", err)
	}
	if _, err := together.Inspect(first.Hash); err == nil || !strings.Contains(err.Error(), "features, not images") {
		t.Errorf("inspection: %v", err)
	}
}

// A model and a loss of the user's own are runs that are found again by their digests, and whose specs another process
// refuses.
func TestRunsOfOwnFunctions(t *testing.T) {
	trainer := trainers()[0]
	store, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec := func(scale float64) Spec {
		s := tinyHead(t, someFeatures(t))
		var err error
		s.Config, err = s.WithModel(train.Model{Name: "mine", Input: []int{6},
			Embed: func(scope *model.Scope, x *Node, _ backbone.Pass) *Node {
				return layers.Dense(scope, Sin(x), true, 3)
			}})
		if err == nil {
			s, err = s.by(objectives.ByLoss(objectives.LossFunction{Name: "pull", Of: func(b *dmlx.LossBatch) *Node {
				return MulScalar(ReduceAllMean(Square(Sub(b.S, ConvertDType(b.Positive, b.S.DType())))), scale)
			}}))
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, err := Run(t.Context(), trainer, store, spec(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Run(t.Context(), trainer, store, spec(1), nil)
	if err != nil || again.Date != a.Date || again.Spec.Validate() != nil {
		t.Errorf("again: %v, %v", err, again.Spec.Validate())
	}
	if b, err := Run(t.Context(), trainer, store, spec(2), nil); err != nil || b.Hash == a.Hash {
		t.Errorf("an edited loss is served the old result: %v", err)
	}
	stored := store.Entry(a.Hash).Spec
	if err := stored.Validate(); err == nil || !strings.Contains(err.Error(), "objectives.ByLoss") {
		t.Errorf("from a file: %v", err)
	}
	if err := (Job{Spec: spec(1)}).Check(); err == nil || !strings.Contains(err.Error(), "from its spec alone") {
		t.Errorf("for another process: %v", err)
	}
}
