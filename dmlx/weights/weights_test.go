package weights_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// What is not there is said with the command that fetches it, and is known by its digest once it is.
func TestPretrained(t *testing.T) {
	store := model.NewStore()
	if err := backbone.Init(store, backbone.ResNet18, 10, 1); err != nil {
		t.Fatal(err)
	}
	raw, err := backbone.EncodeWeights(store, backbone.ResNet18, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DMLX_CACHE", t.TempDir())

	preset, err := presets.Parse("paper")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := preset.Spec("CAR", dmlx.Rule{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(); err == nil ||
		!strings.Contains(err.Error(), "https://huggingface.co/timm/resnet18.tv_in1k/") {
		t.Errorf("without weights: %v", err)
	}
	path, err := weights.Path(backbone.ResNet18)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	spec, err = preset.Spec("CAR", dmlx.Rule{}, 1)
	if err != nil || spec.WeightsDigest != weights.DigestOf(raw) || spec.Validate() != nil {
		t.Errorf("%+v, %v", spec, err)
	}
}
