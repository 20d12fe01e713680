package paper

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/datasets/fixtures"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func TestPublishedSetTrains(t *testing.T) {
	root := t.TempDir()
	t.Setenv(datasets.DataEnv, root)
	t.Setenv("DMLX_CACHE", t.TempDir())
	if err := fixtures.Make("cub", root); err != nil {
		t.Fatal(err)
	}
	p, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	spec := func() (runs.Spec, error) {
		s, err := p.Spec("cub", dmlx.Rule{}, 1)
		s.Weights, s.WeightsDigest, s.Epochs, s.StepsPerEpoch, s.Dim = train.Random, "", 1, 2, 4
		return s, err
	}
	whole, err := spec()
	if err != nil || whole.Data != "CUB" || whole.DataDigest != "" {
		t.Fatalf("%+v, %v", whole, err)
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	choice, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	c := train.New(&backend.Choice{Backend: choice, Name: "go"})
	if _, err := runs.Run(context.Background(), c, store, whole, nil); err == nil ||
		!strings.Contains(err.Error(), "not as published") {
		t.Errorf("a fixture was taken for whole: %v", err)
	}
	p.AllowPartial = true
	partial, err := spec()
	if err != nil || !partial.AllowPartial || partial.DataDigest == "" || partial.Hash() == whole.Hash() {
		t.Fatalf("%+v, %v", partial, err)
	}
	r, err := runs.Run(context.Background(), c, store, partial, nil)
	if err != nil || r.DataDigest != partial.DataDigest || r.Queries != 8 {
		t.Fatalf("%+v, %v", r, err)
	}
	table := &Table{Preset: p.Name, Runs: 1, Cells: []Cell{{Data: "CUB", Specs: []runs.Spec{partial},
		Runs: []*runs.Result{r}}}}
	if line := table.Provenance(); !strings.Contains(line, "CUB, in part · seeds 1") {
		t.Error(line)
	}
	// Where the images are not, their digest stands for them: what is there is shown, and nothing can be made.
	p.Digests = map[string]string{"CUB": partial.DataDigest}
	t.Setenv(datasets.DataEnv, t.TempDir())
	away, err := spec()
	if err != nil || away.Hash() != partial.Hash() {
		t.Fatalf("%+v, %v", away, err)
	}
	if again, err := runs.Run(context.Background(), nil, store, away, nil); err != nil || again.Hash != r.Hash {
		t.Errorf("%+v, %v", again, err)
	}
	away.Seed = 2
	if _, err := runs.Run(context.Background(), c, store, away, nil); err == nil ||
		!strings.Contains(err.Error(), "curl -C - -O https://data.caltech.edu") {
		t.Errorf("a run without images: %v", err)
	}
	t.Setenv(datasets.DataEnv, root)
	p.Digests, partial.DataDigest = nil, ""
	if err := partial.Validate(); err == nil || !strings.Contains(err.Error(), "no data_digest") {
		t.Errorf("no digest: %v", err)
	}

	// A damaged image is named, and left out where that is asked for.
	files, err := filepath.Glob(filepath.Join(root, "CUB_200_2011", "images", "*", "Bird*.jpg"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte("\xff\xd8"), 0o644); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "data") // The set stays open where it was.
	if err := os.Rename(root, elsewhere); err != nil {
		t.Fatal(err)
	}
	t.Setenv(datasets.DataEnv, elsewhere)
	if _, err := spec(); err == nil || !strings.Contains(err.Error(), filepath.Base(files[0])) {
		t.Errorf("a damaged image: %v", err)
	}
	p.SkipBad = true
	skipped, err := spec()
	if err != nil || !skipped.SkipBad || skipped.DataDigest == r.DataDigest {
		t.Fatalf("%+v, %v", skipped, err)
	}
	if r, err := runs.Run(context.Background(), c, store, skipped, nil); err != nil || r.Skipped != 1 {
		t.Errorf("%+v, %v; want one image left out", r, err)
	}
}
