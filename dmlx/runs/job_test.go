package runs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/objectives"
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
	file, err := tiny().WithStart("", weights)
	if err != nil {
		t.Fatal(err)
	}
	for want, spec := range map[string]Spec{"from its spec alone": own, "w.safetensors": file} {
		if err := Jobs(spec)[0].Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
