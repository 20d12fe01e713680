package runs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/train"
)

func TestJobsThatCannotTravel(t *testing.T) {
	rule := dmlx.Rule{Pair: dmlx.PairWeight{Name: "own", Of: dmlx.PairWeights[0].Of}}
	own, err := tiny().by(objectives.ByRule(rule))
	if err != nil {
		t.Fatal(err)
	}
	weights := filepath.Join(t.TempDir(), "w.safetensors")
	if os.WriteFile(weights, backbone.Pretrained(), 0o600) != nil {
		t.Fatal("no weights to write")
	}
	file := tiny()
	if file.Config, err = file.WithStart("", weights); err != nil {
		t.Fatal(err)
	}
	for want, spec := range map[string]Spec{"from its spec alone": own, "w.safetensors": file} {
		if err := Jobs(spec)[0].Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Jobs are refused before a backend is opened or anything is submitted.
func TestJobsThatCannotBeDone(t *testing.T) {
	s, _ := testStore(t)
	alone, many := tiny(), tiny()
	alone.ImagesPerClass, many.ClassesPerBatch = 1, 9
	for want, o := range map[string]struct {
		Options
		spec Spec
	}{
		"cos/con/con on minicar, seed 1: batches of 4 images cannot be divided evenly among 3 devices": {
			Options{Devices: 3}, tiny()},
		"cos/con/con on minicar, seed 1: a batch of 2 classes × 1 images has no triplets": {Options{}, alone},
		"a batch of 9 classes needs as many training classes, there are 4":                {Options{}, many},
	} {
		choose := func() (*train.Trainer, error) { return nil, errors.New("opened") }
		if _, _, err := RunAll(t.Context(), choose, s, []Spec{o.spec}, o.Options); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
