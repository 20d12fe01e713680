package train_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/runs/runstest"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// A run can start from a file, whose digest becomes part of its spec.
func TestStartFromFile(t *testing.T) {
	store := model.NewStore()
	if err := backbone.Init(store, backbone.Small, 3, 1); err != nil {
		t.Fatal(err)
	}
	raw, err := backbone.EncodeWeights(store, backbone.Small, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s := runstest.Tiny()
	spec := s
	if spec.Config, err = s.WithStart("", path); err != nil || spec.Weights != train.Pretrained ||
		spec.WeightsDigest != weights.DigestOf(raw) || spec.Hash() == s.Hash() {
		t.Fatalf("%+v, %v", spec, err)
	}
	to, _ := runstest.Store(t)
	r := runstest.Run(t, runstest.Go(), to, spec)
	if r.Spec.WeightsDigest != weights.DigestOf(raw) {
		t.Errorf("%+v", r.Spec)
	}
	_, err = s.WithStart("resnet18", path)
	if err == nil || !strings.Contains(err.Error(), "not the weights of resnet18") {
		t.Errorf("of another network: %v", err)
	}
	_, err = s.WithStart("", "nowhere")
	if err == nil || !strings.Contains(err.Error(), "no such file; use pretrained, random, or the path") {
		t.Errorf("no file: %v", err)
	}
}
