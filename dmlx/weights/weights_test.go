package weights_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// The server of this test answers as huggingface.co does: information with a commit, and files with an ETag.
func TestFetchWeights(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	store := model.NewStore()
	if err := backbone.Init(store, backbone.ResNet18, 10, 1); err != nil {
		t.Fatal(err)
	}
	raw, err := backbone.EncodeWeights(store, backbone.ResNet18, nil)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		switch r.URL.Path {
		case "/api/models/timm/resnet18.tv_in1k/revision/main":
			fmt.Fprintf(w, `{"id": "timm/resnet18.tv_in1k", "sha": %q, "siblings": [{"rfilename": "model.safetensors"}]}`,
				commit)
		case "/timm/resnet18.tv_in1k/resolve/" + commit + "/model.safetensors":
			w.Header().Set("ETag", `"etag-1"`)
			w.Header().Set("X-Repo-Commit", commit)
			http.ServeContent(w, r, "", time.Unix(1, 0), strings.NewReader(string(raw)))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("DMLX_CACHE", t.TempDir())

	preset, err := presets.Parse("paper")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := preset.Spec("CAR", dmlx.Rule{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Validate(); err == nil || !strings.Contains(err.Error(), "dmlx weights get resnet18") {
		t.Errorf("without weights: %v", err)
	}
	path, err := weights.Fetch(t.Context(), backbone.ResNet18)
	if err != nil {
		t.Fatalf("%v; asked for %q", err, asked)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(raw) {
		t.Errorf("%s: %d bytes, %v", path, len(got), err)
	}
	before := len(asked)
	if _, err := weights.Fetch(t.Context(), backbone.ResNet18); err != nil || len(asked) != before {
		t.Errorf("again: %v; asked for %q", err, asked[before:])
	}
	spec, err = preset.Spec("CAR", dmlx.Rule{}, 1)
	if err != nil || spec.WeightsDigest != weights.DigestOf(raw) || spec.Validate() != nil {
		t.Errorf("%+v, %v", spec, err)
	}
	if err := os.WriteFile(path, raw[:1000], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := weights.Fetch(t.Context(), backbone.ResNet18); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("damaged: %v", err)
	}
	_, err = weights.Fetch(t.Context(), backbone.Small)
	if err == nil || !strings.Contains(err.Error(), "resnet18") {
		t.Errorf("small: %v", err)
	}
	_, err = weights.Fetch(t.Context(), backbone.ResNet50)
	if err == nil || !strings.Contains(err.Error(), "put its model.safetensors at") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("not on the hub: %v", err)
	}
}
