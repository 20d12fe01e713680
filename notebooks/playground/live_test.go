package playground

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	livepage "github.com/gradient-surgery/dml/dmlx/page"
)

// TestLiveInBrowser sees what a cell of nb.Live shows in JupyterLab: the live page when it has been run, saved and
// reloaded, and with a new kernel; the picture in a notebook that is not trusted; the page again in exported HTML. It
// needs what TestInBrowser does.
func TestLiveInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts JupyterLab and a browser")
	}
	chromium, python := browserTools(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Join(root, "runs"), "live-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	notebook := excerpt(t, "playground", filepath.Join(dir, "live.ipynb"), []string{"imports", "panel"},
		strings.NewReplacer())
	asks, err := os.ReadFile(filepath.Join("..", "table2.ipynb")) // With the outputs that are committed.
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "guess.ipynb"), asks, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	built, err := livepage.Build(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	// JupyterLab serves the one beside the notebooks; the exported HTML takes the one beside itself.
	for _, path := range []string{filepath.Join(root, "notebooks", "dmlx.html"), filepath.Join(dir, "dmlx.html")} {
		if err := built.WriteSingleFile(path); err != nil {
			t.Fatal(err)
		}
	}
	url := startLab(t, root, t.TempDir(), notebook)
	rel, err := filepath.Rel(root, notebook)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/live.py", url, chromium, filepath.ToSlash(rel), dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	type shown struct {
		State                  string
		Frames, Pictures, Told int
		Ready, Fits            bool
	}
	var got struct {
		Run, Picture, Reloaded, Restarted, Stranger, Exported shown
		Outside, Errors, Far                                  []string
		Guesses                                               []struct {
			Moved []int
			Said  int
			Frame bool
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	live := shown{State: "live", Frames: 1, Ready: true, Fits: true}
	for what, k := range map[string]struct{ got, want shown }{
		"run":                      {got.Run, live},
		"after Show the picture":   {got.Picture, shown{State: "still", Frames: 1, Pictures: 1, Ready: true, Fits: true}},
		"saved and reloaded":       {got.Reloaded, live},
		"with a new kernel":        {got.Restarted, live},
		"not trusted":              {got.Stranger, shown{State: "still", Pictures: 1, Told: 1}},
		"exported and from a file": {got.Exported, live},
	} {
		if k.got != k.want {
			t.Errorf("%s: %+v; want %+v", what, k.got, k.want)
		}
	}
	for i, g := range got.Guesses {
		if shown := i == 0; !slices.Equal(g.Moved, []int{0, 2, 3, 1}) || g.Frame != shown || g.Said != len(got.Guesses)-1-i {
			t.Errorf("guess %d: %+v", i, g)
		}
	}
	if len(got.Guesses) != 2 {
		t.Errorf("%d guesses; want one that is made and one that is skipped", len(got.Guesses))
	}
	if len(got.Far) > 0 {
		t.Errorf("controls that are not in view with a picture: %q", got.Far)
	}
	if len(got.Outside) > 0 || len(got.Errors) > 0 {
		t.Errorf("requests to %q, errors of scripts %q", got.Outside, got.Errors)
	}
}
